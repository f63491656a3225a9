import math
import random
import time

import pytest
import torch

from helpers import bench


@pytest.fixture
def clock(monkeypatch, untouched, gpu):
    """A clock that stands still but for what functions add to it; it is the CPU's, also beside a GPU."""
    gpu(None)
    now = [0.0]
    monkeypatch.setattr(bench.time, "perf_counter", lambda: now[0])

    def takes(*seconds):
        """A function whose calls, after one for the memory, take these seconds in turn, again and again."""
        queue = [0.0]

        def run():
            if not queue:
                queue.extend(seconds)
            now[0] += queue.pop(0)

        return run

    return takes


def test_a_measurement_is_the_median_with_the_interval_of_its_repeats(clock):
    found = bench.measure(clock(*range(20, 0, -1)), repeats=20, warmup=1)
    assert (found.median_s, found.low_s, found.high_s, found.interval) == (10.5, 6, 15, "95 %")
    assert found.times_s == tuple(range(20, 0, -1)) and "| 95 % interval | 6 s to 15 s |" in repr(found)


def test_few_repeats_have_a_range_and_no_interval(clock):
    found = bench.measure(clock(5.0, 1.0, 2.0, 4.0, 3.0), repeats=5, warmup=1)
    assert (found.median_s, found.low_s, found.high_s, found.interval) == (3, 1, 5, "range")
    assert "| range | 1 s to 5 s |" in repr(found) and "interval" not in repr(found)


def test_one_repeat_is_its_own_range(clock):
    found = bench.measure(clock(2.0), repeats=1, warmup=1)
    assert (found.median_s, found.low_s, found.high_s, found.interval) == (2, 2, 2, "range")


# Of 20 the 6th and the 15th, and so on: the table of the sign test's intervals, as textbooks print it.
RANKS = {
    6: (1, 6),
    8: (1, 8),
    9: (2, 8),
    10: (2, 9),
    15: (4, 12),
    20: (6, 15),
    25: (8, 18),
    50: (18, 33),
    100: (40, 61),
}


@pytest.mark.parametrize("count", RANKS)
def test_the_interval_is_that_of_the_sign_test(count):
    numbers = [*range(1, count + 1)]
    random.Random(0).shuffle(numbers)
    assert bench.spread(numbers) == ((count + 1) / 2, *RANKS[count], count, "95 %")


def test_the_interval_holds_the_median_in_nineteen_of_twenty_samples_or_more():
    """Of skewed numbers whose median is ln 2: 95.9 % of samples of 20, within what 4,000 samples can tell."""
    draw = random.Random(1)
    held = 0
    for _ in range(4000):
        found = bench.spread(draw.expovariate(1) for _ in range(20))
        held += found.low <= math.log(2) <= found.high
    assert 0.945 < held / 4000 < 0.972


def test_a_spread_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least one is needed"):
        bench.spread([])


def test_warm_up_is_not_timed():
    calls = []
    found = bench.measure(lambda: calls.append(1), repeats=4, warmup=3)
    assert (len(calls), len(found.times_s)) == (7, 4)


def test_time_is_real():
    assert 0.01 <= bench.measure(lambda: time.sleep(0.01), repeats=3, warmup=0).low_s < 0.1


def test_a_measurement_shows_its_time_and_its_repeats(clock):
    text = repr(bench.measure(clock(0.5), repeats=3, warmup=1))
    assert "| median time | 500 ms |" in text and text.endswith("3 repeats on cpu.")


@pytest.mark.skipif(bench.peak_memory() is None, reason="this system keeps no memory mark of a process")
def test_peak_memory_is_that_of_the_call_and_the_runs_peak_is_kept():
    torch.ones(2**26).sum()  # a higher mark than the call's own
    found = bench.measure(lambda: torch.ones(2**24), repeats=1, warmup=1, device="cpu")
    small = bench.measure(lambda: torch.ones(2**4), repeats=1, warmup=1, device="cpu")
    assert 0.9 * 2**26 < found.peak_bytes < 3 * 2**26
    assert small.peak_bytes < 2**24
    high = bench.peak_memory()
    assert high > 2**28
    bench.measure(lambda: None, repeats=1, device="cpu")
    assert high <= bench.peak_memory()


def test_a_race_is_interleaved_and_begins_with_another_each_round():
    order = []
    bench.race({name: lambda name=name: order.append(name) for name in "abc"}, repeats=4, warmup=1)
    assert "".join(order) == "abc" + "abc" + "bca" + "cab" + "abc"


def test_a_ratio_is_taken_within_its_round(clock):
    # The machine slows down: the ratio of medians would be 4 / 3; in each round it is 2.
    ratio = bench.race({"slow": clock(2, 4, 8), "fast": clock(1, 2, 4)}, repeats=3, warmup=1, reference="slow").ratios
    assert ratio["fast"] == (2, 2, 2, 3, "range")
    assert ratio["slow"] == (1, 1, 1, 3, "range")


def test_a_ratio_s_interval_is_that_of_the_rounds(clock):
    found = bench.race({"a": clock(*range(1, 11)), "b": clock(1)}, repeats=10, warmup=1)
    assert found.ratios["b"] == (5.5, 2, 9, 10, "95 %") and isinstance(found.ratios["b"], bench.Ratio)
    assert "| contestant | median time | 95 % interval | times as fast | 95 % interval of the ratio |" in repr(found)


def test_any_contestant_may_be_the_reference(clock):
    race = bench.race({"fast": clock(1), "slow": clock(2, 4, 8)}, repeats=3, warmup=1, reference="slow")
    assert race.ratios["fast"] == (4, 2, 8, 3, "range") and race.ratios["slow"].median == 1


def test_a_ratio_of_two_contestants_is_paired_by_round(clock):
    race = bench.race({"a": clock(2, 4, 6), "b": clock(1, 4, 2)}, repeats=3, warmup=1)
    assert bench.ratio(race.results["a"], race.results["b"]) == (2, 1, 3, 3, "range")
    assert bench.ratio(race.results["a"], race.results["b"], factor=10) == (20, 10, 30, 3, "range")
    with pytest.raises(ValueError, match="argument"):
        bench.ratio(race.results["a"], bench.measure(clock(1), repeats=2))


def test_a_race_shows_the_fastest_first(clock):
    race = bench.race({"slow": clock(0.2), "fast": clock(0.1)}, repeats=3, warmup=1)
    lines = repr(race).splitlines()
    assert lines[2].startswith("| fast | 100 ms") and "2×" in lines[2] and lines[3].startswith("| slow")
    assert race._repr_html_().count("<tr>") == 3
    assert "slow's time over the contestant's" in repr(race)


@pytest.mark.parametrize(
    ("contestants", "options", "says"),
    [
        ({}, {}, "at least one is needed"),
        ([("a", int), ("a", int)], {}, "each with a name of its own"),
        ({"a": int}, {"reference": "b"}, r"reference 'b' is no contestant; they are \['a'\]"),
        ({"a": int}, {"repeats": 0}, "repeats=0"),
        ({"a": int}, {"warmup": -1}, "warmup=-1"),
    ],
)
def test_what_is_refused(contestants, options, says):
    with pytest.raises(ValueError, match=says):
        bench.race(contestants, **options)


def test_pairs_may_name_the_contestants():
    assert list(bench.race([("a", int), ("b", int)], repeats=1).results) == ["a", "b"]


@pytest.mark.parametrize("where", ["cpu", pytest.param("cuda", marks=pytest.mark.card)])
def test_the_peak_is_measured_once(where):
    if where == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU here")
    first = bench.peak(where)
    assert 1e8 < first.copy_bytes_per_s < 1e14 and 1e8 < first.matmul_flops_per_s < 1e16
    assert bench.peak(where) is first


@pytest.mark.card
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_a_gpu_is_timed_by_its_events():
    x = torch.ones(4096, 4096, device="cuda")
    found = bench.measure(lambda: x @ x, device="cuda")
    assert 0.05 < 2 * 4096**3 / found.median_s / bench.peak("cuda").matmul_flops_per_s < 1.5
    assert found.peak_bytes >= 2 * x.nbytes


@pytest.mark.parametrize(("median_s", "odd"), [(0.5, False), (0.45, False), (0.3, True), (0.9, True)])
def test_a_race_s_table_says_where_medians_and_ratios_disagree(median_s, odd):
    def took(median_s):
        return bench.Measurement(median_s, median_s, median_s, (median_s,), None, "cpu")

    ratios = {"ours": bench.Ratio(2.0, 1.0, 3.0, 1, "range"), "theirs": bench.Ratio(1.0, 1.0, 1.0, 1, "range")}
    race = bench.Race({"ours": took(median_s), "theirs": took(1.0)}, ratios, "theirs")
    assert ("Some medians say otherwise" in race.table()[-1]) == odd
