"""Curves of the three engines: time and memory over rows, and Spark's over the heap it gets.

    python -m click_features.bench_scaling
    python -m click_features.bench_scaling --displays 1000 3000 --heaps-mb 1024 --rounds 2

The largest log has two million rows. Engines take turns in six rounds, of fewer no interval of
95 % can be told, and on that log Spark stands over the others round by round. Then it runs on
the same log with each heap, three times. `click_model.bench_pipeline` has twenty rounds, of a
tenth of the rows. Files were just written, so they are in the page cache; engines trust them.
PySpark is a peer: without it, or without Java, it is left out.
"""

import argparse
import tempfile
from pathlib import Path

import outbrain
from helpers import bench, device, receipts

from .race import ENGINES, HEAP_MB, by_engine, missing, race

DISPLAYS = (2000, 40_000, 390_000)
KINDS = {"time": ("seconds", "s"), "memory": ("peak_bytes", "B")}


def heaps(raw, sizes, **options):
    """Spark's runs, dicts as of `race` with `heap_mb`; a heap that fails is left out."""
    found = []
    for heap_mb in sizes:
        try:
            runs = race(raw, ("spark",), heap_mb=heap_mb, **options)
        except RuntimeError as error:
            print(f"heap {heap_mb} MB: {str(error)[:60]} … {str(error)[-200:]}")
            continue
        found += [one | {"heap_mb": heap_mb} for one in runs]
    return found


def record(receipt, grown, by_heap):
    """Records all runs as curves; of the largest log also times, memory, and their ratios."""
    for engine in ENGINES:
        own = [one for one in grown if one["engine"] == engine]
        _curve(receipt, f"over_rows_{engine}", own, "rows")
    _curve(receipt, "spark_over_heap", by_heap, "heap_mb")
    most = max(one["rows"] for one in grown)
    runs = by_engine(one for one in grown if one["rows"] == most)
    for name, own in runs.items():
        for kind, (column, unit) in KINDS.items():
            receipt.record(f"largest_{kind}_{name}", bench.spread(own[column]), unit)
            if name != "spark" and "spark" in runs:
                found = bench.spread(runs["spark"][column] / own[column])
                receipt.record(f"largest_{kind}_spark_over_{name}", found, "×")


def _curve(receipt, name, runs, over):
    if runs:
        columns = (over, "seconds", "peak_bytes")
        receipt.curve(name, **{column: [one[column] for one in runs] for column in columns})


def parser():
    """What the command line may say, and what is recorded where it says nothing."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=6, help="on each log")
    parser.add_argument("--heap-rounds", type=int, default=3, help="with each heap")
    parser.add_argument("--threads", type=int, default=device.cores(), help="of each engine")
    parser.add_argument("--displays", nargs="+", type=int, default=DISPLAYS)
    parser.add_argument("--heaps-mb", nargs="*", type=int, default=[1024, 2048, 3072])
    return parser


def main(argv=None):
    """Measure the curves, show them and write the receipt."""
    args = parser().parse_args(argv)
    tier = device.tier()
    receipt = receipts.start("wide_deep", tier, args.threads)
    for engine in ENGINES:
        if why := missing(engine):
            print(f"{engine} is left out: {why}")
    options = {"limit_s": 900, "threads": args.threads, "check": False}
    own, grown = {"torch": {"device": str(tier.device)}}, []
    with tempfile.TemporaryDirectory(prefix="log-") as folder:
        for displays in sorted(args.displays):
            raw = Path(folder, str(displays))
            outbrain.generate(raw, displays)
            grown += race(raw, own=own, rounds=args.rounds, **options)
        able = [] if missing("spark") else args.heaps_mb
        by_heap = heaps(raw, able, rounds=args.heap_rounds, **options)
    sizes = {"displays": displays, "rows": grown[-1]["rows"], "heap_mb": HEAP_MB}
    receipt.sizes(**sizes, rounds=args.rounds, heap_rounds=args.heap_rounds)
    record(receipt, grown, by_heap)
    print(receipt.write(name="scaling"))


if __name__ == "__main__":
    main()
