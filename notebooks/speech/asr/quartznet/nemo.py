"""A `.nemo` checkpoint read into our QuartzNet, without NeMo.

Article: "Building World-Class AI Models with NVIDIA NeMo and DefinedCrowd" (NVIDIA Technical
Blog, 2021), which starts from such a file. It is a tar archive, gzipped or not, of
`model_config.yaml` and `model_weights.ckpt`, a pickled state dict. We read those two members in
memory and nothing else: sizes are bounded, links and repeated names are refused, YAML is loaded
as data and weights with torch's `weights_only`, which builds tensors and runs no code.

NeMo numbers the layers inside a block: depthwise, pointwise, normalisation, ReLU, dropout for
each step, and the last step without the latter two. So step r of block b is
`encoder.encoder.{b}.mconv.{5 r + 0, 1, 2}`, or `{4 r + 0, 1}` where it is not separable, and
the way around it is `res.0.{0, 1}`. Each tensor must find its place, each place its tensor.
"""

import io
import tarfile
from pathlib import Path

import torch
import yaml

from .network import BlockSpec, QuartzNet

__all__ = ["load_nemo", "nemo_names"]

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


def load_nemo(path):
    """The QuartzNet of a `.nemo` file in eval mode, and its characters without the blank.

    >>> model, vocabulary = load_nemo("QuartzNet15x5Base-En.nemo")

    The model takes the features of `log_mel` and gives NeMo's log-probabilities within
    rounding. Raises ValueError for a file that is no such archive or is larger than it may be,
    a model that is no QuartzNet with CTC, features other than `log_mel`'s, and tensors that are
    missing, left over, misshapen or not finite.
    """
    members = _members(Path(path))
    config = _config(members[CONFIG])
    vocabulary = _vocabulary(config)
    model = QuartzNet(_specs(config), len(vocabulary) + 1, FEATURES["features"])
    try:
        state = torch.load(io.BytesIO(members[WEIGHTS]), map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds; all say: no plain tensors
        why = f"{WEIGHTS} holds no plain tensors, and nothing else is loaded: {error}"
        raise ValueError(why) from error
    model.load_state_dict(_renamed(state, model))
    return model.eval(), vocabulary


def nemo_names(model):
    """NeMo's names of our tensors, as "decoder.decoder_layers.0.bias" of "decoder.bias"."""
    names = {f"decoder.{p}": f"decoder.decoder_layers.0.{p}" for p in ("weight", "bias")}
    norm_parts = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    for b, spec in enumerate(model.specs):
        ours, theirs = f"blocks.{b}", f"encoder.encoder.{b}"
        for r in range(spec.repeats):
            at = (5 if spec.separable else 4) * r
            if spec.separable:
                names[f"{ours}.steps.{r}.depthwise.weight"] = f"{theirs}.mconv.{at}.conv.weight"
                at += 1
            names[f"{ours}.steps.{r}.pointwise.weight"] = f"{theirs}.mconv.{at}.conv.weight"
            for part in norm_parts:
                names[f"{ours}.steps.{r}.norm.{part}"] = f"{theirs}.mconv.{at + 1}.{part}"
        if spec.residual:
            names[f"{ours}.around.weight"] = f"{theirs}.res.0.0.conv.weight"
            for part in norm_parts:
                names[f"{ours}.around_norm.{part}"] = f"{theirs}.res.0.1.{part}"
    return names


def _members(path):
    """The bytes of the two members that we read."""
    found = {}
    try:
        with tarfile.open(path, "r:*") as archive:
            for count, member in enumerate(archive, 1):
                name = member.name.removeprefix("./")
                once = name not in MOST_BYTES or (member.isreg() and name not in found)
                if (
                    not once
                    or count > MOST_MEMBERS
                    or member.size > MOST_BYTES.get(name, MOST_BYTES[WEIGHTS])
                ):
                    told = f"{name!r} of {member.size} bytes, member {count}"
                    need = f"one plain file each, bytes {MOST_BYTES}, members {MOST_MEMBERS}"
                    raise ValueError(f"{path.name} refused: {told}; allowed are {need}")
                if name in MOST_BYTES:
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
        came = _resolved(front.get(key, wanted), config)
        if came != wanted:
            told = f"features with {key}={came!r}; log_mel computes {wanted!r}"
            raise ValueError(f"{CONFIG}: {told}")
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


def _vocabulary(config):
    letters = _resolved(config["decoder"].get("vocabulary") or config.get("labels"), config)
    known = isinstance(letters, list) and letters
    if not known or not all(isinstance(x, str) and len(x) == 1 for x in letters):
        need = f"decoder.vocabulary must list single characters, got {letters!r}"
        raise ValueError(f"{CONFIG}: {need}")
    return tuple(letters)


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
