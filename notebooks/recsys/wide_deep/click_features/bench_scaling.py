"""Curves of the three engines: time and memory over rows, and Spark's over the heap it gets.

    python -m click_features.bench_scaling
    python -m click_features.bench_scaling --displays 1000 3000 --heaps-mb 1024

One run for each point: a curve shows a shape, `click_model.bench_pipeline` has the rounds. The
files are in the page cache, and engines trust them. PySpark is a peer: without it, or without
Java, it is left out.
"""

import argparse
import tempfile
from pathlib import Path

import outbrain
from helpers import device, receipts

from .race import ENGINES, missing, race

NO_BROADCAST = (
    "spark.sql.autoBroadcastJoinThreshold=-1",
    "spark.sql.adaptive.autoBroadcastJoinThreshold=-1",
)


def log_of(displays, folder):
    """The folder of a generated log of so many displays below `folder`, its files read once."""
    raw = Path(folder) / f"outbrain-{displays}"
    outbrain.generate(raw, displays)
    for path in raw.glob("*.csv"):
        with open(path, "rb") as file:
            while file.read(2**24):
                pass
    return raw


def heaps(raw, sizes, **options):
    """Spark's runs by heap, each with small tables sent to all workers and without.

    Dicts as of `race`, with `heap_mb` and `broadcast`; a run that fails is left out.
    """
    found = []
    for heap_mb in sizes:
        for broadcast, conf in ((1, ()), (0, NO_BROADCAST)):
            try:
                runs = race(raw, ("spark",), heap_mb=heap_mb, conf=conf, **options)
            except RuntimeError as error:
                words = f"{str(error)[:60]} … {str(error)[-200:]}"
                print(f"heap {heap_mb} MB, broadcast {broadcast}: {words}")
                continue
            found += [one | {"heap_mb": heap_mb, "broadcast": broadcast} for one in runs]
    return found


def record(receipt, name, runs, *more):
    """Records rows, seconds, processor seconds and bytes of runs as a curve."""
    columns = ("rows", "seconds", "cpu_s", "peak_bytes", *more)
    if runs:
        receipt.curve(name, **{column: [run[column] for run in runs] for column in columns})


def main(argv=None):
    """Measure the curves, show them and write the receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=1, help="ignored: one run per point")
    parser.add_argument("--threads", type=int, default=device.cores(), help="of each engine")
    parser.add_argument("--displays", nargs="+", type=int, default=[2000, 10_000, 40_000])
    parser.add_argument("--heaps-mb", nargs="*", type=int, default=[1024, 3072])
    args = parser.parse_args(argv)
    tier = device.tier()
    receipt = receipts.start("wide_deep", tier, args.threads)
    for engine in ENGINES:
        if why := missing(engine):
            print(f"{engine} is left out: {why}")
    options = {"limit_s": 900, "threads": args.threads, "check": False}
    own = {"torch": {"device": str(tier.device)}}
    with tempfile.TemporaryDirectory(prefix="log-") as folder:
        grown = []
        for displays in sorted(args.displays):
            raw = log_of(displays, folder)
            grown += race(raw, ENGINES, own=own, **options)
        by_heap = [] if missing("spark") else heaps(raw, args.heaps_mb, **options)
    largest = [one for one in grown if one["engine"] == "spark"][-1:]  # with `race`'s own heap
    by_heap += [one | {"heap_mb": 2048, "broadcast": 1} for one in largest]
    receipt.sizes(displays=displays, rows=grown[-1]["rows"])
    for engine in ENGINES:
        runs = [run for run in grown if run["engine"] == engine]
        record(receipt, f"over_rows_{engine}", runs)
        if runs:
            receipt.record(f"largest_time_{engine}", runs[-1]["seconds"], "s")
    record(receipt, "spark_over_heap", by_heap, "heap_mb", "broadcast")
    for run in grown + by_heap:
        told = {name: run[name] for name in run if name not in ("stages", "round")}
        print(told, {name: round(seconds, 1) for name, seconds in run["stages"].items()})
    print(receipt.write(name="scaling"))


if __name__ == "__main__":
    main()
