"""The whole way: raw files to features by each engine, then the same training behind them.

    python -m click_model.bench_pipeline               # 200,000 displays, 20 rounds; a receipt
    python -m click_model.bench_pipeline --displays 10000 --rounds 1 --epochs 2

PySpark is a peer: without it, or without Java, it is left out, and no gain is recorded.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import outbrain
import torch
from click_features import paths, race
from helpers import device, receipts

from .batches import Batches, write_batches
from .loader import Loader
from .network import Sizes, WideDeep
from .training import Options, Trainer

HIDDEN = (64, 64)


def train_s(features, folder, epochs, place="cpu", batch=4096):
    """Seconds to write a folder of features as batches into `folder`, and to train on them."""
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


def ways(raw, engines, rounds, threads, epochs, place="cpu"):
    """By engine, seconds of features and training together, a list over rounds.

    Engines take turns; the first to run is another in each round.
    """
    found = {engine: [] for engine in engines}
    for turn in range(rounds):
        at = turn % max(len(engines), 1)
        for engine in engines[at:] + engines[:at]:
            with tempfile.TemporaryDirectory(prefix="way-") as temp:
                features, batches = Path(temp, "features"), Path(temp, "batches")
                seconds = race.run(engine, raw, features, 1800, threads)["seconds"]
                found[engine].append(seconds + train_s(features, batches, epochs, place))
    return found


def main(argv=None):
    """Time the whole way behind each engine and write the receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=device.cores())
    parser.add_argument("--displays", type=int, default=200_000)
    parser.add_argument("--epochs", type=int, default=20)
    args = parser.parse_args(argv)
    torch.set_num_threads(args.threads)
    tier = device.tier()
    receipt = receipts.start("wide_deep", tier, args.threads)
    receipt.sizes(displays=args.displays, epochs=args.epochs)
    for engine in race.ENGINES:
        if why := race.missing(engine):
            print(f"{engine} is left out: {why}")
    engines = [engine for engine in race.ENGINES if not race.missing(engine)]
    with tempfile.TemporaryDirectory(prefix="log-") as raw:
        outbrain.generate(raw, args.displays)
        found = ways(raw, engines, args.rounds, args.threads, args.epochs, tier.device)
    for engine, times in found.items():
        low, middle, high = np.quantile(times, [0.25, 0.5, 0.75])
        print(f"{engine:8}{middle:9.2f} s, {low:.2f} to {high:.2f}")
        receipt.record(f"end_to_end_time_{engine}", middle, "s", low, high, len(times))
    if "spark" in found:
        gains = np.array(found["spark"]) / found["polars"]
        low, middle, high = np.quantile(gains, [0.25, 0.5, 0.75])
        receipt.record("end_to_end_gain", middle, "×", low, high, len(gains))
    print(receipt.write(name="pipeline"))


if __name__ == "__main__":
    main()
