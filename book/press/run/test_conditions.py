"""Conditions: other work, steal, speed and the gain of a second thread; what is not known stays None."""

import os
import subprocess
import sys
import time
from types import SimpleNamespace

import psutil
import pytest

from helpers.verdicts import slownesses
from press.run import calibration, conditions

SPEED = """\
import os, sys

one = os.environ.get("OPENBLAS_NUM_THREADS") == os.environ.get("OMP_NUM_THREADS") == "1"
print([0.3, 0.2] if "--gain" in sys.argv and one else [0.5, 0.25])
"""


def cores(monkeypatch, *readings, affinity=(0, 1)):
    """Make the system count these readings in turn, each a list with one dict of seconds for each core."""
    queue = list(readings)

    def cpu_times(percpu):
        assert percpu
        found = queue.pop(0) if len(queue) > 1 else queue[0]
        return [SimpleNamespace(_asdict=lambda own=own: own) for own in found]

    monkeypatch.setattr(psutil, "cpu_times", cpu_times)
    monkeypatch.setattr(conditions.os, "sched_getaffinity", lambda pid: set(affinity), raising=False)


def core(user=0.0, idle=0.0, **more):
    return {"user": user, "idle": idle, "guest": user, **more}


def seen(seconds=0.3, one=0.4, two=0.2, counted=None, **changes):
    """What a look gives."""
    speed = {"seconds": seconds, "unit_s": 0.25, "one_thread_s": one, "two_threads_s": two}
    return {"busy_cores": 0.1, "steal": 0.0, "load": 0.5, "calibration": speed, "counted": counted} | changes


def counted(whole, stolen):
    return {"cores": 2, "all_s": whole, "busy_s": 0.0, "steal_s": stolen}


def test_a_look_times_the_calibration_and_its_parallel_work_on_one_and_two_threads(small, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    small.write(str(calibration.SCRIPT), SPEED)
    found = conditions.look(small.root, seconds=0.01)
    assert found["calibration"] == {"seconds": 0.5, "unit_s": 0.25, "one_thread_s": 0.3, "two_threads_s": 0.2}
    assert 0 <= found["busy_cores"] <= 64


def test_without_the_press_or_with_a_broken_calibration_there_is_no_speed(small):
    (small.root / calibration.SCRIPT).unlink(missing_ok=True)
    assert conditions.look(small.root, seconds=0)["calibration"] == {}
    for text in ("print(None)", "print([1])", "raise RuntimeError", "print('fast')", "print([1, 'fast'])"):
        small.write(str(calibration.SCRIPT), text)
        assert conditions.look(small.root, seconds=0)["calibration"] == {}, text


def test_steal_is_its_share_of_the_time_of_the_cores_that_are_ours(small, monkeypatch):
    first = [core(1, 1, steal=0), core(0, 0, steal=0), core(0, 0, steal=50)]
    last = [core(4, 2, steal=3), core(1, 2, steal=0), core(0, 0, steal=90)]
    cores(monkeypatch, first, last)
    assert conditions.look(small.root, seconds=0)["steal"] == 0.3


def test_busy_cores_are_those_of_the_interval(small, monkeypatch):
    clock = iter((10.0, 12.0))
    monkeypatch.setattr(conditions, "time", SimpleNamespace(monotonic=lambda: next(clock), sleep=lambda seconds: None))
    cores(monkeypatch, [core(5, 5, iowait=0), core(0, 0)], [core(6, 6, iowait=9), core(1.5, 0)])
    assert conditions.look(small.root, 2.0)["busy_cores"] == 1.25


def test_the_load_is_that_of_the_cores(small):
    spinning = [sys.executable, "-c", "import time\nend = time.time() + 20\nwhile time.time() < end: pass"]
    process = subprocess.Popen(spinning)
    try:
        assert conditions.look(small.root, 1.0)["busy_cores"] > 0.3
    finally:
        process.kill()
        process.wait()


def test_what_the_system_does_not_count_is_none_and_not_quiet(small, monkeypatch):
    cores(monkeypatch, [core(1, 1)], [core(2, 2)])
    assert conditions.look(small.root, seconds=0)["steal"] is None, "this system has no such counter"

    def fails(percpu):
        raise NotImplementedError

    monkeypatch.setattr(psutil, "cpu_times", fails)
    monkeypatch.delattr(conditions.os, "getloadavg", raising=False)
    found = conditions.look(small.root, seconds=0.01)
    assert (found["busy_cores"], found["steal"], found["load"]) == (None, None, None)
    assert conditions.joined(found, found)["steal"] == {"before": None, "after": None, "during": None}


def test_two_looks_are_joined_into_what_a_receipt_keeps():
    before = seen(counted={"begin": counted(0, 0), "end": counted(100, 1)})
    after = seen(0.6, 0.4, 0.4, {"begin": counted(300, 51), "end": counted(999, 99)}, busy_cores=0.7, steal=0.2, load=2)
    found = conditions.joined(before, after)
    gains = {"gain_before": 2.0, "gain_after": 1.0}
    assert found["calibration"] == {"before_s": 0.3, "after_s": 0.6, "unit_s": 0.25} | gains
    assert found["busy_cores"] == {"before": 0.1, "after": 0.7} and found["load"] == {"before": 0.5, "after": 2}
    assert found["steal"] == {"before": 0.0, "after": 0.2, "during": 0.25}
    assert slownesses(found["calibration"]) == pytest.approx([1.2, 2.4])


def test_what_somebody_saw_meanwhile_is_kept_too():
    found = conditions.joined(seen(), seen(), {"busy_cores": 1.5, "steal": 0.1})
    assert found["busy_cores"]["during"] == 1.5 and found["steal"]["during"] == 0.1


@pytest.mark.parametrize("last", [counted(100, 0.5), counted(50, 2), counted(200, 0.5), counted(200, None), None])
def test_counters_that_begin_anew_or_are_missing_give_no_steal(last):
    found = conditions.joined(seen(counted={"end": counted(100, 1)}), seen(counted={"begin": last}))
    assert found["steal"]["during"] is None


def test_a_calibration_that_is_missing_stays_none():
    found = conditions.joined(seen(calibration={}), seen())["calibration"]
    assert (found["before_s"], found["gain_before"], found["unit_s"], found["gain_after"]) == (None, None, 0.25, 2.0)
    assert slownesses(found) == pytest.approx([1.2])
    nothing = conditions.joined(seen(calibration={}), seen(calibration={}))["calibration"]
    assert set(nothing.values()) == {None} and slownesses(nothing) == slownesses(None) == []


def test_a_watch_sees_the_work_of_others_and_not_our_own(monkeypatch):
    monkeypatch.setattr(conditions, "WATCH_SECONDS", 0.5)
    work, marker = f"{sys.executable} -c 'while True: pass'; true", ("REBUILT_RUN", "watched")
    mine, other = (subprocess.Popen(["sh", "-c", work]) for _ in range(2))
    orphan = subprocess.Popen([sys.executable, "-c", "while True: pass"], env={**os.environ, marker[0]: marker[1]})
    try:
        with conditions.Watch(mine.pid, marker) as watch:
            time.sleep(1.8)
        seen = {pid for pid, _ in watch._others()}
        ours, others = ({made.pid, *(one.pid for one in psutil.Process(made.pid).children())} for made in (mine, other))
    finally:
        for made in (mine, other, orphan):
            for process in [*psutil.Process(made.pid).children(), made]:
                process.kill()
            made.wait()
    assert watch.busiest > 0.3 and others <= seen and not (ours | {orphan.pid}) & seen


def test_a_watch_that_was_too_short_knows_nothing():
    with conditions.Watch(0, ("REBUILT_RUN", "short")) as watch:
        pass
    assert watch.busiest is None
