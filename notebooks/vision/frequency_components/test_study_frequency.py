"""Each arm of the studies gets what it is named for, and no number turns its sign."""

from collections import Counter
from types import SimpleNamespace

import pytest
import study_frequency as study
import torch
from frequency_training import Recipe
from gradient_attacks import Filtered
from helpers import data, receipts
from helpers.images import Images
from helpers.study import Job, StudyError
from image_sets import by_signer, fingerprints, load
from kernel_smoothness import add_neighbours, low_kernels
from press.study import hold, record
from study_frequency import LABELS, SIGNERS, TESTS, WAYS
from torch import nn

# arm: (what is set in its network, its recipe)
EXPECTED = {
    "plain": ({}, Recipe(6, 50, 1e-3)),
    "plain_longer": ({}, Recipe(18, 50, 1e-3)),
    "batch_norm": ({"norm": True}, Recipe(6, 50, 1e-3)),
    "dropout": ({"dropout": 0.5}, Recipe(6, 50, 1e-3)),
    "mixup": ({}, Recipe(6, 50, 1e-3, mixed=True)),
    "adversarial": ({}, Recipe(6, 50, 1e-3, epsilon=0.05)),
    "batch_norm_adversarial": ({"norm": True}, Recipe(6, 50, 1e-3, epsilon=0.05)),
    "smooth_penalty": ({}, Recipe(6, 50, 1e-3, penalty=10)),
}
# arm that goes on from another: (which, what is done to its last network's first kernels)
CHANGED = {
    "unchanged": ("plain", lambda k: k),
    "neighbours": ("plain", lambda k: add_neighbours(k, 0.1)),
    "more_neighbours": ("plain", lambda k: add_neighbours(k, 1)),
    "normalised": ("plain", lambda k: add_neighbours(k, 1, True)),
    "low_kernels": ("plain", lambda k: low_kernels(k, 2)),
    "filtered": ("batch_norm", lambda k: k),
}


def kept(one):
    """A study's own parts, each seed's drawn once, and a dict of them."""
    drawn = {}
    return drawn, lambda seed, sizes: drawn.setdefault(seed, one.parts(seed, sizes))


def labels_by_print(images):
    return dict(zip(fingerprints(images), images.labels_N.tolist(), strict=True))


def batch(count=10, side=12, seed=0):
    torch.manual_seed(seed)
    return Images(
        torch.randint(0, 256, (count, 1, side, side), dtype=torch.uint8),
        torch.arange(count) % 10,
    )


def job_of(one, name, images, start=None, seed=3, test=None):
    return Job(name, one.arms[name], seed, {**one.sizes, "width": 2}, start, images, test=test)


@pytest.fixture
def told(monkeypatch):
    """What `fit` hands to the training, which trains nothing and goes by two epochs."""
    found = []

    def train(model, images, recipe, **how):
        found.append(SimpleNamespace(model=model, images=images, recipe=recipe, **how))
        for epoch in (1, 2):
            nn.init.constant_(model.head.bias, epoch)
            how["at_epoch"](epoch, model)

    monkeypatch.setattr(study, "train", train)
    return found


def fitted(one, name, told, images):
    """(network at the beginning, what the training was told, the networks after each epoch)."""
    torch.manual_seed(0)
    job = job_of(one, name, images)
    start = one.begin("new", job)
    after = one.fit(job._replace(start=start))
    assert told[-1].model is start and told[-1].images is images and told[-1].seed == 3
    return start, told[-1], after


def test_ways_learn_from_the_training_file_and_are_judged_on_the_test_file():
    drawn, parts = kept(WAYS)
    seen = hold(WAYS, parts)
    assert set(seen) == {(name, seed) for name in EXPECTED | CHANGED for seed in (0, 1)}
    for (name, seed), one in seen.items():
        assert one.job.choice is None
        if name in EXPECTED:
            assert one.job.train is drawn[seed]["train"].data and one.job.start == "new"
        else:
            assert one.job.train is None
            assert (one.job.start or one.made) == ("made", CHANGED[name][0], seed)
        assert set(one.tests) == {"test"} and one.tests["test"] is drawn[seed]["test"].data
    folder = data.fetch("fashion_mnist")
    for name, file in (("train", "train"), ("test", "t10k")):
        whole, images = labels_by_print(load(folder, file)), drawn[0][name].data
        assert labels_by_print(images).items() <= whole.items()
        assert drawn[0][name].units == fingerprints(images)
        assert len(drawn[0][name].units) == {"train": 100, "test": 60}[name]
        assert set(drawn[0][name].units) != set(drawn[1][name].units)


def test_what_is_recorded_has_these_sizes_and_seeds():
    assert {(one.name, *one.seeds) for one in (WAYS, LABELS, SIGNERS)} == {
        ("ways", *range(10)),
        ("labels", *range(10)),
        ("signers", 0, 1, 2, 3),
    }
    assert WAYS.sizes["images"] == 6000 and WAYS.sizes["epochs"] == EXPECTED["plain"][1].epochs
    assert (WAYS.sizes["tested"], WAYS.sizes["attacked"]) == (1000, 500)
    assert LABELS.sizes["memory_images"] == 500
    assert {one.sizes["width"] for one in (WAYS, LABELS, SIGNERS)} == {8}
    assert all(
        arm.seeds is None for one in (WAYS, LABELS, SIGNERS) for arm in one.arms.values()
    )


def test_test_images_among_those_learned_from_are_refused():
    def leaking(seed, sizes):
        found = WAYS.parts(seed, sizes)
        learned, tested = found["train"].data, found["test"].data
        fifth = tested.part(torch.tensor([5]))
        both = (torch.cat(one) for one in zip(learned[:2], fifth[:2], strict=True))
        return found | study.each(train=Images(*both))

    with pytest.raises(StudyError, match="share 1 units"):
        hold(WAYS, leaking)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_way_trains_as_it_is_named(name, told):
    setting, recipe = EXPECTED[name]
    start, how, after = fitted(WAYS, name, told, batch())
    assert how.recipe == recipe and dict(WAYS.arms[name].setting) == setting
    assert not hasattr(how, "change")  # which would stand before the recipe's own
    norms = [one for one in start.modules() if isinstance(one, nn.BatchNorm2d)]
    assert len(norms) == 3 * bool(setting.get("norm"))
    assert study.first_kernels(start).shape == (2, 1, 5, 5)  # as wide as the sizes say
    assert [one.p for one in start.modules() if isinstance(one, nn.Dropout)] == [
        setting.get("dropout", 0)
    ]
    assert [one.head.bias[0].item() for one in after] == [1, 2]


@pytest.mark.parametrize("name", CHANGED)
def test_an_arm_that_goes_on_changes_the_last_network_alone(name):
    _, change = CHANGED[name]
    models = [Mean().eval(), Mean().eval()]
    models[1].first.weight.data = torch.rand(2, 1, 5, 5)
    kernels = models[1].first.weight.detach().clone()
    job = Job(name, WAYS.arms[name], 3, WAYS.sizes, models)
    after = WAYS.fit(job) if WAYS.arms[name].loss is not None else models
    torch.testing.assert_close(study.first_kernels(after[-1]), change(kernels))
    assert models[1].first.weight.equal(kernels)


class Mean(nn.Module):
    """Answers a grey image by its grey, 0 to 9 tenths; its kernel is a checkerboard."""

    def __init__(self, turned=0):
        super().__init__()
        self.first, self.turned, self.asked = nn.Conv2d(1, 1, 2, bias=False), turned, []
        self.first.weight.data = torch.tensor([[[[1.0, -1.0], [-1.0, 1.0]]]])
        self.norm = nn.BatchNorm2d(1)

    def forward(self, x):
        self.asked.append((len(x), self.norm.training))
        levels = torch.arange(10) / 10
        found = -(x.mean((1, 2, 3))[:, None] - levels).square()
        return found.roll(self.turned, 1)


def greys(*tenths):
    pixels = torch.tensor([round(25.5 * one) for one in tenths], dtype=torch.uint8)
    return Images(pixels[:, None, None, None].expand(-1, 1, 12, 12), torch.tensor(tenths))


@pytest.fixture
def attacks(monkeypatch):
    """What the attacks are given; they paint all images white, and black."""
    found = {}

    def fgsm(model, images, labels, epsilon):
        found["fgsm"] = model, len(images), epsilon
        return torch.ones_like(images) * 0.9

    def pgd(model, images, labels, epsilon, step, steps, drawn):
        found["pgd"] = model, len(images), epsilon, step, steps
        assert isinstance(drawn, torch.Generator)
        return torch.zeros_like(images)

    monkeypatch.setattr(study, "fgsm", fgsm)
    monkeypatch.setattr(study, "pgd", pgd)
    return found


@pytest.mark.parametrize("name", ["plain", "batch_norm"])
def test_a_way_is_judged_by_its_last_network_on_all_parts_and_attacks(name, attacks):
    images, models = greys(0, 0, 9, 5, 7), [Mean(turned=1).eval(), Mean().eval()]
    models[0].first.weight.data.abs_()  # an earlier network is smooth
    job = job_of(WAYS, name, None)
    job = job._replace(sizes={**job.sizes, "attacked": 3})
    found = WAYS.judge(models, images, job)
    assert found["whole"] == found["low_4"] == 1 and found["curves"]["whole"] == [0, 1]
    assert found["high_4"] == found["high_8"] == 0.4  # nothing is left: black
    assert found["one_class_high_4"] == found["one_class_high_8"] == 1
    assert found["high_only_4"] == found["by_chance_8"] == found["above_chance_4"] == 0
    assert found["stretched_whole"] == 1 and found["stretched_low_8"] == 0.6  # greys are white
    assert found["fgsm"] == pytest.approx(1 / 3) and found["pgd"] == pytest.approx(2 / 3)
    assert found["unattacked"] == 1 and found["epoch"] == 2
    assert attacks["fgsm"] == (models[1], 3, 0.05)
    assert attacks["pgd"] == (models[1], 3, 0.05, 0.01, 20)
    assert found["roughness"] == 4
    asked_by_batch = [training for _, training in models[1].asked if training]
    assert bool(asked_by_batch) == (name == "batch_norm")
    assert ("batch_statistics_high_4" in found) == (name == "batch_norm")


def test_no_epoch_is_chosen_on_the_test_images(attacks):
    """An earlier network is better, and would be the choice of who looks at the test."""
    models = [Mean().eval(), Mean(turned=1).eval()]
    found = WAYS.judge(models, greys(0, 0, 9, 5, 7), job_of(WAYS, "plain", None))
    assert found["curves"]["whole"] == [1, 0]
    assert found["whole"] == 0 and found["epoch"] == 2


class Seen(nn.Module):
    """Answers 1 where something is to be seen, else 0."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 1, 5, bias=False)

    def forward(self, x):
        seen = x.flatten(1).std(1) > 0.01
        return torch.stack([~seen, seen], 1).float()


def waves(frequency, count=4):
    """Images of one wave across, all of class 1."""
    wave = torch.cos(2 * torch.pi * frequency * torch.arange(28) / 28)
    pixels = (127.5 + 100 * wave).to(torch.uint8).expand(count, 1, 28, 28)
    return Images(pixels, torch.ones(count, dtype=torch.long))


def test_parts_are_asked_at_the_radius_that_they_are_named_for(attacks):
    """A wave at six lies beyond 4 and within 8."""
    images, model = waves(6), Seen().eval()
    found = WAYS.judge([model], images, job_of(WAYS, "plain", None))
    assert (found["high_4"], found["low_4"]) == (1, 0)
    assert (found["high_8"], found["low_8"]) == (0, 1)
    half = images.pixels_NCHW.clone()
    half[2:] = waves(10, 2).pixels_NCHW  # which lies beyond both
    found = WAYS.judge([model], Images(half, images.labels_N), job_of(WAYS, "plain", None))
    assert (found["one_class_high_4"], found["one_class_high_8"]) == (1, 0.5)
    wanted = study.smoothness.high_share(study.first_kernels(model), 28, 8)
    assert found["kernel_high"] == wanted.item()
    hands = images, torch.arange(4)
    found = SIGNERS.judge([model], hands, None)
    assert found["low"] == [1] * 4 and found["high"] == [0] * 4
    assert study.TESTS["high_stretched"](waves(10).at(slice(None))[0]).max() == 1


@pytest.mark.parametrize("arm", ["unchanged", "low_kernels"])
def test_a_changed_network_is_judged_by_attacks_alone(arm, attacks):
    found = WAYS.judge([Mean().eval()], greys(0, 0, 9), job_of(WAYS, arm, None))
    assert found == pytest.approx({"unattacked": 1, "fgsm": 1 / 3, "pgd": 2 / 3})


def test_a_filtered_network_is_judged_by_what_attackers_know(monkeypatch):
    asked = []

    def pgd(model, images, labels, epsilon, step, steps, drawn):
        asked.append((type(model), getattr(model, "radius", None), epsilon, steps))
        return torch.zeros_like(images) if type(model) is Mean else images

    monkeypatch.setattr(study, "pgd", pgd)
    found = WAYS.judge([Mean()], greys(0, 9, 5, 7), job_of(WAYS, "filtered", None))
    assert set(asked) == {(Filtered, 8, 0.05, 20), (Mean, None, 0.05, 20)}
    names = [
        start + who for start in ("", "saved_") for who in ("unaware", "identity", "exact")
    ]
    assert [found[name] for name in ("unattacked", *names)] == [1, 0.25, 1, 1, 0, 1, 1]


def test_survivors_are_counted_above_chance_at_both_radii(monkeypatch, attacks):
    told = {4: (3, 0.5), 8: (1, 0.2)}
    alone = lambda model, parts, r: SimpleNamespace(high_only=told[r][0], by_chance=told[r][1])  # noqa: E731
    monkeypatch.setattr(study.ask, "survivors", alone)
    found = WAYS.judge([Mean().eval()], greys(0, 0, 9, 5, 7), job_of(WAYS, "plain", None))
    assert (found["high_only_4"], found["by_chance_4"]) == pytest.approx((0.6, 0.1))
    assert (found["above_chance_4"], found["above_chance_8"]) == pytest.approx((0.5, 0.16))


def test_attacks_lower_the_accuracy_of_a_network():
    """With nothing replaced: ε as recorded takes points from a linear classifier."""
    torch.manual_seed(0)
    x, _ = batch(200).at(slice(None))
    model = nn.Sequential(nn.Flatten(), nn.Linear(144, 10)).eval()
    labels = model(x).argmax(1)
    found = study.ask.after_attacks(model, x, labels, study.ATTACKS)
    assert found["unattacked"] == 1 and found["fgsm"] < 0.5 and found["pgd"] < 0.5


def numbers_of(one, **told):
    """Scores of each arm in two seeds: those told, else halves; a curve each."""
    base = {"roughness": 0.5, "pgd": 0.5, "high_4": 0.5}
    curves = {"curves": {"whole": [0.1, 0.5]}}
    return {
        name: {
            seed: {
                "test": base
                | (curves if one.arms[name].train else {})
                | {key: told[key][name][seed] for key in told if name in told[key]}
            }
            for seed in (0, 1)
        }
        for name in one.arms
    }


def test_directions_of_what_is_compared():
    receipt = receipts.start("frequency_components", "cpu")
    rough = {"plain": (2, 4), "adversarial": (1, 2)}
    rough |= {"batch_norm": (1, 1), "batch_norm_adversarial": (4, 1)}
    pgd = {"plain_longer": (0.3, 0.5), "batch_norm": (0.1, 0.2), "plain": (0.9, 0.9)}
    pgd |= {"smooth_penalty": (0.92, 0.94), "low_kernels": (0.4, 0.6), "neighbours": (0.6, 0.6)}
    high = {"plain": (0.1, 0.1), "batch_norm": (0.3, 0.4), "adversarial": (0.2, 0.1)}
    record(WAYS, receipt, numbers_of(WAYS, roughness=rough, pgd=pgd, high_4=high))
    found = receipt.metrics
    ratio = found["robust_roughness_ratio"]
    assert ratio["value"] == ratio["low"] == ratio["high"] == pytest.approx(0.5)
    assert (ratio["unit"], ratio["repeats"]) == ("×", 2)
    normed = found["batch_norm_robust_roughness_ratio"]
    assert normed["value"] == pytest.approx(2)  # as far above as below, by logarithms
    assert normed["low"] * normed["high"] == pytest.approx(4)
    gap = found["batch_norm_pgd_gap"]
    assert gap["value"] == pytest.approx(25) and gap["unit"] == "percentage points"
    # 20 and 30: Student's t of one degree of freedom times half of their difference
    assert (gap["low"], gap["high"]) == pytest.approx((25 - 12.7062 * 5, 25 + 12.7062 * 5))
    for name, value in {
        "batch_norm_high_gain_4": 25,
        "robust_high_gain_4": 5,
        "longer_pgd_gap": 50,
        "smooth_penalty_pgd_gain": 3,
        "neighbours_pgd_gain": 10,
        "low_kernels_pgd_gain": 0,
    }.items():
        assert found[name]["value"] == pytest.approx(value), name
        assert found[name]["unit"] == "percentage points"
    assert found["smoothing_best_gain"] == found["neighbours_pgd_gain"]
    assert set(receipt.curves) == set(EXPECTED)
    assert found["study_plain_longer_pgd"]["value"] == pytest.approx(40)
    assert found["study_plain_roughness"]["unit"] == "mean square"
    assert found["study_plain_roughness"]["value"] == 3


def test_curves_are_means_over_seeds_in_percent():
    receipt = receipts.start("frequency_components", "cpu")
    shares = {"natural": (0.1, 0.1), "shuffled": (0.3, 0.5)}
    times = {"whole": 1, "low_4": -1, "high_4": 2}  # so that each part has a gain of its own
    found = {
        name: {
            seed: {
                name: {"curves": {"whole": [0.1 * seed, 0.5 + 0.2 * seed]}, "epoch": 2}
                | {part: factor * shares[name][seed] for part, factor in times.items()}
            }
            for seed in (0, 1)
        }
        for name in LABELS.arms
    }
    record(LABELS, receipt, found)
    for part, factor in times.items():
        gain = receipt.metrics[f"shuffled_{part}_gain"]
        assert gain["value"] == pytest.approx(30 * factor)
        assert gain["unit"] == "percentage points"
    assert receipt.metrics["study_natural_epoch"]["unit"] == "epochs"
    for name in ("natural", "shuffled"):
        curve = receipt.curves[name]
        assert curve["epoch"] == [1, 2] and curve["whole"] == pytest.approx([5, 60])


def test_labels_are_natural_and_shuffled_and_each_network_is_asked_by_its_own():
    drawn, parts = kept(LABELS)
    seen = hold(LABELS, parts)
    assert set(seen) == {(name, seed) for name in ("natural", "shuffled") for seed in (0, 1)}
    for (name, seed), one in seen.items():
        own = drawn[seed][name].data
        assert one.job.train is own and set(one.tests) == {name} and one.tests[name] is own
        assert one.job.start == "new"
    natural, mixed = (drawn[1][name].data for name in ("natural", "shuffled"))
    assert torch.equal(natural.pixels_NCHW, mixed.pixels_NCHW)
    assert not torch.equal(natural.pixels_NCHW, drawn[0]["natural"].data.pixels_NCHW)
    assert (natural.labels_N != mixed.labels_N).double().mean() > 0.8
    assert Counter(natural.labels_N.tolist()) == Counter(mixed.labels_N.tolist())
    file = load(data.fetch("fashion_mnist"), "train")
    assert labels_by_print(natural).items() <= labels_by_print(file).items()


@pytest.mark.parametrize("name", ["natural", "shuffled"])
def test_labels_are_learned_alike_and_asked_at_two_radii(name, told):
    images = greys(0, 9, 5)
    _, how, _ = fitted(LABELS, name, told, images)
    assert how.recipe == Recipe(40, 25, 2e-3)
    models = [Mean(1).eval(), Mean().eval(), Mean(2).eval()]  # the second knows them all
    found = LABELS.judge(models, images, job_of(LABELS, name, None))
    assert found.pop("curves")["whole"] == [0, 1, 0] and found.pop("epoch") == 2
    assert found == pytest.approx(
        {"whole": 1, "low_4": 1, "low_8": 1, "high_4": 1 / 3, "high_8": 1 / 3}
    )
    assert study.KNOWN == 0.95  # so that one of twenty may be missed, and both know alike


def test_signers_are_learned_from_three_fourths_and_judged_on_the_fourth():
    drawn, parts = kept(SIGNERS)
    seen = hold(SIGNERS, parts)
    arms = ("signers_raw", "signers_stretched")
    assert set(seen) == {(name, seed) for name in arms for seed in (0, 1)}
    _, number_N = study.signed_hands(data.fetch("sign_digits"), 32, study.device.device())
    for (_, seed), one in seen.items():
        assert one.job.train is drawn[seed]["learned"].data and one.job.start == "new"
        assert set(one.tests) == {"own", "other"}
        sides = dict(zip(("learned", "own", "other"), by_signer(number_N, seed), strict=True))
        for who in ("own", "other"):
            assert one.tests[who] is drawn[seed][who].data
            images, numbers = one.tests[who]
            assert torch.equal(numbers, number_N[sides[who]]) and images.count == len(numbers)
            assert ((numbers // 100 % 4 == seed) == (who == "other")).all()
        assert one.job.train.count == sides["learned"].sum() > 500
        assert one.job.train.pixels_NCHW.shape[1:] == (3, 32, 32)  # in colour


@pytest.mark.parametrize("wrong", ["everybody", "turned", "near"])
def test_signers_who_are_learned_from_and_left_out_are_refused(wrong, monkeypatch):
    def sides(number_N, fourth):
        learned, own, other = by_signer(number_N, fourth)
        found = {
            "everybody": (learned | other, own, other),
            "turned": (learned, learned, other),
        }
        near = (number_N // 100 % 4 != fourth) & ~own  # with no distance between the persons
        return (found | {"near": (near, own, other)})[wrong]

    monkeypatch.setattr(study, "by_signer", sides)
    with pytest.raises(StudyError, match="share"):
        hold(SIGNERS)


def test_hands_are_learned_raw_and_stretched_and_judged_one_by_one(told):
    grey = batch(side=32)
    images = grey._replace(pixels_NCHW=grey.pixels_NCHW.expand(-1, 3, -1, -1))
    for name in ("signers_raw", "signers_stretched"):
        start, how, _ = fitted(SIGNERS, name, told, images)
        assert how.recipe == Recipe(25, 25, 2e-3, stretched=name == "signers_stretched")
        assert any(isinstance(one, nn.BatchNorm2d) for one in start.modules())
        assert start(images.at(slice(None))[0]).shape == (10, 10)
    hands = greys(0, 0, 9, 5), torch.tensor([119, 120, 121, 130])
    found = SIGNERS.judge([Mean(1).eval(), Mean().eval()], hands, None)
    assert found["group"] == [11, 12, 12, 13]
    assert found["whole"] == found["low"] == [1, 1, 1, 1]
    assert found["high"] == found["high_stretched"] == [1, 1, 0, 0]
    assert found["whole_stretched"] == [1, 1, 1, 0]  # the grey of five tenths becomes white


def test_signers_of_all_fourths_are_taken_together():
    def side(groups, *right):
        return {"group": groups} | {test: list(right) for test in TESTS}

    runs = {
        0: {"own": side([1, 1, 2], 1, 1, 0), "other": side([3, 4], 0, 1)},
        1: {"own": side([3], 1), "other": side([1, 2], 0, 0)},
    }
    receipt = receipts.start("frequency_components", "cpu")
    record(SIGNERS, receipt, {"signers_raw": runs, "signers_stretched": runs})
    own = receipt.metrics["signers_raw_whole_own"]
    assert (own["value"], own["unit"], own["repeats"]) == (75, "%", 4)
    assert receipt.metrics["signers_stretched_low_other"]["value"] == 25
    lost = receipt.metrics["signers_raw_high_gap"]
    assert lost["value"] == pytest.approx(50) and lost["repeats"] == 4
    right = ([1, 1, 0, 1], [1, 1, 2, 3], [0, 1, 0, 0], [3, 4, 1, 2])
    error = 100 * study.ask.gap(*map(torch.tensor, right))[1]
    half = 3.18245 * error  # Student's t of three degrees of freedom, four groups
    assert (lost["low"], lost["high"]) == pytest.approx((50 - half, 50 + half), rel=1e-5)
