"""The study: what default vectors cost in AUC, over drawn worlds.

    python -m dlrm_serving.study_insertion                 # 20 worlds, a few minutes
    python -m dlrm_serving.study_insertion --worlds 4

In each world a DLRM is trained and served from a cold cache of a tenth of its rows, three times
with the same requests: never waiting, waiting below a hit rate of 70 %, always waiting. The
worker is done between two requests. What is lost is the AUC of always waiting less the other's:
of the first 640 samples, and of the second half. Intervals are Student's, over the worlds.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
from embedding_hierarchy import ParameterServer
from helpers import device, receipts
from scipy import stats
from storage_tiers import InProcess, Rocks

from .click_world import ClickWorld, auc
from .dlrm import train
from .ways import hierarchy

EARLY, BATCH, THRESHOLD = 640, 32, 0.7


def one_world(seed, samples=40_000, served=9_600):
    """{threshold: (AUC of the first samples, of the second half, share of keys missing)}."""
    world = ClickWorld(seed=seed)
    model = train(world, samples, seed=seed)
    numbers, keys, clicked = world.draw(served, np.random.default_rng([seed, 2]))
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        weight = model.table.weight.numpy()
        with Rocks(Path(folder, "db"), {"dlrm.all": weight.shape[1]}) as tier:
            tier.load("dlrm.all", np.arange(world.rows), weight)
            for threshold in (0.0, THRESHOLD, 1.1):
                with ParameterServer(tier, InProcess(world.rows)) as server:
                    slots = world.rows // 10
                    table = server.deploy("dlrm.all", cache_rows=slots, threshold=threshold)
                    scores = _scores(hierarchy(model, table), table, numbers, keys)
                early, late = slice(0, EARLY), slice(served // 2, None)
                missing = 1 - table.counts["hits"] / table.counts["keys"]
                aucs = [auc(scores[part], clicked[part]) for part in (early, late)]
                found[threshold] = (*aucs, missing)
    return found


def _scores(score, table, numbers, keys):
    scores = []
    for start in range(0, len(numbers), BATCH):
        scores.append(score(numbers[start : start + BATCH], keys[start : start + BATCH]))
        table.drain()
    return torch.cat(scores)


def interval(values):
    """(mean, low, high): Student's 95 % interval of the mean."""
    mean, off = np.mean(values), stats.sem(values)
    wide = off * stats.t.ppf(0.975, len(values) - 1)
    return float(mean), float(mean - wide), float(mean + wide)


def main(arguments=None):
    """Runs the worlds, prints the table, writes the receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--worlds", type=int, default=20)
    parser.add_argument("--samples", type=int, default=40_000)
    options = parser.parse_args(arguments)
    if options.worlds < 2:
        parser.error("2 worlds or more are needed: one has no interval")
    torch.set_num_threads(1)
    receipt = receipts.start("parameter_server", device.tier("cpu"), threads=1)
    receipt.sizes(worlds=options.worlds, samples=options.samples)
    runs = [one_world(seed, options.samples) for seed in range(options.worlds)]
    for threshold, name in ((0.0, "never_wait"), (THRESHOLD, "at_70")):
        for place, when in ((0, "cold_"), (1, "")):
            lost = [run[1.1][place] - run[threshold][place] for run in runs]
            mean, low, high = interval(lost)
            more = {"low": low, "high": high, "repeats": len(runs)}
            receipt.record(f"auc_lost_{when}{name}", mean, "AUC", **more)
            print(f"{when}{name}: {mean:.5f} ({low:.5f} to {high:.5f})")
    receipt.record("auc_always_wait", np.mean([run[1.1][1] for run in runs]), "AUC")
    print(receipt.write(name="insertion"))


if __name__ == "__main__":
    main()
