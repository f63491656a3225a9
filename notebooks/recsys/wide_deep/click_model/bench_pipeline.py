"""The race: raw files to features by each engine, and the same training behind all of them.

    python -m click_model.bench_pipeline               # 40,000 displays, 20 rounds; a receipt
    python -m click_model.bench_pipeline --displays 1000 --rounds 1 --epochs 1

40,000 displays are a sample of about 207,000 rows (on a GPU it has two million); 20 rounds take
a quarter of an hour, most of it Spark's start: see `click_features.bench_scaling`. The files
are checked once, before the race, and engines trust them. They take turns. Their features are
equal, so each round trains once, and the whole way is an engine's time plus the training's.
PySpark is a peer: without it, or without Java, it is left out, and no gain is recorded.
"""

import argparse
import tempfile
import time
from pathlib import Path

import outbrain
import torch
from click_features import paths, race
from helpers import bench, device, receipts

from .batches import Batches, write_batches
from .loader import Loader
from .network import Sizes, WideDeep
from .training import Options, Trainer

HIDDEN = (64, 64)
KINDS = {  # what is recorded of an engine's runs, and as Spark's over its own
    "preprocess_time": ("seconds", "s"),
    "preprocess_cpu_time": ("cpu_s", "s"),
    "preprocess_memory": ("peak_bytes", "B"),
    "end_to_end": ("whole", "s"),
}
GPU_GAINS = {
    "preprocess_time": "gpu_preprocessing_gain",
    "preprocess_memory": "gpu_preprocessing_memory_gain",
}


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


def record(receipt, found, place="cpu"):
    """Records medians of every engine, and its ratios round by round to Spark's, each with its
    95 % interval.

    found: as of `race.race`, each run with the seconds of the training `behind` it. place:
    where the torch engine worked, which decides what a claim about GPUs may take.
    """
    runs = race.by_engine(found)
    for own in runs.values():
        own["whole"] = own["seconds"] + own["behind"]
    for name, own in runs.items():
        shares = 100 * own["seconds"] / own["whole"]
        where = str(place) if name == "torch" else "cpu"
        _record(receipt, f"preprocessing_share_{name}", shares, "%", where, timing=True)
        for kind, (column, unit) in KINDS.items():
            _record(receipt, f"{kind}_{name}", own[column], unit, where)
            if name != "spark" and "spark" in runs:
                ratios = runs["spark"][column] / own[column]
                _record(receipt, f"{kind}_spark_over_{name}", ratios, "×", where)
                if where.startswith("cuda") and kind in GPU_GAINS:
                    _record(receipt, GPU_GAINS[kind], ratios, "×", where)


def _record(receipt, name, values, unit, device, **more):
    found = bench.spread(values)
    print(f"{name:42}{found.median:12.5g} {unit}, {found.low:.5g} to {found.high:.5g}")
    receipt.record(name, found, unit, device=device, **more)


def main(argv=None):
    """Time the whole way behind each engine and write the receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=device.cores(), help="of each engine")
    parser.add_argument("--displays", type=int, help="of the log; more on a GPU")
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args(argv)
    torch.set_num_threads(args.threads)
    tier = device.tier()
    displays = args.displays or tier.pick(cpu=40_000, gpu=390_000, big=390_000)
    receipt = receipts.start("wide_deep", tier, args.threads)
    for engine in race.ENGINES:
        if why := race.missing(engine):
            print(f"{engine} is left out: {why}")
    with tempfile.TemporaryDirectory(prefix="log-") as folder:
        raw = Path(folder, "log")
        outbrain.generate(raw, displays)
        outbrain.load(raw)
        found = race.race(
            raw,
            rounds=args.rounds,
            check=False,
            behind=lambda features: train_s(features, args.epochs, tier.device),
            own={"torch": {"device": str(tier.device)}},
            threads=args.threads,
        )
    receipt.sizes(
        displays=displays, rows=found[0]["rows"], heap_mb=race.HEAP_MB, epochs=args.epochs
    )
    record(receipt, found, tier.device)
    print(receipt.write(name="pipeline"))


if __name__ == "__main__":
    main()
