"""The race: average precision of the same detections, checked to be equal, then timed, ours and
`pycocotools`'.

    python -m average_precision.bench_average_precision
    python -m average_precision.bench_average_precision --rounds 3 --photos 50

Equal are boxes, boxes with crowds, ties and stated areas, and masks; timed are plain boxes. The
peer starts from the lists of dicts that it takes, its index made; ours from arrays. Neither
reads a file. The peer's `evaluate` and `accumulate` are timed, without its printed summary.
"""

import argparse
import contextlib
import io
from types import SimpleNamespace

import numpy as np
import torch
from helpers import bench, check, device, receipts

from .evaluate import evaluate


def scene(photos: int, seed: int = 0):
    """(truth, detections): three classes, up to 30 objects a photo in all of COCO's sizes,
    each seen up to three times, and detections of nothing.
    """
    draw, truth, found = np.random.default_rng(seed), [], []
    for _ in range(photos):
        count = int(draw.integers(1, 30))
        corner, side = draw.uniform(0, 500, (count, 2)), draw.choice([14, 50, 140], (count, 1))
        boxes = np.concatenate([corner, corner + side * draw.uniform(0.7, 1.3, (count, 2))], 1)
        labels = draw.integers(0, 3, count)
        seen = np.repeat(np.arange(count), draw.integers(0, 4, count))
        near = boxes[seen] + draw.normal(0, 0.06, (len(seen), 4)) * side[seen]
        corner = draw.uniform(0, 500, (count, 2))
        near = np.concatenate([near, np.concatenate([corner, corner + 40], 1)])
        names = np.concatenate([labels[seen], draw.integers(0, 3, count)])
        truth.append(SimpleNamespace(boxes=boxes, labels=labels))
        found.append(SimpleNamespace(boxes=near, labels=names, scores=draw.random(len(near))))
    return truth, found


KINDS = ("plain", "hostile", "masks")


def hostile(pair, kind: str):
    """A scene as it is ("plain"); or with crowds, ties, flat boxes and stated areas; or that
    by masks, each box with every fifth pixel left out.
    """
    draw, (truth, found) = np.random.default_rng(0), pair
    if kind == "plain":
        return pair
    for own, answer in zip(truth, found, strict=True):
        count = len(own.boxes)
        own.crowd, own.areas = draw.random(count) < 0.2, draw.choice([100, 5e3, 1e5], count)
        answer.scores = np.round(answer.scores, 1)
        answer.boxes[::9, 2] = answer.boxes[::9, 0]
        if kind == "masks":
            y, x = np.mgrid[:160, :160] * 4
            for side in (own, answer):
                x0, y0, x1, y1 = side.boxes.T[:, :, None, None]
                side.masks = (x >= x0) & (x < x1) & (y >= y0) & (y < y1) & ((x + y) % 5 > 0)
    return truth, found


def peer(truth, detections, masks: bool = False):
    """A function that gives pycocotools' twelve numbers; None where it is not installed."""
    try:
        from pycocotools.coco import COCO
        from pycocotools.cocoeval import COCOeval
    except ImportError:
        return None
    told, answers = COCO(), []
    images = [{"id": at + 1, "width": 640, "height": 640} for at in range(len(truth))]
    kinds = [{"id": at, "name": str(at)} for at in (1, 2, 3)]
    told.dataset = {"images": images, "annotations": [], "categories": kinds}
    for at, (own, found) in enumerate(zip(truth, detections, strict=True), 1):
        areas = getattr(own, "areas", (own.boxes[:, 2:] - own.boxes[:, :2]).prod(1))
        crowd = getattr(own, "crowd", np.zeros(len(own.boxes)))
        rows = zip(entries(own, at, masks), areas.tolist(), crowd, strict=True)
        for one, area, many in rows:
            number = len(told.dataset["annotations"]) + 1
            told.dataset["annotations"].append(
                one | {"id": number, "iscrowd": int(many), "area": area}
            )
        for one, score in zip(entries(found, at, masks), found.scores.tolist(), strict=True):
            answers.append(one | {"score": score})
    with contextlib.redirect_stdout(io.StringIO()):
        told.createIndex()
        results = told.loadRes(answers)

    def run(summary: bool = False):
        with contextlib.redirect_stdout(io.StringIO()):
            judge = COCOeval(told, results, "segm" if masks else "bbox")
            judge.evaluate()
            judge.accumulate()
            if summary:
                judge.summarize()
                return judge.stats
        return None

    return run


def entries(side, photo: int, masks: bool) -> list[dict]:
    """A photo's objects or detections as pycocotools takes them."""
    made = []
    for at, (box, label) in enumerate(zip(side.boxes.tolist(), side.labels, strict=True)):
        one = {"image_id": photo, "category_id": int(label) + 1}
        if masks:
            from pycocotools import mask

            made.append(
                one | {"segmentation": mask.encode(np.asfortranarray(side.masks[at], np.uint8))}
            )
        else:
            made.append(one | {"bbox": [*box[:2], box[2] - box[0], box[3] - box[1]]})
    return made


def main(arguments=None) -> None:
    """Check, race, record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--rounds", type=int, default=20, help="interleaved rounds (default: %(default)s)"
    )
    parser.add_argument("--threads", type=int, default=1, help="NumPy's; both work in one")
    parser.add_argument("--photos", type=int, default=200)
    options = parser.parse_args(arguments)
    truth, found = scene(options.photos)
    torch.set_num_threads(options.threads)
    receipt = receipts.start("custom_detection", device.tier(), threads=options.threads)
    receipt.sizes(photos=options.photos, boxes=sum(len(one.boxes) for one in found))
    pairs, theirs = {"ours": lambda: evaluate(truth, found)}, peer(truth, found)
    if theirs is None:
        print("pycocotools is not installed: ours is timed alone, and nothing is recorded")
        print(bench.race(pairs, repeats=options.rounds, device="cpu"))
        return
    gaps = []
    for kind in KINDS:
        own, answers = hostile(scene(options.photos // 5), kind)
        mine = np.array([*evaluate(own, answers, masks=kind == "masks").values()])
        its = peer(own, answers, masks=kind == "masks")(summary=True)
        gaps.append(check.close(mine, its, atol=1e-9, why="sums in another order"))
    gap = max(gaps)
    race = bench.race(
        pairs | {"pycocotools": theirs},
        repeats=options.rounds,
        reference="pycocotools",
        device="cpu",
    )
    record(receipt, race, gap)
    print(race)
    print(receipt.write(name="average_precision"))


def record(receipt, race, gap: float) -> None:
    """Seconds of both, their largest difference, and pycocotools' seconds over ours."""
    receipt.record("ap_gap", gap, "AP", interval="exact")
    for name, one in race.results.items():
        receipt.record(f"ap_seconds_{name}", one)
    receipt.record("ap_speedup", race.ratios["ours"])


if __name__ == "__main__":
    main()
