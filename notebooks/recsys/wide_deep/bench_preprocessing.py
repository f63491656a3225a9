"""The race of the three engines: raw files to features, each in a process of its own.

    python bench_preprocessing.py                    # a million displays, 3 rounds, a receipt
    python bench_preprocessing.py --displays 60000 --rounds 1 --engines polars torch
    python bench_preprocessing.py --scaling 10000 100000 1000000

A run is timed from outside: the interpreter's start, Java's and the engine's count, as they do
for who waits. Peak memory is the largest sum over the process and all its descendants, looked
at every 50 ms, of proportional set sizes: a page that processes share is counted once. (Java
forks to run small commands, and the fork, for a moment, looks as large as Java; where only
resident sizes are known, these are taken.) The files are in the page cache, and the features
are compared before a number is believed.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import feature_spec as fs
import numpy as np
import outbrain
import polars as pl
import psutil
from code_lines import lines_of_code
from feature_files import paths
from helpers import device, receipts, root

HERE = Path(__file__).resolve().parent
OWN = {  # modules that are an engine's; torch also uses two of Polars' functions
    "spark": ("features_spark", "spark_log"),
    "polars": ("features_polars", "polars_tables"),
    "torch": ("features_torch", "torch_lookups"),
}
ENGINES = tuple(OWN)
LOOK_S = 0.05
OLDEST_JAVA = 17


def race(raw, engines=ENGINES, rounds=1, limit_s=600, **options):
    """A list of dicts, one a run: what it took, by engine, over rounds.

    >>> race("outbrain", ("polars", "torch"))[0]["engine"]
    'polars'

    A dict has engine, round, rows (of train and valid together), seconds, cpu_s, peak_bytes,
    stages (seconds by name, as the engine reports them) and lines (of code). Engines take
    turns, another begins each round; those that cannot run here (`missing`) are left out.
    options: handed to each `build`. Raises RuntimeError, with what it said, for an engine that
    fails or takes longer than `limit_s`, and AssertionError if features differ.
    """
    if unknown := set(engines) - set(ENGINES):
        raise ValueError(f"no engine {sorted(unknown)}; allowed are {ENGINES}")
    able, found, first = [name for name in engines if not missing(name)], [], {}
    with tempfile.TemporaryDirectory(prefix="race-") as temp:
        for turn in range(rounds):
            at = turn % max(len(able), 1)
            for engine in able[at:] + able[:at]:
                out = Path(temp, engine)
                shutil.rmtree(out, ignore_errors=True)
                found.append({"round": turn} | run(engine, raw, out, limit_s, **options))
                if turn == 0:
                    first[engine] = out
                    check_same(first[able[0]], out)
    return found


def missing(engine):
    """Why an engine cannot run here, in words; "" if it can."""
    if engine == "spark" and not find_spec("pyspark"):
        return "pyspark is not installed"
    return _java() if engine == "spark" else ""


def _java():
    """Why the Java that Spark would start does not do; "" if it does."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else None)
    if not java:
        return "Java is not installed"
    told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    found = re.search(r'version "(\d+)', told.stderr)
    if not found or int(found[1]) < OLDEST_JAVA:
        return f"Java is {found[1] if found else 'unknown'}; Spark needs {OLDEST_JAVA} or newer"
    return ""


def run(engine, raw, out, limit_s=600, **options):
    """A dict of what one run of an engine took, in a process of its own; see `race`."""
    code = f"import sys, json, features_{engine} as engine\n"
    code += "engine.build(sys.argv[1], sys.argv[2], **json.loads(sys.argv[3]))"
    line = [sys.executable, "-c", code, str(raw), str(out), json.dumps(options)]
    with tempfile.TemporaryFile("w+") as said:
        began = time.perf_counter()
        # threads of torch that wait must not spin, or they take the cores from those that work
        env = {"OMP_WAIT_POLICY": "PASSIVE"} | os.environ
        child = subprocess.Popen(line, cwd=HERE, env=env, stdout=said, stderr=subprocess.STDOUT)
        peak, cpu_s, late = watch(child, began + limit_s)
        seconds = time.perf_counter() - began
        said.seek(0)
        # without Java's stacks, which would hide what it said
        words = "".join(line for line in said if not line.startswith("\tat "))[-3000:]
    if late or child.returncode:
        how = f"took longer than {limit_s} s" if late else f"ended with {child.returncode}"
        raise RuntimeError(f"features_{engine} {how}: {words}")
    report = json.loads(Path(out, "report.json").read_text(encoding="utf-8"))
    return {
        "engine": engine,
        "rows": sum(report["rows"].values()),
        "seconds": seconds,
        "cpu_s": cpu_s,
        "peak_bytes": peak,
        "stages": report["seconds"],
        "lines": sum(lines_of_code(HERE / f"{name}.py") for name in OWN[engine]),
    }


def watch(child, deadline):
    """(largest sum of bytes held, CPU seconds, whether late) of a child and all below it.

    Returns when the child has ended; what it leaves behind, or all when late, is killed.
    """
    peak, spent, seen, late = 0, {}, {}, False
    with contextlib.suppress(psutil.NoSuchProcess):
        seen[child.pid] = psutil.Process(child.pid)
    while child.poll() is None and not late:
        late = time.perf_counter() > deadline
        with contextlib.suppress(psutil.NoSuchProcess):
            seen |= {p.pid: p for p in seen[child.pid].children(recursive=True)}
        held = 0
        for pid, process in seen.items():
            with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                held += held_bytes(process)
                spent[pid] = sum(process.cpu_times()[:2])
        peak = max(peak, held)
        time.sleep(LOOK_S)
    for process in seen.values():
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    child.wait()
    return peak, sum(spent.values()), late


def held_bytes(process):
    """The bytes of main memory that a process holds, its share of those it shares (Linux)."""
    return getattr(process.memory_full_info(), "pss", 0) or process.memory_info().rss


def check_same(one, other):
    """None; AssertionError names the column in which two folders of features differ."""
    for name in fs.SETS:
        frames = [pl.scan_parquet(paths(folder, name)) for folder in (one, other)]
        for column in fs.COLUMNS:
            found, wanted = (frame.select(column).collect().to_series() for frame in frames)
            same = len(found) == len(wanted) and found.dtype == wanted.dtype
            if same and column in fs.NUMBERS:
                same = fs.largest_difference(found.to_numpy(), wanted.to_numpy()) <= 1
            elif same:
                same = found.equals(wanted)
            if not same:
                raise AssertionError(f"{name}, {column}: {one} and {other} differ")


def exponent(rows, seconds):
    """The slope of log(seconds) over log(rows): 1 is linear, 0 a fixed price."""
    if len(rows) < 2 or min(*rows, *seconds) <= 0:
        raise ValueError(f"two sizes and times above 0 are needed; rows {rows}, s {seconds}")
    return float(np.polyfit(np.log(rows), np.log(seconds), 1)[0])


def scaling(displays, engines=ENGINES, folder=None, **options):
    """The runs, as of `race`, at each number of displays, smallest first."""
    with tempfile.TemporaryDirectory(prefix="scaling-") as temp:
        return [
            found
            for n in sorted(displays)
            for found in race(log_of(n, folder or temp), engines, **options)
        ]


def log_of(displays, folder):
    """The folder of a generated log of so many displays below `folder`, its files read once."""
    raw = Path(folder) / f"outbrain-{displays}"
    outbrain.generate(raw, displays)
    for path in raw.glob("*.csv"):
        with open(path, "rb") as file:
            while file.read(2**24):
                pass
    return raw


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


def record(receipt, found):
    """Records medians and ratios to Spark, round by round, of runs of one size."""
    engines = list(dict.fromkeys(row["engine"] for row in found))
    runs = {name: [row for row in found if row["engine"] == name] for name in engines}
    for row in runs.values():
        rows = row[0]["rows"]
    receipt.record("preprocess_rows", rows, "rows")
    for name, own in runs.items():
        receipt.record(f"preprocess_lines_{name}", own[0]["lines"], "lines")
        for metric, unit in (("seconds", "s"), ("cpu_s", "s"), ("peak_bytes", "B")):
            stem = {"seconds": "time", "cpu_s": "cpu_time", "peak_bytes": "memory"}[metric]
            _record(receipt, f"preprocess_{stem}_{name}", [row[metric] for row in own], unit)
            if name != "spark" and "spark" in runs:
                pairs = zip(runs["spark"], own, strict=True)
                ratios = [theirs[metric] / ours[metric] for theirs, ours in pairs]
                _record(receipt, f"preprocess_{stem}_spark_over_{name}", ratios, "×")
        stages = Counter(stage for row in own for stage in row["stages"])
        for stage in stages:
            times = [row["stages"][stage] for row in own]
            _record(receipt, f"preprocess_stage_{name}_{stage}", times, "s")


def _record(receipt, name, values, unit):
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    receipt.record(name, middle, unit, low, high, len(values))


def told(found):
    """Lines of text, one a run."""
    head = (
        f"{'engine':8}{'rows':>11}{'time s':>9}{'CPU s':>9}{'peak GB':>9}{'lines':>7}  stages"
    )
    lines = [head]
    for row in found:
        stages = ", ".join(f"{name} {seconds:.2f}" for name, seconds in row["stages"].items())
        lines.append(
            f"{row['engine']:8}{row['rows']:11,}{row['seconds']:9.2f}{row['cpu_s']:9.2f}"
            f"{row['peak_bytes'] / 1e9:9.2f}{row['lines']:7}  {stages}"
        )
    return "\n".join(lines)


def main(argv=None):
    """Race at this machine's size, show it, and write the receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--displays", type=int, help="size of the log; 5.2 rows a display")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engines", nargs="+", default=ENGINES, choices=ENGINES)
    parser.add_argument(
        "--scaling", nargs="+", type=int, default=[], help="numbers of displays"
    )
    parser.add_argument("--folder", help="where logs are kept; default: a temporary one")
    args = parser.parse_args(argv)
    tier = device.tier()
    receipt = receipts.start("wide_deep", tier)
    os.environ.setdefault("REBUILT_RECEIPTS", str(root() / "_build/receipts/preprocessing"))
    for engine in args.engines:
        if why := missing(engine):
            print(f"{engine} is left out: {why}")
    displays = args.displays or tier.pick(cpu=1_000_000, gpu=1_000_000, big=6_000_000)
    with tempfile.TemporaryDirectory(prefix="log-") as temp:
        raw = log_of(displays, args.folder or temp)
        found = race(raw, args.engines, args.rounds, limit_s=1800)
    print(told(found))
    record(receipt, found)
    if args.scaling:
        grown = scaling(args.scaling, args.engines, args.folder, limit_s=1800)
        print(told(grown))
        for (engine, stage), power in exponents(grown).items():
            receipt.record(f"preprocess_exponent_{engine}_{stage}", power, "")
            print(f"{engine:8}{stage:12} rows ** {power:.2f}")
    print(receipt.write())


if __name__ == "__main__":
    main()
