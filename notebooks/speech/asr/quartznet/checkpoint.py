"""A QuartzNet in one safetensors file, tensors and sizes; and a `.nemo` checkpoint, from which
the article starts, read without NeMo. The shipped one is made by `fine_tuning.train_digits`.

The latter is a tar archive, gzipped or not, of `model_config.yaml` and `model_weights.ckpt`, a
pickled state dict. We read those two members in memory and nothing else: sizes are bounded,
links and repeated names refused; YAML is data, and torch's `weights_only` runs no code. NeMo
numbers the layers inside a block: depthwise, pointwise, normalisation, ReLU, dropout for each
step, and the last step without the latter two. So step r of block b is
`encoder.encoder.{b}.mconv.{5 r + 0, 1, 2}`, or `{4 r + 0, 1}` where it is not separable, and
the way around it is `res.0.{0, 1}`. Each tensor must find its place, each place its tensor."""

import io
import json
import tarfile
from dataclasses import asdict
from pathlib import Path

import torch
import yaml
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from .network import VOCABULARY, BlockSpec, QuartzNet

DIGITS_BASE = Path(__file__).with_name("digits_base.safetensors")
CONFIG, WEIGHTS = "model_config.yaml", "model_weights.ckpt"
MOST_BYTES = {CONFIG: 2**20, WEIGHTS: 2**30}  # QuartzNet 15x5 in float32 has 76 MB
MOST_MEMBERS = 1000
# what `log_mel` computes; another front end would read another picture
FEATURES = {"sample_rate": 16_000, "window_size": 0.02, "window_stride": 0.01, "window": "hann"}
FEATURES |= {"features": 64, "n_fft": 512, "normalize": "per_feature", "preemph": 0.97}
FEATURES |= {"log": True, "mag_power": 2.0}
SAME_EVERYWHERE = {"groups": 1, "heads": -1, "se": False, "kernel_size_factor": 1.0}
SAME_EVERYWHERE |= {"residual_mode": "add", "normalization": "batch", "norm": "batch"}
SAME_EVERYWHERE |= {"residual_dense": False, "stride_last": False, "future_context": -1}
NORM = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")


def load_model(path=DIGITS_BASE, device="cpu"):
    """The QuartzNet of a file in eval mode on the device; `model.notes`: a dict saved with it.
    Raises ValueError for a file that is no such checkpoint, FileNotFoundError for none."""
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


def load_nemo(path):
    """The QuartzNet of a `.nemo` file in eval mode, and its characters without the blank. It
    takes the features of `log_mel` and gives NeMo's log-probabilities within rounding. Raises
    ValueError for a file that is no such archive or is larger than it may be, a model that is
    no QuartzNet with CTC, features other than `log_mel`'s, and tensors that are missing, left
    over, misshapen or not finite."""
    members = _members(Path(path))
    config = _config(members[CONFIG])
    letters = _resolved(config["decoder"].get("vocabulary") or config.get("labels"), config)
    known = isinstance(letters, list) and letters
    if not known or not all(isinstance(x, str) and len(x) == 1 for x in letters):
        told = f"decoder.vocabulary must list single characters, got {letters!r}"
        raise ValueError(f"{CONFIG}: {told}")
    model = QuartzNet(_specs(config), len(letters) + 1, FEATURES["features"])
    try:
        state = torch.load(io.BytesIO(members[WEIGHTS]), map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds; all say: no plain tensors
        why = f"{WEIGHTS} holds no plain tensors, and nothing else is loaded: {error}"
        raise ValueError(why) from error
    model.load_state_dict(_renamed(state, model))
    return model.eval(), tuple(letters)


def nemo_names(model):
    """NeMo's names of our tensors, as "decoder.decoder_layers.0.bias" of "decoder.bias"."""
    names = {f"decoder.{p}": f"decoder.decoder_layers.0.{p}" for p in ("weight", "bias")}
    for b, spec in enumerate(model.specs):
        ours, theirs = f"blocks.{b}", f"encoder.encoder.{b}"
        for r in range(spec.repeats):
            at = (5 if spec.separable else 4) * r
            for conv in ("depthwise", "pointwise")[not spec.separable :]:
                names[f"{ours}.steps.{r}.{conv}.weight"] = f"{theirs}.mconv.{at}.conv.weight"
                at += 1
            names |= {f"{ours}.steps.{r}.norm.{p}": f"{theirs}.mconv.{at}.{p}" for p in NORM}
        if spec.residual:
            names[f"{ours}.around.weight"] = f"{theirs}.res.0.0.conv.weight"
            names |= {f"{ours}.around_norm.{p}": f"{theirs}.res.0.1.{p}" for p in NORM}
    return names


def _members(path):
    """The bytes of the two members that we read."""
    found = {}
    try:
        with tarfile.open(path, "r:*") as archive:
            for count, member in enumerate(archive, 1):
                name = member.name.removeprefix("./")
                ours, most = name in MOST_BYTES, MOST_BYTES.get(name, MOST_BYTES[WEIGHTS])
                twice = ours and (name in found or not member.isreg())
                if twice or count > MOST_MEMBERS or member.size > most:
                    told = f"{name!r} of {member.size} bytes, member {count}"
                    need = f"one plain file each, bytes {MOST_BYTES}, members {MOST_MEMBERS}"
                    raise ValueError(f"{path.name} refused: {told}; allowed are {need}")
                if ours:
                    found[name] = archive.extractfile(member).read()
    except FileNotFoundError:
        raise
    except (tarfile.TarError, EOFError, OSError) as error:
        why = f"{path.name} is no whole tar archive, as a .nemo file is: {error}"
        raise ValueError(why) from error
    if missing := sorted(MOST_BYTES.keys() - found.keys()):
        raise ValueError(f"{path.name} holds no {' and no '.join(missing)}: no .nemo file?")
    return found


def _config(text):
    try:
        config = yaml.safe_load(text)
        front, encoder, decoder = (config[p] for p in ("preprocessor", "encoder", "decoder"))
        blocks = encoder["jasper"]
    except (yaml.YAMLError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise ValueError(f"{CONFIG} describes no QuartzNet with CTC: {error!r}") from error
    for key, wanted in FEATURES.items():
        if (came := _resolved(front.get(key, wanted), config)) != wanted:
            what = f"features with {key}={came!r}; log_mel computes {wanted!r}"
            raise ValueError(f"{CONFIG}: {what}")
    kind = _resolved(encoder.get("activation", "relu"), config)
    if kind != "relu" or not isinstance(blocks, list):
        raise ValueError(f"{CONFIG}: activation {kind!r}; ReLU and a list of blocks are needed")
    if not encoder.get("conv_mask", True) or not isinstance(decoder, dict):
        raise ValueError(f"{CONFIG}: conv_mask must be on, since our convolutions mask lengths")
    return config


def _specs(config):
    def one(value):  # NeMo writes a kernel as [33]
        value = _resolved(value, config)
        return value[0] if isinstance(value, list) and len(value) == 1 else value

    specs = []
    for b, block in enumerate(config["encoder"]["jasper"]):
        for key, wanted in SAME_EVERYWHERE.items():
            if one(block.get(key, wanted)) != wanted:
                told = f"block {b} has {key}={block[key]!r}; a QuartzNet has {wanted!r}"
                raise ValueError(f"{CONFIG}: {told}")
        keys = ("filters", "kernel", "repeat", "stride", "dilation")
        sizes = [one(block.get(key, 1)) for key in keys]
        whole = all(isinstance(size, int) and 0 < size <= 2**16 for size in sizes)
        if not whole or not sizes[1] % 2:
            need = "whole numbers are needed, the kernel odd"
            raise ValueError(f"{CONFIG}: block {b} has sizes {sizes}; {need}")
        flags = bool(block.get("residual", True)), bool(block.get("separable", False))
        specs.append(BlockSpec(*sizes, *flags))
    return specs


def _resolved(value, config, depth=0):
    """The value that OmegaConf's "${a.b}" stands for, from the root; others as they are."""
    if not (isinstance(value, str) and value.startswith("${")) or depth > 9:
        return value
    found = config
    for part in value[2:].rstrip("}").removeprefix("model.").split("."):
        if not isinstance(found, dict) or part not in found:
            raise ValueError(f"{CONFIG}: {value} leads nowhere")
        found = found[part]
    return _resolved(found, config, depth + 1)


def _renamed(state, model):
    """The file's tensors under our names, without the front end's, which we compute."""
    values = state.values() if isinstance(state, dict) else [None]
    if not all(isinstance(x, torch.Tensor) for x in values):
        raise ValueError(f"{WEIGHTS} must be a dict of tensors, got {type(state).__name__}")
    state = {name: x for name, x in state.items() if not name.startswith("preprocessor.")}
    names, wanted = nemo_names(model), model.state_dict()
    missing, left = set(names.values()) - state.keys(), state.keys() - set(names.values())
    if missing or left:
        told = f"missing {sorted(missing)[:3]}, left {sorted(left)[:3]}"
        raise ValueError(f"{WEIGHTS} fits not its configuration: {told}")
    for ours, theirs in names.items():
        if state[theirs].shape != wanted[ours].shape or not state[theirs].isfinite().all():
            came, need = tuple(state[theirs].shape), tuple(wanted[ours].shape)
            told = f"must be finite and of shape {need}, its shape is {came}"
            raise ValueError(f"{WEIGHTS}: {theirs} {told}")
    return {ours: state[theirs] for ours, theirs in names.items()}
