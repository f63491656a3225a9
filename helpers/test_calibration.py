import itertools
import subprocess
import sys
from pathlib import Path

import numpy as np

from helpers import calibration


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


def test_it_takes_seconds_and_needs_numpy_alone():
    code = "import sys; sys.modules['torch'] = None; from helpers import calibration; print(calibration.seconds(1))"
    home = Path(calibration.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", code], cwd=home, capture_output=True, text=True)
    assert float(done.stdout) > 0.02, done.stderr
