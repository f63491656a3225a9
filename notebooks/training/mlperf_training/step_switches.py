"""Six optimisations as switches of one training job: a detector of boxes in pictures.

Article: "The Full Stack Optimization Powering NVIDIA MLPerf Training v2.0 Performance"
(NVIDIA, 2022). No entry had all six; here one job has a place for each. Pictures of many sizes
are brought to one, go through convolutions with frozen batch norms and ReLUs, and a head of
two products with GELU says for each cell of a grid whether a box is there, and where.

- `fused_gelu`: product and GELU in tiles of rows that stay in the cache, forward and backward;
  what a kernel does with its own tiles. The product's output is kept for the gradient.
- `folded_norm`: scale and shift of a frozen norm, computed once, go into the convolution's
  weights and bias. The article computes them once and leaves the pass over the activations to
  a fused kernel; here the pass is gone. Weights still learn, by the chain rule.
- `bool_mask`: ReLU keeps its mask as booleans, not as 16-bit numbers.
- `targets_outside`: which cell answers for which box is settled beside the model, a batch
  ahead.
- `pooled`: pictures are brought to size in buffers of a pool, not in new ones.
- `asynchronous`: a copy of the weights is evaluated beside the training; or `held_back`: not
  before the rate has fallen for the last time.

Legend: B pictures, C channels, H, W grid, N cells, G boxes, D width of the head.
"""

from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

TILE = 1024  # rows of a fused product: 1 MB of its output at a width of 256
SIDE = 64  # pixels of a prepared picture; a grid has half as many cells a side


@dataclass(frozen=True)
class Switches:
    """Which optimisations are on; all off is the baseline."""

    fused_gelu: bool = False
    folded_norm: bool = False
    bool_mask: bool = False
    targets_outside: bool = False
    pooled: bool = False
    asynchronous: bool = False
    held_back: bool = False


@dataclass(frozen=True)
class Plan:
    """A job: steps, pictures a batch, an evaluation after so many steps, and the steps after
    which the rate falls to a tenth; the last is that of `held_back`."""

    steps: int = 4
    batch: int = 3
    every: int = 2
    falls: tuple = (1, 3)
    rate: float = 0.02


class _FusedGelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x_ND, weight, bias):
        z_ND = x_ND.new_empty(len(x_ND), len(weight))
        y_ND = torch.empty_like(z_ND)
        for x, z, y in zip(*(one.split(TILE) for one in (x_ND, z_ND, y_ND)), strict=True):
            torch.addmm(bias, x, weight.t(), out=z)
            torch.ops.aten.gelu.out(z, out=y)  # z is still in the cache
        ctx.save_for_backward(x_ND, weight, z_ND)
        return y_ND

    @staticmethod
    def backward(ctx, grad_ND):
        x_ND, weight, z_ND = ctx.saved_tensors
        into = torch.empty_like(x_ND)
        of_weight, of_bias = torch.zeros_like(weight), weight.new_zeros(len(weight))
        parts = (one.split(TILE) for one in (grad_ND, x_ND, z_ND, into))
        for grad, x, z, part in zip(*parts, strict=True):
            inner = torch.ops.aten.gelu_backward(grad, z)  # never a whole array
            torch.mm(inner, weight, out=part)
            of_weight.addmm_(inner.t(), x)
            of_bias += inner.sum(0)
        return into, of_weight, of_bias


def product_gelu(x_ND, weight, bias, fused):
    """GELU of a product: in tiles, or as two kernels."""
    if fused:
        return _FusedGelu.apply(x_ND, weight, bias)
    return F.gelu(F.linear(x_ND, weight, bias))


class _MaskedRelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, kept_as):
        ctx.save_for_backward((x > 0).to(kept_as))
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0], None


def masked_relu(x, as_bool):
    """ReLU whose gradient is a product with a mask of booleans, or of 16-bit numbers."""
    return _MaskedRelu.apply(x, torch.bool if as_bool else torch.float16)


def _terms(gamma, beta, mean, variance):
    """Scale and shift of a batch norm, each (C,)."""
    scale = gamma * variance.rsqrt()
    return scale, beta - mean * scale


class FrozenNorm(nn.Module):
    """A convolution without bias and a batch norm whose four arrays never change."""

    def __init__(self, into, out, kernel, stride=1):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out, into, kernel, kernel))
        nn.init.kaiming_normal_(self.weight)
        self.how = {"stride": stride, "padding": kernel // 2}
        arrays = torch.rand(4, out) + 0.5
        for name, one in zip(("gamma", "beta", "mean", "variance"), arrays, strict=True):
            self.register_buffer(name, one)
        self.register_buffer("once", torch.stack(_terms(*arrays.double())))

    def forward(self, x_BCHW, folded):
        if folded:
            scale, shift = self.once.to(x_BCHW.dtype)
            return F.conv2d(x_BCHW, self.weight * scale[:, None, None, None], shift, **self.how)
        scale, shift = _terms(self.gamma, self.beta, self.mean, self.variance)
        y_BCHW = F.conv2d(x_BCHW, self.weight, **self.how)
        return y_BCHW * scale[:, None, None] + shift[:, None, None]


class Detector(nn.Module):
    """(B, N, 5) for pictures (B, 1, SIDE, SIDE): a score and the edges of a box, by cell."""

    def __init__(self, channels=32, width=256, blocks=2):
        super().__init__()
        self.stem, inner = FrozenNorm(1, channels, 3, 2), channels // 2
        self.blocks = nn.ModuleList(
            nn.ModuleList(
                (
                    FrozenNorm(channels, inner, 1),
                    FrozenNorm(inner, inner, 3),
                    FrozenNorm(inner, channels, 1),
                )
            )
            for _ in range(blocks)
        )
        self.up, self.down = nn.Linear(channels, width), nn.Linear(width, 5)

    def forward(self, x_BCHW, on):
        x_BCHW = masked_relu(self.stem(x_BCHW, on.folded_norm), on.bool_mask)
        for block in self.blocks:
            y_BCHW = x_BCHW
            for at, layer in enumerate(block):
                y_BCHW = layer(y_BCHW, on.folded_norm)
                y_BCHW = masked_relu(y_BCHW + x_BCHW if at == 2 else y_BCHW, on.bool_mask)
            x_BCHW = y_BCHW
        cells = x_BCHW.flatten(2).transpose(1, 2).flatten(0, 1)
        hidden = product_gelu(cells, self.up.weight, self.up.bias, on.fused_gelu)
        return self.down(hidden).view(len(x_BCHW), -1, 5)


def resize_matrix(size):
    """Averages of `size` pixels at SIDE places, float32 (SIDE, size): its rows sum to one."""
    places = torch.arange(size) * SIDE // size
    made = torch.zeros(SIDE, size)
    made[places, torch.arange(size)] = 1.0
    return made / made.sum(1, keepdim=True)


def prepare(picture, matrices, pool=None):
    """A picture, uint8 of at least SIDE pixels a side, as float32 (SIDE, SIDE), less its mean;
    in the buffers of `pool`, a flat float32 array that holds it twice, or in new ones."""
    H, W = picture.shape
    rows, columns = matrices[H], matrices[W]
    if pool is None:
        grey = picture.float().div(255)
        return rows @ (grey - grey.mean()) @ columns.t()
    grey = pool[: H * W].view(H, W).copy_(picture).div_(255)
    centred = torch.sub(grey, grey.mean(), out=pool[H * W : 2 * H * W].view(H, W))
    return rows @ centred @ columns.t()


def match(boxes_G4, side=SIDE // 2):
    """(labels (N,), edges (N, 4)) of a grid's cells: 1 where the cell's window of 0.3 overlaps
    a box by a third of both together or more, and that box. Boxes: left, top, right, bottom,
    of 1."""
    centre = (torch.arange(side, dtype=boxes_G4.dtype) + 0.5) / side
    x, y = torch.meshgrid(centre, centre, indexing="xy")
    window_N4 = torch.stack((x - 0.15, y - 0.15, x + 0.15, y + 0.15), -1).view(-1, 4)
    low = torch.maximum(window_N4[:, None, :2], boxes_G4[None, :, :2])
    high = torch.minimum(window_N4[:, None, 2:], boxes_G4[None, :, 2:])
    both_NG = (high - low).clamp(min=0).prod(-1)
    area = lambda one: (one[:, 2:] - one[:, :2]).prod(-1)  # noqa: E731
    either_NG = area(window_N4)[:, None] + area(boxes_G4) - both_NG
    best, which = (both_NG / either_NG).max(1)
    return (best >= 1 / 3).to(boxes_G4.dtype), boxes_G4[which]


def targets(boxes):
    """`match` of each picture, stacked: labels (B, N), edges (B, N, 4)."""
    return tuple(torch.stack(one) for one in zip(*map(match, boxes), strict=True))


def loss(found_BN5, labels_BN, edges_BN4):
    """Cross-entropy of the scores plus the mean distance of edges where a box is."""
    score = F.binary_cross_entropy_with_logits(found_BN5[..., 0], labels_BN)
    apart = (found_BN5[..., 1:] - edges_BN4).abs().mean(-1)
    return score + (apart * labels_BN).sum() / labels_BN.sum().clamp(min=1)


def draw(count, sides, boxes, generator):
    """(pictures, boxes of each) of noise with brighter boxes; uint8 of sides from `sides`."""
    pictures, found = [], []
    for _ in range(count):
        H, W = (int(torch.randint(*sides, (), generator=generator)) for _ in "HW")
        picture = torch.randint(128, (H, W), dtype=torch.uint8, generator=generator)
        low = 0.7 * torch.rand(boxes, 2, generator=generator)
        both = torch.cat((low, low + 0.2 + 0.1 * torch.rand(boxes, 2, generator=generator)), 1)
        for left, top, right, bottom in (both * torch.tensor([W, H, W, H])).int().tolist():
            picture[top:bottom, left:right] |= 128
        pictures.append(picture)
        found.append(both)
    return pictures, found


def ready(data, kind=torch.float32):
    """Pictures and boxes as `run` evaluates on them: (pictures (B, 1, SIDE, SIDE), labels,
    edges)."""
    matrices = {size: resize_matrix(size) for one in data[0] for size in one.shape}
    x_BCHW = torch.stack([prepare(one, matrices) for one in data[0]])[:, None]
    return tuple(one.to(kind) for one in (x_BCHW, *targets(data[1])))


def run(model, data, held, on, plan, target=None):
    """(losses by step, [(step, loss on `held`)]) of a job; the model is trained in place.
    `data` as `draw` gives them, `held` as `ready` does.

    It ends early where a loss on `held` is at most `target`; asynchronous, that is known an
    evaluation later. What runs beside the model has one thread of its own.
    """
    (pictures, boxes), kind = data, model.up.weight.dtype
    matrices = {size: resize_matrix(size) for one in pictures for size in one.shape}
    pool = torch.empty(2 * max(one.numel() for one in pictures)) if on.pooled else None
    optimiser = torch.optim.SGD(model.parameters(), plan.rate)
    order = torch.arange(plan.steps * plan.batch).view(plan.steps, -1) % len(boxes)
    made = lambda step: targets([boxes[n] for n in order[step]])  # noqa: E731

    @torch.no_grad()
    def evaluate(one):
        return loss(one(held[0], on), *held[1:]).item()

    losses, evaluated = [], []
    with ThreadPoolExecutor(1, initializer=torch.set_num_threads, initargs=(1,)) as beside:
        ahead = beside.submit(made, 0) if on.targets_outside else None
        for step in range(plan.steps):
            x = torch.stack([prepare(pictures[n], matrices, pool) for n in order[step]])[
                :, None
            ]
            given = ahead.result() if ahead else made(step)
            if ahead and step + 1 < plan.steps:
                ahead = beside.submit(made, step + 1)
            value = loss(model(x.to(kind), on), *(one.to(kind) for one in given))
            optimiser.zero_grad(set_to_none=True)
            value.backward()
            optimiser.step()
            losses.append(value.item())
            if step + 1 in plan.falls:
                optimiser.param_groups[0]["lr"] *= 0.1
            if (step + 1) % plan.every or on.held_back and step + 1 <= max(plan.falls):
                continue
            known = _known(evaluated)
            if on.asynchronous:
                evaluated.append((step + 1, beside.submit(evaluate, deepcopy(model))))
            else:
                evaluated.append((step + 1, evaluate(model)))
                known = evaluated
            if target is not None and any(lost <= target for _, lost in known):
                break
        return losses, _known(evaluated)


def _known(evaluated):
    return [(step, one if isinstance(one, float) else one.result()) for step, one in evaluated]
