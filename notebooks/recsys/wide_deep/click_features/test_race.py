"""The bench of preprocessing: memory of all processes, lines, slopes, and no false winner."""

import json
import shutil
import subprocess
import sys
import time

import outbrain
import polars as pl
import psutil
import pytest

from . import bench_scaling as bench
from . import race
from . import spec as fs
from .folder import paths


@pytest.fixture(scope="module")
def raced(tmp_path_factory):
    """A small log, and one run of Polars on it."""
    raw = tmp_path_factory.mktemp("race") / "raw"
    outbrain.generate(raw, 150, seed=1)
    out = raw.parent / "features"
    return raw, out, race.run("polars", raw, out)


def child(code):
    return subprocess.Popen([sys.executable, "-c", code])


def test_a_run_tells_rows_time_memory_and_stages(raced):
    raw, out, found = raced
    rows = len((raw / "clicks_train.csv").read_text().splitlines()) - 1
    assert found["rows"] == rows == sum(pl.read_parquet(paths(out, s)).height for s in fs.SETS)
    assert 0 < sum(found["stages"].values()) < found["seconds"]
    assert 20e6 < found["peak_bytes"] < 4e9 and found["cpu_s"] > 0.05


def test_memory_of_descendants_counts():
    held = "import time; x = bytearray(200_000_000); time.sleep(1.5)"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {held!r}])"
    peak, _, late = race.watch(child(code), time.perf_counter() + 60)
    assert 200e6 < peak < 400e6 and not late


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux knows what is shared")
def test_pages_that_processes_share_count_once():
    code = "import os, time; x = bytearray(200_000_000); os.fork(); time.sleep(1.5)"
    peak, _, _ = race.watch(child(code), time.perf_counter() + 60)
    assert 200e6 < peak < 350e6


def test_a_late_run_is_ended_with_all_its_children():
    code = "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', 'import time; "
    code += "time.sleep(60)']); p.wait()"
    process = child(code)
    below = []
    while not below:
        below = psutil.Process(process.pid).children(recursive=True)
    _, _, late = race.watch(process, time.perf_counter() + 0.3)
    assert late and process.returncode
    psutil.wait_procs(below, timeout=5)
    assert not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in below)


def test_an_engine_that_fails_is_quoted(raced, tmp_path):
    raw = shutil.copytree(raced[0], tmp_path / "raw")
    (raw / "events.csv").unlink()
    with pytest.raises(RuntimeError, match="polars ended with 1(.|\n)*lacks events.csv"):
        race.run("polars", raw, tmp_path / "out")


def test_stacks_of_java_do_not_hide_what_it_said(raced, tmp_path, monkeypatch):
    code = (
        "raise SystemExit('OutOfMemoryError\\n' + '\\tat org.apache.spark.Somewhere\\n' * 200)"
    )
    (tmp_path / "click_features").mkdir()
    (tmp_path / "click_features" / "__init__.py").touch()
    (tmp_path / "click_features" / "with_spark.py").write_text(code)
    monkeypatch.setattr(race, "SLICE", tmp_path)
    with pytest.raises(RuntimeError, match="OutOfMemoryError"):
        race.run("spark", raced[0], tmp_path / "out")


def test_unknown_engines_are_refused(raced):
    with pytest.raises(ValueError, match="no engine .'pandas'.; allowed"):
        race.race(raced[0], ("pandas",))


def test_engines_that_cannot_run_here_are_left_out(raced, monkeypatch):
    monkeypatch.setattr(race, "missing", lambda engine: "not here")
    assert race.race(raced[0], ("polars", "spark")) == []


@pytest.mark.parametrize(
    "version, told",
    [("1.8.0_392", "Java is 1; Spark needs 17 or newer"), ("11.0.2", "Java is 11;"),
     ("17.0.1", ""), ("25", ""), ("", "Java is unknown;")],
)  # fmt: skip
def test_an_old_java_is_told_before_the_race(tmp_path, monkeypatch, version, told):
    (tmp_path / "bin").mkdir()
    java = tmp_path / "bin/java"
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(race, "find_spec", lambda name: True)
    why = race.missing("spark")
    assert why.startswith(told) and bool(why) == bool(told)
    assert race.missing("polars") == ""


def test_no_java_is_told_before_the_race(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(race, "find_spec", lambda name: True)
    assert race.missing("spark") == "Java is not installed"


def test_no_pyspark_is_told_before_the_race(monkeypatch):
    monkeypatch.setattr(race, "find_spec", lambda name: None)
    assert race.missing("spark") == "pyspark is not installed"


def test_engines_take_turns(raced, monkeypatch):
    monkeypatch.setattr(race, "missing", lambda engine: "")
    monkeypatch.setattr(race, "run", lambda engine, *rest: {"engine": engine})
    monkeypatch.setattr(race, "check_same", lambda one, other: None)
    order = [row["engine"] for row in race.race(raced[0], ("polars", "torch"), rounds=2)]
    assert order == ["polars", "torch", "torch", "polars"]


@pytest.mark.parametrize("column", ["clicked", "ad_id_hash", "sim_topic"])
def test_other_features_are_noticed(raced, tmp_path, column):
    other = shutil.copytree(raced[1], tmp_path / "other")
    race.check_same(raced[1], other)
    path = paths(other, "valid")[0]
    frame = pl.read_parquet(path)
    one_more = frame[column].to_numpy().copy()
    one_more[7] += 1
    frame.with_columns(pl.Series(column, one_more)).write_parquet(path)
    with pytest.raises(AssertionError, match=f"valid, {column}"):
        race.check_same(raced[1], other)


def test_what_comes_behind_is_timed_once_a_round(raced, monkeypatch):
    monkeypatch.setattr(race, "missing", lambda engine: "")
    monkeypatch.setattr(race, "run", lambda engine, *rest: {"engine": engine})
    monkeypatch.setattr(race, "check_same", lambda one, other: None)
    calls = []
    rows = race.race(
        raced[0], ("polars", "torch"), 2, behind=lambda out: calls.append(out) or 3
    )
    assert len(calls) == 2 and [row["behind"] for row in rows] == [3] * 4


def test_spark_gets_its_threads_heap_and_settings():
    env = race.local_spark(3, 1024, ("a=b",))
    words = "--master local[3] --driver-memory 1024m --conf spark.ui.enabled=false --conf a=b"
    assert env["PYSPARK_SUBMIT_ARGS"] == f"{words} pyspark-shell"


def test_a_heap_that_is_too_small_is_left_out(raced, monkeypatch, capsys):
    def run(raw, engines, heap_mb, conf):
        if heap_mb == 1:
            raise RuntimeError("OutOfMemoryError")
        return [{"engine": "spark"}]

    monkeypatch.setattr(bench, "race", run)
    found = bench.heaps(raced[0], [1, 2048])
    assert [(one["heap_mb"], one["broadcast"]) for one in found] == [(2048, 1), (2048, 0)]
    assert "OutOfMemoryError" in capsys.readouterr().out


def test_every_point_has_its_rounds_and_shows_their_median(monkeypatch, tmp_path):
    asked = []

    def raced(raw, engines, rounds, threads, **options):
        asked.append((rounds, threads, options.get("heap_mb")))
        took = [{"engine": one, "round": turn} for turn in range(rounds) for one in engines]
        size = {"rows": 10 * int(raw), "cpu_s": 1.0, "peak_bytes": 5, "stages": {}}
        return [one | size | {"seconds": (3.0, 1.0, 2.5)[one["round"]]} for one in took]

    monkeypatch.setattr(bench, "race", raced)
    monkeypatch.setattr(bench, "log_of", lambda displays, folder: str(displays))
    monkeypatch.setattr(bench, "missing", lambda engine: "")
    monkeypatch.setenv("REBUILT_RECEIPTS", str(tmp_path))
    sizes = ["--displays", "4", "2", "--heaps-mb", "512", "1024"]
    bench.main(["--rounds", "3", "--threads", "1", *sizes])
    assert asked == [(3, 1, None)] * 2 + [(3, 1, heap) for heap in (512, 512, 1024, 1024)]
    content = json.loads((tmp_path / "wide_deep.cpu.scaling.json").read_text())
    curve = content["curves"]["over_rows_spark"]
    assert curve["rows"] == [20, 40] and curve["seconds"] == [2.5, 2.5]
    heaps = content["curves"]["spark_over_heap"]
    assert heaps["heap_mb"] == [512, 512, 1024, 1024] and heaps["broadcast"] == [1, 0, 1, 0]
    largest = content["metrics"]["largest_time_polars"]
    assert (largest["value"], largest["low"], largest["repeats"]) == (2.5, 1.0, 3)
    assert content["threads"] == 1


def test_lines_are_statements_whatever_their_layout(tmp_path, monkeypatch):
    (tmp_path / "one.py").write_text(
        '"""Words."""\nimport os\n\n# why\nx = [\n 1,\n 2]\ny = 2\n'
    )
    monkeypatch.setattr(race, "SLICE", tmp_path)
    monkeypatch.setitem(race.CODE, "spark", ("one",))
    assert race.lines("spark") == 2
