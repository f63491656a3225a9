"""What is asked answers by its own networks and Gaussians, chosen on what is not reported."""

import itertools
from dataclasses import replace

import pytest
import study_uncertainty as study
import torch
import weight_posteriors as wp
from fashion_task import fingerprints, logits_of
from helpers import data, receipts
from helpers.images import Run
from press.study import record, run
from small_resnet import SmallResNet
from study_uncertainty import DESCENT, UNCERTAINTY, WIDTHS
from test_study_averaging import (
    Paths,
    Says,
    handed,
    job_of,
    number,
    once,
    pictures,
    read,
    two_seeds,
    values_of,
)

MEMBERS = ("0", "1", "2")
THREE = {kind: tuple(f"{kind}_{m}" for m in MEMBERS) for kind in ("run", "cloud")}
BEGUN = {f"fork_{m}": ("new", "train", None) for m in MEMBERS} | {
    f"{kind}_{m}": (f"fork_{m}", "train", None) for kind in THREE for m in MEMBERS
}
# arm: (start, what it learns from, what it chooses on)
EXPECTED = BEGUN | {
    "drops_fork": ("new", "train", None),
    "drops": ("drops_fork", "train", None),
    "sgd": ("run_0", None, None),
    "swa": ("cloud_0", None, None),
    "temperature": ("run_0", None, "held"),
    "dropout": ("drops", None, None),
    "laplace": ("run_0", "train", "held"),
    "swag_diagonal": ("cloud_0", "train", None),
    "swag": ("cloud_0", "train", None),
    "ensemble": (THREE["run"], None, None),
    "multiswag": (THREE["cloud"], "train", None),
}
OF_WIDTH = {"sgd": ("run_0", None), "swag": ("cloud_0", "train")}
OF_WIDTH |= {"ensemble": (THREE["run"], None), "multiswag": (THREE["cloud"], "train")}


def ended(start, end):
    return start + end if isinstance(start, str) else tuple(one + end for one in start)


BY_WIDTH = {}
for wide in (1, 2, 4, 8, 16):
    for arm, (begins, learns, _) in BEGUN.items():
        at = f"_width_{wide}"
        BY_WIDTH[arm + at] = (begins if begins == "new" else begins + at, learns, None)
    for arm, (begins, learns) in OF_WIDTH.items():
        BY_WIDTH[f"{arm}_width_{wide}"] = (ended(begins, f"_width_{wide}"), learns, None)


@pytest.mark.parametrize(("one", "expected"), [(UNCERTAINTY, EXPECTED), (DESCENT, BY_WIDTH)])
def test_an_arm_begins_learns_and_chooses_where_it_says(one, expected):
    seen = handed(one)
    assert set(seen.jobs) == {(name, seed) for name in expected for seed in (0, 1)}
    for (name, seed), job in seen.jobs.items():
        start, learns, chooses = expected[name]
        made = [("made", name, seed) for name in ([start] if isinstance(start, str) else start)]
        wanted = made[0] if isinstance(start, str) else tuple(made)
        assert job.start == ("new" if start == "new" else wanted)
        parts = seen.parts[seed]
        assert job.train is (parts[learns].data if learns else None)
        assert job.choice is (parts[chooses].data if chooses else None)
    hidden = ("fork", "run", "cloud", "drops")  # asked by others alone
    assert {name for name, _ in seen.tests} == {n for n in expected if not n.startswith(hidden)}
    for (_, seed), tests in seen.tests.items():
        assert set(tests) == {"test"} and tests["test"] is seen.parts[seed]["test"].data


def test_known_and_unknown_classes_come_from_the_test_file():
    folder, parts = data.fetch("fashion_mnist"), handed(UNCERTAINTY).parts
    classes = {}
    for file in ("train", "t10k"):
        whole = once(folder, file)
        classes[file] = dict(zip(fingerprints(whole), whole.labels_N.tolist(), strict=True))
    known, unknown = parts[0]["test"].data
    assert known.count == unknown.count == 10
    assert {classes["t10k"][one] for one in fingerprints(known)} == {0, 1, 2, 3, 4}
    assert {classes["t10k"][one] for one in fingerprints(unknown)} == {5, 6, 7, 8, 9}
    assert parts[0]["test"].units == fingerprints(known) + fingerprints(unknown)
    assert torch.equal(unknown.mean, parts[0]["train"].data.mean)
    others = parts[1]["test"].data[1]
    assert set(fingerprints(unknown)) != set(fingerprints(others))
    for name in ("train", "held"):
        found = {classes["train"][one] for one in fingerprints(parts[0][name].data)}
        assert found == {0, 1, 2, 3, 4}


def test_a_fifth_of_the_labels_is_wrong_in_training_alone():
    parts = handed(DESCENT).parts[0]
    folder, wrong = data.fetch("fashion_mnist"), {}
    for name, file in (("train", "train"), ("held", "train"), ("test", "t10k")):
        whole, one = once(folder, file), parts[name].data
        right = dict(zip(fingerprints(whole), whole.labels_N.tolist(), strict=True))
        told = zip(fingerprints(one), one.labels_N.tolist(), strict=True)
        wrong[name] = sum(right[print_] != label for print_, label in told) / one.count
    assert wrong == {"train": pytest.approx(0.2), "held": 0, "test": 0}


def test_what_is_recorded_has_these_sizes():
    sizes = {"images": 3000, "tested": 400, "epochs": 32, "width": 8}
    assert UNCERTAINTY.sizes == sizes
    assert DESCENT.sizes == {"images": 600, "tested": 400, "epochs": 48}
    assert (UNCERTAINTY.seeds, DESCENT.seeds) == (range(5), range(3))


def test_every_width_is_its_own_and_every_member_another_start(monkeypatch):
    paths, seen = Paths(monkeypatch), {}
    for width, member in itertools.product((1, 2, 4, 8, 16), (0, 1, 2)):
        end = f"{member}_width_{width}"
        network = DESCENT.begin("new", job_of(DESCENT, f"fork_{end}"))
        assert network.stem.out_channels == width
        seen[width, member] = network.stem.weight
        for kind in ("run", "cloud"):
            DESCENT.fit(job_of(DESCENT, f"{kind}_{end}", Run(number(0), [], None)))
            assert paths.told[-1][0] == 3 + 100 * member
    assert not torch.equal(seen[8, 0], seen[8, 1]) and not torch.equal(seen[8, 0], seen[8, 2])
    fork = UNCERTAINTY.begin("new", job_of(UNCERTAINTY, "drops_fork"))
    assert fork.dropout.p == 0.2 and fork.stem.out_channels == 8
    assert UNCERTAINTY.begin("new", job_of(UNCERTAINTY, "fork_1")).dropout.p == 0


def test_runs_fall_and_clouds_collect_at_the_high_rate_four_times_an_epoch(monkeypatch):
    """Of 8 steps, two epochs of four: each step is one of the four of its epoch."""
    paths, start = Paths(monkeypatch), Run(number(0), [], None)
    images = pictures(256)  # four batches of 64
    assert read(UNCERTAINTY.fit(job_of(UNCERTAINTY, "run_1", start, train=images))) == (8, 8)
    swa, swag = UNCERTAINTY.fit(job_of(UNCERTAINTY, "cloud_1", start, train=images))
    assert read(swa) == (45, -1)  # the mean of 10 to 80, refreshed
    assert swag.count == 8 and swag.mean.item() == 45 and swag.rank == 20
    assert [last for *_, last in paths.told] == pytest.approx([0.001, 0.05])
    images = pictures(64 * 8)  # eight batches: every second one
    _, swag = UNCERTAINTY.fit(job_of(UNCERTAINTY, "cloud_1", start, train=images))
    assert swag.count == 4 and swag.mean.item() == 50


def answer(one, name, start, images, **given):
    return one.fit(job_of(one, name, start, **given))(images)


def test_sgd_swa_and_the_ensemble_answer_by_their_networks():
    images = pictures(4)
    runs = (Says(0.9, 0.1), Says(0.2, 0.8), Says(0.4, 0.6))
    assert answer(UNCERTAINTY, "sgd", runs[0], images)[0].tolist() == pytest.approx([0.9, 0.1])
    swa = answer(UNCERTAINTY, "swa", (runs[1], "gaussian"), images)
    assert swa[0].tolist() == pytest.approx([0.2, 0.8])
    many = answer(UNCERTAINTY, "ensemble", runs, images)
    assert many[0].tolist() == pytest.approx([0.5, 0.5])  # of logits it would be another
    many = answer(DESCENT, "ensemble_width_4", runs, images)
    assert many[0].tolist() == pytest.approx([0.5, 0.5])


def test_the_temperature_is_chosen_on_held_images_and_no_others():
    """A network that is sure: on held images it is always wrong, so that it should be cool."""
    model, held = Says(0.99, 0.005, 0.005), pictures(30, 3)
    wrong = held._replace(labels_N=torch.ones_like(held.labels_N))
    right = held._replace(labels_N=torch.zeros_like(held.labels_N))
    for choice, other in ((wrong, right), (right, wrong)):
        found = answer(UNCERTAINTY, "temperature", model, other, choice=choice)
        heat = study.best_temperature(logits_of(model, choice), choice.labels_N)
        assert heat == pytest.approx(10 if choice is wrong else 0.1)
        torch.testing.assert_close(found, (logits_of(model, other) / heat).softmax(1))


@pytest.fixture
def sampled(monkeypatch):
    """What a Gaussian's samples are asked with; each Gaussian is the probabilities it gives."""
    told = []

    def swag_probabilities(swag, model, statistics, images, samples, **how):
        told.append((statistics, samples, how))
        return torch.tensor([swag]).expand(images.count, -1)

    monkeypatch.setattr(wp, "swag_probabilities", swag_probabilities)
    return told


@pytest.mark.parametrize(
    ("one", "name", "samples", "low_rank"),
    [
        (UNCERTAINTY, "swag", 30, True),
        (UNCERTAINTY, "swag_diagonal", 30, False),
        (UNCERTAINTY, "multiswag", 10, True),
        (DESCENT, "swag_width_4", 10, True),
        (DESCENT, "multiswag_width_4", 10, True),
    ],
)
def test_each_gaussian_is_asked(one, name, samples, low_rank, sampled):
    clouds = [(Says(1.0, 0.0), gives) for gives in ((0.9, 0.1), (0.2, 0.8), (0.4, 0.6))]
    multi = name.startswith("multi")
    learned = pictures(40)
    start = tuple(clouds) if multi else clouds[0]
    found = answer(one, name, start, pictures(3), train=learned)
    assert found[2].tolist() == pytest.approx([0.5, 0.5] if multi else [0.9, 0.1])
    assert len(sampled) == (3 if multi else 1)
    for statistics, count, how in sampled:
        assert statistics is learned and count == samples
        assert how == {"scale": 0.5 if low_rank else 1.0, "low_rank": low_rank}


def test_dropout_is_asked_of_its_network(monkeypatch):
    told = []
    monkeypatch.setattr(wp, "dropout_probabilities", lambda *given: told.append(given))
    model, images = Says(0.9, 0.1), pictures(3)
    answer(UNCERTAINTY, "dropout", model, images)
    assert told == [(model, images, 30)]


def test_laplace_learns_from_training_images_and_chooses_its_prior_on_held_ones(monkeypatch):
    told = []

    class Laplace:
        def __init__(self, *given):
            told.append(given)

        def best_prior(self, *given):
            return told.append(given) or "prior"

        def probabilities(self, *given):
            return told.append(given) or "answers"

    monkeypatch.setattr(wp, "Laplace", Laplace)
    model, images, learned, held = Says(0.9, 0.1), pictures(3), pictures(20), pictures(5)
    found = answer(UNCERTAINTY, "laplace", model, images, train=learned, choice=held)
    assert found == "answers"
    assert told == [(model, learned), (held, 30), (images, "prior", 30)]


def test_unknown_pictures_are_those_that_should_look_odd():
    known, unknown = pictures(4, 2), pictures(6, 2)
    sure, unsure = torch.tensor([0.9, 0.1]), torch.tensor([0.5, 0.5])

    def answer(images):
        return (sure if images is known else unsure).expand(images.count, -1)

    found = UNCERTAINTY.judge(answer, (known, unknown), None)
    assert found["auroc"] == 1 and found["accuracy"] == 0.5
    turned = UNCERTAINTY.judge(answer, (known, unknown)[::-1], None)
    assert turned["auroc"] == 0


def test_directions():
    told = receipts.start("weight_averaging", "cpu")
    nll = {"sgd": (0.2, 0.4), "multiswag": (0.5, 0.9), "ensemble": (0.3, 0.5)}
    auroc = {"sgd": (0.5, 0.5), "swag": (0.7, 0.9)}
    scores = two_seeds(UNCERTAINTY, nll=nll, auroc=auroc, accuracy={}, ece={})
    record(UNCERTAINTY, told, scores)
    excess = told.metrics["study_uncertainty_less_ensemble_multiswag_nll"]
    assert (excess["value"], excess["unit"]) == (pytest.approx(0.3), "nat")
    gain = told.metrics["study_uncertainty_less_sgd_swag_auroc"]
    assert (gain["value"], gain["unit"]) == (pytest.approx(30), "points")
    names = {name for name in told.metrics if "less_sgd" in name}
    assert len(names) == 8 * 4 and "study_uncertainty_swag_auroc" in told.metrics
    error = {"sgd_width_8": (0.4, 0.6), "multiswag_width_8": (0.1, 0.2)}
    error |= {"ensemble_width_8": (0.2, 0.3), "multiswag_width_4": (0.3, 0.4)}
    record(DESCENT, told, two_seeds(DESCENT, error=error))
    found = values_of(told, "study_widths_less_")
    # MultiSWAG's gain at width 8, which a claim asks for, and its gain over the ensemble
    assert found["multiswag_width_8_sgd_width_8_error"] == pytest.approx(35)
    assert found["multiswag_width_8_ensemble_width_8_error"] == pytest.approx(10)
    assert found["multiswag_width_4_multiswag_width_8_error"] == pytest.approx(-20)
    assert found["sgd_width_4_sgd_width_8_error"] == pytest.approx(0)
    assert told.metrics["study_widths_sgd_width_8_error"]["value"] == pytest.approx(50)
    assert WIDTHS == (1, 2, 4, 8, 16) and len(found) == 2 + 2 * 4
    for name, (a, b) in itertools.product(("sgd", "multiswag"), itertools.pairwise(WIDTHS)):
        step = told.metrics[f"study_widths_less_{name}_width_{a}_{name}_width_{b}_error"]
        assert step["unit"] == "points"


def test_the_gaussians_answer_without_anything_replaced():
    """One seed of some recorded arms on a few pictures."""
    names = ("fork_0", "run_0", "cloud_0", "sgd", "swa", "swag", "temperature", "laplace")
    arms = {name: UNCERTAINTY.arms[name] for name in names}
    arms["swag"] = replace(arms["swag"], loss=arms["swag"].loss._replace(samples=2))
    found = run(replace(UNCERTAINTY.small(1), arms=arms, outcomes={}))
    for name in names[3:]:
        scored = found[name][0]["test"]
        assert scored.keys() == {"accuracy", "nll", "ece", "auroc"}
        assert all(0 <= value < float("inf") for value in scored.values())
    assert isinstance(UNCERTAINTY.begin("new", job_of(UNCERTAINTY, "fork_0")), SmallResNet)
