"""Each part of the study runs on a few small pictures and tells what the page asks for."""

import itertools
import math
from types import SimpleNamespace

import pytest
import study_averaging as study
import torch
from fashion_task import Task
from small_training import images


def pictures(count=260, seed=0, classes=5):
    drawn = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % classes
    pixels = torch.randint(0, 60, (count, 1, 12, 12), generator=drawn)
    pixels[torch.arange(count), 0, labels * 2] += 150  # a bright row says the class
    return images(pixels.to(torch.uint8), labels)


@pytest.fixture(scope="module")
def task():
    """A few small pictures, one thread: two have nothing to share in them."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield Task(pictures(), pictures(50, 1), pictures(50, 2), width=2, epochs=8, classes=5)
    torch.set_num_threads(before)


class Told:
    """A task whose networks are what was done to them, told by name."""

    train = test = held = SimpleNamespace(count=0, labels_N=None)

    def recipes(self, *rates, **more):
        kind = "adam " if rates else ""
        return kind + "decays", kind + "stays"

    def begun(self, seed, recipe, **more):
        return SimpleNamespace(model="begun " + recipe)

    def branch(self, seed, run, recipe, **calls):
        for averages in calls.values():
            averages(0, recipe)
        return recipe

    def cycles(self, *given):
        return ["end 1", "end 2"]

    def refreshed(self, model):
        model += ["refreshed"] if isinstance(model, list) else " refreshed"
        return model

    def probabilities(self, model):
        return Probs([str(model)])


class Probs(list):
    """Probabilities by name: a sum or share of them is still a list of names."""

    def __radd__(self, other):
        return Probs([*(other or ()), *self])

    def __add__(self, other):
        return Probs([*self, *other])

    def __truediv__(self, count):
        return self


class Listed:
    """An average that is the list of what it saw."""

    def __init__(self, model, decay=None, buffers="last"):
        self.model = [f"{buffers} {decay}"]

    def update(self, model):
        self.model.append(model)


def test_each_method_averages_its_own_branch_and_is_refreshed_or_not(monkeypatch):
    monkeypatch.setattr(study, "WeightAverage", Listed)
    monkeypatch.setattr(study, "scores", lambda probs, labels: scored(probs))

    def scored(probs):
        return SimpleNamespace(_asdict=lambda: {"accuracy": 0.0, "what": list(probs)})

    found = study.methods(Told(), 0)
    seen = {name[:-5]: one for name, one in found.items() if name.endswith("_what")}
    assert seen["sgd"] == ["decays"] and seen["high"] == ["stays"]
    assert seen["sgd_recomputed"] == ["decays refreshed"]
    lists = {
        name: [str(one)]
        for name, one in {
            "asgd": ["last None", "decays", "refreshed"],
            "ema": ["last 0.99", "decays", "refreshed"],
            "swa": ["last None", "stays", "refreshed"],
            "swa_last": ["last None", "stays"],
            "swa_average": ["average None", "stays"],
            "ema_high": ["last 0.99", "stays", "refreshed"],
            "adam_swa": ["last None", "adam stays", "refreshed"],
            "fge_mean": ["last None", "end 1", "end 2", "refreshed"],
        }.items()
    }
    assert {name: seen[name] for name in lists} == lists
    assert seen["adam"] == ["adam decays"] and seen["fge_ensemble"] == ["end 1", "end 2"]


def finite(found):
    return all(math.isfinite(value) for name, value in found.items() if "curve" not in name)


def test_methods_are_scored_and_the_gain_is_a_difference(task):
    found = study.methods(task, 0)
    names = "sgd sgd_recomputed high asgd ema swa swa_last swa_average ema_high"
    names += " fge_mean fge_ensemble adam adam_swa"
    assert {f"{name}_nll" for name in names.split()} <= set(found) and finite(found)
    gain = 100 * (found["swa_accuracy"] - found["sgd_accuracy"])
    assert found["swa_gain"] == pytest.approx(gain)


def test_the_surface_has_curves_for_the_first_seed_alone(task, monkeypatch):
    monkeypatch.setattr(study, "SIDE", 3)
    monkeypatch.setattr(study, "POINTS", 5)
    first, second = study.surface(task, 0), study.surface(task, 1)
    curves = {name for name in first if name.startswith("curve_")}
    assert curves == {f"curve_{one}" for one in ("plane", "spots", "straight", "bent")}
    assert set(second) == {"train_loss_excess", "test_accuracy_gain"}
    assert len(first["curve_plane"]["x"]) == 9 and len(first["curve_bent"]["t"]) == 5


def test_all_ways_of_being_unsure_are_scored(task, monkeypatch):
    monkeypatch.setattr(study, "SAMPLES", 3)
    found = study.uncertainty(task, 0, pictures(50, 3))
    excess = found.pop("multiswag_over_ensemble_excess")
    assert excess == found["multiswag_nll"] - found["ensemble_nll"]
    ways = {name.rpartition("_")[0] for name in found}
    names = "sgd swa temperature dropout laplace swag_diagonal swag ensemble multiswag"
    assert ways == set(names.split())
    assert finite(found) and all(0 <= found[f"{way}_auroc"] <= 1 for way in ways)


def test_unknown_pictures_are_those_that_should_look_odd(task, monkeypatch):
    """A detector that tells which pictures came as known and which as unknown."""
    monkeypatch.setattr(study, "SAMPLES", 3)
    monkeypatch.setattr(study, "entropies", len)
    monkeypatch.setattr(study, "detection_auroc", lambda known, odd: (known, odd))
    found = study.uncertainty(task, 0, pictures(20, 3))
    assert {value for name, value in found.items() if name.endswith("auroc")} == {(50, 20)}


def test_widths_and_bits_are_measured(task, monkeypatch):
    monkeypatch.setattr(study, "SAMPLES", 3)
    monkeypatch.setattr(study, "WIDTHS", (1, 8))
    told = itertools.count()
    monkeypatch.setattr(study, "error_of", lambda *given: 2.0 ** next(told))  # all differ
    found = study.widths(task, 0)
    assert len([name for name in found if name.endswith("error")]) == 8
    multi, many = (found[f"{name}_width_8_error"] for name in ("multiswag", "ensemble"))
    assert found["multiswag_over_ensemble_gain"] == many - multi
    assert found["multiswag_from_1_to_8_gap"] == multi - found["multiswag_width_1_error"]
    found = study.bits(task, 0)
    assert found["swalp_gap"] == found["low_swa_error"] - found["full_sgd_error"]
    rises = [
        found[f"full_{name}_3_bits_error"] - found[f"full_{name}_24_bits_error"]
        for name in ("sgd", "swa")
    ]
    assert found["rounding_3_bits_gain"] == rises[0] - rises[1]


def test_the_receipt_holds_the_interval_of_the_mean():
    kept, receipt = {}, SimpleNamespace()
    receipt.record = lambda name, *values, note: kept.update({name: values})
    receipt.curve = lambda name, **columns: kept.update({name: columns})
    seeds = [{"swa_error": 1.0, "curve_line": {"t": [0]}}, {"swa_error": 3.0}]
    study.record(receipt, "bits", seeds)
    value, unit, low, high, repeats = kept["study_bits_swa_error"]
    assert (value, unit, repeats) == (2.0, "%", 2) and kept["bits_line"] == {"t": [0]}
    # two values: t(0.975, 1) = 12.706 standard errors of one
    assert high - value == pytest.approx(12.7062, rel=1e-4)
    assert value - low == pytest.approx(high - value)


def test_differences_are_those_of_each_seed():
    kept, receipt = {}, SimpleNamespace()
    receipt.record = lambda name, *values, note: kept.update({name: values})
    seeds = [{"sgd_nll": 1.0, "swa_nll": 1.5}, {"sgd_nll": 4.0, "swa_nll": 4.5}]
    study.record(receipt, "methods", seeds)
    assert kept["study_methods_less_sgd_swa_nll"] == (0.5, "nat", 0.5, 0.5, 2)
    assert "study_methods_less_sgd_sgd_nll" not in kept


def test_what_was_measured_is_not_measured_again(tmp_path, monkeypatch):
    monkeypatch.setattr(study, "root", lambda: tmp_path)
    monkeypatch.setattr(study, "task_of", lambda *given, **more: "task")
    calls = []
    monkeypatch.setitem(study.PARTS, "bits", lambda *given: calls.append(given) or {"a": 1.0})
    given = SimpleNamespace(images=10, tested=1, epochs=2, width=1)
    for _ in range(2):
        assert study.measured("bits", 3, given, "folder", "cpu") == {"a": 1.0}
    assert calls == [("task", 3)]
    given.epochs = 3
    study.measured("bits", 3, given, "folder", "cpu")
    assert len(calls) == 2
