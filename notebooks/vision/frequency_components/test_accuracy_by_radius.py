"""Asking models about parts: known answers, both modes of batch norm, groups of survivors."""

import pytest
import torch
from accuracy_by_radius import (
    accuracy,
    after_attacks,
    answers,
    behind_filter,
    by_radius,
    confidence_table,
    epoch_with,
    gap,
    one_class_share,
    parts_of,
    robust_accuracy,
    survivors,
    watch,
)
from frequency_split import stretch
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
    counts = survivors(Fixed(), parts_of(images, torch.ones(10, dtype=torch.long), (4,)), 4)
    assert counts[:4] == (1, 2, 3, 4)
    assert counts.by_chance == pytest.approx(7 * 4 / 10) and counts.one_class == 3
    assert counts.places.tolist() == [3, 4, 5]


def test_a_constant_answer_to_high_parts_survives_by_chance_alone():
    """Right as a whole for all, never in the low part; each high part is called class 2."""

    class Constant(nn.Module):
        def forward(self, x_BCHW):
            label_B = (10 * x_BCHW.amax((1, 2, 3))).round().long() - 5
            if x_BCHW.mean((1, 2, 3)).abs().max() < 1e-4:
                label_B = torch.full((len(x_BCHW),), 2)
            return nn.functional.one_hot(label_B % 3, 3).float()

    shown, labels = torch.tensor([[0, 1, 2, 2, 1, 2, 0, 1], [0, 1, 2, 2, 1, 2, 0, 0]])
    board = (torch.arange(28)[:, None] + torch.arange(28)) % 2
    top = (shown + 5)[
        :, None, None, None
    ] / 10  # the last is wrong as a whole: it counts nowhere
    images = top - 0.2 * (1 - board)
    low = parts_of(images, labels, (4,)).low[4]
    assert torch.allclose(low, top - 0.1)  # so the low parts' peaks name another class
    counts = survivors(Constant(), parts_of(images, labels, (4,)), 4)
    assert counts.high_only == counts.one_class == 3
    assert counts.by_chance == pytest.approx(3)


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
    images = images.double()
    found = [accuracy(model, scale * images, labels) for scale in (0.01, 1, 100)]
    assert found[0] == found[1] == found[2]


def test_batch_statistics_leave_the_model_as_it_was():
    model = SmallCNN(4, norm=True).eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    answers(model, pictures()[0], "batch")
    with pytest.raises(RuntimeError), batch_statistics(model):
        raise RuntimeError
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not any(module.training for module in model.modules())


def normed_and_high(count=40):
    """A model whose running statistics are not the batch's, high parts, labels it gives."""
    torch.manual_seed(0)
    model, (images, _) = SmallCNN(4, norm=True), pictures(count)
    for _ in range(5):
        model.train()(images)
    high = parts_of(images, torch.zeros(count), (8,)).high[8]
    labels = answers(model.eval(), high, "batch").argmax(1)
    labels[::3] = 0
    return model, high, labels


def test_each_question_is_asked_with_the_statistics_that_are_named():
    model, high, labels = normed_and_high()
    wanted = (answers(model, high, "batch").argmax(1) == labels).double().mean().item()
    running = (answers(model, high).argmax(1) == labels).double().mean().item()
    assert accuracy(model, high, labels, "batch") == wanted != running
    assert accuracy(model, high, labels) == running
    parts = parts_of(high, labels, (0,))  # at radius 0 all is the high part
    assert by_radius(model, parts, "batch")["high_0"] == wanted
    assert by_radius(model, parts)["high_0"] == running
    rows = []
    watch(parts, rows, "batch")(1, model)
    assert rows[0]["high_0"] == wanted


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


def test_the_first_epoch_that_knows_enough_else_the_last():
    rows = [{"whole": share} for share in (0.2, 0.96, 0.9, 0.97)]
    assert [epoch_with(rows, share) for share in (0.1, 0.96, 0.97, 1.0)] == [1, 2, 4, 4]


def behind(knows):
    """Accuracies of a brightness model behind a filter, as images are painted by what the
    attacker is handed: the model, its filter with the exact gradient, or with the identity."""

    def attack(model, x, y):
        name = {"exact": "exact", "identity": "identity"}.get(
            getattr(model, "backward", ""), ""
        )
        right = torch.arange(len(x)) < knows[name]
        wanted = torch.where(right, y, 1 - y).float()
        return wanted[:, None, None, None].expand_as(x)

    levels = torch.tensor([0.1, 0.2, 0.3, 0.6, 0.7, 0.8, 0.9, 0.95])
    images = levels[:, None, None, None].expand(8, 1, 4, 4)
    return behind_filter(Brightness(0.5), 1, images, (levels > 0.5).long(), attack)


def test_what_a_filter_saves_is_counted_by_what_the_attacker_knows():
    found = behind({"": 2, "exact": 3, "identity": 6})
    assert {name: found[name] for name in ("unattacked", "unaware", "identity", "exact")} == {
        "unattacked": 1, "unaware": 0.25, "identity": 0.75, "exact": 0.375,
    }  # fmt: skip
    saved = {name: found[f"saved_{name}"] for name in ("unaware", "identity", "exact")}
    assert saved == pytest.approx({"unaware": 0, "identity": 4 / 6, "exact": 1 / 6})
    nothing = behind({"": 8, "exact": 8, "identity": 8})
    assert nothing["saved_exact"] != nothing["saved_exact"]  # nothing was lost: no share


def test_accuracies_by_attack_have_the_one_without():
    images, labels = pictures(20)
    model = SmallCNN(2).eval()
    found = after_attacks(model, images, labels, {"none": lambda model, x, y: x})
    assert found["none"] == found["unattacked"] == accuracy(model, images, labels)


def test_each_image_of_each_batch_is_attacked_with_its_own_label():
    levels = torch.linspace(0, 1, 502)[torch.arange(502) != 251]  # 501: two batches, no 0.5
    images, labels = levels[:, None, None, None].expand(501, 1, 4, 4), (levels > 0.5).long()
    model = Brightness(0.5)
    assert robust_accuracy(model, images, labels, lambda m, x, y: x) == 1
    assert robust_accuracy(model, images, labels, lambda m, x, y: 1 - x) == 0
    by_label = lambda m, x, y: y.float()[:, None, None, None].expand_as(x)  # noqa: E731
    assert robust_accuracy(model, images, labels, by_label) == 1


def test_the_slider_s_table_holds_each_answer_in_its_place():
    torch.manual_seed(0)
    plain, normed = SmallCNN(2).eval(), SmallCNN(2, norm=True).eval()
    images, labels = pictures(9)
    images = images * torch.linspace(0.2, 1, 9)[:, None, None, None]  # so stretching matters
    asked = {"plain": (plain, "running"), "batch": (normed, "batch")}
    table = confidence_table(asked, images[:3], images[3:], (0, 8, 20))
    assert table.shape == (2, 2, 3, 2, 3, 10) and table.dtype == torch.uint8
    assert (table.float().sum(-1) / 255 - 1).abs().max() < 0.03
    high = parts_of(images, labels, (8,)).high[8]
    wanted = answers(normed, high, "batch")[:3].softmax(1)
    torch.testing.assert_close(table[1, 0, 1, 1].float() / 255, wanted, atol=3e-3, rtol=0)
    stretched = answers(normed, stretch(high), "batch")[:3].softmax(1)
    torch.testing.assert_close(table[1, 1, 1, 1].float() / 255, stretched, atol=3e-3, rtol=0)
    assert (wanted - stretched).abs().max() > 0.01  # else the two could not be told apart


def test_a_gap_s_error_counts_groups():
    drawn = torch.Generator().manual_seed(0)
    own, other = (torch.randint(2, (count,), generator=drawn) for count in (70, 50))
    alone = torch.arange(120)
    found, error = gap(own, alone[:70], other, alone[70:])
    assert found == pytest.approx((own.double().mean() - other.double().mean()).item())
    binomial = own.double().var(unbiased=False) / 70 + other.double().var(unbiased=False) / 50
    assert error == pytest.approx((binomial * 120 / 119).sqrt().item())
    fives = [values.repeat_interleave(5) for values in (own, alone[:70], other, alone[70:])]
    assert gap(*fives) == pytest.approx((found, error))  # copies of one person tell nothing
    same = gap(own[:50], alone[:50], own[:50], alone[:50])
    assert same == pytest.approx((0, 0))  # the same people on both sides err alike


def test_a_gap_needs_two_sides_and_two_groups():
    none, one = torch.zeros(0), torch.ones(2)
    with pytest.raises(ValueError, match="0 and 2 values"):
        gap(none, none, one, one)
    with pytest.raises(ValueError, match="all values are of one group"):
        gap(one, one, one, one)
