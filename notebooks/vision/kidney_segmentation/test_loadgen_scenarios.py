"""The scenarios' rules, and LoadGen's own answer where it is installed."""

import time

import loadgen_scenarios as ls
import pytest

SINGLE = """Scenario : SingleStream
90.0th percentile latency (ns) : 58390346
Result is : INVALID
90.00 percentile latency (ns)   : 58390346
"""
OFFLINE = """Scenario : Offline
Samples per second: 30.739
Result is : VALID
90.00 percentile latency (ns)   : 598702275
"""


class Clock:
    """Time that passes only while somebody answers."""

    def __init__(self):
        self.now, self.asked = 0.0, []

    def __call__(self):
        return self.now

    def answer(self, index):
        self.asked.append(index)
        self.now += 1.0 + index


@pytest.mark.parametrize(
    ("values", "share", "wanted"),
    [
        ([5.0], 0.9, 5.0),
        (list(range(1, 11)), 0.9, 9),
        (list(range(1, 12)), 0.9, 10),
        ([1, 2], 1, 2),
    ],
)
def test_percentiles_are_values_that_occurred(values, share, wanted):
    assert ls.percentile(values, share) == wanted


@pytest.mark.parametrize(("values", "share"), [([], 0.9), ([1.0], 0.0), ([1.0], 1.1)])
def test_percentiles_of_nothing_are_refused(values, share):
    with pytest.raises(ValueError, match="share"):
        ls.percentile(values, share)


def test_orders_are_whole_permutations():
    found = ls.order_of(4, 9)
    assert len(found) == 12 and all(
        sorted(found[at : at + 4]) == [0, 1, 2, 3] for at in (0, 4, 8)
    )


def test_single_stream_reports_a_latency_of_one_volume():
    clock = Clock()
    found = ls.single_stream(clock.answer, 4, least=7, clock=clock)
    assert found == (4.0, None, 8, True) and sorted(clock.asked[:4]) == [0, 1, 2, 3]


def test_single_stream_lasts_as_long_as_asked():
    clock = Clock()
    assert ls.single_stream(clock.answer, 1, least=1, seconds=10.0, clock=clock).answered == 10


def test_offline_reports_volumes_a_second():
    clock = Clock()
    assert ls.offline(clock.answer, 2, least=3, clock=clock) == (None, 4 / 6, 4, True)


def test_loadgen_s_summaries_are_read():
    assert ls.summary(SINGLE, 20) == (0.058390346, None, 20, False)
    early = SINGLE + " * Early stopping 90th percentile estimate: 60000000\n"
    assert ls.summary(early, 64).latency_s == 0.06, "the benchmark's own number"
    assert ls.summary(OFFLINE, 9) == (None, 30.739, 9, True)
    with pytest.raises(ValueError, match="no result"):
        ls.summary("nothing", 1)


def test_other_scenarios_are_refused():
    with pytest.raises(ValueError, match="SingleStream or Offline"):
        ls.by_loadgen("Server", lambda index: b"", 1, 1, 0.1)


@pytest.mark.skipif(not ls.available(), reason="needs mlcommons-loadgen")
@pytest.mark.parametrize("scenario", ["SingleStream", "Offline"])
def test_loadgen_asks_whole_permutations(scenario):
    asked = []

    def answer(index):
        asked.append(index)
        return b"x"

    found = ls.by_loadgen(scenario, answer, 3, least=6, seconds=0.01)
    assert found.answered == len(asked) >= 6 and sorted(asked[:3]) == [0, 1, 2]
    assert (found.latency_s is None) == (scenario == "Offline")


@pytest.mark.skipif(not ls.available(), reason="needs mlcommons-loadgen")
@pytest.mark.parametrize("scenario", ["SingleStream", "Offline"])
def test_loadgen_ends_soon_after_its_time(scenario):
    answer = lambda index: time.sleep(0.02) or b"x"  # noqa: E731
    found = ls.by_loadgen(scenario, answer, 3, least=6, seconds=1.0, per_second=75)
    assert found.valid and 50 <= found.answered <= 240
