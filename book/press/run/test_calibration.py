"""The fixed work that a calibration times: the same each time, the median of its rounds, nothing but NumPy."""

import itertools
import json
import os
import subprocess
import sys
import threading

import numpy as np

from press.run import calibration


def test_the_median_of_the_rounds_comes_back(monkeypatch):
    ends = itertools.chain.from_iterable((start, start + took) for start, took in ((0, 5.0), (10, 1.0), (20, 3.0)))
    monkeypatch.setattr(calibration.time, "perf_counter", lambda: next(ends))
    assert calibration.seconds(3) == 3.0


def test_the_work_is_the_same_each_time(monkeypatch):
    seen = []
    monkeypatch.setattr(np.fft, "rfft", lambda signal: seen.append(signal.copy()) or np.zeros(4, complex))
    calibration.seconds(1), calibration.seconds(1)
    half = len(seen) // 2
    assert half >= 1 and all(np.array_equal(a, b) for a, b in zip(seen[:half], seen[half:], strict=True))


def test_as_a_script_it_takes_seconds_and_needs_numpy_alone(tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError")
    home = {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, calibration.__file__], env=os.environ | home, capture_output=True, text=True)
    seconds, unit = json.loads(done.stdout or done.stderr)
    assert seconds > 0.02 and unit == calibration.UNIT_S


def test_what_two_threads_take_stands_beside_what_one_takes(monkeypatch):
    """With work that only waits, two threads need half the time of one, whatever else the machine does."""
    monkeypatch.setattr(calibration, "_products", lambda *arrays_and_counts: calibration.time.sleep(0.05))
    one, two = calibration.on_threads(3)
    assert 0.1 <= one < 0.4 and 0.05 <= two < 0.75 * one


def test_the_two_halves_are_the_same_work_on_one_thread_and_on_two(monkeypatch):
    seen = []
    monkeypatch.setattr(calibration, "_products", lambda *given: seen.append((threading.get_ident(), given[2:])))
    calibration.on_threads(2)
    assert {counts for _, counts in seen} == {(10, 5)} and len(seen) == 3 * 4
    assert 2 <= len({thread for thread, _ in seen}) <= 3


def test_a_warm_up_is_not_timed(monkeypatch):
    slow = iter([0.5] * 4)
    monkeypatch.setattr(calibration, "_products", lambda *given: calibration.time.sleep(next(slow, 0.0)))
    assert max(calibration.on_threads(1)) < 0.4
