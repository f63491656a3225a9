"""The study of estimators: arms differ in the estimator alone, and are judged alike."""

import allocation
import path_tracing
import rooms
import study_estimators
import torch
from helpers import receipts
from press.study import hold, record

WAYS = {
    "lamp": ("lamp", "power"),
    "bsdf": ("bsdf", "power"),
    "balance": ("multiple", "balance"),
    "power": ("multiple", "power"),
}


def test_each_estimator_is_the_one_that_its_arm_is_named_for(monkeypatch):
    asked = []
    found = allocation.Measured(0.0, 1.0, 2.0, 3.0, 0.25)
    monkeypatch.setattr(allocation, "measure", lambda *given: asked.append(given) or found)
    for (name, seed), seen in hold(study_estimators.STUDY).items():
        for scene in seen.tests.values():
            told = study_estimators.judge(None, scene, seen.job)
            _, options, depth, samples, seeds = asked.pop()
            estimator, heuristic = WAYS[name]
            assert options == path_tracing.Options(estimator, heuristic)
            assert (depth, samples, list(seeds)) == (
                2,
                2,
                [3 * seed, 3 * seed + 1, 3 * seed + 2],
            )
            assert told["work"] == 3 * 0.25 and told["milliseconds"] == 250
            assert (told["direct"], told["indirect"], told["variance"]) == (1, 2, 3)


def test_all_estimators_are_judged_in_the_same_two_rooms():
    wanted = {"box": rooms.cornell_box(8, 8), "plates": rooms.glossy_plates(8, 8)}
    for seen in hold(study_estimators.STUDY).values():
        assert set(seen.tests) == set(wanted)
        for name, scene in wanted.items():
            assert torch.equal(seen.tests[name].emission_Q3, scene.emission_Q3)
            assert torch.equal(seen.tests[name].corner_Q3, scene.corner_Q3)


def test_sizes_and_seeds():
    one = study_estimators.STUDY
    assert one.sizes == {"pixels": 48, "depth": 5, "samples": 16, "pictures": 8}
    assert list(one.seeds) == [0, 1, 2, 3, 4] and one.threads == 1


def test_what_is_recorded_points_the_right_way():
    receipt = receipts.start("light_transport", "cpu")
    value = {"lamp": 4.0, "bsdf": 8.0, "balance": 2.0, "power": 1.0}
    scores = {
        name: {
            s: {
                r: dict.fromkeys(study_estimators.STUDY.metrics, v + s / 9)
                for r in ("box", "plates")
            }
            for s in range(2)
        }
        for name, v in value.items()
    }
    record(study_estimators.STUDY, receipt, scores)
    told = {name: one["value"] for name, one in receipt.metrics.items()}
    assert told["study_box_waiting_over_drawing"] > 1.9
    assert told["study_plates_both_over_drawing"] < 0.3 > told["study_plates_both_over_waiting"]
    assert told["study_box_work_of_both_over_drawing"] < 0.3
