"""Climb down with memory, rung by rung: what each way of saving holds at its peak.

Every rung is one step on the same images, made by another way of training. `measure` tells its
peak, its seconds and how far its gradient lies from the plain step's: zero up to rounding for
those that change memory alone, more for those that change the result. Where two rungs are to be
compared over a training, a study has to do it: one step's gradient is not an accuracy.

Equal up to rounding: accumulation, checkpointing, ReLUs in place. Different: half the
resolution, mixed precision, a norm, and the optimiser in 8 bits, whose gradient is equal and
whose update is not.

Checkpointing makes a segment's activations again when backward comes to it, so that the peak is
that of the largest segment. Here the first segment is most of the step, and little is saved.
"""

import functools
import math
import time
from typing import NamedTuple

import torch
from accumulation import step as accumulated
from byte_account import account, by_layer, bytes_of
from byte_adam import SLICE, ByteAdam, state_bytes
from helpers import device
from step_timeline import Moment, lasting, measured_peak, moments_of, update
from torch.nn.functional import cross_entropy, interpolate
from torch.utils.checkpoint import checkpoint_sequential
from tutorial_network import classifier


class Rung(NamedTuple):
    """One way to save: its peak with all that lives through a step, seconds a step, and the
    gradient's distance from the plain one over that one's length (NaN where the network is
    another one)."""

    name: str
    peak_bytes: int
    seconds: float
    distance: float


def plain(model, x, y):
    """Leave the gradient of the batch's mean loss."""
    cross_entropy(model(x), y).backward()


def in_parts(model, x, y, parts=4):
    """The same gradient from parts of the batch, one after the other."""
    accumulated(model, zip(x.chunk(parts), y.chunk(parts), strict=True), cross_entropy)


def mixed(model, x, y):
    """The gradient with convolutions and products in bfloat16; weights stay in float32."""
    with torch.autocast(x.device.type, dtype=torch.bfloat16):
        loss = cross_entropy(model(x).float(), y)
    loss.backward()


def checkpointed(model, x, y, segments=3):
    """The same gradient; within a segment nothing is kept, and forward is made again."""
    cross_entropy(checkpoint_sequential(model, segments, x, use_reentrant=False), y).backward()


def one_by_one(params):
    """PyTorch's Adam, one weight after the other on every device: a GPU's own choice would
    update all at once."""
    return torch.optim.Adam(params, foreach=False)


def fused(params):
    """PyTorch's Adam in one kernel: nothing passes in its step."""
    return torch.optim.Adam(params, fused=True)


# name: (way to make the gradient, options of the network, share of the side, optimiser)
WAYS = {
    "plain": (plain, {}, 1.0, one_by_one),
    "4 parts": (in_parts, {}, 1.0, one_by_one),
    "half the side": (plain, {}, 0.5, one_by_one),
    "mixed precision": (mixed, {}, 1.0, one_by_one),
    "checkpointing": (checkpointed, {}, 1.0, one_by_one),
    "in place": (plain, {"inplace": True}, 1.0, one_by_one),
    "batch norm": (plain, {"norm": "batch"}, 1.0, one_by_one),
    "group norm": (plain, {"norm": "group"}, 1.0, one_by_one),
    "8-bit Adam": (plain, {}, 1.0, ByteAdam),
    "fused Adam": (plain, {}, 1.0, fused),
}


def measure(name, x, y, seed=0):
    """`Rung` of one way on images x (B, 3, side, side) with classes y (B).

    The first step makes the optimiser's state; the second is timed, the third measured.
    Raises ValueError for another name.
    """
    if name not in WAYS:
        raise ValueError(f"name is {name!r}: allowed are {', '.join(WAYS)}")
    way, options, share, kind = WAYS[name]
    torch.manual_seed(seed)
    side = int(x.shape[-1] * share)
    seen = x if share == 1 else interpolate(x, size=side, mode="area")
    model = classifier(side, **options).to(x.device)
    distance = gradient_distance(model, way, seen, y) if share == 1 else float("nan")
    distance = distance if "norm" not in options else float("nan")
    optimizer = kind(model.parameters())

    def step():
        way(model, seen, y)
        optimizer.step()
        optimizer.zero_grad()

    optimizer.zero_grad()
    step()
    device.synchronize(x.device)
    begun = time.perf_counter()
    step()
    device.synchronize(x.device)
    seconds = time.perf_counter() - begun
    total = account(model, seen.shape, "adam")
    lasting = total["weights"] + total["buffers"] + state_bytes(optimizer)
    lasting += seen.numel() * seen.element_size()
    return Rung(name, lasting + measured_peak(step, x.device), seconds, distance)


def predicted(name, batch, side):
    """The `Moment`s of one way's step on images (batch, 3, side, side), from shapes alone.

    Raises ValueError for another name. The convolution library's workspace is left out.
    """
    if name not in WAYS:
        raise ValueError(f"name is {name!r}: allowed are {', '.join(WAYS)}")
    way, options, share, kind = WAYS[name]
    side = int(side * share)
    shape = (batch, 3, side, side)
    with torch.device("meta"):
        model = classifier(side, **options)
    rows = rows_of(side, batch, **options)
    optimizer = ByteAdam(model.parameters()) if kind is ByteAdam else "adam"
    base = lasting(model, optimizer)
    gradients, images = bytes_of(model.parameters()), 4 * math.prod(shape)
    if way is in_parts:
        part = -(-batch // 4)
        rows = rows_of(side, part, **options)
        waits = 4 * math.prod((batch - part, *shape[1:]))  # the images of other parts
        moments = moments_of(rows, base + waits) + moments_of(rows, base + waits, gradients)
    elif way is mixed:
        half = rows_of(side, batch, torch.bfloat16, **options)
        moments = in_half(half, base + images)
    elif way is checkpointed:
        moments = again(rows, base, images)
    else:
        moments = moments_of(rows, base)
    if kind is ByteAdam:
        held = (base, images, gradients, 6 * 4 * SLICE)  # both moments of a slice, packed again
        return [*moments, Moment("optimizer", "", sum(held), *held[1:])]
    last = update(model, optimizer, base, gradients, images)
    if kind is fused:
        last = last._replace(held=last.held - last.passing, passing=0)
    return [*moments, last]


@functools.cache
def rows_of(side, batch, dtype=torch.float32, **options):
    """`by_layer` of the classifier, its weights and images of this dtype."""
    with torch.device("meta"):
        model = classifier(side, **options).to(dtype)
    return by_layer(model, (batch, 3, side, side))


def in_half(rows, base):
    """The `Moment`s of rows of 16 bits under autocast; the images within `base`, and gradients
    of weights, are in 32. A layer's copy of its weights in 16 bits is made in forward and goes
    with what the layer keeps; only then its gradient in 16 bits is made one in 32."""
    copied = [row._replace(kept=row.kept + row.gradients) for row in rows]
    moments = moments_of(copied, base)[: len(rows)]
    held, made = sum(row.kept for row in copied), 0

    def note(passing):
        parts = (held, made, passing)
        moments.append(Moment("backward", row.name, base + sum(parts), *parts))

    for row in reversed(copied):
        note(row.passing + row.gradients)
        held, made = held - row.kept, made + 2 * row.gradients
        note(max(row.passing - row.outputs, 0) + row.gradients)  # its output's has gone
    return moments


def again(rows, base, images, segments=3):
    """`moments_of` with checkpoints: a segment keeps what goes in, and its rows come again in
    backward; the last segment is run once, as `checkpoint_sequential` does."""
    size = len(rows) // segments
    cuts = [size * i for i in range(segments)]
    parts = [rows[a:b] for a, b in zip(cuts, [*cuts[1:], None], strict=True)]
    into = [images, *(rows[cut - 1].outputs for cut in cuts[1:])]
    held, made, found = sum(into[:-1]), 0, []
    for at in range(segments - 1, -1, -1):
        # What goes into a segment is counted as kept by its first layer, too, if that keeps it.
        own = moments_of(parts[at], base + held + made)
        going = 0 if at == segments - 1 else into[at + 1]  # the gradient that comes back
        found += [m._replace(held=m.held + going * (m.phase == "forward")) for m in own]
        made += sum(row.gradients for row in parts[at])
        held -= into[at - 1] if at else 0
    return found


def gradient_distance(model, way, x, y):
    """The length of the gradient's difference from the plain one's, over that one's length."""

    def flat(make):
        model.zero_grad()
        make(model, x, y)
        return torch.cat([p.grad.flatten() for p in model.parameters()])

    whole = flat(plain)
    return ((flat(way) - whole).norm() / whole.norm()).item()
