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
from press.files import lock
from press.race import Busy, Options, benches, peers, race
from press.reuse import store
from press.run import conditions

BENCH = """\
import argparse, json, os, pathlib, sys

import moving_mean

parser = argparse.ArgumentParser()
parser.add_argument("--rounds", type=int, default=20)
parser.add_argument("--threads", type=int, default=2)
options = parser.parse_args()
metrics = {"rate": {"value": 1.0, "unit": "x/s", "repeats": options.rounds}, "size": {"value": 1.0, "unit": "x"}}
content = {"metrics": metrics, "seconds": 0.0, "machine": {"slug": "some-cpu"},
           "rounds": options.rounds, "threads": options.threads, "load": {"start": 1.0},
           "cwd": os.getcwd(), "python": sys.executable, "module": __spec__.name,
           "threads_by_library": {"torch": options.threads}, "told": os.environ.get("OMP_NUM_THREADS"),
           "asleep": os.environ.get("OPENBLAS_THREAD_TIMEOUT")}
path = pathlib.Path(os.environ["REBUILT_RECEIPTS"], "moving_mean.cpu.windows.json")
path.write_text(json.dumps(content))
"""


def seen(busy=0.05, gain=1.9, **changes):
    """What a look at the machine gives."""
    speed = {"seconds": 0.3, "unit_s": 0.25} | ({"one_thread_s": gain, "two_threads_s": 1.0} if gain else {})
    counted = {"cores": 2, "all_s": 100.0, "busy_s": 5.0, "steal_s": 1.0}
    look = {"busy_cores": busy, "steal": 0.0, "load": 0.2, "calibration": speed}
    later = counted | {"all_s": 200.0}  # from the end of a look to the begin of the next the host took nothing
    return look | {"counted": {"begin": later, "end": counted}} | changes


@pytest.fixture
def quiet(monkeypatch):
    """A machine that is always quiet, so that a race is about the race; looks that are put here come first."""
    looks = []
    monkeypatch.setattr(conditions, "look", lambda root: looks.pop(0) if looks else seen())
    monkeypatch.setattr(conditions, "cores", lambda: 2)
    return looks


def bench(small, text=BENCH):
    """A package of the chapter with one bench."""
    small.write("notebooks/signals/moving_mean/windows/__init__.py", "")
    small.write("notebooks/signals/moving_mean/windows/bench_windows.py", text)
    return small


def raced(small, *arguments):
    """The exit status of the command, and the recorded receipts by file name."""
    status = main(["--root", str(small.root), "race", "moving_mean", *arguments])
    found = (small.root / "data/receipts").rglob("*.json")
    return status, {path.relative_to(small.root / "data/receipts").as_posix(): path for path in found}


def test_a_bench_runs_as_a_module_in_its_chapter_and_its_receipt_is_recorded(small, quiet):
    status, kept = raced(bench(small), "--threads", "2")
    assert status == 0 and list(kept) == ["moving_mean/cpu-some-cpu-windows.json"]
    content = json.loads(kept["moving_mean/cpu-some-cpu-windows.json"].read_text())
    assert content["rounds"] == 20, "its own choice"
    assert content["threads"] == 2 and content["module"] == "windows.bench_windows"
    assert Path(content["cwd"]) == small.home and content["python"] == sys.executable
    assert content["busy_cores"] == {"before": 0.05, "after": 0.05} and content["load"]["after"] == 0.2
    assert set(content["steal"]) == {"before", "after", "during"}
    assert content["calibration"]["gain_before"] == 1.9 and content["calibration"]["after_s"] == 0.3
    assert content["asleep"] == "4", "threads of a contestant's library spin on while the next one is timed"
    assert not list((small.root / "_build/running").glob("*"))


def test_a_busy_machine_is_refused_before_the_race_and_told_after_it(small, quiet, capsys):
    quiet += [seen(0.9)]
    assert raced(bench(small)) == (2, {})
    assert "windows.bench_windows: 0.9 cores were busy before the recording" in capsys.readouterr().err
    quiet += [seen(0.9)]
    with pytest.raises(Busy):  # what `press receipt` forgives; nothing else
        race(small.repository, ["moving_mean"], Options())
    quiet += [seen(0.9), seen(0.8)]
    status, kept = raced(small, "--loaded")
    assert status == 0 and "busy_cores before 0.9, after 0.8" in capsys.readouterr().out
    assert json.loads(*(path.read_text() for path in kept.values()))["busy_cores"] == {"before": 0.9, "after": 0.8}


@pytest.mark.parametrize("threads", [(), ("--threads", "2"), ("--threads", "8")])
def test_a_race_of_two_threads_is_refused_where_they_share_a_core(small, quiet, capsys, threads):
    quiet += [seen(gain=1.49)]
    assert raced(bench(small), *threads) == (2, {})
    assert "1.49 times as fast as one before the recording" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("gain", "arguments"),
    [(1.5, ()), (None, ("--loaded",)), (1.0, ("--threads", "1")), (1.0, ("--threads", "2", "--loaded"))],
)
def test_a_race_is_run_where_its_threads_have_their_cores_or_somebody_insists(small, quiet, gain, arguments):
    quiet += [seen(gain=gain), seen(gain=gain)]
    status, kept = raced(bench(small), *arguments)
    assert status == 0 and len(kept) == 1


def test_a_race_whose_second_core_went_is_not_recorded_and_not_lost(small, quiet, capsys):
    quiet += [seen(), seen(gain=1.2)]
    assert raced(bench(small), "--threads", "2") == (1, {})
    said = capsys.readouterr().out
    assert "not recorded: two threads did" in said and "1.20 times as fast as one after the recording" in said
    content = json.loads((small.root / "_build/races/moving_mean/cpu-some-cpu-windows.json").read_text())
    assert "second core" in content["not_recorded"] and content["rounds"] == 20
    assert content["calibration"]["gain_before"] == 1.9 and content["calibration"]["gain_after"] == 1.2
    assert "_build/races/moving_mean/cpu-some-cpu-windows.json" in said


def test_a_race_and_a_study_do_not_run_beside_each_other(small, quiet, capsys):
    with lock(store.folder() / "recording.lock", "press study"):
        assert raced(bench(small)) == (2, {})
    assert "another press is at work" in capsys.readouterr().err


def test_one_thread_does_not_mind_that_the_second_core_went(small, quiet):
    quiet += [seen(), seen(gain=1.2)]
    assert raced(bench(small), "--threads", "1")[0] == 0


def test_a_race_after_which_others_work_is_not_recorded(small, quiet, capsys):
    quiet += [seen(), seen(busy=0.9)]
    assert raced(bench(small)) == (1, {})
    assert "not recorded: 0.9 cores were busy right after the recording, at most 0.3 may be" in capsys.readouterr().out
    quiet += [seen(), seen(busy=0.9)]
    assert raced(bench(small), "--loaded")[0] == 0


@pytest.mark.parametrize(
    ("look", "told"), [({"busy": None}, "nobody knows how many cores were busy"), ({"gain": None}, "nobody knows what")]
)
def test_what_is_not_known_is_not_quiet(small, quiet, capsys, look, told):
    quiet += [seen(**look)]
    assert raced(bench(small)) == (2, {}) and told in capsys.readouterr().err
    quiet += [seen(), seen(**look)]
    assert raced(bench(small))[0] == 1 and "not recorded: nobody knows" in capsys.readouterr().out


def test_a_race_beside_which_others_work_is_not_recorded(small, quiet, capsys, monkeypatch):
    monkeypatch.setattr(conditions, "WATCH_SECONDS", 0.2)
    other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        assert raced(bench(small, "import time\ntime.sleep(1)\n" + BENCH)) == (1, {})
    finally:
        other.kill()
        other.wait()
    assert "cores were busy during the recording" in capsys.readouterr().out
    content = json.loads((small.root / "_build/races/moving_mean/cpu-some-cpu-windows.json").read_text())
    assert content["busy_cores"]["during"] > 0.3


def test_a_race_from_which_the_host_took_its_time_is_not_recorded(small, quiet, capsys):
    later = {"cores": 2, "all_s": 300.0, "busy_s": 5.0, "steal_s": 13.0}
    quiet += [seen(), seen(counted={"begin": later, "end": later})]
    assert raced(bench(small)) == (1, {})
    assert "6.0% of the cores' time was the host's during the race, at most 5%" in capsys.readouterr().out


def test_a_race_of_which_nobody_knows_what_the_host_took_is_not_recorded(small, quiet, capsys):
    quiet += [seen(), seen(counted={})]
    assert raced(bench(small)) == (1, {})
    assert "nobody knows how much of the cores' time was the host's" in capsys.readouterr().out


def test_a_race_whose_code_changes_meanwhile_is_not_recorded(small, quiet, capsys):
    text = BENCH + 'path = pathlib.Path("moving_mean.py")\npath.write_text(path.read_text() + "z = 1\\n")\n'
    assert raced(bench(small, text)) == (1, {})
    assert "not recorded: the code was changed while it ran" in capsys.readouterr().out
    content = json.loads((small.root / "_build/races/moving_mean/cpu-some-cpu-windows.json").read_text())
    assert content["metrics"] and "changed" in content["not_recorded"], "what was measured is not lost"


def test_what_is_not_known_is_told_and_stays_null(small, quiet, capsys):
    quiet += [seen(busy=None, gain=None, steal=None, counted={}) for _ in range(2)]
    status, kept = raced(bench(small), "--loaded")
    content = json.loads(*(path.read_text() for path in kept.values()))
    said = capsys.readouterr().out
    assert status == 0 and said.count("before not known, after not known") == 2
    assert content["busy_cores"] == {"before": None, "after": None} and content["steal"]["during"] is None
    assert content["calibration"]["gain_after"] is None


def test_what_the_host_took_meanwhile_is_told(small, quiet, capsys):
    later = {"cores": 2, "all_s": 300.0, "busy_s": 5.0, "steal_s": 11.0}
    quiet += [seen(), seen(counted={"begin": later, "end": later})]
    _, kept = raced(bench(small))
    assert "steal before 0.0, after 0.0, during 0.05" in capsys.readouterr().out
    assert json.loads(*(path.read_text() for path in kept.values()))["steal"]["during"] == 0.05


def test_the_threads_of_the_shell_are_not_those_of_a_race(small, quiet, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    for arguments, told in [((), "2"), (("--threads", "1"), "1")]:
        _, kept = raced(bench(small), *arguments)
        assert json.loads(next(iter(kept.values())).read_text())["told"] == told


def test_rounds_and_threads_reach_the_bench(small, quiet):
    _, kept = raced(bench(small), "--rounds", "7", "--threads", "1")
    content = json.loads(*(path.read_text() for path in kept.values()))
    assert (content["rounds"], content["threads"]) == (7, 1)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"repeats": options.rounds', '"repeats": 1', "--rounds 7 was asked for, the repeats of its metrics are: 1"),
        ('"repeats": options.rounds', '"note": ""', "--rounds 7 was asked for, the repeats of its metrics are: none"),
        ('"threads": options.threads,', '"threads": 2,', "--threads 1 was asked for, the receipt says 2"),
        ('{"torch": options.threads}', '{"torch": 2}', "the receipt says 1 threads, at its end there were: torch 2"),
        ('{"torch": options.threads}', '{"torch": 1, "openblas": 2}', "there were: openblas 2; say --threads 1"),
    ],
)
def test_a_bench_that_does_not_do_what_it_was_told_is_not_recorded(small, quiet, capsys, old, new, says):
    assert old in BENCH
    assert raced(bench(small, BENCH.replace(old, new)), "--rounds", "7", "--threads", "1") == (1, {})
    assert says in capsys.readouterr().out
    assert (small.root / "_build/races/moving_mean/cpu-some-cpu-windows.json").is_file()


def test_the_seconds_are_those_of_the_whole_process(small, quiet):
    _, kept = raced(bench(small, "import time\ntime.sleep(0.7)\n" + BENCH))
    assert 0.7 <= json.loads(*(path.read_text() for path in kept.values()))["seconds"] < 60


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


def test_a_chapter_without_a_bench_says_so(small, quiet, capsys):
    assert raced(small) == (0, {}) and "has no bench_*.py" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("file", "machine", "place"),
    [
        ("a.cpu.json", {"slug": "amd-epyc-2-cores"}, "a/cpu-amd-epyc-2-cores-windows.json"),
        ("a.gpu.deep_net.json", {"slug": "tesla-t4"}, "a/gpu-tesla-t4-deep-net.json"),
    ],
)
def test_a_receipt_s_place_names_tier_machine_and_race(small, file, machine, place):
    found = benches.place(small.repository, Path(file), {"machine": machine}, "windows.bench_windows")
    assert found == small.root / "data/receipts" / place


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
    with pytest.raises(PressError, match="(?s)no environment of .*no_such_folder"):
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
