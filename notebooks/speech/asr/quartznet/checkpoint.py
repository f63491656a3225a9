"""A QuartzNet in one safetensors file: its tensors, and the sizes that rebuild the network.

The shipped one is `digits_base.safetensors`, made by `fine_tuning.train_digits`. Safetensors
holds numbers and text alone, so that loading it runs no code.
"""

import json
from dataclasses import asdict
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from .network import VOCABULARY, BlockSpec, QuartzNet

__all__ = ["DIGITS_BASE", "load_model", "save_model"]

DIGITS_BASE = Path(__file__).with_name("digits_base.safetensors")


def load_model(path=DIGITS_BASE, device="cpu"):
    """The QuartzNet of a file in eval mode on the device; `model.notes`: a dict saved with it.

    >>> load_model().notes["speakers"]
    ['jackson', 'theo']

    Raises ValueError for a file that is no such checkpoint, FileNotFoundError for none.
    """
    try:
        with safe_open(path, framework="pt") as file:
            told, names = file.metadata() or {}, list(file.keys())
            state = {name: file.get_tensor(name) for name in names}
        specs = [BlockSpec(**spec) for spec in json.loads(told["specs"])]
        model = QuartzNet(specs, int(told["n_outputs"]), int(told["n_mels"]))
        model.load_state_dict(state)
        if tuple(told["vocabulary"]) != VOCABULARY:
            raise ValueError(f"its letters are {told['vocabulary']!r}")
    except FileNotFoundError:
        raise
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
        why = f"{Path(path).name} is no checkpoint that save_model wrote: {error}"
        raise ValueError(why) from error
    model.notes = json.loads(told.get("notes", "{}"))
    return model.to(device).eval()


def save_model(model, path, notes=None):
    """The path, written: tensors in float32, sizes, and `notes`, a dict of plain values."""
    specs = json.dumps([asdict(spec) for spec in model.specs])
    told = {"specs": specs, "n_outputs": str(model.n_outputs), "n_mels": str(model.n_mels)}
    told |= {"vocabulary": "".join(VOCABULARY), "notes": json.dumps(notes or {})}
    state = {name: x.detach().cpu().contiguous() for name, x in model.state_dict().items()}
    save_file(state, path, told)
    return Path(path)
