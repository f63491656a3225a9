"""Autocast of the pretended device: the casts of CUDA's lists, which torch ships in its own header.

torch's kernels for AutocastCUDA look at the C++ device, which here is not CUDA, and would silently cast nothing. So
each operation of the lists gets a kernel that casts first and then goes on below autocast; the casts are recorded by
autograd, as a card's are.
"""

import re
import warnings
from pathlib import Path

import torch

from .tensor import Pretended

HEADER = Path(torch.__file__).parent / "include" / "ATen" / "autocast_mode.h"
LISTS = {"LOWER_PRECISION_FP": "low", "FP32": "high", "FP32_SET_OPT_DTYPE": "out", "PROMOTE": "widest"}
BELOW = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCUDA)
_cast_weights: dict[int, tuple] = {}  # leaves are cast once a region
_library = torch.library.Library("aten", "IMPL")


def lists() -> dict[str, list[str]]:
    """The overloads of each of CUDA's lists, by what happens to their arguments: low, high, out or widest."""
    text, found = HEADER.read_text(encoding="utf-8"), {}
    for name, kind in LISTS.items():
        body = re.search(rf"#define AT_FORALL_{name}\(_\)(.*?)\n\n", text, re.DOTALL).group(1)
        found[kind] = [".".join(filter(None, pair)) for pair in re.findall(r"_\((\w+)(?:, (\w+))?\)", body)]
        if not found[kind]:
            raise RuntimeError(f"{HEADER.name} of torch {torch.__version__} has no list {name} that can be read")
    found["low"] += ["scaled_dot_product_attention"] * ("scaled_dot_product_attention" not in found["low"])
    found["out"] += ["norm.Scalar", "norm.ScalarOpt_dim"]
    found["refused"] = ["binary_cross_entropy"]
    return found


def install() -> None:
    """Register the kernels, and forget cast weights where torch does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that kernels are replaced is the purpose
        for kind, names in lists().items():
            for name in names:
                packet, _, overload = name.partition(".")
                operation = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
                if operation is not None:
                    _library.impl(operation, _kernel(operation, kind), "AutocastCUDA", allow_override=True)
    clear = torch.clear_autocast_cache

    def forget():
        _cast_weights.clear()
        clear()

    torch.clear_autocast_cache = forget


def _kernel(operation, kind: str):
    """The operation under autocast."""

    def cast(*args, **kwargs):
        if kind == "refused":
            raise RuntimeError("binary_cross_entropy is unsafe to autocast; use binary_cross_entropy_with_logits")
        with torch._C._ExcludeDispatchKeyGuard(BELOW):
            if kind == "out":  # float32 out of narrow numbers, unless the caller asks for another kind
                args = _all(args, torch.float32)
                return operation(*args, **kwargs)
            to = {"low": torch.get_autocast_dtype("cuda"), "high": torch.float32}.get(kind) or _widest(args)
            return operation(*_all(args, to), **{name: _to(value, to) for name, value in kwargs.items()})

    return cast


def _all(args: tuple, dtype: torch.dtype) -> tuple:
    return tuple(_to(value, dtype) for value in args)


def _to(value, dtype: torch.dtype):
    """The argument with its tensors cast, where autocast may cast them: floats of the device, none of 64 bits."""
    if isinstance(value, list | tuple):
        return type(value)(_to(one, dtype) for one in value)
    eligible = isinstance(value, Pretended) and value.is_floating_point() and value.dtype != torch.float64
    if not eligible or value.dtype == dtype:
        return value
    leaf = value.is_leaf and value.requires_grad and dtype != torch.float32
    if not (leaf and torch.is_autocast_cache_enabled()):
        return value.to(dtype)
    kept = _cast_weights.get(id(value))
    if kept is None or kept[0] is not value:
        kept = _cast_weights[id(value)] = (value, value.to(dtype))
    return kept[1]


def _widest(args: tuple) -> torch.dtype:
    """float32 where any tensor has it, else the narrow kind."""
    flat = [x for value in args for x in (value if isinstance(value, list | tuple) else [value])]
    kinds = {x.dtype for x in flat if isinstance(x, Pretended) and x.is_floating_point()}
    return torch.float32 if torch.float32 in kinds else torch.get_autocast_dtype("cuda")
