"""MLPerf's two scenarios of the edge, by its own LoadGen and as plain rules.

LoadGen decides what is asked and when, and reads the clock; the system only answers. Its own
settings for `3d-unet` (in the package, 6.0.17):

| | asks | reports | lasts at least |
|---|---|---|---|
| SingleStream | the next when the last is answered | 90th percentile of latency | 600 s, 64 |
| Offline | all volumes at once | volumes a second | 600 s, 43 volumes |

The latency of a valid SingleStream run is LoadGen's *early stopping estimate*: of few answers
it takes a later one than the ninth of ten, so that the percentile is not called too small.

A run at other limits is a trial, and is named so: ours are shorter. For these networks of very
unequal volumes LoadGen asks whole permutations of the library, so that none is left out.

Python 3.11 has `mlcommons-loadgen`; where it is missing, `available` says so, and the rules
below (`single_stream`, `offline`) are the same in a few lines.
"""

import importlib.util
import math
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

PERCENTILE = 0.90  # of latency, in both scenarios
MIN_SECONDS, MIN_SINGLE, MIN_OFFLINE = 600, 64, 43  # 64 are what its early stopping asks for


class Outcome(NamedTuple):
    """What a scenario says: `latency_s` at the 90th percentile or None, volumes a second or
    None, how many volumes were answered, and whether LoadGen (or the rule) calls the run valid.
    """

    latency_s: float | None
    per_second: float | None
    answered: int
    valid: bool


def available() -> bool:
    """Whether LoadGen can be imported here."""
    return importlib.util.find_spec("mlperf_loadgen") is not None


def percentile(latencies: Sequence[float], share: float = PERCENTILE) -> float:
    """The smallest latency that at least `share` of them do not exceed; ValueError for none."""
    if not latencies or not 0 < share <= 1:
        raise ValueError(f"{len(latencies)} latencies, share {share}: one and 0 < share <= 1")
    return sorted(latencies)[math.ceil(share * len(latencies) - 1e-9) - 1]


def order_of(library: int, least: int, seed: int = 0) -> list[int]:
    """Whole permutations of the library, at least `least` volumes in all."""
    import random

    chance, found = random.Random(seed), []
    while len(found) < least:
        found += chance.sample(range(library), library)
    return found


def single_stream(
    answer: Callable[[int], None], library: int, least: int, seconds: float = 0.0, clock=None
) -> Outcome:
    """One volume after another, until `least` are answered and `seconds` are over."""
    clock = clock or time.perf_counter
    began, latencies = clock(), []
    while len(latencies) < least or clock() - began < seconds:
        for index in order_of(library, library, seed=len(latencies)):
            asked = clock()
            answer(index)
            latencies.append(clock() - asked)
    return Outcome(percentile(latencies), None, len(latencies), True)


def offline(answer: Callable[[int], None], library: int, least: int, clock=None) -> Outcome:
    """All volumes at once: how many a second, from the first asked to the last answered."""
    clock = clock or time.perf_counter
    asked = order_of(library, least)
    began = clock()
    for index in asked:
        answer(index)
    return Outcome(None, len(asked) / (clock() - began), len(asked), True)


def by_loadgen(scenario, answer, library, least, seconds, per_second=0.0) -> Outcome:
    """The Outcome by LoadGen itself: `by_loadgen("SingleStream", answer, 8, least=16,
    seconds=10)`.

    `answer(index)` gives a volume's classes as bytes; the library lies in memory before the
    clock starts. `per_second` is a rate that answers will not exceed: with whole permutations
    LoadGen fixes how many it asks for before it begins, so many that they last for `seconds`.
    With too few it calls the run invalid; what a rate far too high asks for takes hours.
    ValueError for another scenario, or where LoadGen is missing.
    """
    if scenario not in ("SingleStream", "Offline") or not available():
        raise ValueError(
            f"{scenario!r}: SingleStream or Offline, with mlcommons-loadgen installed"
        )
    import mlperf_loadgen as lg

    settings = lg.TestSettings()
    settings.scenario = getattr(lg.TestScenario, scenario)
    settings.mode = lg.TestMode.PerformanceOnly
    settings.min_query_count, settings.min_duration_ms = least, int(1000 * seconds)
    settings.sample_concatenate_permutation = True
    rate = max(per_second, least / max(1.0, seconds))
    settings.single_stream_expected_latency_ns = int(1e9 / rate)
    settings.offline_expected_qps = rate
    answered = []

    def asked(samples):
        for sample in samples:
            answered.append(len(answer(sample.index)))
            lg.QuerySamplesComplete([lg.QuerySampleResponse(sample.id, 0, 0)])

    nothing = lambda *_: None  # noqa: E731 - the library is loaded already
    with tempfile.TemporaryDirectory() as folder:
        logs = lg.LogSettings()
        logs.log_output.outdir, logs.log_output.copy_summary_to_stdout = folder, False
        sut, qsl = (
            lg.ConstructSUT(asked, nothing),
            lg.ConstructQSL(library, library, nothing, nothing),
        )
        try:
            lg.StartTestWithLogSettings(sut, qsl, settings, logs)
        finally:
            lg.DestroyQSL(qsl)
            lg.DestroySUT(sut)
        told = Path(folder, "mlperf_log_summary.txt").read_text(encoding="utf-8")
        return summary(told, len(answered))


def summary(text: str, answered: int) -> Outcome:
    """The Outcome in LoadGen's summary; ValueError where a line that it needs is missing."""
    valid = re.search(r"Result is : (\w+)", text)
    latency = re.search(r"Early stopping 90th percentile estimate: (\d+)", text) or re.search(
        r"90(?:\.\d+)?(?:th)? percentile latency \(ns\)\s*: (\d+)", text
    )
    rate = re.search(r"Samples per second\s*: ([\d.e+-]+)", text)
    if not valid or not (latency or rate):
        raise ValueError(f"no result in LoadGen's summary of {len(text)} letters")
    if "Scenario : SingleStream" in text:
        return Outcome(int(latency[1]) / 1e9, None, answered, valid[1] == "VALID")
    return Outcome(None, float(rate[1]), answered, valid[1] == "VALID")
