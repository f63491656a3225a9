"""A spectral layer over several processes, as in the article's last part, about Grady et al.
(arXiv:2204.01205): pencils of the field, repartitioned between transforms.

A transform over d axes is d transforms over one. Each needs its own axis whole, so the field is
cut along two others into pencils, and between transforms an all-to-all exchange turns them:

    X/p Y/q Z  –rfft Z, cut–  X/p Y/q K_z  ⇄  X/p Y K_z/q  –fft Y, cut–  ⇄  X K_y/p K_z/q

There, after the transform over X, each process multiplies its own modes by its own weights; the
way back is the same reversed. The modes that the layer drops are cut off before anything is
sent. `torch.distributed` carries the bytes, gloo here and NCCL on GPUs.

    python -m fourier_operator.pencil_fft                    # four processes of this machine
    python -m torch.distributed.run --nproc-per-node 4 -m fourier_operator.pencil_fft

Legend: B batch, C channels, X Y Z points an axis, K kept modes, p · q processes.
"""

import json
import math
import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch import nn

from .spectral_conv import SpectralConv, joined


def shares(length, parts):
    """How many of `length` each of `parts` processes gets: `shares(7, 3)` is [3, 2, 2]."""
    return [length // parts + (part < length % parts) for part in range(parts)]


class Pencils:
    """A grid of p × q processes, made by each of them in the same order; counts the bytes it
    sends. Process r stands in row r // q, whose processes share a piece of X, and column r % q,
    whose share one of Y. ValueError where p · q is not the number of processes."""

    def __init__(self, p, q):
        rank, size = dist.get_rank(), dist.get_world_size()
        if p * q != size:
            raise ValueError(f"{p} × {q} pencils for {size} processes: one each is needed")
        self.p, self.q, self.bytes = p, q, 0
        self.row, self.column = divmod(rank, q)
        rows = [dist.new_group([r * q + c for c in range(q)]) for r in range(p)]
        columns = [dist.new_group([r * q + c for r in range(p)]) for c in range(q)]
        self.along_row, self.along_column = rows[self.row], columns[self.column]

    def local(self, whole, axis=2):
        """This process's piece of a whole field (B, C, X, Y, Z): cut along X and Y; or, along
        `axis` and the next, of a weight or its gradient."""
        x = whole.split(shares(whole.shape[axis], self.p), axis)[self.row]
        return x.split(shares(x.shape[axis + 1], self.q), axis + 1)[self.column]

    def turn(self, field, cut, join, length, by_row):
        """The field cut along axis `cut`, where it was whole, and whole along `join`, of this
        `length`; among a row's processes or a column's."""
        return _Exchange.apply(field, self, cut, join, length, by_row)

    def _swap(self, field, cut, join, length, by_row):
        groups = (self.p, self.row, self.along_column), (self.q, self.column, self.along_row)
        parts, place, group = groups[by_row]
        if parts == 1:
            return field
        pieces = field.split(shares(field.shape[cut], parts), cut)
        own = pieces[place].shape
        shapes = [(*own[:join], n, *own[join + 1 :], 2) for n in shares(length, parts)]
        sent = torch.cat([torch.view_as_real(piece).flatten() for piece in pieces])
        sizes, counts = [*map(math.prod, shapes)], [2 * piece.numel() for piece in pieces]
        got = sent.new_empty(sum(sizes))
        dist.all_to_all_single(got, sent, sizes, counts, group=group)
        self.bytes += (sum(counts) - counts[place]) * sent.element_size()
        found = map(torch.Tensor.view, got.split(sizes), shapes)
        return torch.cat([torch.view_as_complex(part) for part in found], join)


class _Exchange(torch.autograd.Function):
    """An exchange among processes; backward, the reverse exchange."""

    @staticmethod
    def forward(ctx, field, pencils, cut, join, length, by_row):
        ctx.told = pencils, cut, join, field.shape[cut], by_row
        return pencils._swap(field, cut, join, length, by_row)

    @staticmethod
    def backward(ctx, gradient):
        pencils, cut, join, length, by_row = ctx.told
        found = pencils._swap(gradient.contiguous(), join, cut, length, by_row)
        return found, None, None, None, None, None


class PencilSpectralConv(nn.Module):
    """One process's part of a `SpectralConv` over three axes (ValueError for others):
    `PencilSpectralConv(conv, Pencils(2, 2))`. Holds its share of the weights alone, and maps
    its piece (B, C_in, X/p, Y/q, Z) of a field of `sizes` (X, Y, Z) to that of the answer."""

    def __init__(self, conv, pencils):
        super().__init__()
        if len(conv.modes) != 3:
            raise ValueError(f"{len(conv.modes)} axes: pencils are made for three")
        self.modes, self.pencils = conv.modes, pencils
        self.weight = nn.Parameter(pencils.local(joined(conv.weight).detach(), 3).clone())

    def forward(self, x, sizes):
        """(B, C_out, X/p, Y/q, Z)."""
        (X, Y, Z), (m_x, m_y, m_z) = sizes, self.modes
        turn = self.pencils.turn
        v = along(torch.fft.rfft, x, 4)[..., :m_z]
        v = turn(v, 4, 3, Y, True)
        v = ends(along(torch.fft.fft, v, 3), 3, m_y)
        v = turn(v, 3, 2, X, False)
        v = ends(along(torch.fft.fft, v, 2), 2, m_x)
        v = torch.einsum("bixyz,ioxyz->boxyz", v, self.weight)
        v = along(torch.fft.ifft, spread(v, 2, m_x, X), 2)
        v = turn(v, 2, 3, 2 * m_y, False)
        v = along(torch.fft.ifft, spread(v, 3, m_y, Y), 3)
        v = turn(v, 3, 4, m_z, True)
        return along(torch.fft.irfft, v, 4, n=Z)


def along(transform, v, axis, **options):
    """One axis transformed. With more processes than waves some own none, and libraries refuse
    empty fields; the empty answer hangs on the field, so that backward meets every exchange."""
    if v.numel():
        return transform(v, dim=axis, **options)
    one, shape = transform(v.new_zeros(v.shape[axis]), **options), list(v.shape)
    shape[axis] = len(one)
    nothing = v.sum() if one.is_complex() else v.sum().real
    return one.new_zeros(shape) * nothing


def ends(v, axis, modes):
    """The first and the last `modes` of an axis."""
    size = v.shape[axis]
    return torch.cat([v.narrow(axis, 0, modes), v.narrow(axis, size - modes, modes)], axis)


def spread(v, axis, modes, size):
    """Both ends of an axis back in their places, zeros between."""
    shape = list(v.shape)
    shape[axis] = size - 2 * modes
    low, high = v.split(modes, axis)
    return torch.cat([low, v.new_zeros(shape), high], axis)


def exchange_bytes(sizes, modes, channels, p, q):
    """Bytes that one process sends in one forward pass of a layer, by count: two exchanges
    there and two back, 8 bytes a complex number, what stays at home not counted."""
    (X, Y, _), (_, m_y, m_z) = sizes, modes
    by_row = X / p * Y / q * m_z * (q - 1) / q
    by_column = X / p * 2 * m_y * m_z / q * (p - 1) / p
    return 2 * 8 * channels * (by_row + by_column)


def memory_bytes(sizes, modes, channels, p, q):
    """(weights, activations) of one layer on one process: 8 bytes a complex weight, 4 a real
    cell, input and output."""
    (X, Y, Z), (m_x, m_y, m_z) = sizes, modes
    weights = 8 * channels**2 * 2 * m_x * math.ceil(2 * m_y / p) * math.ceil(m_z / q)
    return weights, 2 * 4 * channels * math.ceil(X / p) * math.ceil(Y / q) * Z


def compare(p, q, sizes=(20, 18, 14), modes=(4, 3, 5), channels=3, batch=2):
    """A dict, the same on every process: how far p × q pencils are from one process (answer,
    gradients of field and weight), bytes sent, weights and cells held."""
    torch.manual_seed(0)
    conv = SpectralConv(channels, channels, modes).double()
    conv.weight = nn.ParameterList([w.detach().to(torch.cdouble) for w in conv.weight])
    whole = torch.randn(batch, channels, *sizes, dtype=torch.float64, requires_grad=True)
    pencils = Pencils(p, q)
    mine = PencilSpectralConv(conv, pencils)
    field = pencils.local(whole).detach().requires_grad_()
    answer, wanted = mine(field, sizes), conv(whole)
    sent = pencils.bytes
    answer.square().sum().backward()
    wanted.square().sum().backward()
    gradients = SpectralConv(channels, channels, modes)
    gradients.weight = nn.ParameterList([w.grad for w in conv.weight])
    pairs = {
        "answer": (answer, pencils.local(wanted)),
        "field gradient": (field.grad, pencils.local(whole.grad)),
        "weight gradient": (mine.weight.grad, pencils.local(joined(gradients.weight), 3)),
    }
    gaps = ((a - b).abs() / b.abs().max() if b.numel() else b.abs() for a, b in pairs.values())
    worst = (max([0.0, *gap.flatten().tolist()]) for gap in gaps)
    most = torch.tensor([*worst, mine.weight.numel()], dtype=torch.float64)
    dist.all_reduce(most, dist.ReduceOp.MAX)
    totals = torch.tensor([sent, mine.weight.numel(), field.numel()], dtype=torch.float64)
    dist.all_reduce(totals)
    told = dict(zip((*pairs, "largest_weights"), most.tolist(), strict=True)) | {"grid": (p, q)}
    return told | dict(zip(("bytes", "weights", "cells"), totals.tolist(), strict=True))


def worker(rank=-1, size=-1, meet=None):
    """Compare every grid of so many processes with one; rank 0 prints a line of JSON."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=meet, rank=rank, world_size=size)
    try:
        size = dist.get_world_size()
        found = [compare(p, size // p) for p in range(1, size + 1) if size % p == 0]
        if dist.get_rank() == 0:
            print(json.dumps(found))
    finally:
        dist.destroy_process_group()


def main():
    """Be one of a launcher's processes; without a launcher, fork four."""
    if "RANK" in os.environ:
        return worker()
    with tempfile.TemporaryDirectory() as folder:
        told = 4, f"file://{folder}/meet"
        torch.multiprocessing.start_processes(worker, told, nprocs=4, start_method="fork")


if __name__ == "__main__":
    main()
