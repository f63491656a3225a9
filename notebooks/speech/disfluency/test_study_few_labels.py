"""The study of few labels as it is declared: who reads which labels, and goes on from whom."""

import disfl_labels as dl
import numpy as np
import prefix_training as pt
import pytest
import study_disfluency as systems
import study_few_labels as study
from helpers import data, receipts
from helpers.study import Job
from press.study import hold, record

FEW, BARE = "german_few", "german_few_more_bare"
ARMS = {  # starts, part learned from, part judged on
    "pretrained": ("new", "texts", "test"),
    "few_cold": ("new", "few", "test"),
    "few_pretrained": ("pretrained", "few", "test"),
    "teacher": ("pretrained", "half", "test"),
    "student_few": ("narrow", "few", "test"),
    "student_true": ("narrow", "few_rest", "test"),
    "student_taught": (("narrow", "teacher"), "few_rest_bare", "test"),
    "german_alone": ("pretrained", FEW, "german_test"),
    "german_self": (("pretrained", "german_alone"), BARE, "german_test"),
    "german_zero_shot": ("teacher", None, "german_test"),
    "german_two_stage": (("teacher", "german_alone"), BARE, "german_test"),
}


def test_each_arm_reads_the_labels_that_it_is_named_for(questions):
    parts = [study.STUDY.parts(seed, study.STUDY.small().sizes) for seed in (0, 1)]
    seen = hold(study.STUDY)
    assert set(seen) == {(name, seed) for name in ARMS for seed in (0, 1)}
    for (name, seed), one in seen.items():
        starts, train, test = ARMS[name]
        made = [("made", start, seed) if start in ARMS else start for start in np.ravel(starts)]
        assert one.tests == {test: parts[seed][test].data}, name
        if train:
            assert one.job.start == (made[0] if isinstance(starts, str) else tuple(made)), name
            wanted = parts[seed][train].data
            assert one.job.train.utterances == wanted.utterances
            assert one.job.train.bare == wanted.bare
            epochs = getattr(one.job.arm.loss, "epochs", None)
            kind = getattr(one.job.arm.loss, "kind", "guess")
            guess = name == "pretrained"
            assert (kind, epochs) == (("guess", 2) if guess else ("full", 96))
        else:
            assert one.made == made[0] and one.job.train is None
        assert one.job.choice is None
    assert study.STUDY.sizes == {
        "sentences": 3000, "tests": 200, "few": 300, "readings": 21_000,
    }  # fmt: skip
    assert list(study.STUDY.seeds) == [0, 1, 2, 3, 4]


def test_the_few_the_half_and_the_rest_are_of_one_draw(questions):
    world, again = (systems.world(questions, 12, 8, seed) for seed in (0, 1))
    one, other = (study.parts(seed, {"sentences": 12, "tests": 8, "few": 6}) for seed in (0, 1))
    few, half, rest = (one[name].data for name in ("few", "half", "few_rest_bare"))
    assert len(few.utterances) == 6 and not few.bare and few.utterances == rest.utterances
    assert len(half.utterances) == 14 and len(rest.bare) == 14
    texts = sorted([u.cleaned for u in world.train] + world.said)
    true = one["few_rest"].data.utterances
    assert sorted(u.cleaned for u in half.utterances + true[6:]) == texts
    assert true[:6] == few.utterances and [u.words for u in true[6:]] == list(rest.bare)
    assert one["test"].data == world.real + world.made
    assert other["test"].data == again.real + again.made != one["test"].data
    assert few.utterances != other["few"].data.utterances
    german = {name: one[f"german_{name}"].data for name in ("few", "few_more_bare", "test")}
    assert len(german["few"].utterances) == 6 == len(german["few_more_bare"].bare)
    assert german["few"].utterances == german["few_more_bare"].utterances
    assert len(german["test"]) == 300
    learned = {u.cleaned for u in german["few"].utterances}
    assert not learned & {u.cleaned for u in german["test"]}
    words = german["few"].vocabulary.words
    assert all(one[name].data.vocabulary.words == words for name in ("few", "half", "texts"))
    assert {"uh", "hat"} <= set(words)


def test_a_german_sentence_in_training_and_test_is_seen(questions, monkeypatch):
    whole = study.dg.german_parts
    leaky = lambda *asked: (made := whole(*asked)) | {"test": made["test"] + made["more"]}  # noqa: E731
    monkeypatch.setattr(study.dg, "german_parts", leaky)
    with pytest.raises(ValueError, match="share 6 units"):
        hold(study.STUDY)


def test_the_recorded_parts_share_no_sentence():
    try:
        parts = study.STUDY.parts(0, study.STUDY.sizes)
    except data.DataError as error:
        pytest.skip(f"the data set cannot be had: {error}")
    study.STUDY.apart(parts)
    counted = {name: len(part.units) for name, part in parts.items()}
    assert counted == {
        "texts": 7600, "few": 300, "half": 3500, "few_rest": 3800, "few_rest_bare": 3800,
        "german_few": 300,
        "german_few_more_bare": 600, "test": 500, "german_test": 300,
    }  # fmt: skip


def judged(name, monkeypatch):
    rows = [dl.Utterance(("uh", "a", "b"), (1, 0, 1), ("edit", "fluent", "edit"))]
    monkeypatch.setattr(pt, "final_labels", lambda *asked: [[1, 0, 0]])
    job = Job(name, study.STUDY.arms[name], 0, study.STUDY.sizes)
    return study.judge(systems.Labeller("network", "words"), rows, job)


def test_whole_sentences_are_scored_where_labels_were_read(monkeypatch):
    told = judged("teacher", monkeypatch)
    assert told == {"precision": 1.0, "recall": 0.5, "f1": pytest.approx(2 / 3)}
    assert judged("german_zero_shot", monkeypatch) == told
    assert judged("pretrained", monkeypatch) == {}


@pytest.mark.parametrize(
    ("gain", "one", "less"),
    [
        ("study_pretraining_gain", "few_pretrained", "few_cold"),
        ("study_self_training_gain", "student_taught", "student_few"),
        ("study_teacher_over_truth", "student_taught", "student_true"),
        ("study_two_stage_gain", "german_two_stage", "german_self"),
    ],
)
def test_a_gain_is_what_the_second_way_adds(gain, one, less):
    found = {}
    for at, (name, (_, _, test)) in enumerate(ARMS.items()):
        runs = [{"f1": 0.01 * at**2 + 0.001 * s, "precision": 0.5, "recall": 0.25}
                for s in range(5)]  # fmt: skip
        found[name] = {seed: {test: told} for seed, told in enumerate(runs)}
    receipt = receipts.start("disfluency", "cpu")
    record(study.STUDY, receipt, found)
    names = list(ARMS)
    wanted = 0.01 * (names.index(one) ** 2 - names.index(less) ** 2)
    kept = receipt.metrics[gain]
    assert (kept["value"], kept["unit"]) == (pytest.approx(wanted), "share") and wanted > 0
    assert receipt.metrics[f"study_{one}_recall"]["value"] == 0.25
    assert receipt.metrics[f"study_{one}_precision"]["value"] == 0.5
