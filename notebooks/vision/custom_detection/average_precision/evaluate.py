"""COCO's average precision (Lin and others 2014), computed for all thresholds and sizes at
once.

A detection is right where it overlaps an object of its class, not yet taken by a better one, by
at least a threshold: ten of them, 0.50 to 0.95. Precision is read at 101 recalls and averaged.
The rules are those of `pycocotools`, ties included, so that the numbers are equal; only the
order of the work is another. There, ten thresholds × four ranges of size × all pairs are
visited one by one. Here, pairs below 0.5 are never looked at, and the k-th best detection of
every photo and class is matched at the same time.

Legend: A ranges of size, T thresholds, D detections, G objects, K objects that a detection may
overlap.
"""

from collections import defaultdict

import numpy as np

from .outlines import mask_of

THRESHOLDS = np.linspace(0.5, 0.95, 10)
RECALLS = np.linspace(0, 1, 101)
SIZES = {
    "all": (0, 1e10),
    "small": (0, 32**2),
    "medium": (32**2, 96**2),
    "large": (96**2, 1e10),
}
MOST = (1, 10, 100)  # detections a photo and class


class Scores(dict):
    """AP, AP50, AP75, APs, APm, APl, AR1, AR10, AR100, ARs, ARm, ARl, each 0 to 1, and -1
    where no object is of that size; `by_class`: AP of each class. `float(scores)` is AP.
    """

    def __init__(self, values, by_class):
        super().__init__(values)
        self.by_class = by_class

    def __float__(self):
        return float(self["AP"])

    def __repr__(self):
        return (
            "Scores(" + ", ".join(f"{name} {value:.3f}" for name, value in self.items()) + ")"
        )


def evaluate(truth, detections, masks: bool = False) -> Scores:
    """The `Scores` of detections, one for each photo of `truth`, in the same order.

    A photo of `truth` has `boxes` (N, 4), `labels` and may have `crowd` and `areas`
    (COCO's `area`, by which objects are small or large; else it is taken from boxes or masks);
    one of `detections` has `boxes`, `scores` and `labels`; as attributes or as keys. Labels are
    texts or numbers. `masks=True` goes by masks: `masks` (N, H, W), or for the truth `shapes`
    and `size`.
    ValueError where lengths differ or numbers are not finite.
    """
    if len(truth) != len(detections):
        raise ValueError(
            f"{len(truth)} photos and {len(detections)} lists of detections: one each is needed"
        )
    pairs = [
        _pair(at, *both, masks) for at, both in enumerate(zip(truth, detections, strict=True))
    ]
    classes = sorted(
        {one for own, found in pairs for one in (*own["labels"], *found["labels"])}, key=str
    )
    curves = {name: _curves(*_grouped(pairs, name, masks)) for name in classes}
    known = {name: one for name, one in curves.items() if one is not None}
    precision = np.array([one[0] for one in known.values()]).reshape(len(known), 3, 4, 10, 101)
    recall = np.array([one[1] for one in known.values()]).reshape(len(known), 3, 4, 10)

    def mean(values):
        values = values[values > -1]
        return float(values.mean()) if values.size else -1.0

    found = {"AP": mean(precision[:, 2, 0])}
    found |= {f"AP{name}": mean(precision[:, 2, 0, at]) for name, at in (("50", 0), ("75", 5))}
    found |= {f"AP{name[0]}": mean(precision[:, 2, at]) for at, name in enumerate(SIZES) if at}
    found |= {f"AR{most}": mean(recall[:, at, 0]) for at, most in enumerate(MOST)}
    found |= {f"AR{name[0]}": mean(recall[:, 2, at]) for at, name in enumerate(SIZES) if at}
    return Scores(found, {name: mean(one[0][2, 0]) for name, one in known.items()})


def _pair(at, own, found, masks):
    """A photo's truth and detections as arrays; refused where they contradict themselves."""
    own = {
        name: _get(own, name)
        for name in ("boxes", "labels", "crowd", "areas", "masks", "shapes", "size")
    }
    found = {name: _get(found, name) for name in ("boxes", "labels", "scores", "masks")}
    for side in (own, found):
        side["boxes"] = np.asarray(side["boxes"], dtype=np.float64).reshape(-1, 4)
        labels = side["labels"]
        side["labels"] = labels.tolist() if hasattr(labels, "tolist") else list(labels)
    crowd = own["crowd"]
    own["crowd"] = (
        np.zeros(len(own["boxes"]), bool) if crowd is None else np.asarray(crowd, dtype=bool)
    )
    none = np.full(len(own["boxes"]), np.nan)
    own["areas"] = none if own["areas"] is None else np.asarray(own["areas"], dtype=np.float64)
    found["scores"] = np.asarray(found["scores"], dtype=np.float64).reshape(-1)
    for side, *more in ((own, "crowd", "areas"), (found, "scores")):
        counts = [len(side[one]) for one in ("boxes", "labels", *more)]
        if len(set(counts)) > 1:
            raise ValueError(
                f"photo {at}: {counts} boxes, labels, {', '.join(more)}: one each is needed"
            )
    if not all(
        np.isfinite(one).all() for one in (own["boxes"], found["boxes"], found["scores"])
    ):
        raise ValueError(f"photo {at}: a box or score is not finite; a training that diverged?")
    if masks:
        if own["masks"] is None:
            shapes = own["shapes"] or []
            if any(one is None for one in shapes):
                raise ValueError(f"photo {at}: an object without an outline cannot go by masks")
            own["masks"] = [mask_of(one, own["size"]) for one in shapes]
        for side in (own, found):
            side["masks"] = np.asarray(side["masks"], dtype=bool)
            if len(side["masks"]) != len(side["boxes"]):
                raise ValueError(
                    f"photo {at}: {len(side['masks'])} masks, {len(side['boxes'])} boxes"
                )
    return own, found


def _get(one, name):
    return one.get(name) if isinstance(one, dict) else getattr(one, name, None)


def _grouped(pairs, name, masks):
    """All detections and objects of one class: candidates, scores, ranks, areas, crowds, as
    flat arrays.
    """
    parts, offset = defaultdict(list), 0
    for own, found in pairs:
        mine = np.array([one == name for one in own["labels"]], dtype=bool)
        its = np.flatnonzero([one == name for one in found["labels"]])
        order = np.argsort(-found["scores"][its], kind="stable")[: MOST[-1]]
        its = its[order]
        objects, crowd = own["boxes"][mine], own["crowd"][mine]
        if masks:
            overlap, area, objects_area = _masks(found["masks"][its], own["masks"][mine], crowd)
        else:
            overlap, area, objects_area = _boxes(found["boxes"][its], objects, crowd)
        told = own["areas"][mine]
        objects_area = np.where(np.isnan(told), objects_area, told)
        detection, thing = np.nonzero(overlap >= THRESHOLDS[0] - 1e-10)
        start = sum(map(len, parts["score"]))
        parts["pair"].append(np.stack([detection + start, thing + offset], 1))
        parts["overlap"].append(overlap[detection, thing])
        parts["score"].append(found["scores"][its])
        parts["rank"].append(np.arange(len(its)))
        parts["area"].append(area)
        parts["objects_area"].append(objects_area)
        parts["crowd"].append(crowd)
        offset += len(objects)
    return tuple(np.concatenate(parts[one]) for one in KEYS)


KEYS = ("pair", "overlap", "score", "rank", "area", "objects_area", "crowd")


def _boxes(found, objects, crowd):
    """(overlap (D, G), areas of both); a crowd's is the share of the detection inside it."""
    corner = np.maximum(found[:, None, :2], objects[None, :, :2])
    both = np.clip(np.minimum(found[:, None, 2:], objects[None, :, 2:]) - corner, 0, None).prod(
        2
    )
    areas = [(one[:, 2] - one[:, 0]) * (one[:, 3] - one[:, 1]) for one in (found, objects)]
    return _share(both, *areas, crowd), *areas


def _masks(found, objects, crowd):
    flat = [
        one.reshape(len(one), int(np.prod(one.shape[1:]))).astype(np.float32)
        for one in (found, objects)
    ]
    areas = [one.sum(1, dtype=np.float64) for one in flat]
    both = (
        flat[0] @ flat[1].T
        if len(flat[0]) and len(flat[1])
        else np.zeros((len(found), len(objects)))
    )
    return _share(both.astype(np.float64), *areas, crowd), *areas


def _share(both, area, objects_area, crowd):
    union = np.where(crowd[None], area[:, None], area[:, None] + objects_area[None] - both)
    return np.divide(both, union, out=np.zeros_like(both), where=union > 0)


def _matched(pair, overlap, rank, detections, ignored):
    """(taken (A, T, D): 0 free, 1 an object, 2 an ignored one). Detections of one rank never
    share a photo.
    """
    taken = np.zeros((len(SIZES), len(THRESHOLDS), detections), dtype=np.int8)
    gone = np.zeros((len(SIZES), len(THRESHOLDS), ignored.shape[1]), dtype=bool)
    crowd = ignored[-1]
    limit = np.minimum(THRESHOLDS, 1 - 1e-10)[None, :, None]
    depth = np.zeros(detections, dtype=np.int64)  # how many candidates each has
    np.add.at(depth, pair[:, 0], 1)
    first = np.cumsum(depth) - depth
    slot = np.arange(len(pair)) - first[pair[:, 0]]  # pairs are in the order of detections
    table, value = (
        np.full((detections, depth.max(initial=0)), -1),
        np.zeros((detections, depth.max(initial=0))),
    )
    table[pair[:, 0], slot], value[pair[:, 0], slot] = pair[:, 1], overlap
    for at in range(rank.max(initial=-1) + 1):
        own = np.flatnonzero((rank == at) & (depth > 0))
        if not len(own):
            continue
        best, chosen = np.full((4, 10, len(own)), -1.0), np.full((4, 10, len(own)), -1)
        for column in range(
            depth[own].max()
        ):  # an object before an ignored one; of equals the last
            thing, share = table[own, column], value[own, column]
            free = (~gone[:, :, thing] | crowd[thing]) & (thing >= 0) & (share >= limit)
            worth = share + 2 * ~ignored[:4, None, thing]
            better = free & (worth >= best)
            best, chosen = np.where(better, worth, best), np.where(better, thing, chosen)
        size, threshold, place = np.nonzero(chosen >= 0)
        thing = chosen[size, threshold, place]
        gone[size, threshold, thing] = True
        taken[size, threshold, own[place]] = 1 + ignored[size, thing]
    return taken


def _curves(pair, overlap, score, rank, area, objects_area, crowd):
    """(precision (3, A, T, 101), recall (3, A, T)) of one class; None where it has no
    object.
    """
    low, high = np.array([*SIZES.values()]).T[:, :, None]
    outside = (objects_area[None] < low) | (objects_area[None] > high)
    ignored = np.concatenate([outside | crowd, crowd[None]])
    if not len(crowd):
        return None
    taken = _matched(pair, overlap, rank, len(score), ignored)
    left_out = (taken == 2) | ((taken == 0) & ((area < low) | (area > high))[:, None])
    precision, recall = np.full((3, 4, 10, 101), -1.0), np.full((3, 4, 10), -1.0)
    objects = (~ignored[:4]).sum(1)
    for at, most in enumerate(MOST):
        kept = np.flatnonzero(rank < most)
        kept = kept[np.argsort(-score[kept], kind="stable")]
        right = np.cumsum(
            (taken == 1)[:, :, kept] & ~left_out[:, :, kept], axis=2, dtype=np.float64
        )
        wrong = np.cumsum(
            (taken == 0)[:, :, kept] & ~left_out[:, :, kept], axis=2, dtype=np.float64
        )
        for size in np.flatnonzero(objects):
            reached = right[size] / objects[size]
            recall[at, size] = reached[:, -1] if len(kept) else 0
            share = right[size] / (right[size] + wrong[size] + np.spacing(1))
            share = np.maximum.accumulate(share[:, ::-1], axis=1)[:, ::-1]
            for threshold in range(10):
                where = np.searchsorted(reached[threshold], RECALLS, side="left")
                full = np.append(share[threshold], 0.0)
                precision[at, size, threshold] = full[where]
    return precision, recall
