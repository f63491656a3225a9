"""What one operation moves in memory: bytes of its operands, and the kind of numbers that it computes with."""

from math import prod

import torch

from .rules import GATHERS, ONLY_WRITES, SCATTERS

PRODUCTS = {"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm"}


def size_of(x: torch.Tensor) -> int:
    """The bytes that a tensor occupies: expanded axes and overlapping windows count once, a sparse one its parts."""
    if x.layout is not torch.strided:
        return sum(map(size_of, parts_of(x)))
    count = prod(n for n, step in zip(x.shape, x.stride(), strict=True) if step) if x.numel() else 0
    return min(count * x.element_size(), x.untyped_storage().nbytes())


def parts_of(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The tensors that keep a tensor's numbers: itself, or the values and indices of a sparse one."""
    if x.layout is torch.strided:
        return (x,)
    if x.layout is torch.sparse_coo:
        return x._values(), x._indices()
    by_rows = x.layout in (torch.sparse_csr, torch.sparse_bsr)
    return x.values(), *((x.crow_indices(), x.col_indices()) if by_rows else (x.ccol_indices(), x.row_indices()))


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
