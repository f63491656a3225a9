"""The study of what the doctor names: whom it sees, what counts as named, and its shares."""

import pytest
from helpers import receipts
from press.study import hold, record

from . import study_doctor as study
from .conftest import scene


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    every = [
        scene(folder, "s", at).but(split=("train", "val", "test")[at % 3]) for at in range(42)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study.data, "fetch", lambda name: name)
        patch.setattr(study.annotations, "read", lambda name: every)
        yield hold(study.STUDY)


def test_sets_are_apart_and_the_unseen_ones_are_the_test_s(seen):
    for seed in (0, 1):
        old, sets = seen["old", seed].job.train, seen["old", seed].tests
        for name, splits in (("seen", {"train", "val"}), ("unseen", {"test"})):
            photos = [photo for one in sets[name][0] for photo in one]
            assert {photo.split for photo in photos} == splits and len(photos) == 9
            files = {photo.file for photo in photos}
            assert len(files) == 9 and not files & {photo.file for photo in old}


def judged(monkeypatch, says, sets=2):
    """What is scored where `says(visit)` is what the doctor names."""
    visits = iter([visit for visit in study.VISITS for _ in range(sets)])

    def heal(*_):
        named = [study.doctor.Finding(one, 1, "", "") for one in says(next(visits))]
        return None, None, named, None

    monkeypatch.setattr(study.doctor, "heal", heal)
    monkeypatch.setattr(study.faults, "planted", lambda visit, photos, *_: photos)
    job = type("Job", (), {"seed": 0})
    return study.judge("net", ([["a"]] * sets, ["b"]), job)


def test_who_names_all_has_a_share_of_one_and_who_is_silent_none(monkeypatch):
    whole = judged(monkeypatch, study.wanted)
    assert (whole["found"], whole["alarms"], whole["others"]) == (1, 0, 0)
    silent = judged(monkeypatch, lambda visit: ())
    assert (silent["found"], silent["alarms"], silent["others"]) == (0, 0, 0)
    everywhere = judged(monkeypatch, lambda visit: study.faults.FAULTS)
    assert (everywhere["found"], everywhere["alarms"], everywhere["others"]) == (1, 1, 1)


def test_half_of_two_faults_is_a_half_and_a_wider_view_is_larger_indeed(monkeypatch):
    told = judged(monkeypatch, lambda visit: {visit.split("_")[0]} - {"clean"} | {"larger"})
    assert told["hits"]["rescaled_relabelled"] == 0.5 and told["hits"]["shifted"] == 1
    assert told["alarms"] == 1 and told["others"] == pytest.approx(1 - 2 / len(told["hits"]))


def test_an_interval_counts_the_sets_and_not_the_draws():
    low, high = study.wilson(0, 8)
    assert low == 0 and high == pytest.approx(0.324, abs=1e-3), "Wilson's for 0 of 8"
    one = {"found": 1.0, "alarms": 0.25, "others": 0.0, "sets": [9] * 8}
    one["hits"] = dict.fromkeys(study.VISITS[1:], 0.5)
    found = {"old": {seed: {"seen": one | {"alarms": 0.0}, "unseen": one} for seed in range(5)}}
    receipt = receipts.start("custom_detection", "cpu")
    record(study.STUDY, receipt, found)
    told = receipt.metrics
    assert told["study_found"]["value"] == 1 and told["study_found"]["low"] < 0.7
    assert told["study_alarms"]["value"] == 0.25 and told["study_alarms_seen"]["value"] == 0
    assert told["study_found_shifted"]["value"] == 0.5 and told["study_alarms"]["repeats"] == 8
