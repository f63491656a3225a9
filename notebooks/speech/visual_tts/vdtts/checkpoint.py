"""All networks of the chapter in one safetensors file under 1 MB: rows of 8-bit integers, each
with a scale.

The shipped `visual_tts.safetensors` is made by `python -m vdtts.train_systems`.
Loading it runs no code.
"""

import json
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from speech_scores import SyncScorer

from .model import VisualTTS
from .voice_vector import VoiceVector

__all__ = ["SHIPPED", "load_all", "save_all"]

SHIPPED = Path(__file__).with_name("visual_tts.safetensors")


def save_all(networks, path, notes=None):
    """The path, written: `networks` by name, those of SYSTEMS and "scorer" and "voices";
    `notes` is a dict of plain values.
    """
    state = {}
    for name, network in networks.items():
        for key, values in network.state_dict().items():
            values = values.detach().float()
            if values.ndim == 1:
                state[f"{name}.{key}"] = values.half()
                continue
            rows = values.flatten(1)
            scale = rows.abs().amax(1).clamp_min(1e-8) / 127
            whole = (rows / scale[:, None]).round().to(torch.int8)
            state[f"{name}.{key}"] = whole.view(values.shape).contiguous()
            state[f"{name}.{key}:scale"] = scale
    save_file(state, path, {"notes": json.dumps(notes or {})})
    return Path(path)


def load_all(path=SHIPPED, device="cpu"):
    """The networks of a file by name, in eval mode, and its notes.

    Raises ValueError for a file that is no such checkpoint, FileNotFoundError for none.
    """
    try:
        with safe_open(path, framework="pt") as file:
            notes = json.loads((file.metadata() or {})["notes"])
            state = {key: file.get_tensor(key) for key in list(file.keys())}
        networks = {}
        for name in sorted({key.split(".")[0] for key in state}):
            others = {"scorer": SyncScorer, "voices": VoiceVector}
            network = others[name]() if name in others else VisualTTS(name)
            network.load_state_dict(_unpacked(state, name + "."))
            networks[name] = network.to(device).eval().requires_grad_(False)
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
        name = Path(path).name
        raise ValueError(f"{name} is no checkpoint that save_all wrote: {error}") from error
    return networks, notes


def _unpacked(state, prefix):
    found = {}
    for key, values in state.items():
        if key.startswith(prefix) and not key.endswith(":scale"):
            values, scale = values.float(), state.get(key + ":scale")
            if scale is not None:
                values = values * scale.view(-1, *[1] * (values.ndim - 1))
            found[key.removeprefix(prefix)] = values
    return found
