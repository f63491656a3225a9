"""Asking models about parts: known answers, both modes of batch norm, groups of survivors."""

import pytest
import torch
from accuracy_by_radius import (
    accuracy,
    amplitude_sweep,
    answers,
    by_radius,
    confidence_table,
    one_class_share,
    parts_of,
    robust_accuracy,
    survivors,
    watch,
)
from gradient_attacks import fgsm
from small_cnn import SmallCNN, batch_statistics
from torch import nn


def pictures(count=12, seed=0):
    drawn = torch.Generator().manual_seed(seed)
    images = torch.rand(count, 1, 28, 28, generator=drawn)
    return images, torch.randint(10, (count,), generator=drawn)


class Brightness(nn.Module):
    """Class 1 where the mean is above a threshold, else class 0."""

    def __init__(self, threshold):
        super().__init__()
        self.threshold = threshold

    def forward(self, x_BCHW):
        above = x_BCHW.mean((1, 2, 3)) - self.threshold
        return torch.stack([-above, above], 1)


def test_a_model_of_the_mean_lives_in_the_low_part():
    images = torch.stack([torch.full((1, 28, 28), level) for level in (0.1, 0.2, 0.8, 0.9)])
    images += 0.05 * torch.rand(images.shape)
    labels = torch.tensor([0, 0, 1, 1])
    found = by_radius(Brightness(0.5), parts_of(images, labels, (4, 8)))
    assert found == {"whole": 1, "low_4": 1, "high_4": 0.5, "low_8": 1, "high_8": 0.5}


def test_the_share_of_the_commonest_answer():
    images = torch.tensor([0.1, 0.9, 0.2, 0.3])[:, None, None, None].expand(4, 1, 28, 28)
    assert one_class_share(Brightness(0.5), images) == 0.75
    assert one_class_share(Brightness(2.0), images) == 1


def test_survivors_are_counted_in_their_groups():
    class Fixed(nn.Module):
        """Right in the whole for all; low parts: images 0 to 2; high parts: 0, 3, 4, 5."""

        def forward(self, x_BCHW):
            mean, spread = x_BCHW.mean((1, 2, 3)), x_BCHW.var((1, 2, 3))
            right = torch.ones(len(x_BCHW), dtype=torch.bool)
            if spread.max() < 1e-6:  # constant images: low parts
                right = torch.arange(10) < 3
            elif mean.abs().max() < 1e-4:
                right = torch.tensor([i in (0, 3, 4, 5) for i in range(10)])
            return torch.stack([~right, right], 1).float()

    board = (torch.arange(28)[:, None] + torch.arange(28)) % 2
    images = (0.5 + 0.2 * board).expand(10, 1, 28, 28).clone()
    counts, places = survivors(
        Fixed(), parts_of(images, torch.ones(10, dtype=torch.long), (4,)), 4
    )
    assert counts == (1, 2, 3, 4) and places.tolist() == [3, 4, 5]


def test_batch_statistics_forget_the_amplitude_and_running_ones_do_not():
    torch.manual_seed(0)
    model = SmallCNN(8, norm=True)
    images, labels = pictures(64)
    for _ in range(5):
        model.train()(images)
    model.eval()
    high = parts_of(images, labels, (8,)).high[8]
    one, ten = (answers(model, scale * high, "batch") for scale in (1, 10))
    torch.testing.assert_close(one, ten, atol=2e-2, rtol=0)  # the norm's epsilon is left
    one, ten = (answers(model, scale * high) for scale in (1, 10))
    assert (one - ten).abs().max() > 0.3


def test_a_network_without_biases_cannot_see_the_amplitude():
    model = SmallCNN(4).double()
    for module in model.modules():
        if getattr(module, "bias", None) is not None:
            nn.init.zeros_(module.bias)
    images, labels = pictures(40)
    found = amplitude_sweep(model, images.double(), labels, (0.01, 1, 100))
    assert found[0] == found[1] == found[2]


def test_batch_statistics_leave_the_model_as_it_was():
    model = SmallCNN(4, norm=True).eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    answers(model, pictures()[0], "batch")
    with pytest.raises(RuntimeError), batch_statistics(model):
        raise RuntimeError
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not any(module.training for module in model.modules())


def test_refuses_other_statistics():
    with pytest.raises(ValueError, match="'mean'; allowed are 'running' and 'batch'"):
        answers(SmallCNN(2), pictures()[0], "mean")


def test_an_epoch_s_row_is_what_the_model_answers_then():
    images, labels = pictures()
    parts, rows, model = parts_of(images, labels, (4,)), [], SmallCNN(2).eval()
    watch(parts, rows)(1, model)
    assert rows == [by_radius(model, parts)] and set(rows[0]) == {"whole", "low_4", "high_4"}


def test_stretched_parts_reach_one_and_the_whole_stays():
    images, labels = pictures()
    parts = parts_of(0.2 * images, labels, (8,), stretched=True)
    assert parts.high[8].amax((1, 2, 3)).tolist() == pytest.approx([1] * 12)
    assert torch.equal(parts.images_NCHW, 0.2 * images)


def test_an_attack_without_a_budget_changes_no_accuracy():
    images, labels = pictures(20)
    model = SmallCNN(2).eval()
    attack = lambda model, x, y: fgsm(model, x, y, 0.0)  # noqa: E731
    assert robust_accuracy(model, images, labels, attack) == accuracy(model, images, labels)


def test_the_slider_s_table_holds_each_answer_in_its_place():
    torch.manual_seed(0)
    plain, normed = SmallCNN(2).eval(), SmallCNN(2, norm=True).eval()
    images, labels = pictures(9)
    asked = {"plain": (plain, "running"), "batch": (normed, "batch")}
    table = confidence_table(asked, images[:3], images[3:], (0, 8, 20))
    assert table.shape == (2, 2, 3, 2, 3, 10) and table.dtype == torch.uint8
    assert (table.float().sum(-1) / 255 - 1).abs().max() < 0.03
    high = parts_of(images, labels, (8,)).high[8]
    wanted = answers(normed, high, "batch")[:3].softmax(1)
    torch.testing.assert_close(table[1, 0, 1, 1].float() / 255, wanted, atol=3e-3, rtol=0)
