"""Detection in tiles: a large photo is cut into overlapping pieces of the size that the network
knows, each is asked, and what two pieces both saw is merged (Akyon and others 2022, whose
`sahi` is the peer).

A box at a tile's edge may be a part of an object that the next tile sees whole. By intersection
over *union* the two hardly agree; by intersection over the *smaller* one the part is inside the
whole, and goes.
"""

import torch

from . import network, training

OVERLAP = 0.4  # of neighbouring tiles: as much as the largest cell


def slices(
    size: tuple[int, int], tile: tuple[int, int], overlap: float = OVERLAP
) -> list[tuple]:
    """(x0, y0, x1, y1) of the tiles of a (width, height) photo, row by row; the last of a
    row or column is moved back so that all are of full size where the photo is.
    """
    if not 0 <= overlap < 1 or min(*size, *tile) < 1:
        raise ValueError(
            f"overlap {overlap}, size {size}, tile {tile}: "
            "0 to below 1 and sides of at least 1 are allowed"
        )
    starts = [_starts(*pair, overlap) for pair in zip(size, tile, strict=True)]
    ends = [min(one, whole) for one, whole in zip(tile, size, strict=True)]
    return [(x, y, x + ends[0], y + ends[1]) for y in starts[1] for x in starts[0]]


def _starts(whole: int, tile: int, overlap: float) -> list[int]:
    step, found = tile - int(overlap * tile), [0]
    while found[-1] + tile < whole:
        found.append(min(found[-1] + step, whole - tile))
    return found


def near(boxes: torch.Tensor) -> torch.Tensor:
    """(2, P) pairs of (N, 4) boxes that meet, the smaller index first: along the rows of a
    photo each box is compared with those that begin before it ends, not with all.
    """
    order = torch.argsort(boxes[:, 0], stable=True)
    left, right = boxes[order, 0].contiguous(), boxes[order, 2].contiguous()
    own = torch.arange(len(boxes))
    counts = (torch.searchsorted(left, right) - own - 1).clamp(min=0)
    one = own.repeat_interleave(counts)
    other = torch.arange(len(one)) - (counts.cumsum(0) - counts)[one] + one + 1
    one, other = order[one], order[other]
    meet = (boxes[one, 1] < boxes[other, 3]) & (boxes[other, 1] < boxes[one, 3])
    pairs = torch.stack([one[meet], other[meet]])
    return torch.stack([pairs.amin(0), pairs.amax(0)])


def merge(boxes, scores, labels, overlap: float = 0.5, by: str = "smaller") -> network.Found:
    """The boxes without those that overlap a better one of their class by at least
    `overlap` (above 0), best first; of equal scores the first in order x0, y0, x1, y1.
    """
    if not 0 < overlap <= 1:
        raise ValueError(f"overlap {overlap}: above 0 to 1 is allowed")
    order = torch.arange(len(scores))
    for column in (*boxes.T.flip(0), -scores):  # the last sorts first
        order = order[torch.argsort(column[order], stable=True)]
    boxes, scores, labels = boxes[order], scores[order], labels[order]
    pairs = near(boxes)
    same = labels[pairs[0]] == labels[pairs[1]]
    better, worse = pairs = pairs[:, same]
    pairs = pairs[:, network.shares(boxes[better], boxes[worse], by) >= overlap]
    kept = network.suppress(len(boxes), pairs[:, torch.argsort(pairs[0])])
    return network.Found(boxes[kept], scores[kept], labels[kept])


@torch.no_grad()
def tiled(
    net, sample, side: int, overlap: float = OVERLAP, floor: float = 0.05, batch: int = 8
) -> network.Found:
    """What the network finds in a `training.Sample` larger than `side`, tile by tile, boxes
    in pixels of its file.
    """
    high, wide = sample.pixels.shape[1:]
    tile = (min(side, wide), min(side * 3 // 4, high))
    places = slices((wide, high), tile, overlap)
    photo = sample.pixels.float() / 255
    found = []
    for start in range(0, len(places), batch):
        chosen = places[start : start + batch]
        pieces = torch.stack(
            [training.padded(photo[:, y0:y1, x0:x1]) for x0, y0, x1, y1 in chosen]
        )
        found += network.decode(*net(pieces), floor)
    moved = []
    for one, (x0, y0, x1, y1) in zip(found, places, strict=True):
        limit = torch.tensor([x1 - x0, y1 - y0] * 2)  # a tile says nothing of what is beside it
        inside = torch.minimum(one.boxes.clamp(min=0), limit)
        moved.append(inside + torch.tensor([x0, y0, x0, y0]))
    boxes = torch.cat(moved)
    scores, labels = (
        torch.cat([getattr(one, name) for one in found]) for name in ("scores", "labels")
    )
    merged = merge(boxes, scores, labels)
    return merged._replace(boxes=merged.boxes / sample.scale)
