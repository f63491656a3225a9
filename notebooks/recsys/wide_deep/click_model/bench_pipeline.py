"""The race: raw files to features by each engine, and the same training behind all of them.

    python -m click_model.bench_pipeline               # 10,000 displays, 20 rounds; a receipt
    python -m click_model.bench_pipeline --displays 1000 --rounds 1 --epochs 1

10,000 displays are a sample of about 51,000 rows; 20 rounds take about twenty minutes. Most of
that are Spark's start and plans, which fewer rows would hardly shorten;
`click_features.bench_scaling` says how times grow. The files are checked once, before the race,
and engines trust them. They take turns. Their features are equal, so each round trains once,
and the whole way is an engine's time plus the training's. PySpark is a peer: without it, or
without Java, it is left out, and no gain is recorded.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import outbrain
import torch
from click_features import paths, race
from click_features.bench_scaling import log_of
from helpers import bench, device, receipts

from .batches import Batches, write_batches
from .loader import Loader
from .network import Sizes, WideDeep
from .training import Options, Trainer

HIDDEN = (64, 64)
KINDS = {"time": ("seconds", "s"), "cpu_time": ("cpu_s", "s"), "memory": ("peak_bytes", "B")}


def train_s(features, epochs, place="cpu", batch=4096):
    """Seconds to write a folder of features as batches, and to train on them."""
    with tempfile.TemporaryDirectory(prefix="batches-") as folder:
        began = time.perf_counter()
        write_batches(paths(features, "train"), folder, rows=batch, seed=0)
        loader = Loader(Batches(folder), place, seed=0)
        model = WideDeep(Sizes.published().scaled(dims=1 / 16, hidden=HIDDEN), sparse=True)
        options = Options(epochs=epochs, warmup_epochs=0.5)
        trainer = Trainer(model.to(place), options, len(loader))
        for _ in range(epochs):
            for part in loader:
                trainer.step(part)
        device.synchronize(place)
        return time.perf_counter() - began


def record(receipt, found, gpu=False):
    """Records medians of every engine, and its ratios round by round to Spark's, each with its
    95 % interval.

    found: as of `race.race`, each run with the seconds of the training `behind` it. gpu: the
    torch engine ran on one.
    """
    runs = {
        row["engine"]: [one for one in found if one["engine"] == row["engine"]] for row in found
    }
    for name, own in runs.items():
        for kind, (metric, unit) in KINDS.items():
            _record(receipt, f"preprocess_{kind}_{name}", [row[metric] for row in own], unit)
        whole = np.array([row["seconds"] + row["behind"] for row in own])
        _record(receipt, f"end_to_end_time_{name}", whole, "s")
        shares = [100 * row["seconds"] for row in own] / whole
        _record(receipt, f"preprocessing_share_{name}", shares, "%")
        if name == "spark" or "spark" not in runs:
            continue
        pairs = list(zip(runs["spark"], own, strict=True))
        for kind, (metric, _) in KINDS.items():
            ratios = [theirs[metric] / ours[metric] for theirs, ours in pairs]
            _record(receipt, f"preprocess_{kind}_spark_over_{name}", ratios, "×")
            if gpu and (name, kind) == ("torch", "time"):
                _record(receipt, "gpu_preprocessing_gain", ratios, "×")
            if gpu and (name, kind) == ("torch", "memory"):
                _record(receipt, "gpu_preprocessing_memory_gain", ratios, "×")
        gains = [(a["seconds"] + a["behind"]) / (b["seconds"] + b["behind"]) for a, b in pairs]
        _record(receipt, f"end_to_end_spark_over_{name}", gains, "×")


def _record(receipt, name, values, unit):
    found = bench.spread(values)
    print(f"{name:42}{found.median:12.5g} {unit}, {found.low:.5g} to {found.high:.5g}")
    receipt.record(name, found, unit)


def main(argv=None):
    """Time the whole way behind each engine and write the receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=device.cores(), help="of each engine")
    parser.add_argument("--displays", type=int, default=10_000)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--heap-mb", type=int, default=2048, help="of Spark")
    args = parser.parse_args(argv)
    torch.set_num_threads(args.threads)
    tier = device.tier()
    receipt = receipts.start("wide_deep", tier, args.threads)
    for engine in race.ENGINES:
        if why := race.missing(engine):
            print(f"{engine} is left out: {why}")
    with tempfile.TemporaryDirectory(prefix="log-") as folder:
        raw = log_of(args.displays, Path(folder))
        outbrain.load(raw)
        found = race.race(
            raw,
            rounds=args.rounds,
            check=False,
            behind=lambda features: train_s(features, args.epochs, tier.device),
            own={"torch": {"device": str(tier.device)}, "spark": {"heap_mb": args.heap_mb}},
            threads=args.threads,
        )
    receipt.sizes(
        displays=args.displays, rows=found[0]["rows"], heap_mb=args.heap_mb, epochs=args.epochs
    )
    record(receipt, found, gpu=tier.device == "cuda")
    print(receipt.write(name="pipeline"))


if __name__ == "__main__":
    main()
