"""The study of context as it is declared: what each arm streams, cut how, by which network."""

from types import SimpleNamespace

import digit_speech
import pytest
import torch
from helpers import data, receipts
from helpers.study import StudyError
from press.study import hold, record

from . import study_context as study
from .features import prior_of
from .windows import StreamOptions

SERVICE = {"network": "folded", "chunk_ms": 60, "left_ms": 660, "right_ms": 180}
SERVICE |= {"normalise": "running"}
CHANGED = {  # how each arm differs from the service
    "offline": {"left_ms": None, "right_ms": None, "normalise": "window"},
    "running_0": {"right_ms": 0},
    "running_60": {"right_ms": 60},
    "running_120": {"right_ms": 120},
    "running_180": {},
    "running_300": {"right_ms": 300},
    "running_660": {"right_ms": 660},
    "window_0": {"normalise": "window", "right_ms": 0},
    "window_180": {"normalise": "window"},
    "window_660": {"normalise": "window", "right_ms": 660},
    "chunk_100": {"chunk_ms": 100},
    "chunk_160": {"chunk_ms": 160},
    "chunk_800": {"chunk_ms": 800},
    "int8": {"network": "int8"},
    "no_moments": {},
}
WITHOUT_MOMENTS = {"offline", "no_moments"}


@pytest.fixture(scope="module")
def parts():
    return study.parts(1, study.STUDY.small().sizes)


def test_each_arm_streams_as_it_is_named_and_else_as_the_service_does(parts):
    seen = hold(study.STUDY, lambda seed, sizes: parts)
    assert set(seen) == {(name, seed) for name in CHANGED for seed in (0, 1)}
    for (name, seed), one in seen.items():
        assert dict(one.job.arm.setting) == SERVICE | CHANGED[name], name
        bare = name in WITHOUT_MOMENTS
        assert one.job.train is (None if bare else parts["moments"].data)
        assert one.made == ("none" if bare else ("made", name, seed))
        assert set(one.tests) == {"test"} and one.tests["test"] is parts["test"].data
        assert one.job.choice is one.job.arm.loss is None and not one.job.arm.shares
    for name, usual in SERVICE.items():
        assert name == "network" or getattr(StreamOptions(), name) == usual, "the service's own"


def test_utterances_are_the_seed_s_and_the_moments_those_of_the_page(parts):
    for name, (split, count, seed) in {
        "test": ("test", 1, 1),
        "moments": ("train", 15, 0),
    }.items():
        speakers = ["jackson", "theo"]
        made = digit_speech.utterances(data.fetch("fsdd"), split, speakers, count, seed)
        (signals, texts), units = parts[name]
        assert texts == [one.text for one in made]
        assert all(torch.equal(a, b.signal) for a, b in zip(signals, made, strict=True))
        assert set(units) == {word.recording for one in made for word in one.words}


def test_moments_of_recordings_that_are_tested_are_refused(parts):
    shared = parts | {"moments": parts["test"]}
    with pytest.raises(StudyError, match="share"):
        hold(study.STUDY, lambda seed, sizes: shared)


def test_moments_are_those_of_the_signals_that_an_arm_is_handed(parts):
    job = SimpleNamespace(train=parts["test"].data)
    for mine, wanted in zip(study.STUDY.fit(job), prior_of(parts["test"].data[0]), strict=True):
        assert torch.equal(mine, wanted)
    assert study.STUDY.begin("none", None) is None, "no moments at the start"


@pytest.mark.parametrize("name", ["running_60", "offline", "int8"])
def test_words_are_judged_as_the_arm_s_stream_writes_them(monkeypatch, name):
    told = []

    def transcribe(network, signals, options, prior):
        told.append((network, signals, options, prior))
        return ["one two", "three four five six"]

    monkeypatch.setattr(study, "load_model", lambda: "shipped")
    monkeypatch.setattr(study, "variant", lambda model, kind: (model, kind))
    monkeypatch.setattr(study, "transcribe", transcribe)
    job, part = SimpleNamespace(arm=study.ARMS[name]), ([1, 2], ["one nine", "three four five"])
    assert study.STUDY.judge("prior", part, job) == {"wer": pytest.approx(2 / 5)}  # of 5 said
    how = SERVICE | CHANGED[name]
    options = StreamOptions(
        endpoint_ms=None, **{k: v for k, v in how.items() if k != "network"}
    )
    assert told == [(("shipped", how["network"]), [1, 2], options, "prior")]


def test_what_is_recorded_has_these_sizes_seeds_and_signs():
    assert study.STUDY.sizes == {"count": 50} and list(study.STUDY.seeds) == [0, 1, 2, 3, 4]
    rates = dict.fromkeys(CHANGED, 0.1) | {"running_180": 0.04, "chunk_800": 0.03}
    found = {name: {s: {"test": {"wer": r}} for s in (0, 1)} for name, r in rates.items()}
    receipt = receipts.start("asr_streaming", "cpu")
    record(study.STUDY, receipt, found)
    value = {name: one["value"] for name, one in receipt.metrics.items()}
    assert value["study_running_180_wer"] == pytest.approx(4)
    more = ("window_180", "running_660", "running_0", "chunk_160", "int8", "no_moments")
    for name in more:
        assert value[f"study_{name}_less"] == pytest.approx(6), "what it costs"
        assert receipt.metrics[f"study_{name}_less"]["unit"] == "points"
    assert value["study_chunk_800_less"] == pytest.approx(-1)
    assert len(value) == len(CHANGED) + len(more) + 1
