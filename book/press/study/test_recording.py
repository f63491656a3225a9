"""`press study`: alone and clean, in pieces that go on after a kill, into a receipt with all that it takes."""

import json
import shutil
import subprocess
import time
from pathlib import Path

import pytest

import helpers
from press import PressError
from press.cli import main
from press.files import lock, read_json
from press.reuse import store
from press.run import conditions
from press.study import recording
from press.study.worker import Kept

STUDY = '''\
"""A toy study."""

import pathlib
import time

from helpers.study import Arm, Metric, Outcome, Part, Study
from moving_mean import moving_mean

LOG = pathlib.Path(__file__).with_name("log.txt")


def parts(seed, sizes):
    return {"train": Part([seed] * sizes["points"], ["a"]), "test": Part([seed], ["b"])}


def fit(job):
    with LOG.open("a") as log:
        log.write(f"{job.name} {job.seed}\\n")
    crash = LOG.with_name("crash.txt")
    if crash.exists() and crash.read_text() == f"{job.name} {job.seed}":
        crash.unlink()
        raise SystemExit(3)
    return moving_mean(job.train, job.arm.loss)


def judge(made, data, job):
    return {"error": float(len(made) + data[0])}


ARMS = {"narrow": Arm(train="train", loss=1), "wide": Arm(train="train", loss=2)}
STUDY = Study(
    notebook="moving_mean", name="widths", arms=ARMS, seeds=(3, 4), processes=1, metrics={"error": Metric("points")},
    parts=parts, fit=fit, judge=judge, sizes={"points": 5}, trial={"points": 3},
    outcomes={"wide_gain": Outcome("error", "narrow", "wide", differs=("loss",))},
)
'''  # fmt: skip
LOOK = {"busy_cores": 0.1, "steal": 0.0, "load": 0.2}
LOOK |= {"calibration": {"seconds": 0.3, "unit_s": 0.23, "one_thread_s": 0.4, "two_threads_s": 0.21}}


@pytest.fixture
def looks(monkeypatch):
    """What the machine is like when somebody looks; quiet once these are used up, whatever runs beside the tests."""
    found, real = [], recording.One._piece
    monkeypatch.setattr(conditions, "look", lambda root: found.pop(0) if found else LOOK)
    monkeypatch.setattr(recording.One, "_piece", lambda *given: (*real(*given)[:2], None))
    return found


@pytest.fixture
def toy(small, looks):
    """The small book with the real helpers and a study, all of it committed."""
    shutil.rmtree(small.root / "helpers")
    real = Path(helpers.__file__).parent
    shutil.copytree(real, small.root / "helpers", ignore=shutil.ignore_patterns("test_*", "conftest.py", "__pycache__"))
    small.write("notebooks/signals/moving_mean/study_widths.py", STUDY)
    small.write(".gitignore", "_build/\nlog.txt\ncrash.txt\n__pycache__/\n")
    commit(small)
    return small


def commit(small):
    """None; everything is committed."""
    own = ["git", "-c", "user.name=T", "-c", "user.email=t@example.org"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "all"]):
        subprocess.run([*own, *words], cwd=small.root, check=True)


def recorded(small, *arguments):
    """(exit status, the receipt or None, the jobs that were done)."""
    status = main(["--root", str(small.root), "study", "moving_mean", *arguments])
    paths = [*(small.root / "data/receipts").rglob("*widths.json")]
    log = small.home / "log.txt"
    return status, read_json(paths[0]) if paths else None, log.read_text().split("\n")[:-1] if log.exists() else []


ALL = ["narrow 3", "wide 3", "narrow 4", "wide 4"]


@pytest.mark.parametrize("crash", ["", "wide 4", "narrow 3"])
def test_two_processes_meet_and_do_each_arm_of_each_seed_once(toy, crash):
    slow = STUDY.replace("processes=1", "processes=2").replace("    with LOG", "    time.sleep(1)\n    with LOG")
    toy.write("notebooks/signals/moving_mean/study_widths.py", slow)
    commit(toy)
    if crash:
        (toy.home / "crash.txt").write_text(crash)
    status, receipt, done = recorded(toy)
    if crash == "narrow 3":  # the first process's: what the second has made is kept
        assert status == 1
        status, receipt, done = recorded(toy)
    assert status == 0 and (crash or done.index("wide 4") < done.index("narrow 4"))
    assert sorted(done) == sorted([*ALL, *[crash] * bool(crash)])
    assert receipt["metrics"]["study_narrow_error"]["value"] == pytest.approx(8.5)
    assert receipt["metrics"]["study_narrow_error"]["repeats"] == 2


def test_a_study_is_recorded_from_its_declaration(toy, capsys):
    status, receipt, done = recorded(toy, "--study", "widths")
    assert status == 0 and done == ALL
    assert receipt["metrics"]["wide_gain"]["value"] == 1 and receipt["metrics"]["wide_gain"]["unit"] == "points"
    assert receipt["metrics"]["study_narrow_error"]["value"] == pytest.approx(8.5)
    assert receipt["command"] == "make study CHAPTERS=signals/moving_mean STUDY=widths"
    assert receipt["script"] == "study_widths.py" and receipt["dirty"] is False and len(receipt["commit"]) == 40
    assert receipt["sizes"] == {"points": 5, "units_train": 1, "units_test": 1, "seeds": 2}
    assert receipt["study"] == {"name": "widths", "seeds": [3, 4], "over": "seeds", "added": "", "pieces": 1}
    assert receipt["calibration"]["before_s"] == receipt["calibration"]["after_s"] == 0.3
    assert receipt["busy_cores"]["before"] == 0.1 and receipt["steal"]["after"] == 0
    assert "every study came to its end" in capsys.readouterr().out
    assert not [*store.folder().glob("studies/*")] and not [*(toy.root / "_build/running").glob("*")]


def test_a_receipt_in_its_place_does_not_make_the_next_study_dirty(toy):
    assert recorded(toy)[0] == 0
    commit(toy)
    receipt = next((toy.root / "data/receipts").rglob("*widths.json"))
    receipt.write_text("{}")
    status, content, _ = recorded(toy)
    assert status == 0 and content["dirty"] is False


def test_uncommitted_code_is_refused(toy, capsys):
    with (toy.home / "study_widths.py").open("a") as handle:
        handle.write("# another line\n")
    assert recorded(toy) == (1, None, [])
    assert "study_widths.py differs from the last commit" in capsys.readouterr().out


def test_a_module_that_is_in_no_commit_is_refused(toy, capsys):
    toy.write("notebooks/signals/moving_mean/extra.py", "x = 1\n")
    assert recorded(toy) == (1, None, [])
    assert "extra.py differs from the last commit" in capsys.readouterr().out


RUN = "__import__('subprocess').run({!r}, shell=True, check=True, cwd=LOG.parents[3])"
COMMIT = "git add -A && git -c user.name=T -c user.email=t@e commit -qm x --allow-empty"


@pytest.mark.parametrize(
    ("what", "fine"),
    [
        ("echo z = 1 >> notebooks/signals/moving_mean/moving_mean.py", False),
        (f"echo z = 1 >> helpers/show.py && {COMMIT}", False),
        (f"echo z > other.txt && {COMMIT}", True),
    ],
)
def test_code_that_changes_while_it_runs_is_not_recorded(toy, capsys, what, fine):
    line = f"    {RUN.format(what)}\n    crash ="
    toy.write("notebooks/signals/moving_mean/study_widths.py", STUDY.replace("    crash =", line))
    commit(toy)
    status, receipt, _ = recorded(toy)
    assert (status == 0 and receipt is not None) == fine
    assert ("the code was changed while it ran" in capsys.readouterr().out) != fine


def test_a_piece_that_is_killed_leaves_what_it_began_with(toy, monkeypatch):
    class Killed(BaseException):
        pass

    def killed(*_):
        raise Killed

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(recording.One, "_piece", killed)
        recorded(toy)
    status, receipt, _ = recorded(toy)
    assert status == 0 and receipt["study"]["pieces"] == 2


def test_a_study_of_two_threads_asks_for_the_second_core(toy, looks, capsys):
    toy.write("notebooks/signals/moving_mean/study_widths.py", STUDY.replace("judge=judge,", "judge=judge, threads=2,"))
    commit(toy)
    for speed in ({"one_thread_s": 0.4, "two_threads_s": 0.39}, {}):
        looks += [LOOK | {"calibration": speed}]
        assert recorded(toy) == (2, None, [])
    told = capsys.readouterr().err
    assert "1.03 times as fast as one before" in told and "nobody knows what a second thread gained" in told


OTHERS = {"busy_cores": 0.6, "calibration": {"one_thread_s": 0.4, "two_threads_s": 0.39}}


@pytest.mark.parametrize(
    ("threads", "after", "told"),
    [
        (1, {"busy_cores": OTHERS["busy_cores"]}, "0.6 cores were busy after the recording"),
        (1, {"busy_cores": None}, "nobody knows how many cores were busy"),
        (2, {"calibration": OTHERS["calibration"]}, "1.03 times as fast as one after"),
        (1, {"calibration": OTHERS["calibration"]}, ""),
    ],
)
def test_what_a_piece_measured_beside_other_work_is_not_recorded(toy, looks, capsys, threads, after, told):
    toy.write(
        "notebooks/signals/moving_mean/study_widths.py",
        STUDY.replace("judge=judge,", f"judge=judge, threads={threads},"),
    )
    commit(toy)
    (toy.home / "crash.txt").write_text("narrow 4")
    assert recorded(toy)[0] == 1  # ends with two arms of the first seed measured, in quiet
    looks += [LOOK, LOOK | after]
    status, receipt, _ = recorded(toy)
    assert (status, receipt is None) == ((1, True) if told else (0, False)) and told in capsys.readouterr().out
    left = sorted(path.name for path in store.folder().glob("studies/*/made-*.json"))
    assert left == ([f"made-{name}-3.json" for name in ("narrow", "wide")] if told else [])


def test_what_others_took_meanwhile_counts_and_loaded_lets_it_pass(toy, monkeypatch):
    real = recording.One._piece
    monkeypatch.setattr(recording.One, "_piece", lambda *given: (*real(*given)[:2], 0.9))
    assert recorded(toy)[:2] == (1, None)
    status, receipt, _ = recorded(toy, "--loaded")
    assert status == 0 and receipt["busy_cores"]["during"] == 0.9


def test_a_last_piece_beyond_three_hours_is_not_recorded(toy, capsys, monkeypatch):
    real = recording.One._piece

    def late(one, folder, options):
        found = real(one, folder, options)
        for path in folder.glob("scored-wide-4.json"):
            path.write_text(json.dumps(read_json(path) | {"seconds": recording.MOST_SECONDS}))
        return found

    monkeypatch.setattr(recording.One, "_piece", late)
    assert recorded(toy)[:2] == (1, None)
    assert "3.0 hours, and 3 are allowed" in capsys.readouterr().out


def test_a_process_near_the_end_of_three_hours_is_given_what_is_left(toy, monkeypatch):
    waits = []
    real = subprocess.Popen.wait
    monkeypatch.setattr(subprocess.Popen, "wait", lambda own, timeout=None: waits.append(timeout) or real(own, timeout))
    monkeypatch.setattr(recording, "_seconds", lambda folder: recording.MOST_SECONDS - 100.0)
    assert recorded(toy)[0] == 0 and 100.0 in waits


def test_a_study_that_was_ended_goes_on_and_its_seconds_are_of_all(toy, capsys):
    (toy.home / "crash.txt").write_text("narrow 4")
    status, receipt, done = recorded(toy)
    assert status == 1 and receipt is None and done == ["narrow 3", "wide 3", "narrow 4"]
    assert "ended with status 3; what it has measured is kept" in capsys.readouterr().out
    folder = next(store.folder().glob("studies/*"))
    for path in folder.glob("scored-narrow-3.json"):
        path.write_text(json.dumps(read_json(path) | {"seconds": 1000.0}))
    status, receipt, done = recorded(toy)
    assert status == 0 and done == ["narrow 3", "wide 3", "narrow 4", "narrow 4", "wide 4"]
    assert (
        receipt["seconds"] >= 1000 and receipt["study"]["pieces"] == 2 and receipt["metrics"]["wide_gain"]["value"] == 1
    )


def test_other_code_begins_anew(toy):
    (toy.home / "crash.txt").write_text("narrow 4")
    recorded(toy)
    text = (toy.home / "moving_mean.py").read_text()
    (toy.home / "moving_mean.py").write_text(text.replace("/ width", "/ (width + 0)"))
    commit(toy)
    assert recorded(toy)[2] == ["narrow 3", "wide 3", "narrow 4", *ALL]


def test_a_piece_that_takes_too_long_is_ended_and_the_next_goes_on(toy, monkeypatch):
    monkeypatch.setattr(recording, "PIECE_SECONDS", 15.0)
    monkeypatch.setattr(recording, "LEAST_SECONDS", 1.0)
    toy.write("notebooks/signals/moving_mean/study_widths.py", STUDY.replace("raise SystemExit(3)", "time.sleep(100)"))
    commit(toy)
    (toy.home / "crash.txt").write_text("narrow 4")
    status, receipt, done = recorded(toy)
    assert status == 0 and done == ["narrow 3", "wide 3", "narrow 4", "narrow 4", "wide 4"]
    assert receipt["study"]["pieces"] == 2


def test_an_arm_that_takes_longer_than_a_piece_is_ended_and_told(toy, monkeypatch, capsys):
    monkeypatch.setattr(recording, "PIECE_SECONDS", 6.0)
    monkeypatch.setattr(recording, "LEAST_SECONDS", 1.0)
    text = STUDY.replace("return moving_mean", "time.sleep(100)\n    return moving_mean")
    toy.write("notebooks/signals/moving_mean/study_widths.py", text)
    commit(toy)
    assert recorded(toy)[:2] == (1, None)
    assert "nothing came to its end" in capsys.readouterr().out


def test_each_second_is_counted_once_and_each_arm_has_its_own_file(tmp_path):
    kept = Kept(tmp_path)

    def scored():
        return kept("made", "rate 0.1", 3, lambda: time.sleep(0.3) or [1])

    assert kept("scored", "rate 0.1", 3, scored) == [1] == kept("scored", "rate 0.1", 3, None)
    assert kept("scored", "rate 0.2", 3, lambda: [2]) == [2] and kept("scored", "rate 0.1", 4, lambda: [3]) == [3]
    taken = [read_json(path)["seconds"] for path in tmp_path.glob("*.json")]
    assert len(taken) == 4 and 0.3 <= sum(taken) < 0.5


def test_what_cannot_be_kept_is_made_again(tmp_path):
    made = []

    def compute():
        made.append(lambda: None)
        return made[-1]

    kept = Kept(tmp_path)
    assert kept("made", "live", 0, compute) is made[0] and kept("made", "live", 0, compute) is made[1]


def test_the_seconds_of_what_cannot_be_kept_count_each_time(tmp_path):
    kept = Kept(tmp_path)
    for _ in range(2):
        kept("made", "live", 0, lambda: time.sleep(0.2) or (lambda: None))
    assert 0.4 <= read_json(tmp_path / "made-live-0.json")["seconds"] < 0.6


def test_three_hours_are_the_most(toy, monkeypatch, capsys):
    (toy.home / "crash.txt").write_text("narrow 4")
    recorded(toy)
    path = next(store.folder().glob("studies/*/scored-narrow-3.json"))
    path.write_text(json.dumps(read_json(path) | {"seconds": 4 * 3600.0}))
    assert recorded(toy)[:2] == (1, None)
    assert "4.0 hours, and 3 are allowed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("busy", "told"), [(0.9, "0.9 cores were busy"), (None, "nobody knows how many cores were busy")]
)
def test_it_runs_alone(toy, looks, capsys, busy, told):
    looks += [LOOK | {"busy_cores": busy}]
    assert recorded(toy) == (2, None, [])
    assert told in capsys.readouterr().err
    looks += [LOOK | {"busy_cores": busy}]
    status, receipt, _ = recorded(toy, "--loaded")
    assert status == 0 and receipt["busy_cores"]["before"] == busy


def test_one_recording_at_a_time_on_a_machine(toy, capsys):
    with lock(store.folder() / "recording.lock", "press study"):
        assert recorded(toy) == (2, None, [])
    assert "another press is at work" in capsys.readouterr().err


def test_a_trial_is_small_and_records_nothing(toy, capsys):
    with (toy.home / "study_widths.py").open("a") as handle:
        handle.write("# not committed, and that is fine\n")
    status, receipt, done = recorded(toy, "--trial")
    assert status == 0 and receipt is None and done == ALL
    assert "nothing recorded" in capsys.readouterr().out and not [*store.folder().glob("studies/*")]


def test_a_study_that_is_not_there_and_a_module_that_does_not_import(toy, capsys):
    assert recorded(toy, "--study", "lengths")[0] == 2
    assert "no study lengths" in capsys.readouterr().err
    toy.write("notebooks/signals/moving_mean/study_more.py", "import nothing_of_that_name")
    with pytest.raises(PressError, match="study_more cannot be imported"):
        recording.study(toy.repository, ["moving_mean"])


def test_the_conditions_of_all_pieces_are_in_the_receipt():
    quiet = conditions.joined(LOOK, LOOK)
    busy = conditions.joined(LOOK | {"busy_cores": 1.5}, LOOK | {"load": 3.0})
    last = conditions.joined(LOOK, LOOK | {"calibration": LOOK["calibration"] | {"seconds": 0.9}})
    found = recording._spanned([quiet, busy, last])
    assert found["busy_cores"] == {"before": 0.1, "after": 0.1, "during": 1.5} and found["load"]["during"] == 3
    assert found["calibration"]["before_s"] == 0.3 and found["calibration"]["after_s"] == 0.9
