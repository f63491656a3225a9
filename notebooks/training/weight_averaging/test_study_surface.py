"""The surface's networks lie where they are named for, and its two signs are held."""

import copy

import loss_plane
import pytest
import study_surface
import torch
from helpers import receipts
from helpers.images import Run
from press.study import record
from small_resnet import SmallResNet
from study_surface import SURFACE
from test_study_averaging import Paths, handed, job_of, number, pictures, read

# arm: (start, the parts that judge it, the further start, how many seeds of two)
EXPECTED = {
    "fork": ("new", (), 0, 2),
    "sgd": ("fork", ("train", "test"), 0, 2),
    "swa": ("fork", ("train", "test"), 0, 2),
    "fork_2": ("new", (), 1, 1),
    "second": ("fork_2", ("test",), 1, 1),
    "fork_3": ("new", (), 2, 1),
    "third": ("fork_3", ("test",), 2, 1),
    "plane": (("sgd", "second", "third"), ("few",), 0, 1),
    "straight": (("sgd", "second"), ("few",), 0, 1),
    "bent": (("sgd", "second"), ("few",), 0, 1),
}


def test_arms_begin_and_are_judged_where_they_say():
    seen = handed(SURFACE)
    seeds = {(name, seed) for name, (*_, count) in EXPECTED.items() for seed in range(count)}
    assert set(seen.jobs) == seeds
    for (name, seed), job in seen.jobs.items():
        start, tests, _, _ = EXPECTED[name]
        made = tuple(("made", one, seed) for one in start)
        assert job.start == (made if isinstance(start, tuple) else start) or job.start == (
            "made",
            start,
            seed,
        )
        learns = name not in ("plane", "straight")
        assert job.train is (seen.parts[seed]["train"].data if learns else None)
        judged = seen.tests.get((name, seed), {})
        assert set(judged) == set(tests)
        assert all(judged[part] is seen.parts[seed][part].data for part in tests)
    assert SURFACE.seeds == range(5)
    sizes = {"images": 3000, "tested": 400, "epochs": 48, "width": 8}
    assert SURFACE.sizes == sizes


def test_further_starts_are_other_networks_in_another_order(monkeypatch):
    paths, weights = Paths(monkeypatch), []
    for name, (start, _, member, _) in EXPECTED.items():
        if start == "new":
            job = job_of(SURFACE, name)
            weights.append(SURFACE.begin("new", job).stem.weight)
        elif isinstance(start, str):
            SURFACE.fit(job_of(SURFACE, name, Run(number(0), [], None)))
            assert paths.told[-1][0] == 3 + 100 * member
    assert not any(torch.equal(weights[0], other) for other in weights[1:])
    assert not torch.equal(*weights[1:])


def test_both_of_the_law_are_refreshed_and_only_swa_averages_at_the_high_rate(monkeypatch):
    Paths(monkeypatch)
    run = Run(number(0), [], None)
    ends = {name: read(SURFACE.fit(job_of(SURFACE, name, run))) for name in ("sgd", "swa")}
    assert ends == {"sgd": (8, -1), "swa": (60, -1)}


def test_a_fifth_of_training_and_test_images_draws_the_curves():
    parts = handed(SURFACE).parts[0]
    for few, name in zip(parts["few"].data, ("train", "test"), strict=True):
        whole = parts[name].data
        assert few.count == -(-whole.count // 5)
        assert torch.equal(few.pixels_NCHW, whole.pixels_NCHW[::5])
        assert torch.equal(few.mean, whole.mean)
    assert set(parts["few"].units) <= set(parts["train"].units) | set(parts["test"].units)


def networks(count):
    found = []
    for seed in range(count):
        torch.manual_seed(seed)
        found.append(SmallResNet(2, classes=5))
    return found


def test_a_curve_is_bent_at_its_trained_middle_and_straight_without(monkeypatch):
    told = {}

    def bend(model, first, second, images, epochs):
        told.update(model=model, first=first, second=second, images=images, epochs=epochs)
        return first + 5

    monkeypatch.setattr(loss_plane, "bend", bend)
    first, second = networks(2)
    job = job_of(SURFACE, "bent", (first, second))
    made = SURFACE.fit(job)
    ends = [loss_plane.weights_of(one) for one in (first, second)]
    assert told["model"] is second and told["images"] is job.train and told["epochs"] == 24
    assert torch.equal(told["first"], ends[0]) and torch.equal(told["second"], ends[1])
    assert made[:2] == (first, second) and torch.equal(made[2], ends[0] + 5)

    points = []

    def along(model, weights, statistics, *parts):
        points.append((weights, statistics, parts))
        return [[0.1, 0.2, 0.3, 0.4] for _ in weights]

    monkeypatch.setattr(loss_plane, "along", along)
    few = pictures(10), pictures(10, seed=1)
    for name, arm in (("straight", (first, second)), ("bent", made)):
        found = SURFACE.judge(arm, few, job._replace(name=name, test="few"))
        curve = found[f"curve_{name}"]
        assert curve["t"][0] == 0 and curve["t"][-1] == 1 and len(curve["t"]) == 21
        assert [curve[key][0] for key in ("train_loss", "test_accuracy")] == [0.1, 0.4]
        weights, statistics, parts = points[-1]
        assert statistics is few[0] and parts == few
        torch.testing.assert_close(weights[0], ends[0])
        torch.testing.assert_close(weights[20], ends[1])
        middle = (ends[0] + ends[1]) / 2 if name == "straight" else ends[0] + 5
        torch.testing.assert_close(weights[10], (ends[0] + ends[1]) / 4 + middle / 2)


def test_the_plane_goes_through_three_starts(monkeypatch):
    monkeypatch.setattr(study_surface, "SIDE", 2)
    made = networks(3)
    job = job_of(SURFACE, "plane")._replace(test="few")
    found = SURFACE.judge(made, (pictures(10), pictures(10, seed=1)), job)
    weights = [loss_plane.weights_of(one) for one in networks(3)]
    axes = loss_plane.plane_through(*weights)
    spots = zip(found["curve_spots"]["x"], found["curve_spots"]["y"], strict=True)
    for one, spot in zip(weights, spots, strict=True):
        assert (axes @ (one - weights[0])).tolist() == pytest.approx(spot, abs=1e-4)
    assert len(found["curve_plane"]["test_loss"]) == 4


def test_loss_and_accuracy_are_those_of_the_part_and_sharpness_that_of_training_images():
    (model,), images = networks(1), pictures(10)
    for part in ("train", "test"):
        job = job_of(SURFACE, "sgd")._replace(test=part)
        found = SURFACE.judge(copy.deepcopy(model), images, job)
        assert (found["loss"], found["accuracy"]) == loss_plane.judge(model.eval(), images)
        sharp = found.get("sharpness")
        assert sharp == (loss_plane.sharpness(model, images) if part == "train" else None)


def test_the_law_is_swa_less_sgd():
    told = receipts.start("weight_averaging", "cpu")
    found = {name: {0: {}, 1: {}} for name in EXPECTED}
    for name, values in {"sgd": (0.1, 0.2), "swa": (0.3, 0.6)}.items():
        for seed in (0, 1):
            found[name][seed] = {
                "train": {"loss": values[seed], "accuracy": 0.9, "sharpness": 2 * values[seed]},
                "test": {"loss": 5.0, "accuracy": 0.5 + values[seed]},
            }
    for name, curve in (("plane", "plane"), ("straight", "straight"), ("bent", "bent")):
        found[name] = {0: {"few": {f"curve_{curve}": {"t": [0, 1]}}}}
    record(SURFACE, told, found)
    excess = told.metrics["study_surface_train_loss_excess"]
    assert (excess["value"], excess["unit"]) == (pytest.approx(0.3), "nat")
    sharp = told.metrics["study_surface_sharpness_excess"]
    assert (sharp["value"], sharp["unit"]) == (pytest.approx(0.6), "nat")
    gain = told.metrics["study_surface_test_accuracy_gain"]
    assert (gain["value"], gain["unit"]) == (pytest.approx(30), "points")
    assert gain["high"] - gain["value"] == pytest.approx(12.7062 * 10)
    assert told.metrics["study_surface_swa_train_loss"]["value"] == pytest.approx(0.45)
    assert set(told.curves) == {"surface_plane", "surface_straight", "surface_bent"}
