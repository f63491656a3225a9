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
from helpers.bench import spread

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


def test_the_end_of_a_run_is_seen_at_once_though_its_memory_takes_long_to_sum(monkeypatch):
    """Else Spark, whose processes are large, waits for its clock longer than the others do."""
    monkeypatch.setattr(race, "held_bytes", lambda process: time.sleep(0.25) or 1)
    began = time.perf_counter()
    assert race.watch(child("import time; time.sleep(0.3)"), began + 60)[2] is False
    assert time.perf_counter() - began < 40 * 0.25


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


def test_features_are_held_against_each_other_in_the_first_round(raced, monkeypatch):
    held = []
    monkeypatch.setattr(race, "missing", lambda engine: "")
    monkeypatch.setattr(race, "run", lambda engine, *rest: {"engine": engine})
    monkeypatch.setattr(race, "check_same", lambda *both: held.append([x.name for x in both]))
    race.race(raced[0], rounds=2)
    assert held == [["spark", "spark"], ["spark", "polars"], ["spark", "torch"]]


def test_what_runs_took_lies_by_engine_in_the_order_of_rounds():
    found = [
        {"engine": name, "seconds": 10 * turn + at, "cpu_s": 1, "peak_bytes": turn, "rows": 7}
        for turn in range(2)
        for at, name in enumerate(("spark", "polars") if turn == 0 else ("polars", "spark"))
    ]
    runs = race.by_engine(found)
    assert runs["spark"]["seconds"].tolist() == [0, 11]
    assert runs["polars"]["seconds"].tolist() == [1, 10]
    assert runs["spark"].keys() == {"seconds", "cpu_s", "peak_bytes"}
    assert runs["spark"]["peak_bytes"].tolist() == [0, 1]


def test_spark_gets_its_threads_and_heap():
    env = race.local_spark(3, 1024)
    words = "--master local[3] --driver-memory 1024m --conf spark.ui.enabled=false"
    assert env["PYSPARK_SUBMIT_ARGS"] == f"{words} pyspark-shell"


@pytest.mark.parametrize("engine", race.ENGINES)
def test_every_engine_gets_as_many_threads_and_spark_its_heap(engine, tmp_path, monkeypatch):
    code = (
        "import json, os, pathlib\n"
        "def build(raw, out, **options):\n"
        "    pathlib.Path(out).mkdir()\n"
        "    told = {'rows': {'a': 1}, 'seconds': {**os.environ, 'given': options}}\n"
        "    pathlib.Path(out, 'report.json').write_text(json.dumps(told))\n"
    )
    (tmp_path / "click_features").mkdir()
    (tmp_path / "click_features/__init__.py").touch()
    (tmp_path / f"click_features/with_{engine}.py").write_text(code)
    monkeypatch.setattr(race, "SLICE", tmp_path)
    found = race.run(engine, "raw", tmp_path / "out", threads=3, heap_mb=512, check=False)
    told = found["stages"]
    assert told["OMP_NUM_THREADS"] == told["POLARS_MAX_THREADS"] == "3"
    assert told["OMP_WAIT_POLICY"] == "PASSIVE" and told["given"] == {"check": False}
    if engine == "spark":
        assert "local[3] --driver-memory 512m" in told["PYSPARK_SUBMIT_ARGS"]


def test_a_heap_that_is_too_small_is_left_out(raced, monkeypatch, capsys):
    def run(raw, engines, heap_mb, rounds):
        if heap_mb == 1:
            raise RuntimeError("OutOfMemoryError")
        return [{"engine": one} for one in engines * rounds]

    monkeypatch.setattr(bench, "race", run)
    found = bench.heaps(raced[0], [1, 2048], rounds=3)
    assert found == [{"engine": "spark", "heap_mb": 2048}] * 3
    assert "OutOfMemoryError" in capsys.readouterr().out


def test_every_run_is_a_point_and_the_largest_log_has_paired_ratios(monkeypatch, tmp_path):
    clock = {"spark": (30.0, 20.0, 25.0), "polars": (3.0, 4.0, 1.0)}
    made, asked, places = [], [], []

    def raced(raw, engines=race.ENGINES, rounds=1, threads=None, heap_mb=None, **options):
        raw = raw.name
        asked.append((raw, engines, rounds, threads, heap_mb, options["check"]))
        places.append(options.get("own"))
        return [
            {"engine": one, "round": turn, "rows": 10 * int(raw), "cpu_s": 1.0, "stages": {}}
            | {"seconds": clock.get(one, (5.0,) * 3)[turn] * int(raw)}
            | {"peak_bytes": {"spark": 900, "polars": 100, "torch": 450}[one] + turn}
            for turn in range(rounds)
            for one in engines
        ]

    monkeypatch.setattr(bench, "race", raced)
    monkeypatch.setattr(bench.outbrain, "generate", lambda raw, displays: made.append(displays))
    monkeypatch.setattr(bench, "missing", lambda engine: "")
    monkeypatch.setenv("REBUILT_RECEIPTS", str(tmp_path))
    sizes = ["--displays", "4", "2", "--heaps-mb", "512", "1024", "--heap-rounds", "2"]
    bench.main(["--rounds", "3", "--threads", "1", *sizes])
    assert asked == [(raw, race.ENGINES, 3, 1, None, False) for raw in "24"] + [
        ("4", ("spark",), 2, 1, heap, False) for heap in (512, 1024)
    ]
    assert made == [2, 4]
    assert places == [{"torch": {"device": "cpu"}}] * 2 + [None] * 2
    content = json.loads((tmp_path / "wide_deep.cpu.scaling.json").read_text())
    curve = content["curves"]["over_rows_spark"]
    assert curve["rows"] == [20] * 3 + [40] * 3
    assert curve["seconds"] == [60, 40, 50, 120, 80, 100]
    heaps = content["curves"]["spark_over_heap"]
    assert heaps["heap_mb"] == [512, 512, 1024, 1024] and heaps["seconds"] == [120, 80] * 2
    assert heaps["peak_bytes"] == [900, 901] * 2
    found = content["metrics"]
    largest = found["largest_time_polars"]
    assert (largest["value"], largest["low"], largest["repeats"]) == (12, 4, 3)
    ratio = found["largest_time_spark_over_polars"]  # 10, 5 and 25, not 100 over 12
    assert (ratio["value"], ratio["low"], ratio["high"]) == (10, 5, 25)
    assert found["largest_memory_spark_over_torch"]["value"] == pytest.approx(901 / 451)
    assert found["largest_memory_spark"]["unit"] == "B" and ratio["unit"] == "×"
    assert not any("spark_over_spark" in name for name in found)
    assert content["threads"] == 1 and content["sizes"]["rows"] == 40


def test_six_rounds_of_two_million_rows_and_three_heaps_are_what_is_recorded():
    """5.17 ads a display; of six rounds an interval of 95 % can be told, of five none."""
    assert 2e6 < 5.17 * bench.DISPLAYS[-1] < 2.1e6 and 2e5 < 5.17 * bench.DISPLAYS[-2] < 2.1e5
    asked = bench.parser().parse_args([])
    assert (asked.rounds, asked.heap_rounds, len(asked.heaps_mb)) == (6, 3, 3)
    assert [spread(range(n)).interval for n in (5, 6)] == ["range", "95 %"]


def test_lines_are_statements_whatever_their_layout(tmp_path, monkeypatch):
    (tmp_path / "one.py").write_text(
        '"""Words."""\nimport os\n\n# why\nx = [\n 1,\n 2]\ny = 2\n'
    )
    monkeypatch.setattr(race, "SLICE", tmp_path)
    monkeypatch.setitem(race.CODE, "spark", ("one",))
    assert race.lines("spark") == 2
