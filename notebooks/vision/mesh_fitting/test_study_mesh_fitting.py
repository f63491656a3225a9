"""The study: arms differ in one regulariser or in who drew the pictures; judged alike."""

import cameras
import carving
import mesh_fitting as mf
import meshes
import pytest
import study_mesh_fitting as study
import torch
from helpers import receipts
from press.study import hold, record

OFF = {
    "no_edge": {"edge"},
    "no_normal": {"normal"},
    "no_laplacian": {"laplacian"},
    "none": {"edge", "normal", "laplacian"},
}


@pytest.fixture(scope="module")
def seen():
    return hold(study.STUDY)


def test_each_arm_switches_off_what_it_is_named_for(seen):
    whole = mf.small().weights
    assert {name for name, _ in seen} == {"all", "own_renderer", "sphere", "carved", *OFF}
    assert seen["sphere", 0].job.arm.loss == mf.small(steps=0), "nothing is moved"
    starts = {name: seen[name, 0].job.start for name, _ in seen}
    assert {name for name, start in starts.items() if start != "new"} == {"carved"}
    for name in ("all", "own_renderer", *OFF):
        own = seen[name, 0].job.arm.loss
        off = {key for key, value in own.weights.items() if value != whole[key]}
        assert off == OFF.get(name, set()) and all(own.weights[key] == 0 for key in off)
        assert (own.level, own.size, own.views, own.at_once) == (3, 64, 12, 2)


def test_photographs_are_the_z_buffer_s_and_only_one_arm_sees_its_own(seen):
    for seed in (0, 1):
        views = cameras.around(12, seed=2 * seed)
        hard, soft = (
            mf.photographed(meshes.car(2), views, 64, one) for one in ("hard", "soft")
        )
        for name in ("all", *OFF, "carved", "own_renderer"):
            given = seen[name, seed].job.train
            wanted = soft if name == "own_renderer" else hard
            assert torch.equal(given.silhouettes, wanted.silhouettes)
            assert torch.equal(given.cameras, views)


def test_all_are_judged_on_views_that_none_has_seen(seen):
    for (_, seed), one in seen.items():
        mesh, held = one.tests["test"]
        assert torch.equal(held, cameras.around(2, seed=2 * seed + 1))
        assert torch.equal(mesh[0], meshes.car(2)[0])
        for view in held:
            assert (cameras.around(12, seed=2 * seed) - view).abs().amax((1, 2)).min() > 0.01


def test_the_study_s_sizes_and_seeds():
    assert list(study.STUDY.seeds) == [0, 1, 2]
    assert study.STUDY.sizes == {"steps": 250, "car": 4, "held": 8}


def test_the_arm_s_own_steps_and_seed_reach_its_fit(monkeypatch, seen):
    asked = []
    made = mf.Fit(torch.zeros(4, 3), torch.zeros(1, 3), None, {}, {})
    monkeypatch.setattr(mf, "fit", lambda *given, **named: asked.append((given, named)) or made)
    job = seen["no_edge", 1].job
    study.fit(job)
    (given, settings), named = asked[0]
    assert given is job.train and settings.steps == 3 and named == {"seed": 1}
    assert settings.weights["edge"] == 0 and settings.weights["laplacian"] == 1
    study.fit(seen["sphere", 1].job)
    assert asked[1][0][1].steps == 0


def test_the_carved_arm_carves_its_photographs(seen):
    job = seen["carved", 1].job
    for ours, wanted in zip(study.fit(job), carving.carve(job.train, 3), strict=True):
        assert torch.equal(ours, wanted)


def test_the_judge_asks_for_the_fit_and_the_car_from_the_held_views(monkeypatch, seen):
    asked, one = [], seen["all", 1]
    monkeypatch.setattr(mf, "judged", lambda *given: asked.append(given) or {})
    study.judge(("vertices", "faces"), one.tests["test"], one.job)
    vertices, faces, mesh, views, size = asked[0]
    assert (vertices, faces, size) == ("vertices", "faces", 64)
    assert torch.equal(mesh[0], meshes.car(2)[0])
    assert torch.equal(views, cameras.around(2, seed=3))


def test_what_is_recorded_points_the_right_way():
    value = {"all": 0.9, "no_edge": 0.8, "no_normal": 0.7, "no_laplacian": 0.6, "none": 0.5}
    value |= {"own_renderer": 0.85, "sphere": 0.4, "carved": 0.92}
    found = {}
    for name, iou in value.items():
        own = {"chamfer": 1 - iou, "roughness": 1 - iou}
        each = [own | {"iou": iou + s / 100, "self_iou": iou + 0.1 + s / 100} for s in range(3)]
        found[name] = {seed: {"test": one} for seed, one in enumerate(each)}
    receipt = receipts.start("mesh_fitting", "cpu")
    record(study.STUDY, receipt, found)
    told = {name: one["value"] for name, one in receipt.metrics.items()}
    assert told["study_over_sphere"] == pytest.approx(0.5)
    assert told["study_over_carving"] == pytest.approx(-0.02)
    assert told["study_gain_of_no_edge"] == pytest.approx(0.1)
    assert told["study_gain_of_none"] == pytest.approx(0.4)
    assert told["study_smoothed_by_no_normal"] == pytest.approx(0.1 - 0.3)
    assert told["study_own_renderer_loss"] == pytest.approx(0.05)
    assert told["study_flattery"] == pytest.approx(0.95 - 0.9), (
        "its own score less the honest one"
    )
