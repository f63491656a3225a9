"""What the race records: a peer's time over ours, alignments a second, each way's own curve;
and what is raced: each contestant gives the distance of its name, and ours is held against the
peers first."""

import math

import bench_rolling_distance as race_of
import numpy as np
import pytest
import torch
from helpers import bench, check, receipts

SECONDS = {"ours_float64": 1.0, "ours_float32": 0.5, "sdist": 0.25, "mdist": 0.2}
SECONDS |= {"stumpy": 3.0, "ready_stumpy": 2.0, "torch_float64": 4.0, "torch_float32": 2.5}


@pytest.fixture
def told():
    """The metrics of a race over ten points whose contestants take the seconds above."""
    results = {
        race_of.LABELS[name]: bench.Measurement(s, s, s, (s,) * 6, None, "cpu")
        for name, s in SECONDS.items()
    }
    ours = race_of.LABELS["ours_float64"]
    ratios = {name: bench.ratio(results[ours], one) for name, one in results.items()}
    receipt = receipts.start("rolling_distance", "cpu", 1)
    race_of.record_race(receipt, bench.Race(results, ratios, ours), 10)
    return {name: one["value"] for name, one in receipt.metrics.items()}


@pytest.mark.parametrize(("kind", "wanted"), [("float64", (3, 2, 4)), ("float32", (6, 4, 5))])
def test_a_speedup_is_the_peer_s_time_over_ours(told, kind, wanted):
    peers = "stumpy", "ready_stumpy", "torch"
    assert tuple(told[f"speedup_over_{peer}_{kind}"] for peer in peers) == wanted


def test_a_rate_is_of_all_points_in_the_measure_s_own_time(told):
    wanted = {"zdist_float64": 10, "zdist_float32": 20, "sdist_float64": 40}
    wanted |= {"mdist_float64": 50}
    assert {name: told[f"{name}_rate"] for name in wanted} == pytest.approx(wanted)


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


@pytest.mark.parametrize("name", [name for name in race_of.LABELS if "transforms" not in name])
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


@pytest.mark.parametrize(
    ("name", "kind"), [("transforms_float64", 64), ("transforms_float32", 32)]
)
def test_the_transforms_alone_go_there_and_back_over_all_windows(monkeypatch, name, kind):
    done = {"rfft": 0, "irfft": 0}

    def counted(way, real):
        def call(values, *more, out=None, **options):
            if out is not None:
                points = values if way == "rfft" else out
                done[way] += points.numel() * (points.dtype == getattr(torch, f"float{kind}"))
                return real(values, *more, out=out, **options)
            return real(values, *more, **options)

        return call

    stream = np.random.default_rng(0).standard_normal(30_000)
    racing = race_of.contestants(stream[:64], stream)
    for way in done:
        monkeypatch.setattr(torch.fft, way, counted(way, getattr(torch.fft, way)))
    racing[race_of.LABELS[name]]()
    assert min(done.values()) >= len(stream) - 63
