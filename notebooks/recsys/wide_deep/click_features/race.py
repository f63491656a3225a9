"""Raw files to features, each engine in a process of its own, timed from outside.

The interpreter's start, Java's and the engine's count, as they do for who waits. Peak memory is
the largest sum over the process and all its descendants, looked at every 50 ms or less often,
of proportional set sizes: a page that processes share is counted once, as Java's forks need.
(Where only resident sizes are known, these are taken.) Features are compared before a number is
believed.
"""

import ast
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import polars as pl
import psutil

from . import spec as fs
from .folder import paths

SLICE = Path(__file__).resolve().parents[1]
CODE = {  # from raw files to features, with the checks of the files
    "spark": ("click_features/with_spark", "click_features/spark_log"),
    "polars": ("click_features/with_polars", "click_features/polars_tables", "outbrain/files"),
}
ENGINES = ("spark", "polars", "torch")
LOOK_S = 0.05
HEAP_MB = 2048  # of Spark, where nothing else is said
OLDEST_JAVA = 17


def race(raw, engines=ENGINES, rounds=1, limit_s=600, own=None, behind=None, **options):
    """A list of dicts, one per run: what it took, by engine, over rounds.

    >>> race("outbrain", ("polars", "torch"))[0]["engine"]
    'polars'

    A dict has engine, round, rows (of train and valid together), seconds, cpu_s, peak_bytes and
    stages (seconds by name, as the engine reports them; Spark computes when it must, so its
    stages say where it waited). Engines take turns, another begins each round; those that
    cannot run here (`missing`) are left out. behind: a function of a folder of features that is
    called once a round; what it returns stands under `behind`. options: handed to `run`, with
    what `own` has for an engine.
    Raises RuntimeError, with what it said, for an engine that fails or takes longer than
    `limit_s`, and AssertionError if features differ.
    """
    if unknown := set(engines) - set(ENGINES):
        raise ValueError(f"no engine {sorted(unknown)}; allowed are {ENGINES}")
    able, found = [name for name in engines if not missing(name)], []
    with tempfile.TemporaryDirectory(prefix="race-") as temp:
        for turn in range(rounds if able else 0):
            at, runs = turn % len(able), []
            for engine in able[at:] + able[:at]:
                out = Path(temp, engine)
                shutil.rmtree(out, ignore_errors=True)
                given = options | (own or {}).get(engine, {})
                runs.append({"round": turn} | run(engine, raw, out, limit_s, **given))
            for engine in able if turn == 0 else ():
                check_same(Path(temp, able[0]), Path(temp, engine))
            later = {"behind": behind(Path(temp, able[0]))} if behind else {}
            found += [one | later for one in runs]
    return found


def by_engine(found):
    """By engine, arrays by name of what its runs took, in the order of rounds; of dicts as
    `race` gives them.
    """
    runs = {}
    for one in found:
        runs.setdefault(one["engine"], []).append(one)
    names = ("seconds", "cpu_s", "peak_bytes", "behind")
    return {
        engine: {name: np.array([one[name] for one in own]) for name in names if name in own[0]}
        for engine, own in runs.items()
    }


def local_spark(threads, heap_mb=1024):
    """The environment in which PySpark starts on this machine alone."""
    words = f"--master local[{threads}] --driver-memory {heap_mb}m"
    words += " --conf spark.ui.enabled=false pyspark-shell"
    return {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_SUBMIT_ARGS": words}


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


def run(engine, raw, out, limit_s=600, threads=None, heap_mb=HEAP_MB, **options):
    """A dict of what one run of an engine took, in a process of its own; see `race`.

    threads: as many for each engine; None leaves them their own choice. heap_mb: Spark's.
    options: of `build`.
    """
    code = f"import sys, json; from click_features import with_{engine} as engine; "
    code += "engine.build(sys.argv[1], sys.argv[2], **json.loads(sys.argv[3]))"
    # threads of torch that wait must not spin, or they take the cores from those that work
    env = {"OMP_WAIT_POLICY": "PASSIVE"} | os.environ
    if threads:
        env |= {"OMP_NUM_THREADS": str(threads), "POLARS_MAX_THREADS": str(threads)}
    if engine == "spark":
        env |= local_spark(threads or "*", heap_mb)
    line = [sys.executable, "-c", code, str(raw), str(out), json.dumps(options)]
    with tempfile.TemporaryFile("w+") as said:
        began = time.perf_counter()
        child = subprocess.Popen(
            line, cwd=SLICE, env=env, stdout=said, stderr=subprocess.STDOUT
        )
        peak, cpu_s, late = watch(child, began + limit_s)
        seconds = time.perf_counter() - began
        said.seek(0)
        # without Java's stacks, which would hide what it said
        words = "".join(line for line in said if not line.startswith("\tat "))[-3000:]
    if late or child.returncode:
        how = f"took longer than {limit_s} s" if late else f"ended with {child.returncode}"
        raise RuntimeError(f"{engine} {how}: {words}")
    report = json.loads(Path(out, "report.json").read_text(encoding="utf-8"))
    return {
        "engine": engine,
        "rows": sum(report["rows"].values()),
        "seconds": seconds,
        "cpu_s": cpu_s,
        "peak_bytes": peak,
        "stages": report["seconds"],
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
        held, began = 0, time.perf_counter()
        for pid, process in seen.items():
            with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                held += held_bytes(process)
                spent[pid] = sum(process.cpu_times()[:2])
        peak = max(peak, held)
        with contextlib.suppress(subprocess.TimeoutExpired):  # looks take at most 2 % of a core
            child.wait(max(LOOK_S, 40 * (time.perf_counter() - began)))
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
                same = np.allclose(found, wanted, fs.RELATIVE, fs.ABSOLUTE)
            elif same:
                same = found.equals(wanted)
            if not same:
                raise AssertionError(f"{name}, {column}: {one} and {other} differ")


def lines(engine):
    """How many lines an engine's modules have, one per statement, whatever their layout.

    Comments, docstrings and imports are left out; so is what all engines share.
    """
    found = 0
    for name in CODE[engine]:
        tree = ast.parse((SLICE / f"{name}.py").read_text("utf-8"))
        for node in ast.walk(tree):
            told = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            found += isinstance(node, ast.stmt) and not told
            found -= isinstance(node, (ast.Import, ast.ImportFrom))
    return found
