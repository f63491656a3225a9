"""The study: how far does the model stay below what its features can know, and why?

    python -m click_model.bench_map                    # three logs, three learning rates
    python -m click_model.bench_map --displays 3000 --rates 0.004

Data, training or knowledge may be missing. The first two are tried: logs of several sizes, and
several rates for each. For the third the truth of the drawn world is asked: terms of the
utility are replaced by the best line through the features that are to tell of them.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import outbrain
import torch
from click_features import paths, spec, with_polars
from helpers import device, receipts

from .batches import Batches, write_batches
from .loader import Loader
from .network import Sizes, WideDeep
from .ranking import map_at_k, popularity_scores
from .training import Options, Rows, fit, whole

TOLD_BY = {  # a term of the utility: the numbers that are to tell of it
    "match": [name for name in spec.NUMBERS if name.startswith("sim_")],
    "quality": [name for name in spec.NUMBERS if name.endswith(("_ctr", "_count"))],
}
TOGETHER = ("platform", "state", "site")  # told by pairs of categories, by no number


def data_of(displays, folder):
    """(World, train, valid) of a drawn log: click rates out of fold, data sets in memory."""
    world = outbrain.generate(folder / "raw", displays)
    with_polars.build(folder / "raw", folder / "features", folds=5, check=False)
    sets = []
    for name in spec.SETS:
        write_batches(paths(folder / "features", name), folder / name, rows=65_536)
        sets.append(whole(Loader(Batches(folder / name), prefetch=0)))
    return world, *sets


def best_line(columns, wanted):
    """The least-squares line (N,) through columns (N, K) and a constant."""
    columns = np.column_stack([columns, np.ones(len(columns))])
    return columns @ np.linalg.lstsq(columns, wanted, rcond=None)[0]


def ceilings(world, train, valid):
    """MAP@12 by name: of the terms that features `seen`; of these through the features' noise;
    of what numbers tell `alone`, without the terms of pairs; of the whole appeal.
    """
    label = valid["clicked"], valid["display_id"]
    shown = world.rows(valid["display_id"].numpy(), valid["ad_id"].numpy())
    numbers = valid["numbers"].double().numpy()
    seen, told = world.seen()[shown], {}
    for term, names in TOLD_BY.items():
        true = world.seen((term,))[shown]
        line = best_line(numbers[:, [spec.NUMBERS.index(name) for name in names]], true)
        told[term] = line - true
    noisy = seen + sum(told.values())
    scores = {"seen": seen, "noisy": noisy, "alone": noisy - world.seen(TOGETHER)[shown]}
    scores |= {f"noisy_{term}": seen + change for term, change in told.items()}
    scores |= {"appeal": world.appeal[shown]}
    found = {name: map_at_k(torch.from_numpy(x), *label) for name, x in scores.items()}
    return found | {"popularity": map_at_k(popularity_scores(train, valid, seed=0), *label)}


def trained(train, valid, rate, epochs, batch, place="cpu"):
    """The best MAP@12 of the epochs of one training."""
    torch.manual_seed(0)
    sizes = Sizes.published().scaled(dims=1 / 16, hidden=(64, 64))
    options = Options(epochs=epochs, warmup_epochs=0.5, wide_lr=0.05, deep_lr=rate)
    model = WideDeep(sizes, sparse=True).to(place)
    curve = fit(model, Rows(train, batch, 0, place), valid, options)
    return max(epoch.map_at_12 for epoch in curve)


def main(argv=None):
    """Study logs and rates and write the receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=1, help="ignored: one training per point")
    parser.add_argument("--threads", type=int, default=device.cores())
    parser.add_argument("--displays", nargs="+", type=int, default=[10_000, 30_000, 100_000])
    parser.add_argument("--rates", nargs="+", type=float, default=[0.001, 0.004, 0.016])
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=4096)
    args = parser.parse_args(argv)
    torch.set_num_threads(args.threads)
    tier = device.tier()
    receipt = receipts.start("wide_deep", tier, args.threads)
    known, trials = [], []
    for displays in sorted(args.displays):
        with tempfile.TemporaryDirectory(prefix="log-") as folder:
            world, train, valid = data_of(displays, Path(folder))
            known.append({"displays": displays} | ceilings(world, train, valid))
        print(known[-1], flush=True)
        for rate in args.rates:
            score = trained(train, valid, rate, args.epochs, args.batch, tier.device)
            trials.append({"displays": displays, "rate": rate, "map": score})
            print(trials[-1], flush=True)
    for name, rows in (("map_ceilings", known), ("map_trials", trials)):
        receipt.curve(name, **{column: [row[column] for row in rows] for column in rows[0]})
    receipt.sizes(displays=displays, epochs=args.epochs, batch=args.batch)
    for name in list(known[-1])[1:]:
        receipt.record(f"map_{name}", known[-1][name], "MAP@12")
    best = max(row["map"] for row in trials if row["displays"] == displays)
    receipt.record("map_model", best, "MAP@12")
    print(receipt.write(name="map"))


if __name__ == "__main__":
    main()
