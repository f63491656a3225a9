"""The study: arms differ in how they choose; all are judged on rounds that none has seen."""

import graph_cut
import phone_network
import pytest
import slice_kernels
import study_tuning as study
import torch
from helpers import receipts
from press.study import hold, record


class Clock:
    """A device whose times are by turns: the group says how long, the turn says which."""

    max_size = 1024

    def __init__(self):
        self.turns = 0

    def layer(self, weights, bias, **settings):
        return settings["form"], weights.shape

    def put(self, image):
        return image

    def run(self, layer, held, group):
        self.turns += 1
        return held, lambda turn=self.turns: 1e-6 * sum(group) + 1e-9 * turn


@pytest.fixture
def seen(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(slice_kernels, "open_device", lambda: (clock, None))
    for one in (study.device, study.task, study.warmed):
        one.cache_clear()
    yield hold(study.STUDY)
    for one in (study.device, study.task, study.warmed):
        one.cache_clear()


def test_each_arm_is_handed_what_it_is_named_for(seen):
    assert {name for name, _ in seen} == {"single", "median", "rule", "default"}
    for (name, seed), one in seen.items():
        assert one.job.arm.loss == name
        wanted = study.parts  # the same first rounds for both that choose by times, else none
        assert wanted and (one.job.train is None) == (name in ("rule", "default"))
        if name in ("single", "median"):
            assert one.job.train is not None
            assert {len(t) for t in one.job.train["narrow_28"].values()} == {2}, seed


def test_all_are_judged_on_the_same_later_rounds(seen):
    for seed in (0, 1):
        tests = [seen[name, seed].tests["test"] for name in study.ARMS]
        assert all(one == tests[0] for one in tests)
        trials = seen["single", seed].job.train["narrow_28"]
        for group, later in tests[0]["narrow_28"].items():
            assert min(later) > max(trials[group]), (
                "a clock that goes on: later, and none shared"
            )


def test_each_way_chooses_as_it_is_named(seen):
    def job(arm, times):
        return seen[arm, 0].job._replace(train={"narrow_28": times})

    times = {(8, 4, 1): [1.0, 9.0, 9.0], (4, 4, 2): [2.0, 2.0, 2.0]}
    assert study.fit(job("single", times)) == {"narrow_28": (8, 4, 1)}
    assert study.fit(job("median", times)) == {"narrow_28": (4, 4, 2)}
    assert study.fit(job("rule", times)) == {"narrow_28": (28, 1, 8)}
    assert study.fit(job("default", times)) == {"narrow_28": (8, 4, 1)}


def test_the_judge_s_numbers():
    times = {"a": {(1, 1, 1): [1.0] * 3, (2, 1, 1): [3.0] * 3}, "b": {(1, 1, 1): [1.0] * 3}}
    found = study.judge({"a": (2, 1, 1), "b": (1, 1, 1)}, times, None)
    assert found == {
        "slowdown": 2,
        "wrong": 50,
        "gain": pytest.approx((2 / 3 + 1) / 2),
        "most": 1,
    }
    best = study.judge({"a": (1, 1, 1)}, times, None)
    assert best == {"slowdown": 1, "wrong": 0, "gain": 2, "most": 2}


def test_a_tenth_is_still_right():
    times = {"a": {(1, 1, 1): [1.0], (2, 1, 1): [1.09], (4, 1, 1): [1.11]}}
    assert study.judge({"a": (2, 1, 1)}, times, None)["wrong"] == 0
    assert study.judge({"a": (4, 1, 1)}, times, None)["wrong"] == 100


def test_what_a_driver_compiles_is_in_no_time(monkeypatch):
    rounds = []

    def measured(name, count, most):
        rounds.append(count)
        return {(1, 1, 1): [1.0] * count}

    monkeypatch.setattr(study, "measured", measured)
    study.warmed.cache_clear()
    sizes = {"trials": 2, "held": 3, "layers": 1, "most": 2}
    study.parts(0, sizes)
    study.parts(1, sizes)
    study.warmed.cache_clear()
    assert rounds == [1, 5, 5], "each group has run once before any time counts"


def test_the_layers_are_those_of_the_classifier_at_its_full_size():
    steps = graph_cut.steps(phone_network.Classifier().eval())
    plan = graph_cut.Plan(steps, slice_kernels.TorchDevice())
    size = phone_network.SIZES["classifier"]
    kernels = [one for one in plan.run(torch.zeros(3, size, size))[1] if one.form != "add"]
    layers = [plan.layers[one.name] for one in kernels]
    found = {
        (a.form, b.shape, b.stride, a.grid[:2]) for a, b in zip(kernels, layers, strict=True)
    }
    for form, inputs, outputs, side, place in study.LAYERS.values():
        depth = 1 if form == "depthwise" else inputs
        assert (form, (outputs, depth, side, side), 1, (place, place)) in found


def test_sizes_and_seeds():
    assert list(study.STUDY.seeds) == list(range(10))
    sizes = study.STUDY.sizes
    assert (sizes["trials"], sizes["held"], sizes["layers"], sizes["most"]) == (5, 9, 4, None)


def test_what_is_recorded_points_the_right_way():
    wrong = {"single": 50.0, "median": 10.0, "rule": 80.0, "default": 90.0}
    found = {
        name: {
            seed: {
                "test": {"wrong": one + seed, "slowdown": 1 + one / 100, "gain": 2, "most": 3}
            }
            for seed in range(3)
        }
        for name, one in wrong.items()
    }
    receipt = receipts.start("opencl_inference", "cpu")
    record(study.STUDY, receipt, found)
    told = {name: one["value"] for name, one in receipt.metrics.items()}
    assert told["study_single_wrong_more"] == pytest.approx(40)
    assert told["study_single_slower"] == pytest.approx(0.4)
    assert told["study_median_gain"] == 2 and told["study_median_most"] == 3


def test_without_opencl_it_says_so(monkeypatch):
    monkeypatch.setattr(slice_kernels, "open_device", lambda: (None, "no platform"))
    study.device.cache_clear()
    with pytest.raises(RuntimeError, match="no platform; this study needs OpenCL"):
        study.device()
    study.device.cache_clear()
