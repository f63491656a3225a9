"""The training loop: it learns, repeats, changes its batches as told, and refuses."""

import pytest
import torch
from accuracy_by_radius import accuracy
from frequency_training import Images, Recipe, adversarial, mixed, train
from gradient_attacks import ascend
from kernel_smoothness import roughness_penalty
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
    assert accuracy(run.model, *stripes(seed=1).whole()) > 0.95
    assert run.losses[-1] < run.losses[0] and not run.model.training


def test_repeats_with_its_seed():
    first, again, other = (
        first_kernels(train(network(), stripes(), Recipe(1, 20), seed=seed).model)
        for seed in (0, 0, 1)
    )
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_what_a_change_draws_leaves_the_order_of_the_images():
    orders = []
    for draws in (0, 3):
        seen = []

        def change(model, x_BCHW, labels_B, drawn, seen=seen, draws=draws):
            torch.rand(draws, generator=drawn)
            seen.append(x_BCHW.clone())
            return x_BCHW, labels_B

        train(network(), stripes(60), Recipe(3, 20), change=change)
        orders.append(torch.cat(seen))
    assert len(orders[0]) == 180 and torch.equal(*orders)
    assert not torch.equal(orders[0][:60], orders[0][60:120])  # each epoch has its own


def test_the_rate_is_halved_in_the_last_third(monkeypatch):
    rates, step = [], torch.optim.Adam.step

    def noted(self, *given, **more):
        rates.append(self.param_groups[0]["lr"])
        return step(self, *given, **more)

    monkeypatch.setattr(torch.optim.Adam, "step", noted)
    train(network(), stripes(20), Recipe(6, 20, 0.004))
    assert rates == [0.004] * 4 + [0.002] * 2


def test_training_attacks_take_steps_of_two_and_a_half_budgets_over_all(monkeypatch):
    asked = []
    noted = lambda *given: asked.append(given[3:6]) or ascend(*given)  # noqa: E731
    monkeypatch.setattr("frequency_training.ascend", noted)
    model, (images, labels) = network(), stripes(4).whole()
    adversarial(0.1, 5)(model, images, labels, torch.Generator().manual_seed(0))
    assert asked == [(0.1, pytest.approx(0.05), 5)]


def test_calls_after_each_epoch_with_a_model_that_infers():
    told = []
    train(
        network(),
        stripes(40),
        Recipe(3, 20),
        at_epoch=lambda e, m: told.append((e, m.training)),
    )
    assert told == [(1, False), (2, False), (3, False)]


def test_an_attacked_batch_is_new_within_the_ball_and_leaves_the_mode():
    model, (images, labels) = network(norm=True).train(), stripes(20).whole()
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


def test_a_penalty_is_part_of_the_loss():
    free, held = (
        train(network(), stripes(), Recipe(2, 20), penalty=penalty).model
        for penalty in (None, roughness_penalty(100.0))
    )
    steps = [first_kernels(model).diff(dim=-1).square().mean() for model in (free, held)]
    assert steps[1] < steps[0]


def test_bytes_become_numbers_between_zero_and_one():
    images, labels = Images(
        torch.tensor([[[[0, 51, 255]]]], dtype=torch.uint8), torch.tensor([3])
    ).whole()
    torch.testing.assert_close(images, torch.tensor([[[[0, 0.2, 1]]]]))
    assert labels.tolist() == [3]


def test_refuses_a_batch_beyond_the_set_and_a_loss_that_is_no_number():
    with pytest.raises(ValueError, match="a batch of 41; between 1 and 40"):
        train(network(), stripes(40), Recipe(1, 41))
    with pytest.raises(FloatingPointError, match="is not finite"):
        train(
            network(), stripes(40), Recipe(1, 20), penalty=lambda model: torch.tensor(torch.nan)
        )
