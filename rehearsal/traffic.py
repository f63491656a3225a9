"""What one operation moves in memory and computes: bytes of its operands, FLOPs of its products."""

from math import log2, prod

import torch
from torch.utils.flop_counter import flop_registry

from .rules import GATHERS, ONLY_WRITES, SCATTERS

PRODUCTS = {"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm"}
FFT = {"aten::_fft_r2c": 0.5, "aten::_fft_c2r": 0.5, "aten::_fft_c2c": 1.0}  # a real transform is half of one


def size_of(x: torch.Tensor) -> int:
    """The bytes that a tensor occupies: expanded axes and overlapping windows count once, sparse ones their values and
    indices."""
    if x.layout is not torch.strided:
        parts = (x._values(), x._indices()) if x.layout is torch.sparse_coo else (x.values(),)
        return sum(part.numel() * part.element_size() for part in parts)
    count = prod(n for n, step in zip(x.shape, x.stride(), strict=True) if step) if x.numel() else 0
    return min(count * x.element_size(), x.untyped_storage().nbytes())


def bytes_moved(name: str, operands: list, results: list) -> int:
    """Bytes read and written, each operand once; a gather reads no more than it returns."""
    written = sum(map(size_of, results))
    if name in ONLY_WRITES:
        return written
    if name in GATHERS:
        indices = sum(size_of(x) for x in operands if not (x.is_floating_point() or x.is_complex()))
        return 2 * written + min(indices, sum(map(size_of, operands[1:])))
    if name in SCATTERS:
        return 3 * sum(map(size_of, operands[1:]))  # read where to, read what is there, write
    return written + sum(map(size_of, operands))


def in_tf32(name: str) -> bool:
    """Whether a card with TF32 computes this operation on float32 in it: convolutions by default, products if told."""
    if "convolution" in name:
        return torch.backends.cudnn.allow_tf32
    return name in PRODUCTS and torch.backends.cuda.matmul.allow_tf32


def flops(operation, args: tuple, kwargs: dict, result) -> int:
    """FLOPs by torch's own formulas, and 5 N log2 N of a complex Fourier transform; 0 of all else."""
    name = operation._schema.name
    if name in FFT:
        x, axes = args[0], args[1]
        longer = max((x, result), key=torch.Tensor.numel)
        length = prod(longer.shape[axis] for axis in axes)
        return int(FFT[name] * 5 * longer.numel() * log2(length)) if length > 1 else 0
    formula = flop_registry.get(operation._overloadpacket)
    return int(formula(*args, **kwargs, out_val=result)) if formula else 0
