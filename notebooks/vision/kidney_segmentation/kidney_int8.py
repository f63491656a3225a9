"""The network in integers of eight bits: calibration, scales, fused steps, the blocked layout.

Calibration runs the float network over windows of one case that is neither trained nor tested
on and keeps, for each layer, the largest magnitude (minimum and maximum, as TensorRT's min-max
calibrator does). Weights get a scale for each output channel, activations one for each layer:

    q = clamp(round(x / s), -127, 127)          symmetric; after a ReLU only 0 to 127 occur
    conv(x, w) + b = s_x s_w (sum q_x q_w + round(b / (s_x s_w)))

Products and sums are whole numbers. A sum of at most 27 * 32 products of 127 * 127 is below
2^24, so float32 arithmetic holds it *exactly*; that is what computes them here, since a
convolution of integers is slower on a CPU without such units. The result is that of int8 with
int32 sums, bit for bit; the time is not. Three rewrites that the article names for Orin's
accelerators are here as equal answers: sum + ReLU inside the step, pooling before rounding, and
slabs that stay near.

Where we differ: TensorRT's rounding, its choice of layers to leave in float and its kernels are
its own. The last layer's scores stay float.

B: batch; C: channels; S: side of a window; G: groups of 32 channels.
"""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from kidney_unet import Folded, walk
from torch.nn import functional as F  # noqa: N812 - torch's own habit

TOP = 127
BLOCK = 32  # channels that TensorRT's NC/32DHW32 keeps side by side
EXACT = 2**24  # up to here float32 counts every whole number


class Step(NamedTuple):
    """A convolution in integers: `weight` (C out, C in, k, k, k) and `bias` (C out) whole
    numbers in float32, `scale_in` of what comes, `scale_weight` (C out).
    """

    weight: torch.Tensor
    bias: torch.Tensor
    scale_in: float
    scale_weight: torch.Tensor


def quantised(x: torch.Tensor, scale) -> torch.Tensor:
    """Whole numbers from -127 to 127, in x's dtype: x over its scale, rounded, halves to
    even."""
    return (x / scale).round_().clamp_(-TOP, TOP)


def ranges(network: Folded, windows: Iterable[torch.Tensor]) -> dict[str, float]:
    """{layer: largest magnitude that enters it} over calibration windows (B, 1, S, S, S).

    ValueError for no window, or where all that enters a layer is zero.
    """
    found: dict[str, float] = {}

    def keep(name, x):
        found[name] = max(found.get(name, 0.0), float(x.abs().max()))

    def layer(name, x):
        keep(name, x)
        return network.convs[name](x)

    def head(x):
        keep("head", x)
        return network.head(x)

    with torch.no_grad():
        for window in windows:
            walk(layer, head, window)
    if not found or min(found.values()) == 0:
        raise ValueError(f"calibration saw {found}: windows with values are needed")
    return found


def step_of(conv, largest_in: float, per_channel: bool = True) -> Step:
    """The integer step of a float convolution; with one scale for all channels where asked."""
    weight = conv.weight.detach()
    size = (
        weight.abs().amax((1, 2, 3, 4))
        if per_channel
        else weight.abs().max().expand(len(weight))
    )
    scale_weight = torch.where(size > 0, size, 1.0) / TOP  # a channel of zeros: any scale
    scale_in = largest_in / TOP
    whole = quantised(weight, scale_weight.view(-1, 1, 1, 1, 1))
    bias = (conv.bias.detach() / (scale_in * scale_weight)).round()
    if whole[0].numel() * TOP * TOP + float(bias.abs().max()) >= EXACT:
        raise ValueError(f"{whole[0].numel()} products of 127²: float32 cannot hold their sum")
    return Step(whole, bias, scale_in, scale_weight)


def sums(step: Step, q: torch.Tensor) -> torch.Tensor:
    """(B, C, S, S, S) whole numbers: what int32 accumulators hold after the convolution."""
    return F.conv3d(q, step.weight, step.bias, padding=step.weight.shape[-1] // 2)


class Integers(torch.nn.Module):
    """The network in int8: the same way as `Folded`'s, each layer fed with integers.

    `Integers(network, ranges(network, windows))(cuts)` are scores (B, 3, S, S, S) in float32.
    """

    def __init__(self, network: Folded, largest: dict[str, float], per_channel: bool = True):
        super().__init__()
        layers = {**network.convs, "head": network.head}
        self.steps = {
            name: step_of(conv, largest[name], per_channel) for name, conv in layers.items()
        }

    def layer(self, name: str, x: torch.Tensor) -> torch.Tensor:
        step = self.steps[name]
        scale = step.scale_in * step.scale_weight.view(1, -1, 1, 1, 1)
        return sums(step, quantised(x, step.scale_in)) * scale

    def keep(self, name: str, x: torch.Tensor) -> torch.Tensor:
        """What is kept for a sum is kept in eight bits, at the scale of the layer that reads
        it."""
        scale = self.steps[name].scale_in
        return quantised(x, scale) * scale

    @torch.no_grad()
    def forward(self, x_B1SSS: torch.Tensor) -> torch.Tensor:
        return walk(self.layer, lambda x: self.layer("head", x), x_B1SSS, self.keep)

    def bytes_of_weights(self) -> int:
        """Bytes at one a weight, and four for each bias and scale."""
        sizes = (step.weight.numel() + 8 * len(step.bias) for step in self.steps.values())
        return sum(sizes)


def blocked(q_CDHW: torch.Tensor) -> torch.Tensor:
    """(G, D, H, W, 32) int8: linear channels in blocks of 32, the last filled up with zeros.

    TensorRT calls it NC/32DHW32. A scan has one channel: 31 of 32 bytes are zeros, which is why
    it travels to the device linear, and is blocked there.
    """
    missing = -len(q_CDHW) % BLOCK
    filled = F.pad(q_CDHW.to(torch.int8), (0, 0, 0, 0, 0, 0, 0, missing))
    return filled.unflatten(0, (-1, BLOCK)).movedim(1, -1).contiguous()


def linear(blocks_GDHW: torch.Tensor, channels: int) -> torch.Tensor:
    """(C, D, H, W): what `blocked` was given."""
    return blocks_GDHW.movedim(-1, 1).flatten(0, 1)[:channels].contiguous()


def pooled_late(step: Step, q: torch.Tensor, scale_out: float) -> torch.Tensor:
    """Convolution, scale, ReLU and rounding, then pooling: as four steps write it."""
    scale = step.scale_in * step.scale_weight.view(1, -1, 1, 1, 1)
    return F.max_pool3d(quantised((sums(step, q) * scale).relu_(), scale_out), 2)


def pooled_early(step: Step, q: torch.Tensor, scale_out: float) -> torch.Tensor:
    """The same numbers, the pooling on the sums: an eighth of them is scaled and rounded.
    Scales are above zero, so scaling, ReLU and rounding keep the order, and the largest stays
    the largest.
    """
    scale = step.scale_in * step.scale_weight.view(1, -1, 1, 1, 1)
    return quantised((F.max_pool3d(sums(step, q), 2) * scale).relu_(), scale_out)


def added_apart(step: Step, q, q_across, scale_across: float, scale_out: float) -> torch.Tensor:
    """Convolution to memory, then the sum with what comes across, then ReLU and rounding."""
    scale = step.scale_in * step.scale_weight.view(1, -1, 1, 1, 1)
    written = sums(step, q) * scale
    return quantised((written + q_across * scale_across).relu_(), scale_out)


def added_inside(
    step: Step, q, q_across, scale_across: float, scale_out: float
) -> torch.Tensor:
    """The same numbers, slab by slab of the depth: nothing but int8 is written whole. A slab
    needs as many slices more on both sides as half the kernel.
    """
    half = step.weight.shape[-1] // 2
    scale = step.scale_in * step.scale_weight.view(1, -1, 1, 1, 1)
    wide = F.pad(q, (0, 0, 0, 0, half, half))
    found = []
    for at in range(0, q.shape[2], 4):
        end = min(at + 4, q.shape[2])
        near = wide[:, :, at : end + 2 * half]
        part = F.conv3d(near, step.weight, step.bias, padding=(0, half, half)) * scale
        part = part.add_(q_across[:, :, at:end] * scale_across).relu_()
        found.append(quantised(part, scale_out).to(torch.int8))
    return torch.cat(found, 2).to(q.dtype)


def chained(first: Step, second: Step, q, scale_between: float, deep: int = 4) -> torch.Tensor:
    """Sums of two convolutions with ReLU between, slab by slab of the depth: what lies between
    is never there whole, so it can stay in fast memory. Equal to one after the other over all.
    """
    scale = first.scale_in * first.scale_weight.view(1, -1, 1, 1, 1)
    depth, found = q.shape[2], []
    for at in range(0, depth, deep):
        end = min(at + deep, depth)
        low, high = max(0, at - 1), min(depth, end + 1)  # slices of the middle that are needed
        near = F.pad(q, (0, 0, 0, 0, 1, 1))[:, :, low : high + 2]
        middle = F.conv3d(near, first.weight, first.bias, padding=(0, 1, 1)) * scale
        middle = quantised(middle.relu_(), scale_between)
        middle = F.pad(middle, (0, 0, 0, 0, int(at == 0), int(end == depth)))
        found.append(F.conv3d(middle, second.weight, second.bias, padding=(0, 1, 1)))
    return torch.cat(found, 2)
