"""`press race`: the environment of the peers, the load, the benches as modules, the receipts in their place."""

import json
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from press import PressError
from press.cli import main
from press.race import Busy, Options, benches, peers, race
from press.reuse import store

BENCH = """\
import argparse, json, os, pathlib, sys

import moving_mean

parser = argparse.ArgumentParser()
parser.add_argument("--rounds", type=int)
parser.add_argument("--threads", type=int)
options = parser.parse_args()
content = {"metrics": {}, "machine": {"cpu": "Some CPU"}, "rounds": options.rounds, "threads": options.threads,
           "cwd": os.getcwd(), "python": sys.executable, "module": __spec__.name,
           "asleep": os.environ.get("OPENBLAS_THREAD_TIMEOUT")}
path = pathlib.Path(os.environ["REBUILT_RECEIPTS"], "moving_mean.cpu.windows.json")
path.write_text(json.dumps(content))
"""


@pytest.fixture
def quiet(monkeypatch):
    """A machine that is always quiet, so that a race is about the race."""
    loads = []
    monkeypatch.setattr(benches, "busy_cores", lambda: loads.pop(0) if loads else 0.05)
    return loads


def bench(small, text=BENCH):
    """A package of the slice with one bench."""
    small.write("notebooks/signals/moving_mean/windows/__init__.py", "")
    small.write("notebooks/signals/moving_mean/windows/bench_windows.py", text)
    return small


def raced(small, *arguments):
    """The exit status of the command, and the recorded receipts by file name."""
    status = main(["--root", str(small.root), "race", "moving_mean", *arguments])
    found = (small.root / "data/receipts").rglob("*.json")
    return status, {path.relative_to(small.root / "data/receipts").as_posix(): path for path in found}


def test_a_bench_runs_as_a_module_in_its_slice_and_its_receipt_is_recorded(small, quiet):
    status, kept = raced(bench(small), "--threads", "2")
    assert status == 0 and list(kept) == ["moving_mean/cpu-some-cpu-windows.json"]
    content = json.loads(kept["moving_mean/cpu-some-cpu-windows.json"].read_text())
    assert content["rounds"] == 20 and content["threads"] == 2 and content["module"] == "windows.bench_windows"
    assert Path(content["cwd"]) == small.home and content["python"] == sys.executable
    assert content["busy_cores"] == {"before": 0.05, "after": 0.05}
    assert content["asleep"] == "4", "threads of a contestant's library spin on while the next one is timed"
    assert not list((small.root / "_build/running").glob("*"))


def test_a_busy_machine_is_refused_before_the_race_and_told_after_it(small, quiet, capsys):
    quiet += [0.9]
    assert raced(bench(small)) == (2, {})
    assert "0.9 cores are busy before windows.bench_windows" in capsys.readouterr().err
    quiet += [0.9]
    with pytest.raises(Busy):  # what `press receipt` forgives; nothing else
        race(small.repository, ["moving_mean"], Options())
    quiet += [0.9, 0.8]
    status, kept = raced(small, "--loaded")
    assert status == 0 and "0.8 cores were busy afterwards" in capsys.readouterr().out
    assert json.loads(*(path.read_text() for path in kept.values()))["busy_cores"] == {"before": 0.9, "after": 0.8}


@pytest.mark.parametrize(
    ("text", "why"), [("raise SystemExit(3)", "status 3"), ("", "no receipt"), (BENCH + "raise ValueError", "status 1")]
)
def test_a_bench_that_fails_records_nothing(small, quiet, capsys, text, why):
    assert raced(bench(small, text)) == (1, {})
    assert why in capsys.readouterr().out


def test_a_bench_out_of_time_is_ended_with_what_it_started(small, quiet, capsys):
    text = "import subprocess, time\nsubprocess.Popen(['sleep', '300'], start_new_session=True)\ntime.sleep(300)"
    began = time.monotonic()
    assert raced(bench(small, text), "--timeout", "5") == (1, {})
    assert "not finished after 5 s" in capsys.readouterr().out and time.monotonic() - began < 120
    inherited = [p for p in psutil.process_iter() if "race-" in _environment(p).get("REBUILT_RUN", "")]
    assert not [p for p in inherited if str(small.root) in _environment(p).get("PYTHONPATH", "")]


def _environment(process):
    try:
        return process.environ()
    except psutil.Error:
        return {}


def test_one_bench_of_several_can_be_asked_for(small, quiet, capsys):
    bench(small).write("notebooks/signals/moving_mean/windows/bench_others.py", "raise SystemExit(3)")
    assert list(raced(small, "--bench", "windows")[1]) == ["moving_mean/cpu-some-cpu-windows.json"]
    assert raced(small, "--bench", "nobody")[0] == 1
    assert "has no bench nobody; there are others, windows" in capsys.readouterr().out


def test_a_slice_without_a_bench_says_so(small, quiet, capsys):
    assert raced(small) == (0, {}) and "has no bench_*.py" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("file", "machine", "place"),
    [
        ("a.cpu.json", {"slug": "amd-epyc-2-cores"}, "a/cpu-amd-epyc-2-cores-windows.json"),
        ("a.gpu.deep_net.json", {"gpu": "Tesla T4", "cpu": "x"}, "a/gpu-tesla-t4-deep-net.json"),
        ("a.cpu.b.json", {}, "a/cpu-unknown-b.json"),
    ],
)
def test_a_receipt_s_place_names_tier_machine_and_race(small, file, machine, place):
    found = benches.place(small.repository, Path(file), {"machine": machine}, "windows.bench_windows")
    assert found == small.root / "data/receipts" / place


def test_the_load_is_that_of_the_cores(monkeypatch):
    spinning = [sys.executable, "-c", "import time\nend = time.time() + 20\nwhile time.time() < end: pass"]
    process = subprocess.Popen(spinning)
    try:
        assert benches.busy_cores(1.0) > 0.3
    finally:
        process.kill()
        process.wait()


def package(folder, name, version):
    """The folder of a package that pip can install without an index."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.py").write_text(f"VERSION = {version!r}\n")
    text = f'[project]\nname = "{name}"\nversion = "{version}"\n[tool.setuptools]\npy-modules = ["{name}"]\n'
    (folder / "pyproject.toml").write_text(
        text + '[build-system]\nrequires = []\nbuild-backend = "setuptools.build_meta"\n'
    )
    return folder


def test_peers_lie_over_the_book_s_packages_and_are_made_once(small, tmp_path, capsys):
    shadow = package(tmp_path / "shadow", "pygments", "99.0")
    lines = [f"{shadow} --no-deps --no-build-isolation"]
    small.write_card(peers=lines)
    assert peers.pins(small.repository.chapters) == lines
    python = peers.python(lines)
    ask = "import pygments, psutil; print(getattr(pygments, 'VERSION', 'the book'), psutil.__file__)"
    said = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True, cwd=tmp_path).stdout.split()
    assert said[0] == "99.0", "the peer's own version comes first"
    assert Path(said[1]) == Path(psutil.__file__), "the rest is the book's"
    import pygments

    assert not hasattr(pygments, "VERSION"), "the book's environment is untouched"
    before = (python.parent.parent / store.STAMP).stat().st_ino
    assert peers.python(lines) == python and "making" in capsys.readouterr().out
    assert (python.parent.parent / store.STAMP).stat().st_ino == before and "making" not in capsys.readouterr().out
    assert [kept.kind for kept in store.contents()] == ["peers"] and store.contents()[0].bytes > 1000


def test_an_environment_is_made_whole_or_not_at_all(small, tmp_path, monkeypatch):
    with pytest.raises(PressError, match="failed: .*pip.*no_such_folder"):
        peers.python([str(tmp_path / "no_such_folder") + " --no-deps"])
    assert not store.contents() and not [p for p in (store.folder() / "peers").iterdir() if p.is_dir()]


def test_a_half_made_environment_is_made_anew(small, monkeypatch):
    made = []
    monkeypatch.setattr(peers, "_make", lambda home, lines: made.append(home) or home.mkdir())
    home = peers.python(["a==1"]).parent.parent
    (home / store.STAMP).unlink()
    (home / "half").write_text("")
    assert peers.python(["a==1"]).parent.parent == home and len(made) == 2 and not (home / "half").exists()
    assert peers.python(["a==2"]).parent.parent != home


def test_no_peers_need_no_environment():
    assert peers.python([]) == Path(sys.executable)
