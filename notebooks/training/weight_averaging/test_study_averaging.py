"""Each arm of the studies moves, averages and is judged as it is named; signs are held."""

import functools
import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import study_averaging as study
import torch
from block_float import LowPrecisionSGD
from fashion_task import fingerprints, load
from helpers import data, receipts
from helpers.study import Job, StudyError
from press.study import hold, record, run
from small_resnet import SmallResNet
from small_training import ADAM, SGD, Run, images
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
        last = recipe.rate_at(recipe.epochs)
        self.told.append((seed, run, recipe, task.train, last))
        scale = 1 if last < recipe.rate_at(0) / 50 else 10
        for step in range(1, 9):
            if at_step:
                at_step(step, number(scale * step))
            if at_epoch and step % 4 == 0:
                at_epoch(step // 4, number(scale * step))
        return number(scale * 8)

    def cycles(self, task, seed, run, recipe, members):
        self.told.append((seed, run, recipe, task.train, recipe.rate_at(recipe.epochs)))
        return [number(value) for value in (5, 6, 10)][:members]

    def refreshed(self, task, model):
        model[1].running_mean.fill_(-1)
        return model


def pictures(count=40, classes=5, seed=0, side=12):
    """Random pictures whose classes come in turn."""
    drawn = torch.Generator().manual_seed(seed)
    pixels = torch.randint(0, 256, (count, 1, side, side), generator=drawn, dtype=torch.uint8)
    return images(pixels, torch.arange(count) % classes)


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
# arm: (start, weight after the path that visits 1 … 8 or 10 … 80, its statistics)
ENDS = {
    "sgd": ("fork", 8, 8),
    "sgd_recomputed": ("sgd", 8, -1),
    "high": ("fork", 80, 80),
    "asgd": ("fork", 4.5, -1),
    "ema": ("fork", EMA, -1),
    "ema_high": ("fork", 10 * EMA, -1),
    "swa": ("fork", 60, -1),
    "swa_last": ("fork", 60, 80),
    "swa_average": ("fork", 60, 60),
    "fge_mean": ("fork", 7, -1),
    "adam": ("adam_fork", 8, 8),
    "adam_swa": ("adam_fork", 60, -1),
}
STARTS = {name: start for name, (start, *_) in ENDS.items()}
STARTS |= {"fork": "new", "adam_fork": "new", "fge_ensemble": "fork"}
FEW = (2, 3, 4, 5, 6, 8, 24)
BITS_STARTS = {"full_fork": "new", "low_fork": "new"}
BITS_STARTS |= {f"{n}_{end}": f"{n}_fork" for n in ("full", "low") for end in ("sgd", "swa")}
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
    assert METHODS.seeds == BITS.seeds == range(3)
    sizes = {"images": 3000, "tested": 400, "epochs": 16, "width": 8}
    assert METHODS.sizes == BITS.sizes == sizes


def test_test_images_among_those_learned_from_are_refused():
    def leaking(seed, sizes):
        found = study.drawn_parts(seed, sizes)
        return found | {"test": study.clothes(found["train"].data.part(torch.arange(3)))}

    with pytest.raises(StudyError, match="share 3 units"):
        handed(replace(METHODS, parts=leaking))


@pytest.mark.parametrize("name", ENDS)
def test_a_method_ends_with_its_own_average(name, monkeypatch):
    paths = Paths(monkeypatch)
    start, weight, statistics = ENDS[name]
    begun = number(8) if start == "sgd" else Run(number(0), [], None)
    job = job_of(METHODS, name, begun)
    assert read(METHODS.fit(job)) == pytest.approx((weight, statistics), rel=1e-4)
    for seed, run_, recipe, learned, last in paths.told:
        assert (seed, run_, learned, recipe.epochs) == (3, begun, job.train, 16)
        by_adam = name.startswith("adam")
        assert recipe.optimiser is (ADAM if by_adam else SGD)
        rate, high = (2e-3, 1e-3) if by_adam else (0.1, 0.05)
        assert recipe.rate_at(0) == rate
        assert last == pytest.approx(high if weight > 9 else rate / 100)
    assert bool(paths.told) == (start != "sgd")


def test_an_ensemble_of_cycles_keeps_its_networks(monkeypatch):
    Paths(monkeypatch)
    found = METHODS.fit(job_of(METHODS, "fge_ensemble", Run(number(0), [], None)))
    assert [read(one) for one in found] == [(5, 5), (6, 6), (10, 10)]


@pytest.mark.parametrize(
    ("one", "name"),
    [(METHODS, "fork"), (METHODS, "adam_fork"), (BITS, "full_fork"), (BITS, "low_fork")],
)
def test_a_fork_trains_three_quarters_of_the_epochs(one, name, monkeypatch):
    told = []
    monkeypatch.setattr(study, "train", lambda *given, **how: told.append((given, how)))
    job = job_of(one, name)
    start = one.begin("new", job)
    one.fit(job._replace(start=start))
    (model, images, recipe), how = told[0]
    assert model is start and images is job.train and how == {"seed": 3, "last": 12}
    hooks = sum(bool(part._forward_hooks) for part in model.modules())
    layers = sum(isinstance(part, nn.Conv2d | nn.Linear) for part in model.modules())
    assert hooks == (layers if name == "low_fork" else 0)
    given = getattr(recipe.optimiser, "keywords", {})
    assert recipe.optimiser.func is {
        "adam_fork": torch.optim.AdamW,
        "low_fork": LowPrecisionSGD,
    }.get(name, torch.optim.SGD)
    if name != "adam_fork":
        assert (given["momentum"], given["weight_decay"]) == (0.9, 3e-4)
    assert given.get("bits") == (8 if name == "low_fork" else None)
    assert model.stem.out_channels == 8 and model.head.out_features == 5
    again = one.begin("new", job._replace(seed=4))
    assert not torch.equal(again.stem.weight, start.stem.weight)


@pytest.mark.parametrize("name", ["full_sgd", "full_swa", "low_sgd", "low_swa"])
def test_eight_bits_go_through_both_ends_of_their_fork(name, monkeypatch):
    paths = Paths(monkeypatch)
    found = BITS.fit(job_of(BITS, name, Run(number(0), [], None)))
    assert read(found) == ((60, -1) if name.endswith("swa") else (8, 8))
    ((_, _, recipe, _, _),) = paths.told
    assert (recipe.optimiser.func is LowPrecisionSGD) == name.startswith("low")


def test_activations_stay_rounded_in_what_eight_bits_end_with():
    torch.manual_seed(0)
    images, sizes = pictures(64), {"epochs": 2, "width": 2}
    job = job_of(BITS, "low_fork", train=images)._replace(sizes=sizes)
    fork, found = BITS.fit(job._replace(start=BITS.begin("new", job))), []
    for name in ("low_sgd", "low_swa"):
        again = job_of(BITS, name, fork, train=images)._replace(sizes=sizes)
        model = BITS.fit(again)
        model.blocks[0].conv2.register_forward_hook(lambda *given: found.append(given[2]))
        model.eval()(next(images.batches()))
        assert len(found[-1].unique()) <= 256 < found[-1].numel()


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
    assert BITS.judge(Says(0.9, 0.1), images.part(torch.tensor([0, 2, 3])), None) == {
        "error": pytest.approx(1 / 3)
    }


def receipt():
    return receipts.start("weight_averaging", "cpu")


def test_methods_are_held_against_sgd_of_their_own_seed():
    accuracy, told = {"sgd": (0.4, 0.5), "swa": (0.6, 0.8), "adam": (0.1, 0.2)}, receipt()
    nll = {"sgd": (1.0, 4.0), "swa_last": (1.5, 4.5)}
    record(METHODS, told, two_seeds(METHODS, accuracy=accuracy, nll=nll, ece={}))
    swa = told.metrics["study_methods_less_sgd_swa_accuracy"]
    assert (swa["value"], swa["unit"]) == (pytest.approx(0.25), "")
    # two values: t(0.975, 1) = 12.706 standard errors of 0.05
    assert swa["high"] - swa["value"] == pytest.approx(12.7062 * 0.05)
    gain = told.metrics["study_methods_swa_gain"]
    assert (gain["unit"], gain["repeats"]) == ("points", 2)
    for end in ("value", "low", "high"):
        assert gain[end] == pytest.approx(100 * swa[end])
    last = told.metrics["study_methods_less_sgd_swa_last_nll"]
    assert (last["value"], last["low"], last["high"], last["unit"]) == (0.5, 0.5, 0.5, "nat")
    assert told.metrics["study_methods_less_sgd_adam_accuracy"]["value"] < 0
    assert told.metrics["study_methods_swa_accuracy"]["value"] == pytest.approx(0.7)
    names = {name for name in told.metrics if "less_sgd" in name}
    assert len(names) == 3 * 12 and "study_methods_less_sgd_sgd_nll" not in told.metrics


def test_bits_are_held_against_full_precision():
    error, told = {"full_sgd": (0.2, 0.3), "low_swa": (0.3, 0.5)}, receipt()
    error |= {"full_sgd_3_bits": (0.5, 0.7), "full_sgd_24_bits": (0.2, 0.3)}
    error |= {"full_swa_3_bits": (0.3, 0.4), "full_swa_24_bits": (0.2, 0.1)}
    record(BITS, told, two_seeds(BITS, error=error))
    gap = told.metrics["study_bits_swalp_gap"]
    assert (gap["value"], gap["unit"]) == (pytest.approx(15), "points")
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
