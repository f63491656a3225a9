"""What the race records: a peer's time over ours, alignments a second, each way's own curve;
and what is raced: each contestant gives the distance of its name, and ours is held against the
peers first."""

import math
import os
import platform
import subprocess
import sys

import bench_rolling_distance as race_of
import numpy as np
import pytest
import torch
from helpers import bench, check, receipts

# by number of threads: ours gains by two, stumpy loses
SECONDS = {"ours_float64": (1.0, 1.5), "ours_float32": (0.5, 0.7), "sdist": (0.25, 9)}
SECONDS |= {"mdist": (0.2, 9), "stumpy": (9, 3.0), "ready_stumpy": (9, 2.0), "scipy": (7, 7.5)}
SECONDS |= {"whole_float64": (5.0, 8.0), "whole_float32": (3.0, 9)}
SECONDS |= {"torch_float64": (4.0, 9), "torch_float32": (2.5, 9)}


def told_of(seconds):
    """The metrics of a race over ten points whose contestants take (on two threads, on one)."""
    results = {
        (race_of.LABELS[name], threads): bench.Measurement(s, s, s, (s,) * 6, None, "cpu")
        for name, both in seconds.items()
        for threads, s in zip((2, 1), both, strict=True)
    }
    receipt = receipts.start("rolling_distance", "cpu", 2)
    best = race_of.record_race(receipt, results, 10)
    assert {name: found.median_s for name, found in best.items()} == {
        race_of.LABELS[name]: min(both) for name, both in seconds.items()
    }
    return {name: one["value"] for name, one in receipt.metrics.items()}


@pytest.fixture(scope="module")
def told():
    return told_of(SECONDS)


@pytest.mark.parametrize(
    ("kind", "wanted"), [("float64", (3, 2, 7, 5, 4)), ("float32", (6, 4, 14, 6, 5))]
)
def test_a_speedup_is_the_peer_s_better_time_over_ours(told, kind, wanted):
    peers = "stumpy", "ready_stumpy", "scipy", "whole", "torch"
    assert tuple(told[f"speedup_over_{peer}_{kind}"] for peer in peers) == wanted


def test_a_rate_is_of_all_points_in_the_measure_s_own_time(told):
    wanted = {"zdist_float64": 10, "zdist_float32": 20, "sdist_float64": 40}
    wanted |= {"mdist_float64": 50}
    assert {name: told[f"{name}_rate"] for name in wanted} == pytest.approx(wanted)


def test_what_more_threads_gain_is_one_s_time_over_theirs(told):
    gains = {key: told[f"gain_by_threads_{key}"] for key in ("ours_float64", "whole_float64")}
    assert gains == {"ours_float64": 1.5, "whole_float64": 1.6}


def test_a_race_in_which_no_thread_gains_is_not_recorded():
    same = SECONDS | {"ours_float64": (1.0, 1.0), "whole_float64": (8.0, 8.0)}
    with pytest.raises(check.Failed, match="more threads, none faster"):
        told_of(same)
    assert told_of(same | {"whole_float64": (5.0, 8.0)})["gain_by_threads_ours_float64"] == 1


def test_each_contestant_runs_on_each_number_of_threads(monkeypatch):
    before, seen = torch.get_num_threads(), []

    def call():
        seen.append((torch.get_num_threads(), race_of.scipy.fft.get_workers()))

    try:
        results = race_of.raced({"a": call}, 2, {1, 2})
        assert sorted(results) == [("a", 1), ("a", 2)]
        assert sorted(seen) == [(1, 1)] * 3 + [(2, 2)] * 3 and torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


FAULTS = """
import resource
import bench_rolling_distance as race_of, numpy as np
stream = np.random.default_rng(0).standard_normal(1_500_000)
racing = race_of.contestants(stream[:421].copy(), stream)
faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for kept in (False, True):
    if kept:
        race_of.keep_memory(128 * len(stream))
    for name in ("ours_float64", "whole_float64"):
        call = racing[race_of.LABELS[name]]
        call(), call()
        found = []
        for _ in range(5):
            before = faults()
            call()
            found.append(faults() - before)
        print((min if kept else max)(found))  # memory is warm after some calls, or never
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc keeps what is freed")
def test_in_kept_memory_nobody_pays_for_fresh_pages():
    """The article's formulation takes arrays of 12 MB, 3,000 pages each, in each call."""
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", FAULTS]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    _, whole, *kept = map(int, done.stdout.split())
    assert whole > 3000  # it pays for one array at least, and the system's time with it
    assert max(kept) < 1000  # not one array: other threads take a page now and then


def test_each_way_s_curve_is_of_its_own_least_times(monkeypatch):
    """A call that returns its way takes that way's seconds, in other rounds one or two more."""
    took = {"naive": 1.0, "whole": 3.0, "fft": 2.0}

    def raced(ways, repeats, warmup):
        times = {
            name: [took[call()] + more for more in (1, 0, 2)] for name, call in ways.items()
        }
        results = {
            name: bench.Measurement(*bench.spread(own)[:3], tuple(own), None, "cpu")
            for name, own in times.items()
        }
        return bench.Race(results, {}, "fft")

    monkeypatch.setattr(race_of.rd, "zdist", lambda query, stream, mode: mode)
    monkeypatch.setattr(race_of, "whole_length_zdist", lambda query, stream: "whole")
    monkeypatch.setattr(race_of.bench, "race", raced)
    found = race_of.by_length(torch.arange(4000.0), [8, 2048, 2049], 3)
    assert found["whole"] == [3, 3, 3] and found["fft"] == [2, 2, 2]
    assert found["naive"][:2] == [1, 1] and math.isnan(found["naive"][2])


@pytest.fixture
def noise():
    """A query and the stream that it is cut from."""
    stream = np.random.default_rng(0).standard_normal(3000)
    return stream[1000:1064].copy(), stream


def defined(measure, query, stream):
    """The distance to every window by its definition, not squared."""
    windows = np.lib.stride_tricks.sliding_window_view(stream, len(query))
    query, windows = query[None], windows.copy()
    if measure != "sdist":
        query, windows = (x - x.mean(1, keepdims=True) for x in (query, windows))
    if measure == "zdist":
        query, windows = (x / x.std(1, keepdims=True) for x in (query, windows))
    return np.sqrt(((windows - query) ** 2).sum(1))


@pytest.mark.parametrize("name", race_of.LABELS)
def test_a_contestant_gives_the_distance_and_the_float_of_its_name(noise, name):
    racing = race_of.contestants(*noise)
    if (label := race_of.LABELS[name]) not in racing:
        pytest.skip(f"{label}: not installed here")
    wanted = defined(name if name in ("sdist", "mdist") else "zdist", *noise)
    far = wanted > 0.01  # at the query itself rounding is all that is left
    found = np.asarray(racing[label]())[far]
    single = name.endswith("32")
    assert found.dtype == (np.float32 if single else np.float64)
    if "scipy" not in name and "stumpy" not in name:
        wanted = wanted**2
    np.testing.assert_allclose(found, wanted[far], rtol=1e-4 if single else 1e-8)


@pytest.mark.parametrize(("single", "apart"), [(False, 1e-6), (True, 2e-3)])
def test_a_peer_that_disagrees_stops_the_race(noise, monkeypatch, single, apart):
    scipy = race_of.scipy_zdist

    def other(query, stream):
        rounded = np.array_equal(stream, stream.astype(np.float32))
        return scipy(query, stream) * (1 + apart * (rounded == single))

    assert len(race_of.differences(*noise)) >= 2
    monkeypatch.setattr(race_of, "scipy_zdist", other)
    with pytest.raises(check.Failed, match="float32" if single else "float64"):
        race_of.differences(*noise)


def test_passes_by_torch_are_not_the_compiled_ones(noise, monkeypatch):
    passes = race_of.overlap_save.compiled_passes
    if passes is None:
        pytest.skip("numba is not installed here")
    monkeypatch.setattr(
        race_of.rd, "zdist", lambda *given: race_of.overlap_save.compiled_passes
    )
    racing = race_of.contestants(*noise)
    for kind in ("float64", "float32"):
        assert racing[race_of.LABELS[f"torch_{kind}"]]() is None
        assert racing[race_of.LABELS[f"ours_{kind}"]]() is passes
