"""The study of forgetting: who is shown which labels, and which way its numbers point."""

from pathlib import Path

import pytest
import torch
from annotations import Photo
from helpers import receipts
from press.study import hold, record

from . import network, training
from . import study_forgetting as study

BOXES = [[0, 0, 9, 9], [1, 1, 8, 8], [2, 2, 4, 4]]


@pytest.fixture(scope="module")
def seen():
    names = ["RBC", "WBC", "Platelets"]
    every = [
        Photo(Path(f"p{at}.jpg"), (20, 20), BOXES, names, split="test" if at > 8 else "train")
        for at in range(12)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study.data, "fetch", lambda name: name)
        patch.setattr(study.annotations, "read", lambda name: every)
        yield hold(study.STUDY)


def labels(photos):
    return {one.file.stem: set(one.labels) for one in photos}


def test_each_arm_sees_the_labels_that_it_is_named_for(seen):
    two, third, replay, joint = (
        labels(seen[name, 0].job.train) for name in ("two", "third", "replay", "joint")
    )
    assert set(map(frozenset, two.values())) == {frozenset(study.OLD)} and len(two) == 4
    assert set(map(frozenset, third.values())) == {frozenset(study.NEW)} and len(third) == 3
    extra = replay.keys() - third.keys()
    assert len(extra) == 1 and extra < two.keys() and len(replay[extra.pop()]) == 3
    assert joint.keys() == two.keys() | third.keys()
    assert all(len(one) == 3 for one in joint.values())


def test_all_are_judged_on_whole_labels_that_none_has_learnt_from(seen):
    for (name, seed), one in seen.items():
        (test,) = one.tests.values()
        assert len(test) == 3 and all(len(photo.labels) == 3 for photo in test)
        assert not labels(test).keys() & labels(one.job.train).keys(), (name, seed)
    assert seen["third", 0].job.start == ("made", "two", 0) == seen["replay", 0].job.start
    assert seen["joint", 0].job.start == "new"


def test_the_test_is_the_data_set_s_own_and_seeds_draw_the_others(seen):
    for one in seen.values():
        (test,) = one.tests.values()
        assert {photo.split for photo in test} == {"test"}
    assert labels(seen["two", 0].job.train).keys() != labels(seen["two", 1].job.train).keys()


def test_replay_takes_as_many_steps_as_learning_without(monkeypatch, seen):
    steps = {}
    monkeypatch.setattr(study.loading, "samples", len)
    monkeypatch.setattr(
        study.training,
        "train",
        lambda photos, how, *_: steps.update({name: photos * how.epochs}),
    )
    sizes = {"old": 146, "new": 146, "epochs": 24}
    for name, count in (("third", 146), ("alone", 146), ("replay", 182)):
        job = seen[name, 0].job
        study.fit(job._replace(train=[None] * count, sizes=sizes))
    assert steps["third"] == steps["alone"] and abs(steps["replay"] / steps["third"] - 1) < 0.02


def test_what_is_not_taught_gives_no_gradient():
    torch.manual_seed(0)
    photo = torch.randint(0, 255, (3, 150, 150), dtype=torch.uint8)
    one = training.Sample(photo, torch.tensor([[50.0, 40.0, 90.0, 80.0]]), torch.tensor([2]))
    for taught, still in (((2,), True), ((), False)):
        net = network.Detector(width=4)
        settings = training.Settings(taught=taught)
        training.step(net, [one], settings, torch.Generator().manual_seed(0), 3)
        assert bool((net.heat.weight.grad[:2] == 0).all()) == still
        assert net.heat.weight.grad[2].any()


def test_a_fit_goes_on_from_its_start(monkeypatch, seen):
    asked = []
    monkeypatch.setattr(study.loading, "samples", len)
    monkeypatch.setattr(study.training, "train", lambda *given: asked.append(given))
    study.fit(seen["third", 1].job)
    study.fit(seen["two", 1].job)
    assert [one[3] for one in asked] == [("made", "two", 1), None]
    assert [one[1].epochs for one in asked] == [1, 1] and [one[2] for one in asked] == [1, 1]


def test_what_is_recorded_points_the_right_way():
    value = {
        "alone": (0.3, 0.3),
        "two": (0.6, 0.0),
        "third": (0.1, 0.3),
        "replay": (0.5, 0.25),
        "joint": (0.6, 0.3),
    }
    found = {
        name: {seed: {"test": {"ap_old": old + seed / 100, "ap_new": new}} for seed in range(3)}
        for name, (old, new) in value.items()
    }
    receipt = receipts.start("custom_detection", "cpu")
    record(study.STUDY, receipt, found)
    told = {name: one["value"] for name, one in receipt.metrics.items()}
    assert told["study_forgotten"] == pytest.approx(0.5)
    assert told["study_untaught"] == pytest.approx(0.2)
    assert told["study_replayed"] == pytest.approx(0.4)
    assert told["study_learnt"] == pytest.approx(0.3)
    assert told["study_replay_costs"] == pytest.approx(0.05)
