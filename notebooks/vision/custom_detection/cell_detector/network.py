"""A small anchor-free detector: each place of a coarse map says whether an object's middle lies
there, of which class, and how far its four sides are. The loss follows CenterNet (Zhou and
others 2019: a Gaussian round each middle, a focal loss) and FCOS (Tian and others 2019: four
distances, learnt by their overlap). No anchors, so nothing is tuned to the shapes of one data
set.

Legend: B photos of a batch, C classes, H and W of a photo, h and w of the map (an eighth), N
objects.
"""

from collections import namedtuple

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

STRIDE = 8  # pixels of a photo that one place of the map stands for
MOST = 100  # objects that a photo may have

Found = namedtuple(
    "Found", "boxes scores labels"
)  # of one photo: (N, 4) pixels, (N,), (N,) numbers


def block(inner: int, outer: int, stride: int = 1) -> nn.Sequential:
    """A convolution, its norm, a bend."""
    convolution = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outer), nn.ReLU(inplace=True))


class Detector(nn.Module):
    """`Detector(classes=3)(photos_B3HW)`: scores as logits (B, C, h, w), distances in pixels
    (B, 4, h, w).

    H and W are multiples of 16; photos hold 0 to 1.
    """

    def __init__(self, classes: int = 3, width: int = 16):
        super().__init__()
        self.stem = nn.Sequential(block(3, width, 2), block(width, 2 * width, 2))
        self.eighth = nn.Sequential(block(2 * width, 4 * width, 2), block(4 * width, 4 * width))
        self.sixteenth = nn.Sequential(
            block(4 * width, 6 * width, 2), block(6 * width, 6 * width)
        )
        self.joined = block(10 * width, 4 * width)
        self.heat, self.sides = nn.Conv2d(4 * width, classes, 1), nn.Conv2d(4 * width, 4, 1)
        nn.init.constant_(self.heat.bias, -4.0)  # at first nearly nothing is an object

    def features(self, photos):
        """The joined map (B, 4 × width, h, w), which a mask head may read, too."""
        near = self.eighth(self.stem((photos - 0.5) / 0.25))
        far = F.interpolate(self.sixteenth(near), scale_factor=2.0, mode="nearest")
        return self.joined(torch.cat([near, far], 1))

    def forward(self, photos):
        joined = self.features(photos)
        return self.heat(joined), STRIDE * self.sides(joined).clamp(-4, 4).exp()


def targets(boxes: list, labels: list, classes: int, shape: tuple[int, int]):
    """What the map should say: heat (B, C, h, w), sides (B, 4, h, w), and where they count (B,
    h, w).

    A box without area has no middle to learn and is left out. Where objects share a place, its
    sides are those of the smallest.
    """
    heat, sides = torch.zeros(len(boxes), classes, *shape), torch.zeros(len(boxes), 4, *shape)
    weight, (x, y) = torch.zeros(len(boxes), *shape), middles(shape)
    for at, (own, named) in enumerate(zip(boxes, labels, strict=True)):
        area = (own[:, 2:] - own[:, :2]).clamp(min=0).prod(1)
        order = area.argsort()[int((area <= 0).sum()) :]  # smallest first
        if not len(order):
            continue
        x0, y0, x1, y1 = own[order].T[:, :, None, None]
        middle = ((x0 + x1) / 2, (y0 + y1) / 2)
        width = [((far - near) / 8).clamp(min=STRIDE / 2) for near, far in ((x0, x1), (y0, y1))]
        gauss = (
            -(((x - middle[0]) / width[0]) ** 2 + ((y - middle[1]) / width[1]) ** 2) / 2
        ).exp()
        column, row = ((one.flatten() / STRIDE).long() for one in middle)
        seen = (column >= 0) & (column < shape[1]) & (row >= 0) & (row < shape[0])
        gauss[seen.nonzero()[:, 0], row[seen], column[seen]] = 1.0
        heat[at].scatter_reduce_(0, named[order][:, None, None].expand_as(gauss), gauss, "amax")
        inside, first = (gauss > 0.5).max(0)
        nearest = torch.stack([x - x0, y - y0, x1 - x, y1 - y], 1).clamp(min=0.5)
        picked = nearest.gather(0, first.expand(1, 4, *shape))[0]
        sides[at] = picked * inside
        weight[at] = gauss.gather(0, first[None])[0] * inside
    return heat, sides, weight


def middles(shape: tuple[int, int]) -> tuple[torch.Tensor, torch.Tensor]:
    """x and y of each place's middle in pixels, (h, w) each."""
    down, across = (STRIDE * (torch.arange(n) + 0.5) for n in shape)
    return across.expand(shape), down[:, None].expand(shape)


def loss_of(heat, sides, wanted) -> torch.Tensor:
    """The focal loss of the middles plus one minus the overlap of the boxes."""
    wanted_heat, wanted_sides, weight = wanted
    p = heat.sigmoid().clamp(1e-4, 1 - 1e-4)
    hit = wanted_heat == 1
    seen = torch.where(
        hit,
        (1 - p) ** 2 * p.log(),
        (1 - wanted_heat) ** 4 * p**2 * (1 - p).log(),
    )
    left, top, right, bottom = torch.minimum(sides, wanted_sides).unbind(1)
    both = (left + right) * (top + bottom)
    area = [(one[:, 0] + one[:, 2]) * (one[:, 1] + one[:, 3]) for one in (sides, wanted_sides)]
    overlap = both / (area[0] + area[1] - both)
    boxes = (weight * (1 - overlap)).sum() / weight.sum().clamp(min=1)
    return -seen.sum() / hit.sum().clamp(min=1) + 2 * boxes


def decode(heat, sides, floor: float = 0.05, overlap: float = 0.5) -> list[Found]:
    """The objects of each photo: peaks of the heat above `floor`, without those that overlap
    a better one of their class by more than `overlap`.
    """
    scores = heat.sigmoid()
    peaks = scores * (F.max_pool2d(scores, 3, 1, 1) == scores)
    x, y = (one.to(heat.device) for one in middles(heat.shape[2:]))
    found = []
    for peak, side in zip(peaks, sides, strict=True):
        label, row, column = (peak > floor).nonzero(as_tuple=True)
        score, order = peak[label, row, column].sort(descending=True, stable=True)
        label, row, column = (one[order[:MOST]] for one in (label, row, column))
        left, top, right, bottom = side[:, row, column]
        px, py = x[row, column], y[row, column]
        boxes = torch.stack([px - left, py - top, px + right, py + bottom], 1)
        clash = (iou(boxes, boxes) > overlap) & (label[:, None] == label)
        kept = suppress(len(boxes), clash.triu(1).nonzero().T).to(label.device)
        found.append(Found(boxes[kept], score[:MOST][kept], label[kept]))
    return found


def iou(a: torch.Tensor, b: torch.Tensor, by: str = "union") -> torch.Tensor:
    """Intersection over the union, or over the smaller, of all pairs of (N, 4) and (M, 4)
    boxes; 0 where both have no area.
    """
    return shares(a[:, None], b[None], by)


def shares(a: torch.Tensor, b: torch.Tensor, by: str = "union") -> torch.Tensor:
    """The same of boxes side by side: (..., 4) each, broadcast, to (...)."""
    corner = torch.maximum(a[..., :2], b[..., :2])
    both = (torch.minimum(a[..., 2:], b[..., 2:]) - corner).clamp(min=0).prod(-1)
    one, other = ((side[..., 2:] - side[..., :2]).clamp(min=0).prod(-1) for side in (a, b))
    if by not in ("union", "smaller"):
        raise ValueError(f'by={by!r}: "union" and "smaller" are allowed')
    over = one + other - both if by == "union" else torch.minimum(one, other)
    return both / over.clamp(min=1e-9)


def suppress(count: int, clashes: torch.Tensor) -> torch.Tensor:
    """Which of `count` boxes stay, best first: none that clashes with a better one that stays.

    clashes: (2, P) pairs of a better and a worse one, in order of the better.
    """
    better, worse = clashes.cpu().numpy()
    gone = np.zeros(count, dtype=bool)
    some, starts = np.unique(better, return_index=True)
    for at, its in zip(some, np.split(worse, starts[1:]), strict=False):  # none: one empty part
        if not gone[at]:
            gone[its] = True
    return torch.from_numpy(~gone)
