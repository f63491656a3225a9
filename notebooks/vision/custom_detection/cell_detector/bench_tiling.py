"""The race: a large photo searched in tiles and merged, by ours and by `sahi`, with the same
network, tiles and rule.

    python -m cell_detector.bench_tiling
    python -m cell_detector.bench_tiling --rounds 3 --grid 2

Checked first: both give the same boxes. Both then suppress by intersection over the smaller, no
whole photo added. `sahi` gets each tile as an array and wraps each box in an object; ours goes
by tensors. Batches of several sizes are tried for both before the race; each gets its fastest.
"""

import argparse
import time
from functools import partial
from pathlib import Path

import numpy as np
import torch
from helpers import bench, check, data, device, receipts

from . import loading, network, tiling, training

WEIGHTS = Path(__file__).resolve().parents[1] / "weights" / "detector.safetensors"
TILE = (training.SIDE, training.SIDE * 3 // 4)
BATCHES, FLOOR = (1, 2, 4, 8, 16, 32), 0.05


def mosaic(grid: int) -> training.Sample:
    """`grid` × `grid` smears of `bccd` in one photo, each at the size that the network
    knows.
    """
    home = data.fetch("bccd", "JPEGImages/BloodImage_000*.jpg")
    files = sorted((Path(home) / "JPEGImages").glob("BloodImage_000*.jpg"))[: grid**2]
    pieces = [training.sample(loading.pixels(file), [], []).pixels for file in files]
    rows = [torch.cat(pieces[at : at + grid], 2) for at in range(0, grid**2, grid)]
    return training.Sample(
        torch.cat(rows, 1), torch.zeros(0, 4), torch.zeros(0, dtype=torch.long)
    )


HOW = {
    "slice_width": TILE[0],
    "slice_height": TILE[1],
    "overlap_width_ratio": tiling.OVERLAP,
    "overlap_height_ratio": tiling.OVERLAP,
    "postprocess_type": "NMS",
    "postprocess_match_metric": "IOS",
    "perform_standard_pred": False,
    "force_postprocess_type": True,
    "verbose": 0,
}


def peer(net, sample):
    """A function that gives sahi's boxes, scores and labels; None where it is not installed."""
    try:
        from sahi.models.base import DetectionModel
        from sahi.predict import get_sliced_prediction
        from sahi.prediction import ObjectPrediction
    except ImportError:
        return None
    model = adapted(DetectionModel, ObjectPrediction, net)(confidence_threshold=FLOOR)
    picture = np.ascontiguousarray(sample.pixels.permute(1, 2, 0).numpy())

    def run(batch: int = 8):
        found = get_sliced_prediction(
            picture, model, batch_size=batch, **HOW
        ).object_prediction_list
        return [(one.bbox.to_xyxy(), one.score.value, one.category.id) for one in found]

    return run


def adapted(base, prediction, net):
    """The network as sahi's kind of model: a class below its `base`."""

    class Model(base):
        def check_dependencies(self, packages=None):
            pass

        def load_model(self):
            self.model, self.category_mapping = net, {str(at): str(at) for at in range(3)}

        def set_device(self, device=None):
            self.device = "cpu"

        @torch.no_grad()
        def perform_batch_inference(self, images):
            photos = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).float() / 255
            photos = torch.stack([training.padded(one) for one in photos])
            high, wide = images[0].shape[:2]
            limit = torch.tensor([wide, high] * 2)
            self._original_predictions = [
                one._replace(boxes=torch.minimum(one.boxes.clamp(min=0), limit))
                for one in network.decode(*self.model(photos), FLOOR)
            ]

        def convert_original_predictions(self, shift_amount=None, full_shape=None):
            self._object_prediction_list_per_image = [
                [
                    prediction(box, label, str(label), None, score, shift, whole)
                    for box, score, label in zip(*map(torch.Tensor.tolist, one), strict=True)
                ]
                for one, shift, whole in zip(
                    self._original_predictions, shift_amount, full_shape, strict=True
                )
            ]

    return Model


def quickest(run) -> int:
    """The batch size of `BATCHES` with which `run` is soonest done, the best of three each."""
    took = {}
    for batch in BATCHES * 3:
        begun = time.perf_counter()
        run(batch)
        took[batch] = min(took.get(batch, np.inf), time.perf_counter() - begun)
    return min(took, key=took.get)


def rows_of(boxes, scores, labels) -> np.ndarray:
    """Boxes, scores and labels as rows, in an order of their own."""
    rows = np.concatenate([np.asarray(boxes).reshape(-1, 4), np.c_[scores, labels]], 1).astype(
        np.float64
    )
    return rows[np.lexsort(rows.T)]


def main(arguments=None) -> None:
    """Check, race, record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--rounds", type=int, default=20, help="interleaved rounds (default: %(default)s)"
    )
    parser.add_argument("--threads", type=int, default=device.cores())
    parser.add_argument("--grid", type=int, default=6)
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    net, sample = loading.opened(WEIGHTS), mosaic(options.grid)
    receipt = receipts.start("custom_detection", device.tier(), threads=options.threads)
    receipt.sizes(
        smears=options.grid**2, tiles=len(tiling.slices(sample.pixels.shape[:0:-1], TILE))
    )

    def ours(batch: int = 8):
        return tiling.tiled(net, sample, training.SIDE, floor=FLOOR, batch=batch)

    theirs = peer(net, sample)
    best = {name: quickest(run) for name, run in (("ours", ours), ("sahi", theirs)) if run}
    pairs = {"ours": partial(ours, best["ours"])}
    pairs["whole photo"] = lambda: training.detect(net, [sample], FLOOR)
    if theirs is None:
        print("sahi is not installed: ours is timed alone, and nothing is recorded")
        print(bench.race(pairs, repeats=options.rounds, device="cpu"))
        return
    receipt.sizes(**{f"batch_{name}": size for name, size in best.items()})
    theirs = partial(theirs, best["sahi"])
    own, other = pairs["ours"](), list(zip(*theirs(), strict=True))
    mine, its = rows_of(*(one.numpy() for one in own)), rows_of(*other)
    gap = check.close(mine, its, atol=1e-3, why="pixels in float32, sums in another order")
    race = bench.race(
        pairs | {"sahi": theirs}, repeats=options.rounds, reference="sahi", device="cpu"
    )
    record(receipt, race, gap, len(mine))
    print(race)
    print(receipt.write(name="tiling"))


def record(receipt, race, gap: float, boxes: int) -> None:
    """Seconds of each, the largest difference of the boxes, and sahi's seconds over ours."""
    receipt.sizes(boxes=boxes)
    receipt.record("tiling_gap", gap, "pixels", interval="exact")
    for name, one in race.results.items():
        receipt.record(f"tiling_seconds_{name.replace(' ', '_')}", one)
    receipt.record("tiling_speedup", race.ratios["ours"])
    receipt.record("tiling_speedup_whole", race.ratios["whole photo"])


if __name__ == "__main__":
    main()
