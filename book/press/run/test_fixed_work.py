"""The fixed work that a calibration times: the same each time, the median of its rounds, nothing but NumPy."""

import itertools
import json
import os
import subprocess
import sys

import numpy as np

from press.run import fixed_work


def test_the_median_of_the_rounds_comes_back(monkeypatch):
    ends = itertools.chain.from_iterable((start, start + took) for start, took in ((0, 5.0), (10, 1.0), (20, 3.0)))
    monkeypatch.setattr(fixed_work.time, "perf_counter", lambda: next(ends))
    assert fixed_work.seconds(3) == 3.0


def test_the_work_is_the_same_each_time(monkeypatch):
    seen = []
    monkeypatch.setattr(np.fft, "rfft", lambda signal: seen.append(signal.copy()) or np.zeros(4, complex))
    fixed_work.seconds(1), fixed_work.seconds(1)
    half = len(seen) // 2
    assert half >= 1 and all(np.array_equal(a, b) for a, b in zip(seen[:half], seen[half:], strict=True))


def test_as_a_script_it_takes_seconds_and_needs_numpy_alone(tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError")
    home = {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, fixed_work.__file__], env=os.environ | home, capture_output=True, text=True)
    seconds, unit = json.loads(done.stdout or done.stderr)
    assert seconds > 0.02 and unit == fixed_work.UNIT_S
