"""Each arm of the studies moves, averages and is judged as it is named; signs are held."""

import copy
import functools
import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import study_averaging as study
import torch
from block_float import LowPrecisionSGD
from fashion_task import ADAM, SGD, fingerprints, load, scaled
from helpers import data, receipts
from helpers.images import Run
from helpers.study import Job, StudyError
from press.study import hold, record, run
from small_resnet import SmallResNet
from study_averaging import BITS, METHODS
from torch import nn

once = functools.cache(load)  # a file that many tests draw from


def handed(one):
    """What each arm of a study is handed and judged on: `jobs` and `tests` by arm and seed, and
    the study's own `parts` by seed."""
    parts = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fashion_task.load", once)
        seen = hold(one, lambda seed, sizes: parts.setdefault(seed, one.parts(seed, sizes)))
    jobs = {
        at: found.job._replace(start=found.job.start or found.made)
        for at, found in seen.items()
    }
    tests = {at: found.tests for at, found in seen.items() if found.tests}
    return SimpleNamespace(jobs=jobs, tests=tests, parts=parts)


def number(value):
    """A network whose weight and whose statistics are this number."""
    model = nn.Sequential(nn.Linear(1, 1, bias=False), nn.BatchNorm1d(1, affine=False))
    nn.init.constant_(model[0].weight, value)
    model[1].running_mean.fill_(value)
    return model


def read(model):
    """(weight, statistics) of such a network."""
    return model[0].weight.item(), model[1].running_mean.item()


class Paths:
    """Stands in for `Task`'s branches: they visit numbers, by the rate that they end with."""

    def __init__(self, monkeypatch):
        self.told, task = [], "fashion_task.Task."
        for name in ("branch", "cycles", "refreshed"):
            mine = getattr(self, name)
            patch = lambda task, *given, _mine=mine, **more: _mine(task, *given, **more)  # noqa: E731
            monkeypatch.setattr(task + name, patch)

    def branch(self, task, seed, run, recipe, at_step=None, at_epoch=None):
        last = recipe.rate(recipe.epochs)
        self.told.append((seed, run, recipe, task.train, last))
        scale = 1 if last < recipe.rate(0) / 50 else 10
        for step in range(1, 9):
            if at_step:
                at_step(step, number(scale * step))
            if at_epoch and step % 4 == 0:
                at_epoch(step // 4, number(scale * step))
        return number(scale * 8)

    def cycles(self, task, seed, run, recipe, members):
        self.told.append((seed, run, recipe, task.train, recipe.rate(recipe.epochs)))
        return [number(value) for value in (5, 6, 10)][:members]

    def refreshed(self, task, model):
        model[1].running_mean.fill_(-1)
        return model


def pictures(count=40, classes=5, seed=0, side=12):
    """Random pictures whose classes come in turn."""
    drawn = torch.Generator().manual_seed(seed)
    pixels = torch.randint(0, 256, (count, 1, side, side), generator=drawn, dtype=torch.uint8)
    return scaled(pixels, torch.arange(count) % classes)


def job_of(one, name, start=None, seed=3, **given):
    """A job of an arm at the sizes that are recorded."""
    given = {"train": pictures(), "choice": None} | given
    return Job(name, one.arms[name], seed, one.sizes, start, given["train"], given["choice"])


def two_seeds(one, part="test", **told):
    """Scores of each judged arm in two seeds: `accuracy={"sgd": (0.4, 0.5)}`, else halves."""
    found = {}
    for name, arm in one.arms.items():
        found[name] = {}
        for seed in (0, 1):
            values = {key: by_arm.get(name, (0.5, 0.5))[seed] for key, by_arm in told.items()}
            found[name][seed] = dict.fromkeys(arm.test, values)
    return found


EMA = 0.99**7 * 1 + 0.01 * sum(0.99 ** (8 - n) * n for n in range(2, 9))  # of 1, 2 … 8
# arm: (start, weight after the path that visits 1 … 8 or 10 … 80, its statistics, how many)
ENDS = {
    "sgd": ("fork", 8, 8, 1),
    "sgd_recomputed": ("sgd", 8, -1, 1),
    "high": ("fork", 80, 80, 1),
    "asgd_epochs": ("fork", 6, -1, 2),
    "swa": ("fork", 60, -1, 2),
    "asgd": ("fork", 4.5, -1, 8),
    "swa_steps": ("fork", 45, -1, 8),
    "ema": ("fork", EMA, -1, 8),
    "ema_high": ("fork", 10 * EMA, -1, 8),
    "swa_last": ("fork", 60, 80, 2),
    "swa_average": ("fork", 60, 60, 2),
    "fge_mean": ("fork", 7, -1, 3),
    "adam": ("adam_fork", 8, 8, 1),
    "adam_swa": ("adam_fork", 60, -1, 2),
}
STARTS = {name: start for name, (start, *_) in ENDS.items()}
STARTS |= {"fork": "new", "adam_fork": "new", "fge_ensemble": "fork"}
FEW = (2, 3, 4, 5, 6, 8, 24)
BITS_STARTS = {f"{n}_fork": "new" for n in ("full", "low", "settled", "swalp")}
BITS_STARTS |= {"full_sgd": "full_fork", "full_swa": "full_fork", "low_sgd": "low_fork"}
BITS_STARTS |= {"low_swa": "swalp_fork", "low_swa_steps": "swalp_fork"}
BITS_STARTS["settled_swa"] = "settled_fork"
BITS_STARTS |= {f"full_{n}_{b}_bits": f"full_{n}" for n in ("sgd", "swa") for b in FEW}


@pytest.mark.parametrize(("one", "starts"), [(METHODS, STARTS), (BITS, BITS_STARTS)])
def test_an_arm_begins_where_it_says_and_is_judged_on_test_images(one, starts):
    seen = handed(one)
    assert set(seen.jobs) == {(name, seed) for name in starts for seed in (0, 1)}
    for (name, seed), job in seen.jobs.items():
        start = starts[name]
        assert job.start == (start if start == "new" else ("made", start, seed))
        assert job.train is seen.parts[seed]["train"].data and job.choice is None
    judged = {name for name in starts if not name.endswith("fork")}
    assert {name for name, _ in seen.tests} == judged
    for (_, seed), tests in seen.tests.items():
        assert set(tests) == {"test"} and tests["test"] is seen.parts[seed]["test"].data


def test_images_are_learned_from_one_file_and_tested_from_the_other():
    folder, parts = data.fetch("fashion_mnist"), handed(METHODS).parts
    files = {name: set(fingerprints(once(folder, name))) for name in ("train", "t10k")}
    for name, file in {"train": "train", "held": "train", "test": "t10k"}.items():
        assert set(parts[0][name].units) <= files[file]
        assert parts[0][name].units == fingerprints(parts[0][name].data)
    assert set(parts[0]["train"].units) != set(parts[1]["train"].units)
    assert set(parts[0]["test"].units) != set(parts[1]["test"].units)
    assert (METHODS.seeds, BITS.seeds) == (range(5), range(3))
    sizes = {"images": 3000, "tested": 400, "epochs": 48, "width": 8}
    assert METHODS.sizes == sizes and BITS.sizes == sizes | {"epochs": 32}


def test_test_images_among_those_learned_from_are_refused():
    def leaking(seed, sizes):
        found = study.drawn_parts(seed, sizes)
        return found | {"test": study.clothes(found["train"].data.part(torch.arange(3)))}

    with pytest.raises(StudyError, match="share 3 units"):
        handed(replace(METHODS, parts=leaking))


@pytest.mark.parametrize("name", ENDS)
def test_a_method_ends_with_its_own_average(name, monkeypatch):
    paths = Paths(monkeypatch)
    start, weight, statistics, count = ENDS[name]
    begun = number(8) if start == "sgd" else Run(number(0), [], None)
    job = job_of(METHODS, name, begun)
    found = METHODS.fit(job)
    assert read(found) == pytest.approx((weight, statistics), rel=1e-4)
    assert getattr(found, "snapshots", 1) == count
    for seed, run_, recipe, learned, last in paths.told:
        assert (seed, run_, learned, recipe.epochs) == (3, begun, job.train, 48)
        by_adam = name.startswith("adam")
        assert recipe.optimiser is (ADAM if by_adam else SGD)
        rate, high = (2e-3, 1e-3) if by_adam else (0.1, 0.05)
        assert recipe.rate(0) == rate
        assert last == pytest.approx(high if weight > 9 else rate / 100)
    assert bool(paths.told) == (start != "sgd")


def test_an_ensemble_of_cycles_keeps_its_networks(monkeypatch):
    Paths(monkeypatch)
    found = METHODS.fit(job_of(METHODS, "fge_ensemble", Run(number(0), [], None)))
    assert [read(one) for one in found] == [(5, 5), (6, 6), (10, 10)]


LOW = {"low_fork", "swalp_fork"}


@pytest.mark.parametrize(
    ("one", "name"),
    [(METHODS, "fork"), (METHODS, "adam_fork")]
    + [(BITS, f"{name}_fork") for name in ("full", "low", "settled", "swalp")],
)
def test_a_fork_trains_nine_sixteenths_of_the_epochs(one, name, monkeypatch):
    told = []
    monkeypatch.setattr("fashion_task.train", lambda *given, **how: told.append((given, how)))
    job = job_of(one, name)
    start = one.begin("new", job)
    one.fit(job._replace(start=start))
    (model, images, optimiser), how = told[0]
    epochs = 27 if one is METHODS else 18
    assert model is start and images is job.train
    assert (how["seed"], how["epochs"], how["batch"]) == (3, epochs, 64) and "first" not in how
    settled = name in ("settled_fork", "swalp_fork")
    rates = [how["rate"](epoch) for epoch in (0, epochs / 2, 0.9 * epochs)]
    first = 2e-3 if name == "adam_fork" else 0.1
    fallen = 0.01 if settled else 1 - 0.99 * (0.9 * 9 / 16 - 0.5) / 0.4
    assert rates == pytest.approx([first, first, first * fallen])
    bits = {
        layer.bits if hasattr(layer, "bits") else None
        for layer in model.modules()
        if isinstance(layer, nn.Conv2d | nn.Linear)
    }
    assert bits == ({8} if name in LOW else {None})
    kind = {"adam_fork": torch.optim.AdamW} | dict.fromkeys(LOW, LowPrecisionSGD)
    assert type(optimiser) is kind.get(name, torch.optim.SGD)
    (group,) = optimiser.param_groups
    if name != "adam_fork":
        assert (group["momentum"], group["weight_decay"]) == (0.9, 3e-4)
    assert group.get("bits") == (8 if name in LOW else None)
    assert group.get("rounding") == ("stochastic" if name in LOW else None)
    assert model.stem.out_channels == 8 and model.head.out_features == 5
    again = one.begin("new", job._replace(seed=4))
    assert not torch.equal(again.stem.weight, start.stem.weight)


# arm: (weight, statistics, first and last rate, whether in eight bits)
BITS_ENDS = {
    "full_sgd": (8, 8, 0.1, 0.001, False),
    "full_swa": (60, -1, 0.1, 0.05, False),
    "low_sgd": (8, 8, 0.1, 0.001, True),
    "settled_swa": (60, -1, 0.1, 0.01, False),
    "low_swa": (60, -1, 0.1, 0.01, True),
    "low_swa_steps": (45, -1, 0.1, 0.01, True),
}


@pytest.mark.parametrize("name", BITS_ENDS)
def test_each_of_bits_ends_with_its_rates_and_its_average(name, monkeypatch):
    paths = Paths(monkeypatch)
    weight, statistics, first, end, low = BITS_ENDS[name]
    found = BITS.fit(job_of(BITS, name, Run(number(0), [], None)))
    assert read(found) == (weight, statistics)
    ((_, _, recipe, _, last),) = paths.told
    assert (recipe.rate(0), last, recipe.epochs) == (first, pytest.approx(end), 32)
    settled = recipe.rate(17.9) == pytest.approx(0.001)  # just before the fork
    assert settled == (end == 0.01)
    assert (getattr(recipe.optimiser, "func", None) is LowPrecisionSGD) == low


def test_the_last_network_of_eight_bits_keeps_rounding_and_their_average_does_not():
    torch.manual_seed(0)
    images, sizes = pictures(64), {"epochs": 4, "width": 2}

    def values(model):
        """How many values what a convolution reads, and what it puts out, has at test."""
        model, found = copy.deepcopy(model), []
        look = lambda *given: found.append([len(one.unique()) for one in (*given[1], given[2])])  # noqa: E731
        model.blocks[0].conv2.register_forward_hook(look)
        model.eval()(next(images.batches()))
        return found[0]

    for fork, ends in {
        "low_fork": ["low_sgd"],
        "swalp_fork": ["low_swa", "low_swa_steps"],
    }.items():
        job = job_of(BITS, fork, train=images)._replace(sizes=sizes)
        begun = BITS.fit(job._replace(start=BITS.begin("new", job)))
        assert max(values(begun.model)) <= 256
        for name in ends:
            start = copy.deepcopy(begun)
            model = BITS.fit(job_of(BITS, name, start, train=images)._replace(sizes=sizes))
            assert (max(values(model)) <= 256) == (name == "low_sgd")


@pytest.mark.parametrize("bits", FEW)
def test_weights_are_rounded_after_training_and_refreshed(bits, monkeypatch):
    torch.manual_seed(0)
    refreshed = []
    monkeypatch.setattr(
        "fashion_task.Task.refreshed", lambda task, model: refreshed.append(model) or model
    )
    start = SmallResNet(2)
    found = BITS.fit(job_of(BITS, f"full_swa_{bits}_bits", start))
    assert refreshed == [found]
    each = found.stem.weight[0]  # one block: a filter of nine weights
    assert len(each.unique()) <= min(2**bits, 9)
    far = (found.stem.weight - start.stem.weight).abs().max()
    assert far <= 2.0 ** (2 - bits) * start.stem.weight.abs().max()


class Says(nn.Module):
    """A network that gives every picture these probabilities."""

    def __init__(self, *probs):
        super().__init__()
        self.logits = torch.tensor(probs).log()

    def forward(self, x):
        return self.logits.expand(len(x), -1)


def test_probabilities_are_averaged_and_scored_against_the_test_labels():
    images = pictures(4, 2)  # classes 0, 1, 0, 1
    alone = METHODS.judge(Says(0.9, 0.1), images, None)
    assert alone["accuracy"] == 0.5
    assert alone["nll"] == pytest.approx(-(math.log(0.9) + math.log(0.1)) / 2, rel=1e-5)
    both = METHODS.judge([Says(0.9, 0.1), Says(0.2, 0.8)], images, None)
    assert both["nll"] == pytest.approx(-(math.log(0.55) + math.log(0.45)) / 2, rel=1e-5)
    assert both["ece"] == pytest.approx(0.05, rel=1e-4)
    average = Says(0.9, 0.1)
    average.snapshots = 7
    told = [
        METHODS.judge(one, images, None) for one in (Says(0.9, 0.1), average, [average] * 3)
    ]
    assert [one["snapshots"] for one in told] == [1, 7, 3]
    assert BITS.judge(Says(0.9, 0.1), images.part(torch.tensor([0, 2, 3])), None) == {
        "error": pytest.approx(1 / 3)
    }


def receipt():
    return receipts.start("weight_averaging", "cpu")


def values_of(told, prefix):
    """The recorded values whose names begin so, without that beginning."""
    found = {k: v for k, v in told.metrics.items() if k.startswith(prefix)}
    return {name.removeprefix(prefix): one["value"] for name, one in found.items()}


def test_methods_are_held_against_sgd_of_their_own_seed():
    accuracy, told = {"sgd": (0.4, 0.5), "swa": (0.6, 0.8), "adam": (0.1, 0.2)}, receipt()
    nll = {"sgd": (1.0, 4.0), "swa_last": (1.5, 4.5)}
    snapshots, ece = {"swa": (21, 21)}, {"sgd": (0.04, 0.06), "ema": (0.02, 0.02)}
    scored = {"accuracy": accuracy, "nll": nll, "ece": ece, "snapshots": snapshots}
    record(METHODS, told, two_seeds(METHODS, **scored))
    swa = told.metrics["study_methods_less_sgd_swa_accuracy"]  # which a claim asks for
    assert (swa["value"], swa["unit"], swa["repeats"]) == (pytest.approx(25), "points", 2)
    # two values: t(0.975, 1) = 12.706 standard errors of 5
    assert swa["high"] - swa["value"] == pytest.approx(12.7062 * 5)
    last = told.metrics["study_methods_less_sgd_swa_last_nll"]
    assert (last["value"], last["low"], last["high"], last["unit"]) == (0.5, 0.5, 0.5, "nat")
    assert told.metrics["study_methods_less_sgd_adam_accuracy"]["value"] < 0
    accuracy = told.metrics["study_methods_swa_accuracy"]
    assert (accuracy["value"], accuracy["unit"]) == (pytest.approx(70), "%")
    calibration = told.metrics["study_methods_less_sgd_ema_ece"]
    assert (calibration["value"], calibration["unit"]) == (pytest.approx(-3), "points")
    sure = told.metrics["study_methods_sgd_ece"]
    assert (sure["value"], sure["unit"]) == (pytest.approx(5), "%")
    count = told.metrics["study_methods_swa_snapshots"]
    assert (count["value"], count["low"], count["high"]) == (21, 21, 21)
    names = {name for name in told.metrics if "less_sgd" in name}
    assert len(names) == 3 * 14 and "study_methods_less_sgd_sgd_nll" not in told.metrics


def test_averages_of_one_number_and_of_one_path_are_held_against_each_other():
    nll, told = (
        {"swa": (3.0, 4.0), "asgd_epochs": (1.0, 1.0), "swa_last": (7.0, 8.0)},
        receipt(),
    )
    nll |= {"swa_steps": (2.0, 2.5), "asgd": (1.0, 0.5)}
    record(METHODS, told, two_seeds(METHODS, nll=nll, accuracy={}, ece={}, snapshots={}))
    assert values_of(told, "study_methods_less_asgd_epochs_")["swa_nll"] == 2.5
    assert values_of(told, "study_methods_less_asgd_")["swa_steps_nll"] == 1.5
    found = values_of(told, "study_methods_less_swa_")
    assert (found["swa_last_nll"], found["swa_steps_nll"]) == (4, -1.25)


def test_bits_are_held_against_full_precision():
    error, told = (
        {"full_sgd": (0.2, 0.3), "low_swa": (0.3, 0.5), "low_sgd": (0.1, 0.3)},
        receipt(),
    )
    error |= {"full_sgd_3_bits": (0.5, 0.7), "full_sgd_24_bits": (0.2, 0.3)}
    error |= {"full_swa_3_bits": (0.3, 0.4), "full_swa_24_bits": (0.2, 0.1)}
    error |= {"settled_swa": (0.2, 0.2), "low_swa_steps": (0.2, 0.2)}
    record(BITS, told, two_seeds(BITS, error=error))
    gap = told.metrics["study_bits_less_full_sgd_low_swa_error"]  # which a claim asks for
    assert (gap["value"], gap["unit"]) == (pytest.approx(15), "points")
    found = values_of(told, "study_bits_less_")
    assert found["full_sgd_low_sgd_error"] == pytest.approx(-5)
    assert found["settled_swa_low_swa_error"] == pytest.approx(20)
    assert found["low_swa_low_swa_steps_error"] == pytest.approx(-20)
    # SGD's error rises by 30 and 40 points, SWA's by 10 and 30
    gain = told.metrics["study_bits_rounding_3_bits_gain"]
    assert (gain["value"], gain["unit"], gain["repeats"]) == (pytest.approx(15), "points", 2)
    assert gain["high"] - gain["value"] == pytest.approx(12.7062 * 5)
    assert told.metrics["study_bits_rounding_4_bits_gain"]["value"] == pytest.approx(-10)
    assert told.metrics["study_bits_low_swa_error"]["value"] == pytest.approx(40)


def test_a_study_comes_to_its_end_with_finite_numbers():
    """One seed of recorded arms on a few pictures, nothing replaced."""
    names = ("fork", "sgd", "swa", "fge_ensemble")
    arms = {name: METHODS.arms[name] for name in names}
    small = replace(METHODS.small(1), arms=arms, outcomes={}, extra=None)
    found = run(small)
    for name in names[1:]:
        assert all(math.isfinite(value) for value in found[name][0]["test"].values())
    assert found["sgd"] != found["swa"]
