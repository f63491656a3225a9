"""The study: healed arms are told nothing, tests are learnt from by nobody but the
duplicates, signs are right.
"""

import numpy as np
import pytest
from helpers import receipts
from press.study import hold, record

from . import study_doctor
from . import study_mends as study
from .conftest import scene

ARMS = study.ARMS


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    every = [
        scene(folder, "s", at).but(split=("train", "val", "test")[min(at // 8, 2)])
        for at in range(25)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study_doctor.data, "fetch", lambda name: name)
        patch.setattr(study_doctor.annotations, "read", lambda name: every)
        yield hold(study.STUDY)


def files(photos):
    return {one.file.stem for one in photos}


def test_a_healed_arm_is_its_faulty_one_but_for_the_doctor():
    for name in (*study.LABELS, *study.PHOTOS, "duplicated"):
        one, other = ARMS[name], ARMS[f"{name}_healed"]
        assert (one.train, one.test, one.start, one.loss) == (
            other.train,
            other.test,
            other.start,
            other.loss,
        )
        assert not one.setting and other.setting == {"healed": True}


def test_what_learns_never_sees_its_test(seen):
    for (name, seed), one in seen.items():
        if one.job.train and not name.startswith("duplicated"):
            for photos, _, test in one.tests.values():
                assert not files(one.job.train[0]) & (files(photos) | files(test)), (name, seed)


def test_old_own_and_test_are_apart_and_of_the_sizes_said(seen):
    for seed in (0, 1):
        own, old, test = seen["clean", seed].job.train
        assert (len(own), len(old), len(test)) == (12, 4, 9)
        assert (
            not files(own) & files(old)
            and not files(own) & files(test)
            and not files(old) & files(test)
        )
        assert {one.split for one in test} == {"test"}, "what limits and weights never saw"
        assert "test" not in {one.split for one in (*own, *old)}
    assert files(seen["clean", 0].job.train[0]) != files(seen["clean", 1].job.train[0])


def test_faults_lie_where_they_are_named(seen):
    own, _, test = seen["clean", 0].job.train
    boxes = {name: seen[name, 0].job.train[0][0].boxes for name in study.LABELS}
    np.testing.assert_allclose(boxes["rescaled"], own[0].boxes / 2)
    np.testing.assert_allclose(
        boxes["shifted"] - own[0].boxes, [[30, 20, 30, 20]] * len(own[0].boxes)
    )
    assert seen["relabelled", 0].job.train[0][0].labels != own[0].labels
    np.testing.assert_allclose(boxes["rescaled_relabelled"], own[0].boxes / 2)
    for name in ("rotated", "rotated_profiled", "profiled"):
        (judged,) = (photos for photos, *_ in seen[name, 0].tests.values())
        assert files(judged) == files(test) and judged[0].file != test[0].file
    assert files(seen["duplicated", 0].job.train[0]) & files(test)


def test_a_fit_heals_only_where_the_arm_says_so(monkeypatch, seen):
    asked = []
    monkeypatch.setattr(
        study.doctor,
        "heal",
        lambda *given, **more: (
            asked.append((given, more)) or (given[0], given[1], ["f"], set())
        ),
    )
    monkeypatch.setattr(study.cd, "samples", lambda photos, loading: ("samples", len(photos)))
    monkeypatch.setattr(
        study.cd, "train", lambda samples, settings, seed: (samples, settings.epochs, seed)
    )
    job = seen["shifted", 1].job
    assert study.fit(job) == (("samples", 12), 1, 1) and not asked
    job = seen["shifted_healed", 1].job
    study.fit(job._replace(start="net"))
    ((photos, loading, old, _), more) = asked[0]
    assert photos == job.train[0] and old == job.train[1] and more["against"] == job.train[2]


@pytest.mark.parametrize("name", ["rotated_healed", "rotated", "shifted_healed"])
def test_the_truth_is_never_what_the_doctor_made_of_it(monkeypatch, seen, name):
    asked, judged, mended = [], [], study.cd.Loading(upright=True)
    heal = lambda *given: asked.append(given) or (["other labels"], mended, [], set())  # noqa: E731
    monkeypatch.setattr(study.doctor, "heal", heal)
    monkeypatch.setattr(study.cd, "answers", lambda net, photos, loading: (photos, loading))
    monkeypatch.setattr(
        study.average_precision,
        "evaluate",
        lambda *given: judged.append(given) or {"AP": 0.4, "AP50": 0.7},
    )
    photos = ["as brought"]
    assert study.judge("net", (photos, [], []), seen[name, 0].job) == {"ap": 0.4, "ap50": 0.7}
    ((truth, (given, loading)),) = judged
    healed = name == "rotated_healed"
    assert truth is photos and given is photos and len(asked) == healed
    assert loading.upright == healed


def test_what_is_recorded_points_the_right_way():
    found = {}
    for name, arm in ARMS.items():
        ap = 0.5 if name == "clean" else 0.45 if name.endswith("_healed") else 0.2
        own = {"ap": ap, "ap50": ap}
        found[name] = {
            seed: {test: own | {"ap": ap + seed / 100} for test in arm.test}
            for seed in range(3)
        }
    for seed in range(3):
        found["clean"][seed]["blurred"] = found["clean"][seed]["blurred"] | {
            "ap": 0.1 + seed / 100
        }
    receipt = receipts.start("custom_detection", "cpu")
    record(study.STUDY, receipt, found)
    told = {name: one["value"] for name, one in receipt.metrics.items()}
    assert told["study_cost_of_rotated"] == pytest.approx(0.3) == told["study_cost_of_shifted"]
    assert told["study_gain_of_rotated"] == pytest.approx(0.25)
    assert told["study_cost_of_blurred"] == pytest.approx(0.4)
    assert told["study_gain_of_blurred"] == pytest.approx(0.1)
