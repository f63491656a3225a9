"""FLOPs of one operation by formulas of our own, and the law that each of them has to obey.

    FLOPs <= 2 × outputs × reduction length

A product adds, for each of its outputs, as many products of two numbers as its reduction is long; a gradient is an
output, too. The law's lengths are read off the shapes apart from the formulas, so a formula that forgets something
(the groups of a convolution, the empty places of a sparse matrix) raises `CountError` in the first rehearsal. Torch's
own formulas are not taken: they ignore `groups` in the gradient of a weight, and take sparse matrices for dense ones.
A complex product is four real ones and as many sums.
"""

from fractions import Fraction
from functools import cache
from math import log2, prod

import torch
from torch.utils.flop_counter import flop_registry

from .refused import refuse

FACTORS = {  # positions of the two that are multiplied
    **dict.fromkeys(("aten::mm", "aten::bmm", "aten::mv", "aten::dot", "aten::vdot", "aten::hspmm"), (0, 1)),
    **dict.fromkeys(("aten::addmm", "aten::baddbmm", "aten::addmv", "aten::_sparse_addmm"), (1, 2)),
    **dict.fromkeys(("aten::_addmm_activation", "aten::sparse_sampled_addmm"), (1, 2)),
    **dict.fromkeys(("aten::_int_mm", "aten::_scaled_mm"), (0, 1)),
}
FFT = {"aten::_fft_r2c": 0.5, "aten::_fft_c2r": 0.5, "aten::_fft_c2c": 1.0}  # a real transform is half of one
FORWARD = ("aten::convolution", "aten::_convolution", "aten::convolution_overrideable")
BACKWARD = "aten::convolution_backward"
UNCOUNTED = {  # products whose work does not follow from what is looked at here
    "aten::_sparse_sparse_matmul": "a product of two sparse tensors",
    **dict.fromkeys(("aten::addbmm", "aten::sspaddmm"), "a product without a formula here"),
}
UNCOUNTED |= {f"aten::{op.__name__}": UNCOUNTED["aten::addbmm"] for op in flop_registry if hasattr(op, "__name__")}


class CountError(RuntimeError):
    """A formula counts more than the shapes allow; a mistake of this package."""


def countable(name: str, args: tuple) -> None:
    """Raise CannotRehearse where an operation is a product, and its work cannot be counted."""
    if name in UNCOUNTED and name not in (*FACTORS, *FORWARD, BACKWARD):
        refuse(UNCOUNTED[name])
    if name in FACTORS and all(args[position].layout is not torch.strided for position in FACTORS[name]):
        refuse("a product of two sparse tensors")


def flops(name: str, args: tuple, result) -> int:
    """FLOPs of an operation by its name; 0 where it is no product, convolution or Fourier transform.

    CountError where a formula breaks the law.
    """
    if name in FACTORS:
        found, most = _product(name, args), _product_length(name, args, result)
    elif name in FORWARD or name == BACKWARD:
        found, most = _convolution(name, args, result), _convolution_length(name, args, result)
    elif name in FFT:
        return _held(name, *_transform(name, args, result))
    else:
        return 0
    each = 8 if args[FACTORS.get(name, (0,))[0]].is_complex() else 2
    return _held(name, each * found, each * most)


def _held(name: str, found, most) -> int:
    """The FLOPs, held to the law."""
    if found > most:
        raise CountError(
            f"{name.removeprefix('aten::')}: {found:,} FLOPs are counted, and its shapes allow {float(most):,.0f}: "
            "twice its outputs times the length of what each of them sums"
        )
    return int(found)


def stored(x: torch.Tensor) -> int:
    """How many values a tensor keeps: all of a dense one's, those of a sparse one that are written down."""
    if x.layout is torch.strided:
        return x.numel()
    return (x._values() if x.layout is torch.sparse_coo else x.values()).numel()


def _product(name: str, args: tuple) -> int:
    """Products of two numbers in a product of two tensors, at most one of them sparse."""
    a, b = (args[position] for position in FACTORS[name])
    if name == "aten::sparse_sampled_addmm":  # where the pattern has a place, and nowhere else
        return stored(args[0]) * a.shape[-1]
    if b.layout is not torch.strided:
        return stored(b) * (a.shape[-2] if a.dim() > 1 else 1)
    return stored(a) * (b.shape[-1] if b.dim() > 1 else 1)


def _product_length(name: str, args: tuple, result) -> Fraction:
    """Outputs times how many products each of them adds, on average over a sparse factor's rows."""
    a, b = (args[position] for position in FACTORS[name])
    along_rows = Fraction(stored(a) * a.shape[-1], max(1, a.numel()))
    across = b.shape[-2] if b.dim() > 1 else b.shape[-1]
    return stored(result) * min(along_rows, Fraction(stored(b) * across, max(1, b.numel())))


def _convolution(name: str, args: tuple, result) -> int:
    """Products of two numbers in a convolution or its gradients: the padding's zeros are multiplied with nothing.

    Each belongs to one input, one weight and one output, and either gradient has one for each of the same triples.
    """
    x, w, y, settings, transposed, _, mask = _sides(name, args, result)
    longer, shorter = (y, x) if transposed else (x, y)
    axes = zip(longer.shape[2:], shorter.shape[2:], w.shape[2:], *settings, strict=True)
    return x.shape[0] * w.shape[0] * w.shape[1] * prod(_places(*axis) for axis in axes) * sum(mask)


def _convolution_length(name: str, args: tuple, result) -> int:
    """Outputs times how many products each of them adds, of the result or of each gradient."""
    x, w, y, _, transposed, groups, mask = _sides(name, args, result)
    met = {"output": w.shape[1], "input": w.shape[0] // groups}  # channels of the other side that one of it meets
    if transposed:
        met = {"output": met["input"], "input": met["output"]}
    kernel = prod(w.shape[2:])
    if name != BACKWARD:
        return y.numel() * met["output"] * kernel
    steps = x.shape[0] * prod((x if transposed else y).shape[2:])
    return mask[0] * x.numel() * met["input"] * kernel + mask[1] * w.numel() * steps


def _sides(name: str, args: tuple, result) -> tuple:
    """(Input, weight, output, settings of each axis, transposed, groups, which of input's and weight's gradients)."""
    y, x, w, _, *rest = args if name == BACKWARD else (result, *args)
    *settings, transposed, _, groups = rest[:6]
    axes = w.dim() - 2
    settings = [list(value) * axes if len(value) == 1 else value for value in settings]  # one stands for all
    return x, w, y, settings, transposed, groups, rest[6][:2] if name == BACKWARD else (True,)


@cache
def _places(longer: int, shorter: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """How many pairs of a step and a place in the kernel lie on the longer side and not on its padding, on one axis."""
    found = 0
    for k in range(kernel):
        first = max(0, -(-(padding - k * dilation) // stride))
        last = min(shorter - 1, (longer - 1 + padding - k * dilation) // stride)
        found += max(0, last - first + 1)
    return found


def _transform(name: str, args: tuple, result) -> tuple[int, int]:
    """FLOPs of a fast Fourier transform, 5 N log2 N of a complex one, and of one by its definition."""
    longer = max((args[0], result), key=torch.Tensor.numel)
    length = prod(longer.shape[axis] for axis in args[1])
    return int(FFT[name] * 5 * longer.numel() * log2(max(1, length))), 8 * longer.numel() * length
