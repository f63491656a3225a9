"""Curves of the three engines: time and memory over rows, and Spark's over the heap it gets.

    python -m click_features.bench_scaling
    python -m click_features.bench_scaling --displays 1000 3000 --heaps-mb 1024

A point is the median of three runs: a curve shows a shape, `click_model.bench_pipeline` has the
rounds. The files are in the page cache, and engines trust them. PySpark is a peer: without it,
or without Java, it is left out.
"""

import argparse
import statistics
import tempfile
from pathlib import Path

import outbrain
from helpers import bench, device, receipts

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


def points(runs, *keys):
    """One dict for each combination of rows and `keys`: the medians of its runs, in order."""
    found = {}
    for run in runs:
        found.setdefault((run["rows"], *(run[key] for key in keys)), []).append(run)
    columns = ("seconds", "cpu_s", "peak_bytes")
    return [
        dict(zip(("rows", *keys), at, strict=True))
        | {column: statistics.median(run[column] for run in own) for column in columns}
        for at, own in found.items()
    ]


def record(receipt, name, runs, *keys):
    """Records rows, seconds, processor seconds and bytes of the points of runs as a curve."""
    if told := points(runs, *keys):
        receipt.curve(name, **{column: [one[column] for one in told] for column in told[0]})


def main(argv=None):
    """Measure the curves, show them and write the receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=3, help="runs of each point")
    parser.add_argument("--threads", type=int, default=device.cores(), help="of each engine")
    parser.add_argument("--displays", nargs="+", type=int, default=[2000, 10_000, 40_000])
    parser.add_argument("--heaps-mb", nargs="*", type=int, default=[1024, 2048, 3072])
    args = parser.parse_args(argv)
    tier = device.tier()
    receipt = receipts.start("wide_deep", tier, args.threads)
    for engine in ENGINES:
        if why := missing(engine):
            print(f"{engine} is left out: {why}")
    options = {"limit_s": 900, "threads": args.threads, "check": False, "rounds": args.rounds}
    own = {"torch": {"device": str(tier.device)}}
    with tempfile.TemporaryDirectory(prefix="log-") as folder:
        grown = []
        for displays in sorted(args.displays):
            raw = log_of(displays, folder)
            grown += race(raw, ENGINES, own=own, **options)
        by_heap = [] if missing("spark") else heaps(raw, args.heaps_mb, **options)
    receipt.sizes(displays=displays, rows=grown[-1]["rows"])
    for engine in ENGINES:
        runs = [run for run in grown if run["engine"] == engine]
        record(receipt, f"over_rows_{engine}", runs)
        if runs:
            took = [run["seconds"] for run in runs if run["rows"] == grown[-1]["rows"]]
            receipt.record(f"largest_time_{engine}", bench.spread(took), "s")
    record(receipt, "spark_over_heap", by_heap, "heap_mb", "broadcast")
    for run in grown + by_heap:
        told = {name: run[name] for name in run if name not in ("stages", "round")}
        print(told, {name: round(seconds, 1) for name, seconds in run["stages"].items()})
    print(receipt.write(name="scaling"))


if __name__ == "__main__":
    main()
