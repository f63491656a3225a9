"""Each arm of the study differs in what it is named for, and judges on unseen sequences."""

from dataclasses import asdict, replace

import pytest
import study_packed_target as study
from helpers.study import Job
from packed_training import draw, train
from press.study import hold
from torch import Generator

PLAIN = {
    "layout": "padded", "corrects": "rows", "mask": "right", "loss": "right",
    "sequences": 32, "rate": 1e-2, "row_length": 32,
}  # fmt: skip
ARMS = {
    "padded": {},
    "unpadded": {"layout": "unpadded"},
    "packed": {"layout": "packed"},
    "more_sequences": {"layout": "packed", "corrects": "nothing"},
    "rate": {"layout": "packed", "corrects": "rate"},
    "half": {"rate": 5e-3},
    "twice": {"rate": 2e-2},
    "across": {"layout": "packed", "mask": "wrong"},
    "by_pack": {"layout": "packed", "loss": "wrong"},
}


def test_arms_are_handed_the_same_sequences_and_their_own_recipe():
    seen = hold(study.STUDY)
    assert {name for name, _ in seen} == set(ARMS)
    for (name, seed), one in seen.items():
        parts = study.parts(seed, {"drawn": 120, "held": 12})
        assert one.job.train == parts["train"].data and one.job.start == "new"
        assert one.tests == {"test": parts["test"].data} and one.job.choice is None
        assert asdict(one.job.arm.loss) == PLAIN | ARMS[name]
    assert list(study.STUDY.seeds) == [1, 2, 3, 4, 5, 6]
    assert study.STUDY.sizes == {
        "drawn": 5000, "held": 300, "sequences": 7000, "every": 250,
    }  # fmt: skip


def test_no_test_sequence_was_learned():
    parts = study.parts(1, {"drawn": 3000, "held": 100})
    learned = set(map(tuple, parts["train"].data.sequences))
    held = list(map(tuple, parts["test"].data.sequences))
    assert len(held) == 100 and not learned & set(held)


def test_the_judge_reads_the_way_to_the_target(monkeypatch):
    monkeypatch.setattr(
        study, "judged", lambda made, held: [(250, 8, 0.5, 2.5), (500, 16, 1.0, 2.3)]
    )
    held = draw([4, 5], Generator())
    assert study.judge([], held, None) == {
        "sequences": 500, "steps": 16, "seconds": 1.0, "reached": 1.0, "loss": 2.3,
    }  # fmt: skip
    monkeypatch.setattr(study, "judged", lambda made, held: [(250, 8, 0.5, 2.5)])
    assert study.judge([], held, None)["reached"] == 0.0


def test_the_judge_s_loss_is_of_the_trained_weights():
    parts = study.parts(1, {"drawn": 200, "held": 20})
    rows = train(parts["train"].data, study.Recipe(), 640, 64)
    found = study.judge(rows, parts["test"].data, None)
    assert found["loss"] < study.judge(rows[:1], parts["test"].data, None)["loss"] - 0.1


def test_an_outcome_that_differs_in_more_is_refused():
    arms = {**study.ARMS, "rate": study.arm(layout="packed", corrects="rate", rate=1e-3)}
    with pytest.raises(ValueError, match=r"loss\.rate"):
        hold(replace(study.STUDY, arms=arms))


LESS = {
    "unpadded": "padded", "packed": "padded", "half": "padded", "twice": "padded",
    "more_sequences": "packed", "rate": "packed", "across": "packed", "by_pack": "packed",
}  # fmt: skip


def test_outcomes_are_the_named_arm_less_or_over_its_own():
    told = {
        label: (one.metric, one.arm, one.less, one.ratio)
        for label, one in study.STUDY.outcomes.items()
    }
    expected = {}
    for arm, less in LESS.items():
        for metric in ("sequences", "steps", "loss"):
            expected[f"{arm}_{metric}_difference"] = (metric, arm, less, False)
        expected[f"{arm}_seconds_ratio"] = ("seconds", arm, less, True)
    assert told == expected


def test_an_arm_trains_by_its_own_recipe_on_what_it_is_handed(monkeypatch):
    seen = []
    monkeypatch.setattr(study, "train", lambda *given: seen.append(given))
    sizes = {"sequences": 96, "every": 32}
    study.fit(Job("rate", study.ARMS["rate"], 5, sizes, "new", "data"))
    assert seen == [("data", study.ARMS["rate"].loss, 96, 32, 5)]


def test_lengths_are_those_of_wikipedia_in_bins_of_sixteen():
    found = study.lengths_of(20_000, Generator().manual_seed(0))
    counts = study.read_histogram(study.data.fetch("packed_lengths") / "histograms.py")
    bins = counts.reshape(32, 16).sum(1)[3:]
    assert min(found) == 4 and max(found) == 32
    assert found.count(32) / 20_000 == pytest.approx(bins[-1] / bins.sum(), abs=0.015)
    wanted = sum(n * one for n, one in enumerate(bins, 4)) / bins.sum()
    assert sum(found) / 20_000 == pytest.approx(wanted, abs=0.3)
