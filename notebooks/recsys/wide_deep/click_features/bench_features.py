"""The race of the three engines, raw files to features; see `race` for how it is timed.

    python -m click_features.bench_features                 # a million displays, 20 rounds
    python -m click_features.bench_features --displays 60000 --rounds 1 --engines polars torch
    python -m click_features.bench_features --scaling 10000 100000 1000000

The files are in the page cache. PySpark is a peer: without it, or without Java, it is left out.
"""

import argparse
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import outbrain
from helpers import device, receipts

from .race import ENGINES, lines, missing, race


def log_of(displays, folder):
    """The folder of a generated log of so many displays below `folder`, its files read once."""
    raw = Path(folder) / f"outbrain-{displays}"
    outbrain.generate(raw, displays)
    for path in raw.glob("*.csv"):
        with open(path, "rb") as file:
            while file.read(2**24):
                pass
    return raw


def scaling(displays, engines, folder, **options):
    """The runs, as of `race`, at each number of displays, smallest first."""
    runs = (race(log_of(n, folder), engines, **options) for n in sorted(displays))
    return [one for found in runs for one in found]


def exponent(rows, seconds):
    """The slope of log(seconds) over log(rows): 1 is linear, 0 a fixed price."""
    if len(rows) < 2 or min(*rows, *seconds) <= 0:
        raise ValueError(f"two sizes and times above 0 are needed; rows {rows}, s {seconds}")
    return float(np.polyfit(np.log(rows), np.log(seconds), 1)[0])


def exponents(found):
    """By (engine, stage) the exponent over sizes; stages (and "total") under 10 ms are not."""
    times = {}
    for row in found:
        for stage, seconds in (row["stages"] | {"total": row["seconds"]}).items():
            times.setdefault((row["engine"], stage), []).append((row["rows"], seconds))
    return {
        name: exponent(*zip(*pairs, strict=True))
        for name, pairs in times.items()
        if len({rows for rows, _ in pairs}) > 1 and min(s for _, s in pairs) > 0.01
    }


def record(receipt, found, gpu=False):
    """Records medians and ratios to Spark, round by round, of runs of one size.

    gpu: the torch engine ran on one.
    """
    engines = list(dict.fromkeys(row["engine"] for row in found))
    runs = {name: [row for row in found if row["engine"] == name] for name in engines}
    for row in runs.values():
        rows = row[0]["rows"]
    receipt.record("preprocess_rows", rows, "rows")
    for name, own in runs.items():
        receipt.record(f"preprocess_lines_{name}", lines(name), "lines")
        for metric, unit in (("seconds", "s"), ("cpu_s", "s"), ("peak_bytes", "B")):
            stem = {"seconds": "time", "cpu_s": "cpu_time", "peak_bytes": "memory"}[metric]
            _record(receipt, f"preprocess_{stem}_{name}", [row[metric] for row in own], unit)
            if name != "spark" and "spark" in runs:
                pairs = zip(runs["spark"], own, strict=True)
                ratios = [theirs[metric] / ours[metric] for theirs, ours in pairs]
                _record(receipt, f"preprocess_{stem}_spark_over_{name}", ratios, "×")
                if gpu and (name, metric) == ("torch", "seconds"):
                    _record(receipt, "gpu_preprocessing_gain", ratios, "×")
        stages = Counter(stage for row in own for stage in row["stages"])
        for stage in stages:
            times = [row["stages"][stage] for row in own]
            _record(receipt, f"preprocess_stage_{name}_{stage}", times, "s")


def _record(receipt, name, values, unit):
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    receipt.record(name, middle, unit, low, high, len(values))


def record_scaling(receipt, found):
    """Records seconds over rows by engine as curves, and the exponents of stages."""
    for engine in dict.fromkeys(row["engine"] for row in found):
        own = [row for row in found if row["engine"] == engine]
        points = {"x": [row["rows"] for row in own], "y": [row["seconds"] for row in own]}
        receipt.curve(f"time_over_rows_{engine}", **points)
    for (engine, stage), power in exponents(found).items():
        receipt.record(f"preprocess_exponent_{engine}_{stage}", power, "")


def told(found):
    """Lines of text, one a run."""
    head = f"{'engine':8}{'rows':>11}{'time s':>9}{'CPU s':>9}{'peak GB':>9}  stages"
    lines = [head]
    for row in found:
        stages = ", ".join(f"{name} {seconds:.2f}" for name, seconds in row["stages"].items())
        lines.append(
            f"{row['engine']:8}{row['rows']:11,}{row['seconds']:9.2f}{row['cpu_s']:9.2f}"
            f"{row['peak_bytes'] / 1e9:9.2f}  {stages}"
        )
    return "\n".join(lines)


def main(argv=None):
    """Race at this machine's size, show it, and write the receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=device.cores(), help="of each engine")
    parser.add_argument("--displays", type=int, help="size of the log; 5.2 rows a display")
    parser.add_argument("--engines", nargs="+", default=ENGINES, choices=ENGINES)
    parser.add_argument("--scaling", nargs="+", type=int, default=[], help="displays")
    parser.add_argument("--folder", help="where logs are kept; default: a temporary one")
    args = parser.parse_args(argv)
    tier = device.tier()
    receipt = receipts.start("wide_deep", tier, args.threads)
    for engine in args.engines:
        if why := missing(engine):
            print(f"{engine} is left out: {why}")
    displays = args.displays or tier.pick(cpu=1_000_000, gpu=1_000_000, big=6_000_000)
    options = {"limit_s": 1800, "threads": args.threads}
    options["own"] = {"torch": {"device": str(tier.device)}}
    with tempfile.TemporaryDirectory(prefix="log-") as temp:
        folder = args.folder or temp
        found = race(log_of(displays, folder), args.engines, args.rounds, **options)
        grown = scaling(args.scaling, args.engines, folder, **options)
    print(told(found + grown))
    receipt.sizes(displays=displays, rows=found[0]["rows"])
    record(receipt, found, gpu=tier.device == "cuda")
    record_scaling(receipt, grown)
    print(receipt.write(name="features"))


if __name__ == "__main__":
    main()
