"""The race: average precision of the same detections, checked to be equal, then timed, ours and
`pycocotools`'.

    python -m average_precision.bench_average_precision
    python -m average_precision.bench_average_precision --rounds 3 --photos 50

The peer starts from the lists of dicts that it takes, its index made; ours from arrays. Neither
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


def peer(truth, detections):
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
        for box, label in zip(own.boxes, own.labels, strict=True):
            x, y, w, h = box[0], box[1], box[2] - box[0], box[3] - box[1]
            number = len(told.dataset["annotations"]) + 1
            one = {"id": number, "image_id": at, "category_id": int(label) + 1, "iscrowd": 0}
            told.dataset["annotations"].append(one | {"bbox": [x, y, w, h], "area": w * h})
        for box, label, score in zip(found.boxes, found.labels, found.scores, strict=True):
            sides = [box[0], box[1], box[2] - box[0], box[3] - box[1]]
            answers.append(
                {"image_id": at, "category_id": int(label) + 1, "bbox": sides, "score": score}
            )
    with contextlib.redirect_stdout(io.StringIO()):
        told.createIndex()
        results = told.loadRes(answers)

    def run(summary: bool = False):
        with contextlib.redirect_stdout(io.StringIO()):
            judge = COCOeval(told, results, "bbox")
            judge.evaluate()
            judge.accumulate()
            if summary:
                judge.summarize()
                return judge.stats
        return None

    return run


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
    gap = check.close(
        np.array([*evaluate(truth, found).values()]),
        theirs(summary=True),
        atol=1e-9,
        why="sums in another order",
    )
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
