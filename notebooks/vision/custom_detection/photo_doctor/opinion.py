"""A second opinion on labels: the sizes and places of boxes beside a reference's, and beside
what a network finds that learned from photos that are trusted.

A label says where an object is and what it is called; so does a detection. Where all labels
differ from the detections in the same way, it is the labels' frame that is wrong, not each of
them.
"""

from collections import Counter, defaultdict

import numpy as np
import torch
from cell_detector import network

SURE = 0.4  # the score from which on a detection has a say
NEAR = 0.75  # of an object's size: how far a shifted label is looked for
OFF = 0.11  # of an object's size, from which on a shift is told: 0.04 clean, 0.32 shifted
AGREE = 0.3  # of the labels that have to agree on one shift
MOST = 0.6  # of a class's labels that have to have another name


def reach(photos, turned: bool) -> float | None:
    """How far the boxes of a set reach across their photos: the 90th percentile of the
    photos' furthest ends over width and height.
    """
    ends = []
    for one in photos:
        far = one.boxes[np.isfinite(one.boxes).all(1), 2:]
        if one.size and len(far):
            (wide, high), (x, y) = one.size, far.max(0)
            if turned and (wide < high) != (x < y):
                wide, high = high, wide  # boxes in the frame of a viewer
            ends.append(max(x / wide, y / high))
    return float(np.percentile(ends, 90)) if ends else None


def sizes(photos, reference) -> list[float]:
    """For each class of both sets: the median size of its objects over the reference's, as
    shares of the longer side.
    """
    found = []
    for side in (photos, reference):
        by = defaultdict(list)
        for one in side:
            if one.size:
                root = np.sqrt(
                    np.clip(one.boxes[:, 2:] - one.boxes[:, :2], 0, None).prod(1)
                ) / max(one.size)
                for label, value in zip(one.labels, root.tolist(), strict=True):
                    by[label].append(value)
        found.append(
            {name: np.median(values) for name, values in by.items() if len(values) >= 5}
        )
    common = found[0].keys() & found[1].keys()
    return [found[0][one] / found[1][one] for one in sorted(common) if found[0][one] > 0]


def compare(photos, told, finding) -> list:
    """Findings of `shifted` and `relabelled`, by detections of at least `SURE`."""
    if len(photos) != len(told):
        raise ValueError(
            f"{len(photos)} photos and an opinion on {len(told)}: one each is needed"
        )
    made = []
    if (move := shift(photos, told)) is not None:
        pixels, share, agree = move
        made.append(finding("shifted", share, tuple(pixels), agree=agree))
        photos = [one.moved(by=-pixels) for one in photos]
    if names := renamed(photos, told):
        words = ", ".join(f"{a} is mostly seen as {b}" for a, b in names.items() if a != b)
        made.append(finding("relabelled", 1.0, names, names=words))
    return made


def _pairs(one, answer):
    """Labels and sure detections of a photo: boxes, middles and sizes of each."""
    sure = answer.scores >= SURE
    sides = []
    for boxes in (one.boxes, answer.boxes[sure]):
        sides.append(
            (
                boxes,
                (boxes[:, :2] + boxes[:, 2:]) / 2,
                np.clip(boxes[:, 2:] - boxes[:, :2], 1, None),
            )
        )
    return *sides, [name for name, kept in zip(answer.labels, sure, strict=True) if kept]


def shift(photos, told):
    """(pixels, share of an object's size, share of labels that agree) of the one shift that
    most labels share, or None.

    Every label is paired with every detection of about its size nearby, whatever their names; a
    true shift is where pairs heap up, while pairs with neighbours lie scattered.
    """
    moves, widths, labels = [], [], 0
    for one, answer in zip(photos, told, strict=True):
        (_, middle, size), (_, seen, extent), _ = _pairs(one, answer)
        labels += len(middle)
        if not len(middle) or not len(seen):
            continue
        move = middle[:, None] - seen[None]
        ratio = np.log(size.prod(1)[:, None] / extent.prod(1)[None])
        near = (np.abs(move) / extent[None] < NEAR).all(2) & (np.abs(ratio) < 0.6)
        moves.append(move[near])
        widths.append(np.broadcast_to(extent[None], move.shape)[near])
    if not moves or sum(map(len, moves)) < 10:
        return None
    moves, widths = np.concatenate(moves), np.concatenate(widths)
    share = moves / widths
    cells = np.round(share / 0.1).astype(int)
    votes = Counter(map(tuple, cells.tolist()))
    best = max(
        votes,
        key=lambda at: sum(
            votes.get((at[0] + a, at[1] + b), 0) for a in (-1, 0, 1) for b in (-1, 0, 1)
        ),
    )
    heap = (np.abs(share - 0.1 * np.array(best)) <= 0.15).all(1)
    pixels, off = np.median(moves[heap], 0), np.median(share[heap], 0)
    agree = heap.sum() / max(labels, 1)
    return (
        (pixels, float(np.hypot(*off)), float(agree))
        if np.hypot(*off) > OFF and agree > AGREE
        else None
    )


def renamed(photos, told) -> dict[str, str]:
    """{label: what its objects are mostly seen as} where a class has mostly another name,
    else {}.
    """
    seen = defaultdict(Counter)
    for one, answer in zip(photos, told, strict=True):
        (boxes, *_), (other, *_), names = _pairs(one, answer)
        if not len(boxes) or not len(other):
            continue
        share = network.iou(*map(torch.from_numpy, (boxes, other))).numpy()
        for label, at, best in zip(one.labels, share.argmax(1), share.max(1), strict=True):
            if best > 0.4:
                seen[label][names[at]] += 1
    mostly = {}
    for label, counts in seen.items():
        name, count = counts.most_common(1)[0]
        mostly[label] = name if count >= 5 and count > MOST * counts.total() else label
    return mostly if any(a != b for a, b in mostly.items()) else {}
