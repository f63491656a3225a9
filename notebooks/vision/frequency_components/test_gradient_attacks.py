"""The attacks: gradients by finite differences, the ball, a solved case, the peer, refusals."""

import pytest
import torch
from frequency_split import low_pass
from gradient_attacks import Filtered, ascend, fgsm, gradient, pgd
from small_cnn import SmallCNN
from torch import nn
from torch.nn import functional as F

EPSILON, STEP = 8 / 255, 2 / 255


def problem(count=16, dtype=torch.float32, norm=False):
    torch.manual_seed(0)
    model = SmallCNN(4, norm=norm).to(dtype).eval()
    return model, torch.rand(count, 1, 28, 28, dtype=dtype), torch.randint(10, (count,))


@pytest.mark.parametrize("radius", [0, 3, 8, 30])
def test_the_gradient_through_the_filter_is_that_of_finite_differences(radius):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Flatten(), nn.Linear(36, 8), nn.Tanh(), nn.Linear(8, 3)).double()
    filtered, x, labels = (
        Filtered(model, radius),
        torch.rand(2, 1, 6, 6).double(),
        torch.tensor([0, 2]),
    )
    found = gradient(filtered, x, labels)
    for place in torch.randperm(36)[:8].tolist():
        for image in range(2):
            step = torch.zeros_like(x)
            step[image].view(-1)[place] = 1e-5
            ends = [
                F.cross_entropy(filtered(x + s), labels, reduction="sum") for s in (step, -step)
            ]
            slope = (ends[0] - ends[1]).item() / 2e-5
            assert found[image].view(-1)[place].item() == pytest.approx(slope, abs=1e-8)


def test_the_exact_gradient_is_the_gradient_behind_the_filter_filtered():
    model, x, labels = problem(dtype=torch.float64)
    found = gradient(Filtered(model, 6), x, labels)
    within = gradient(model, low_pass(x, 6), labels)
    torch.testing.assert_close(found, low_pass(within, 6), atol=1e-13, rtol=0)


def test_the_identity_backward_is_another_gradient():
    model, x, labels = problem(dtype=torch.float64)
    exact = gradient(Filtered(model, 6), x, labels)
    guessed = gradient(Filtered(model, 6, "identity"), x, labels)
    torch.testing.assert_close(low_pass(guessed, 6), exact, atol=1e-13, rtol=0)
    assert (guessed - exact).norm() > 0.1 * exact.norm()


@pytest.mark.parametrize("start", [None, 3])
def test_stays_in_the_ball_and_in_the_image(start):
    model, x, labels = problem()
    x[:4] = x[:4].round()  # pixels at the border
    drawn = None if start is None else torch.Generator().manual_seed(start)
    found = pgd(model, x, labels, EPSILON, 0.7 * EPSILON, 5, drawn)
    assert (found - x).abs().max() <= EPSILON + 1e-7
    assert found.min() >= 0 and found.max() <= 1
    assert (found - x).abs().max() > 0.9 * EPSILON


def test_a_linear_model_is_attacked_in_closed_form():
    """Two classes: the loss grows along sign(w), so PGD reaches the corner of the ball."""
    torch.manual_seed(2)
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 2, bias=False))
    x, labels = 0.3 + 0.4 * torch.rand(3, 1, 4, 4), torch.tensor([0, 1, 0])
    weight = model[1].weight.detach()
    away = (weight[1] - weight[0]).sign().view(1, 1, 4, 4) * (1 - 2 * labels).view(3, 1, 1, 1)
    torch.testing.assert_close(pgd(model, x, labels, 0.1, 0.03, 8), x + 0.1 * away)
    torch.testing.assert_close(fgsm(model, x, labels, 0.1), x + 0.1 * away)


def test_a_broken_model_is_told_and_does_not_seem_unbeaten():
    model, x, labels = problem()
    with torch.no_grad():
        model.head.weight[0, 0] = torch.nan
    for attack in (
        lambda: fgsm(model, x, labels, 0.1),
        lambda: pgd(model, x, labels, 0.1, 0, 1),
    ):
        with pytest.raises(ValueError, match="gradient is NaN"):
            attack()
    assert ascend(model, x, labels, 0.1, 0.1, 1).isnan().any()  # so a training's loss tells it


def test_the_loss_grows():
    model, x, labels = problem()
    ways = x, fgsm(model, x, labels, EPSILON), pgd(model, x, labels, EPSILON, STEP, 10)
    losses = [F.cross_entropy(model(images), labels).item() for images in ways]
    assert losses[0] < losses[1] and losses[0] < losses[2]


def test_an_image_is_attacked_alike_alone_and_in_company():
    model, x, labels = problem(dtype=torch.float64)
    whole = pgd(model, x, labels, EPSILON, STEP, 5)
    alone = torch.cat(
        [pgd(model, x[i : i + 1], labels[i : i + 1], EPSILON, STEP, 5) for i in range(4)]
    )
    torch.testing.assert_close(whole[:4], alone)


def test_a_random_start_repeats_with_its_seed_and_moves_with_another():
    model, x, labels = problem()

    def run(seed):
        return pgd(model, x, labels, 0.1, 0.01, 1, torch.Generator().manual_seed(seed))

    assert torch.equal(run(0), run(0)) and not torch.equal(run(0), run(1))


def test_a_random_start_fills_the_whole_ball():
    model, x, labels = problem()
    x = 0.2 + 0.6 * x  # so that nothing is clipped
    away = pgd(model, x, labels, 0.1, 0, 1, torch.Generator().manual_seed(0)) - x
    # of 12,544 uniform numbers: both ends within a thousandth, the deviation within four errors
    assert away.max() == pytest.approx(0.1, abs=2e-4) and away.min() == pytest.approx(
        -0.1, abs=2e-4
    )
    assert away.std() == pytest.approx(0.1 / 3**0.5, rel=0.02)


@pytest.mark.parametrize("norm", [False, True])
def test_the_model_is_left_as_it_was(norm):
    model, x, labels = problem(norm=norm)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    pgd(model, x, labels, EPSILON, STEP, 2)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("norm", [False, True])
def test_equals_torchattacks(norm):
    """A batch of 16: the peer's mean divides by a power of two, which changes no sign."""
    theirs = pytest.importorskip(
        "torchattacks", reason="torchattacks, a peer, is not installed"
    )
    model, x, labels = problem(norm=norm)
    wanted = theirs.FGSM(model, eps=EPSILON)(x, labels)
    torch.testing.assert_close(fgsm(model, x, labels, EPSILON), wanted, atol=1e-6, rtol=0)
    attack = theirs.PGD(model, eps=EPSILON, alpha=STEP, steps=10, random_start=False)
    torch.testing.assert_close(
        pgd(model, x, labels, EPSILON, STEP, 10), attack(x, labels), atol=1e-6, rtol=0
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels_B": torch.zeros(3, dtype=torch.long)}, "16 images and labels"),
        ({"epsilon": -0.1}, "epsilon -0.1"),
        ({"step": -0.1}, "step -0.1"),
        ({"steps": 0}, "0 steps"),
        ({"epsilon": torch.nan}, "epsilon nan"),
        ({"epsilon": torch.inf}, "epsilon inf"),
        ({"step": torch.nan}, "step nan"),
        ({"images_BCHW": 2 * torch.ones(16, 1, 28, 28)}, r"outside \[0, 1\]"),
        ({"images_BCHW": torch.full((16, 1, 28, 28), torch.nan)}, r"outside \[0, 1\]"),
    ],
)
def test_refuses(change, message):
    model, x, labels = problem()
    given = {"images_BCHW": x, "labels_B": labels, "epsilon": 0.1, "step": 0.1, "steps": 1}
    with pytest.raises(ValueError, match=message):
        pgd(model, **(given | change))


def test_refuses_another_backward():
    with pytest.raises(ValueError, match="'straight'; allowed are exact, identity"):
        Filtered(nn.Identity(), 4, "straight")
