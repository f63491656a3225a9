"""`press run`: what is executed, kept, reused, reported and cleaned up. Real kernels."""

import contextlib
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import nbformat
import psutil
import pytest

from helpers.verdicts import slownesses
from press import PressError, Repository, run
from press.conftest import Small, act_cells, code
from press.run import Options, calibration, processes, worker
from press.run import job as jobs
from press.run import schedule as schedules

PRESS = Path(__file__).resolve().parents[1]


def pressed(small, names=None, **options):
    """The outcomes of a run, and the executed notebook's cells (none when there is no copy)."""
    repository = small.repository
    outcomes = run.run(repository, names, Options(**options))
    path = repository.chapters[0].executed
    return outcomes, nbformat.read(path, as_version=4).cells if path.exists() else []


def marked(small):
    """The processes that runs of this small repository left behind."""
    found = []
    for process in psutil.process_iter():
        try:
            ours = process.environ().get("REBUILT_RECEIPTS", "").startswith(str(small.root))
            if ours and processes.alive(process):
                found.append(process)
        except psutil.Error:
            continue
    return found


def commands(small):
    """The command lines of those that still live: one may end while it is asked."""
    for process in marked(small):
        with contextlib.suppress(psutil.Error):
            yield " ".join(process.cmdline())


CALIBRATION = """\
import os, sys

gain = "--gain" in sys.argv
assert os.environ["OMP_NUM_THREADS"] == ("1" if gain else "{threads}")
print([0.6, 0.4] if gain else [0.75, 0.5])
"""
NOISY = "import sys\nsys.stderr.write('\\r 10%|#   | 1/10 [00:01<00:09]\\r100%|####| 10/10 [00:10<00:00]\\n')"
CHILD = "import subprocess\nchild = subprocess.Popen(['sleep', '300'], start_new_session=True)"
PATHS = "import pathlib\nprint(pathlib.Path.cwd())\nreceipt.write()"
SHELL = {"OMP_NUM_THREADS": "7", "OMP_THREAD_LIMIT": "1", "OPENBLAS_THREAD_TIMEOUT": "20", "MKL_DYNAMIC": "TRUE"}
ASKED = """\
import os
told = [f"{name}={value}" for name, value in os.environ.items() if name.startswith(("OMP", "OPENBLAS", "MKL"))]
print("asked:", *sorted(told))
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory, first_small):
    """One run of a notebook that prints, warns and leaves a child, beside a calibration: what it left behind.

    Tests read it, or change a copy (`copied`).
    """
    own = tmp_path_factory.mktemp("ran")
    small = Small(shutil.copytree(first_small, own / "small"))
    cells = [code(source) for source in (NOISY, "import warnings\nwarnings.warn('take care')", CHILD, PATHS, ASKED)]
    small.write_notebook(small.cells(*cells))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REBUILT_CACHE", str(own / "cache"))
        for name, value in SHELL.items():
            patch.setenv(name, value)
        threads = schedules.threads_each(Options())
        small.write(str(calibration.SCRIPT), CALIBRATION.format(threads=threads))
        outcomes, executed = pressed(small)
    assert [outcome.state for outcome in outcomes] == ["fresh"], outcomes[0].message
    receipt = json.loads((small.root / "_build/receipts/moving_mean.cpu.json").read_text())
    shown = json.dumps([cell.get("outputs") for cell in executed])
    notes = " ".join(outcomes[0].notes)
    found = {"cells": executed, "receipt": receipt, "shown": shown, "notes": notes, "threads": threads}
    return SimpleNamespace(small=small, cache=own / "cache", **found)


@pytest.fixture
def copied(ran, tmp_path, monkeypatch):
    """A copy of the repository that has run, with a copy of its cache."""
    monkeypatch.setenv("REBUILT_CACHE", str(shutil.copytree(ran.cache, tmp_path / "cache_of_the_run")))
    return Small(shutil.copytree(ran.small.root, tmp_path / "copied"))


def test_a_notebook_runs_in_its_folder_and_leaves_a_whole_receipt(ran):
    assert "[1.5, 2.5, 3.5]" in ran.shown
    assert ran.receipt["metrics"]["mean_rate"]["value"] == 2100.0
    assert 0.2 < ran.receipt["seconds"] < 120 and 0.2 < ran.receipt["processor_seconds"] < 240
    assert 2e7 < ran.receipt["peak_memory_bytes"] < 2e9
    assert not (ran.small.root / "_build/running").exists()
    assert nbformat.read(ran.small.notebook_path, as_version=4).cells[5].outputs == [], "the source stays clean"


def test_the_press_s_threads_win_over_the_shell_s_of_which_nothing_is_left(ran):
    asked = re.search(r"asked: ([\w= ]+)", ran.shown)[1].split()
    one = str(ran.threads)
    wanted = {
        "MKL_NUM_THREADS": one,
        "OMP_NUM_THREADS": one,
        "OPENBLAS_NUM_THREADS": one,
        "OPENBLAS_THREAD_TIMEOUT": "4",
    }
    assert dict(one.split("=") for one in asked) == wanted
    assert ran.receipt["threads"] == ran.threads


def test_the_threads_of_a_receipt_are_those_that_the_process_got(small):
    takes = "import os\nos.environ['OMP_NUM_THREADS'] = '5'  # as a library would that was told otherwise"
    small.write_notebook(small.cells(code(takes)))
    pressed(small)
    assert json.loads((small.root / "_build/receipts/moving_mean.cpu.json").read_text())["threads"] == 5


def test_a_run_beside_others_is_not_taken_for_one_alone(ran, copied, monkeypatch):
    monkeypatch.setattr(schedules, "cores", lambda: 2 * ran.threads)
    assert pressed(copied, jobs=2)[0][0].state == "cached"
    assert pressed(copied, jobs=1)[0][0].state == "fresh"
    receipt = json.loads((copied.root / "_build/receipts/moving_mean.cpu.json").read_text())
    assert receipt["threads"] == 2 * ran.threads


def test_wrong_answers_are_gone_before_the_run(ran):
    assert ran.cells and not [cell for cell in ran.cells if "wrong" in cell.metadata.tags]


def test_an_unchanged_notebook_comes_from_the_cache(copied, capsys):
    before = copied.repository.chapters[0].executed.read_bytes()
    (copied.root / "_build/receipts/moving_mean.cpu.json").unlink()
    outcomes, _ = pressed(copied)
    assert outcomes[0].state == "cached"
    assert "taken from the cache" in capsys.readouterr().out
    assert copied.repository.chapters[0].executed.read_bytes() == before
    assert (copied.root / "_build/receipts/moving_mean.cpu.json").exists()


def test_a_fresh_clone_takes_the_run_of_another_with_its_receipt(ran, copied, tmp_path, capsys):
    clone = Repository(shutil.copytree(copied.root, tmp_path / "clone", ignore=shutil.ignore_patterns("_build")))
    (outcome,) = run.run(clone)
    assert outcome.state == "cached" and "unchanged since 2026-01-02" in capsys.readouterr().out
    assert json.loads((clone.root / "_build/receipts/moving_mean.cpu.json").read_text()) == ran.receipt
    record = json.loads(clone.chapters[0].run_record.read_text())
    assert record["cached"] and record["receipts"]["moving_mean.cpu.json"]["date"] == ran.receipt["date"]
    assert run.run(clone, options=Options(force=True))[0].state == "fresh"


def test_a_tier_reaches_the_parameters_cell(small):
    small.write_notebook(small.cells(code('assert TIER == "gpu", TIER')))
    outcomes, _ = pressed(small, tier="gpu")
    assert outcomes[0].state == "fresh", outcomes[0].message
    assert (small.root / "_build/receipts/moving_mean.gpu.json").exists()


def test_a_failing_cell_is_shown_with_its_traceback_and_nothing_half_done_is_left(copied, capsys):
    kept = copied.repository.chapters[0].executed.read_bytes()
    (copied.root / calibration.SCRIPT).unlink()
    copied.write_notebook(copied.cells(code("chosen = 1\nassert chosen == 2, 'the sum is wrong'")))
    outcomes, _ = pressed(copied)
    assert run.report(outcomes) == 1
    said = capsys.readouterr().err
    assert (
        f"AssertionError in cell {8 + len(act_cells())}" in said
        and "    assert chosen == 2" in said
        and "the sum is wrong" in said
    )
    assert copied.repository.chapters[0].executed.read_bytes() == kept, "the last good copy stays"
    failed = copied.root / "_build/failed/notebooks/signals/moving_mean/moving_mean.ipynb"
    assert "the sum is wrong" in failed.read_text()
    copied.write_notebook(copied.cells())
    pressed(copied, force=True)
    assert not failed.exists()


def test_a_notebook_out_of_time_is_ended_with_all_it_started(small):
    endless = "import subprocess, time\nsubprocess.Popen(['sleep', '300'], start_new_session=True)\ntime.sleep(300)"
    small.write_notebook(small.cells(code(endless)))
    began = time.monotonic()
    outcomes, _ = pressed(small, timeout=6)
    assert time.monotonic() - began < 150, "the cells would sleep for 300 s"
    assert outcomes[0].state == "failed" and "imeout" in outcomes[0].message.splitlines()[0]
    assert "time.sleep(300)" in outcomes[0].message
    assert not marked(small)


def test_the_limit_is_for_the_whole_notebook_not_for_each_cell(small):
    small.write_notebook(small.cells(*[code("import time\ntime.sleep(2)") for _ in range(5)]))
    outcomes, _ = pressed(small, timeout=6)
    assert "not finished after 6 s" in outcomes[0].message
    assert "Timeout in cell" in outcomes[0].message and "time.sleep(2)" in outcomes[0].message
    assert not marked(small)


def slow_kernel(monkeypatch, seconds):
    """Make every kernel take so long before it is ready."""
    monkeypatch.setattr(jobs, "KERNEL_START", f"import time\ntime.sleep({seconds})")


def test_the_limit_counts_from_the_first_cell_not_from_the_kernel_s_start(small, monkeypatch):
    slow_kernel(monkeypatch, 6)
    outcomes, _ = pressed(small, timeout=5)
    assert outcomes[0].state == "fresh", outcomes[0].message
    assert outcomes[0].seconds > 6, "the seconds of a receipt hold the kernel's start"


def test_a_kernel_that_does_not_start_has_its_own_limit(small, monkeypatch):
    slow_kernel(monkeypatch, 300)
    monkeypatch.setattr(jobs, "KERNEL_SECONDS", 2)
    outcomes, _ = pressed(small)
    first, *rest = outcomes[0].message.splitlines()
    assert "before the first cell" in outcomes[0].message and "cell ?" in first
    assert "Kernel didn't respond in 2 seconds" in "\n".join(rest)
    assert not marked(small)


def test_the_machine_s_speed_beside_the_run_is_kept_in_the_receipt(ran):
    gains = {"gain_before": 1.5, "gain_after": 1.5}
    assert ran.receipt["calibration"] == {"before_s": 0.75, "after_s": 0.75, "unit_s": 0.5} | gains
    assert slownesses(ran.receipt["calibration"]) == [1.5, 1.5]
    assert "calibration" not in ran.notes


def test_other_work_beside_the_run_is_seen_and_its_own_is_not(tmp_path, monkeypatch):
    """With a clock of processor time that is ours: 3 s of the machine's 5 were this process's and its children's."""
    clock = iter(
        [
            SimpleNamespace(_asdict=lambda: {"user": 10.0, "system": 1.0, "idle": 99.0, "guest": 7.0}),
            SimpleNamespace(_asdict=lambda: {"user": 14.0, "system": 2.0, "idle": 0.0, "guest": 9.0}),
        ]
    )
    own = iter([(1.0, 1.0, 0.0, 0.0, 0.0), (1.5, 1.5, 1.0, 1.0, 9.0)])
    monkeypatch.setattr("psutil.cpu_times", lambda: next(clock))
    monkeypatch.setattr(worker.os, "times", lambda: next(own))
    before = worker._other_seconds()
    assert worker._other_seconds() - before == 2.0


def test_the_worker_tells_what_others_took_and_what_it_took_itself(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(worker, "_weigh", lambda held, over: held.update(seconds=0.5, bytes=7))
    others, own, clock = iter([10.0, 13.0]), iter([1.0, 7.0]), iter([100.0, 104.0])
    monkeypatch.setattr(worker.conditions, "look", lambda root, seconds: {})
    monkeypatch.setattr(worker, "_papermill", lambda task, limit, tell: None)
    monkeypatch.setattr(worker, "_die_with_parent", lambda: None)
    monkeypatch.setattr(worker, "_other_seconds", lambda: next(others))
    monkeypatch.setattr(worker, "_own_seconds", lambda: next(own))
    monkeypatch.setattr(worker, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    assert worker.execute({"root": ".", "seconds": 9}) == 0
    done = {"seconds": 4.0, "busy_cores": 0.75, "processor_seconds": 5.5, "peak_bytes": 7}
    assert json.loads(Path("told.json").read_text()) == {"before": {}, "after": {}} | done


def test_how_busy_the_machine_was_beside_the_run_is_in_the_receipt(ran):
    assert 0 <= ran.receipt["busy_cores"]["during"] <= 64
    assert set(ran.receipt["busy_cores"]) == {"before", "after", "during"}
    assert set(ran.receipt["steal"]) == {"before", "after", "during"}
    assert all(share is None or 0 <= share <= 1 for share in ran.receipt["steal"].values())
    assert set(ran.receipt["load"]) == {"before", "after"}


def test_a_calibration_that_fails_is_told_and_stops_nothing(small):
    small.write(str(calibration.SCRIPT), "raise RuntimeError\n")
    outcomes, _ = pressed(small)
    assert outcomes[0].state == "fresh" and "no budget can be held" in " ".join(outcomes[0].notes)
    receipt = json.loads((small.root / "_build/receipts/moving_mean.cpu.json").read_text())
    assert set(receipt["calibration"].values()) == {None} and not slownesses(receipt.get("calibration"))


def test_what_a_notebook_leaves_running_is_ended_and_said(ran):
    assert "ended what the notebook left running" in ran.notes and "sleep" in ran.notes
    assert not marked(ran.small)


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("import os\nos._exit(9)", "died"),
        ("raise SystemExit(0)", "exit()"),
        ("receipt.write = print", "wrote no receipt"),
    ],
)
def test_a_run_that_ends_early_or_without_a_receipt_fails(small, source, why):
    small.write_notebook(small.cells(code(source)))
    outcomes, cells = pressed(small)
    assert outcomes[0].state == "failed" and why in outcomes[0].message.lower()
    assert cells == []


def test_progress_bars_and_stderr(ran):
    assert "00:09" not in ran.shown and "take care" in ran.shown and "ipykernel_" not in ran.shown
    assert "take care" in ran.notes
    assert "papermill" not in ran.small.repository.chapters[0].executed.read_text()


def test_a_page_shows_paths_from_the_root_on(ran):
    assert str(ran.small.root) not in ran.shown
    assert "notebooks/signals/moving_mean" in ran.shown and "('_build/receipts/moving_mean.cpu.json')" in ran.shown


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_interrupting_kills_the_children_and_the_next_run_goes_on(small, how):
    orphan = "import subprocess, time\nsubprocess.run('sleep 300 &', shell=True)\ntime.sleep(300)"
    small.write_notebook(small.cells(code(orphan)))
    command = [sys.executable, str(PRESS), "--root", str(small.root), "run"]
    heard = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}  # a job in the background ignores it
    press = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **heard)
    for _ in range(1200):
        if any(command.startswith("sleep ") for command in commands(small)):
            break
        time.sleep(0.05)
    with pytest.raises(PressError, match="another press is at work"):
        run.run(small.repository)
    press.send_signal(how)
    out, err = press.communicate(timeout=60)
    assert press.returncode == 130 and "run it again" in err, (out, err)
    assert not marked(small) and not (small.root / "_build/running").exists()
    small.write_notebook(small.cells())
    assert pressed(small)[0][0].state == "fresh"


def test_a_killed_press_takes_its_workers_with_it(small):
    small.write_notebook(small.cells(code("import time\ntime.sleep(300)")))
    command = [sys.executable, str(PRESS), "--root", str(small.root), "run"]
    press = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(1200):
        if any("ipykernel" in command for command in commands(small)):
            break
        time.sleep(0.05)
    press.kill()
    press.wait()
    for _ in range(200):
        if not marked(small):
            break
        time.sleep(0.1)
    assert not marked(small)


@pytest.mark.parametrize(
    ("needs", "at_once"), [([1, 1, 1, 1], 4), ([1, 1], 2), ([1, 2, 1, 1], 2), ([64, 1], 1), (["'?'"], 1), ([], 1)]
)
def test_as_many_run_at_once_as_have_cores_and_memory_and_one_always(small, needs, at_once):
    for number, need in enumerate(needs):
        small.write(f"notebooks/signals/copy{number}/copy{number}.ipynb", small.notebook_path.read_text())
        small.write(f"notebooks/signals/copy{number}/copy{number}.yml", f"needs: {{memory_gb: {need}}}\n")
    copies = [chapter for chapter in small.repository.chapters if chapter.stem.startswith("copy")]
    assert schedules.fitting(copies, 4, 5e9) == at_once


def test_the_threads_of_a_notebook_do_not_depend_on_how_many_are_left_to_run(monkeypatch):
    monkeypatch.setattr(schedules, "cores", lambda: 4)
    found = {asked: schedules.threads_each(Options(jobs=asked)) for asked in (0, 1, 2, 3, 9)}
    assert found == {0: 2, 1: 4, 2: 2, 3: 1, 9: 1}


def test_one_that_goes_wrong_ends_the_others(small, monkeypatch):
    began = time.monotonic()

    def execute(repository, chapter, *given):
        if chapter.stem == "copy0":
            raise PressError("gone wrong")
        return subprocess.run(["sleep", "100"])

    small.write("notebooks/signals/copy0/copy0.ipynb", small.notebook_path.read_text())
    small.write("notebooks/signals/copy0/copy0.yml", "needs: {memory_gb: 1}\n")
    monkeypatch.setattr(schedules, "cores", lambda: 2)
    monkeypatch.setattr(schedules, "execute", execute)
    with pytest.raises(PressError, match="gone wrong"):
        run.run(small.repository, options=Options(jobs=2, force=True))
    assert time.monotonic() - began < 60


def test_names_select_chapters(small):
    repository = small.repository
    for name in ("signals", "signals/moving_mean", "moving_mean", str(small.notebook_path), "notebooks/signals/"):
        assert [str(chapter) for chapter in repository.select([name])] == ["signals/moving_mean"]
    with pytest.raises(PressError, match="no chapter is called 'speech'.*signals/moving_mean"):
        repository.select(["speech"])
