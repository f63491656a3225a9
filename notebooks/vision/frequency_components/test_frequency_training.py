"""A recipe: it learns, repeats, changes its batches as it says; the loop is the house's."""

import pytest
import torch
from accuracy_by_radius import accuracy
from frequency_training import Recipe, adversarial, mixed, train
from gradient_attacks import ascend
from helpers.images import Images
from small_cnn import SmallCNN, first_kernels


def stripes(count=200, seed=0):
    """Two classes: stripes across, stripes down, with noise."""
    drawn = torch.Generator().manual_seed(seed)
    labels = torch.randint(2, (count,), generator=drawn)
    wave = (torch.arange(12) % 4 < 2).float() * 120
    images = torch.where(labels[:, None, None] == 1, wave[:, None].expand(12, 12), wave)
    noise = 60 * torch.rand(count, 12, 12, generator=drawn)
    return Images((images + noise)[:, None].byte(), labels)


def network(seed=0, norm=False):
    torch.manual_seed(seed)
    return SmallCNN(4, side=12, classes=2, norm=norm)


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("change", [None, adversarial(0.05, 2), mixed(2)])
def test_learns_stripes_whatever_changes_its_batches(change, norm):
    run = train(network(norm=norm), stripes(), Recipe(4, 20, 3e-3), change=change)
    assert accuracy(run.model, *stripes(seed=1).at(slice(None))) > 0.95
    assert run.losses[-1] < run.losses[0] and not run.model.training


def test_repeats_with_its_seed():
    first, again, other = (
        first_kernels(train(network(), stripes(), Recipe(1, 20), seed=seed).model)
        for seed in (0, 0, 1)
    )
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_the_rate_is_halved_in_the_last_third(monkeypatch):
    rates, step = [], torch.optim.Adam.step

    def noted(self, *given, **more):
        rates.append(self.param_groups[0]["lr"])
        return step(self, *given, **more)

    monkeypatch.setattr(torch.optim.Adam, "step", noted)
    train(network(), stripes(20), Recipe(5, 10, 0.004))
    assert rates == [0.004] * 8 + [0.002] * 2  # the fourth epoch, in which it begins, is whole


def test_training_attacks_take_steps_of_two_and_a_half_budgets_over_all(monkeypatch):
    asked = []
    noted = lambda *given: asked.append(given) or ascend(*given)  # noqa: E731
    monkeypatch.setattr("frequency_training.ascend", noted)
    model, (images, labels) = network(), stripes(4).at(slice(None))
    adversarial(0.1, 5)(model, images, labels, torch.Generator().manual_seed(0))
    ((attacked, x, y, *sizes, _),) = asked
    assert attacked is model and torch.equal(x, images) and torch.equal(y, labels)
    assert sizes == [0.1, pytest.approx(0.05), 5]


def test_an_attacked_batch_is_new_within_the_ball_and_leaves_the_mode():
    model, (images, labels) = network(norm=True).train(), stripes(20).at(slice(None))
    before = model.features[1].running_mean.clone()
    drawn = torch.Generator().manual_seed(0)
    changed, targets = adversarial(0.1, 2)(model, images, labels, drawn)
    assert 0 < (changed - images).abs().max() <= 0.1 + 1e-6
    assert torch.equal(targets, labels) and model.training
    assert torch.equal(model.features[1].running_mean, before)


def test_mixup_mixes_images_and_targets_with_the_same_weights():
    ones = torch.arange(4.0)[:, None, None, None].expand(4, 1, 2, 2)
    labels = torch.arange(4)
    changed, targets = mixed(4)(None, ones, labels, torch.Generator().manual_seed(0))
    torch.testing.assert_close(changed[:, 0, 0, 0], targets @ torch.arange(4.0))
    torch.testing.assert_close(targets.sum(1), torch.ones(4))


def test_a_recipe_s_penalty_is_part_of_the_loss():
    free, held = (
        train(network(), stripes(), Recipe(2, 20, penalty=penalty)).model
        for penalty in (0.0, 100.0)
    )
    steps = [first_kernels(model).diff(dim=-1).square().mean() for model in (free, held)]
    assert steps[1] < steps[0]


def test_a_recipe_changes_its_batches_as_it_says():
    """Attacked ones move by epsilon, stretched ones reach one, mixed ones have two labels."""
    model, (images, labels) = network(), stripes(20).at(slice(None))
    images, drawn = 0.2 + 0.6 * images, torch.Generator().manual_seed(0)
    assert Recipe().change is None
    attacked, targets = Recipe(epsilon=0.1).change(model, images, labels, drawn)
    assert (attacked - images).abs().max().item() == pytest.approx(0.1, abs=1e-6)
    assert targets.equal(labels)
    stretched, targets = Recipe(stretched=True).change(model, images, labels, drawn)
    assert stretched.amax((1, 2, 3)).tolist() == [1] * 20 and targets.equal(labels)
    _, targets = Recipe(mixed=True).change(model, images, labels, drawn)
    assert ((targets > 0).sum(1) == 2).any()


def test_a_recipe_s_attack_takes_two_steps(monkeypatch):
    asked = []
    noted = lambda *given: asked.append(given[3:6]) or ascend(*given)  # noqa: E731
    monkeypatch.setattr("frequency_training.ascend", noted)
    batch = stripes(4).at(slice(None))
    Recipe(epsilon=0.1).change(network(), *batch, torch.Generator().manual_seed(0))
    assert asked == [(0.1, pytest.approx(0.125), 2)]


def test_mixup_s_weights_are_spread_over_all_shares():
    ones, labels = torch.ones(2000, 1, 1, 1), torch.zeros(2000, dtype=torch.long)
    ones[1000:], labels[1000:] = 0, 1
    changed, _ = mixed(2)(None, ones, labels, torch.Generator().manual_seed(0))
    between = changed[(changed > 1e-6) & (changed < 1 - 1e-6)]  # mixed with the other kind
    # a thousand uniform numbers: each tenth has some hundred, 9.5 is its standard error
    tenths = (between * 10).long().bincount(minlength=10) / len(between)
    assert tenths.tolist() == pytest.approx([0.1] * 10, abs=0.04)


def test_a_run_ends_with_a_model_that_infers_and_takes_another_change():
    seen = []
    change = lambda model, x, y, drawn: seen.append(len(x)) or (x, y)  # noqa: E731
    run = train(network(norm=True), stripes(40), Recipe(1, 20, mixed=True), change=change)
    assert seen == [20, 20] and not run.model.training
