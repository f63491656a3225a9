"""Each arm of the study differs in what it is named for, and is judged on unseen images."""

from dataclasses import asdict, replace

import pytest
import study_rungs as study
import torch
from press.study import hold

PLAIN = {
    "batch": 32, "parts": 1, "norm": "none", "moments": "32 bits", "precision": "single",
    "side": 28, "rate": 1e-3,
}  # fmt: skip
ARMS = {
    "whole": {},
    "parts": {"parts": 4},
    "small": {"batch": 8, "rate": 5e-4},
    "batch_whole": {"norm": "batch"},
    "group_whole": {"norm": "group"},
    "batch_parts": {"norm": "batch", "parts": 16},
    "group_parts": {"norm": "group", "parts": 16},
    "bytes": {"moments": "8 bits"},
    "mixed": {"precision": "half"},
    "half_side": {"side": 14},
}
SIZES = {"train": 64, "test": 32, "epochs": 1}


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_arms_are_handed_the_same_images_and_their_own_recipe():
    seen = hold(study.STUDY)
    assert {name for name, _ in seen} == set(ARMS)
    for (name, seed), one in seen.items():
        parts = study.parts(seed, SIZES)
        assert same(one.job.train, parts["train"].data) and one.job.start == "new"
        assert same(one.tests["test"], parts["test"].data) and one.job.choice is None
        assert asdict(one.job.arm.loss) == PLAIN | ARMS[name]
    assert list(study.STUDY.seeds) == [0, 1, 2, 3, 4]
    assert study.STUDY.sizes == {"train": 2000, "test": 2000, "epochs": 2}


def job(name, seed=0):
    parts = study.parts(seed, SIZES)
    return study.Job(
        name, study.ARMS[name], seed, SIZES, train=parts["train"].data, test=parts["test"].data
    )


def weights(name):
    made = study.fit(job(name))
    return torch.cat([p.detach().flatten() for p in made.parameters()])


def test_parts_train_the_whole_batchs_network_and_batch_norm_another():
    torch.testing.assert_close(weights("parts"), weights("whole"), rtol=0, atol=2e-4)
    apart = (weights("batch_parts") - weights("batch_whole")).abs().max()
    assert apart > 1e-3


@pytest.mark.parametrize("name", ["bytes", "mixed", "small"])
def test_an_arm_that_changes_the_way_ends_elsewhere(name):
    assert (weights(name) - weights("whole")).abs().max() > 1e-5


@pytest.mark.parametrize("name", ARMS)
def test_each_arm_has_its_own_optimiser_rate_and_parts(monkeypatch, name):
    recipe, made, taken = PLAIN | ARMS[name], [], []

    def noted(bits, kind):
        return lambda params, lr: made.append((bits, lr)) or kind(params, lr=lr)

    monkeypatch.setattr(study, "ByteAdam", noted("8 bits", study.ByteAdam))
    monkeypatch.setattr(study.torch.optim, "Adam", noted("32 bits", torch.optim.Adam))
    monkeypatch.setattr(study, "step", lambda m, parts, loss: taken.append([*parts]))
    monkeypatch.setattr(study, "mixed", lambda m, x, y: taken.append([(x, "half")]))
    assert not study.fit(job(name)).training  # judged with the norm's own moments
    assert made == [(recipe["moments"], recipe["rate"])]
    few, side = recipe["batch"] // recipe["parts"], recipe["side"]
    want = [[(few, 1, side, side)] * recipe["parts"]] * (64 // recipe["batch"])
    assert [[tuple(x.shape) for x, _ in parts] for parts in taken] == want
    assert (taken[0][0][1] == "half") is (recipe["precision"] == "half")


def test_each_difference_is_of_the_arms_that_it_is_named_for():
    wholes = {"batch_parts": "batch_whole", "group_parts": "group_whole"}
    told = {name: (one.arm, one.less) for name, one in study.STUDY.outcomes.items()}
    names = ["parts", "small", "batch_parts", "group_parts", "bytes", "mixed", "half_side"]
    assert told == {f"study_{n}_difference": (n, wholes.get(n, "whole")) for n in names}


def test_the_share_of_right_kinds_is_the_accuracy():
    class Always(torch.nn.Module):
        def forward(self, x):
            return torch.eye(10)[torch.full((len(x),), 3)]

    images, kinds = torch.zeros(4, 1, 28, 28), torch.tensor([3, 3, 3, 0])
    assert study.judge(Always(), (images, kinds), job("whole")) == {"accuracy": 0.75}


def test_half_the_side_is_trained_and_judged_at_half_the_side():
    assert study.seen(torch.ones(2, 1, 28, 28), study.Recipe(side=14)).shape == (2, 1, 14, 14)


def test_an_outcome_that_differs_in_more_is_refused():
    arms = {**study.ARMS, "bytes": study.arm(moments="8 bits", rate=1e-2)}
    with pytest.raises(ValueError, match=r"loss\.rate"):
        hold(replace(study.STUDY, arms=arms))
