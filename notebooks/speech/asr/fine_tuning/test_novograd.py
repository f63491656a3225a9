"""NovoGrad: equal to its equations, the same for one tensor or many; the schedule has its
corners where they belong."""

import copy

import numpy as np
import pytest
import torch

from .novograd import NovoGrad, cosine_rate, novograd_reference

DEVICES = [
    "cpu",
    pytest.param(
        "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
    ),
]
SHAPES = [(1,), (7,), (5, 3), (4, 2, 3)]


def moved(shapes, gradients, device="cpu", **options):
    """The weights after the optimiser has seen the gradients, a list of arrays for each
    step."""
    rng = np.random.default_rng(0)
    weights = [
        torch.nn.Parameter(torch.tensor(rng.standard_normal(s), device=device)) for s in shapes
    ]
    starts, optimiser = [w.detach().clone() for w in weights], NovoGrad(weights, **options)
    for step in gradients:
        for w, g in zip(weights, step, strict=True):
            w.grad = torch.tensor(g, device=device)
        optimiser.step()
    return starts, weights


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "options", [{}, {"lr": 0.1, "betas": (0.95, 0.98), "weight_decay": 0.0}]
)
def test_equals_the_equations(options, device):
    rng = np.random.default_rng(1)
    gradients = [[10.0**k * rng.standard_normal(s) for s in SHAPES] for k in (0, 3, -3, 0, 1)]
    starts, weights = moved(SHAPES, gradients, device, **options)
    for i, (start, w) in enumerate(zip(starts, weights, strict=True)):
        path = novograd_reference(start.cpu(), [step[i] for step in gradients], **options)
        torch.testing.assert_close(w.detach().cpu(), path[-1], rtol=1e-9, atol=1e-12)


def test_the_first_step_has_the_length_of_the_rate():
    starts, weights = moved([(50,)], [[1e4 * np.ones(50)]], lr=0.01, weight_decay=0.0)
    assert float((weights[0] - starts[0]).detach().norm()) == pytest.approx(0.01)


def test_the_gradients_scale_does_not_matter():
    gradients = [[np.random.default_rng(2).standard_normal(9)] for _ in range(4)]
    _, small = moved([(9,)], gradients)
    _, large = moved([(9,)], [[1e6 * g for g in step] for step in gradients])
    torch.testing.assert_close(small[0].detach(), large[0].detach(), rtol=1e-5, atol=1e-7)


def test_a_zero_gradient_leaves_decay_alone():
    starts, weights = moved([(3,)], [[np.zeros(3)]], lr=0.5, weight_decay=0.1)
    torch.testing.assert_close(weights[0].detach(), starts[0] * (1 - 0.05))


def test_tensors_without_a_gradient_stay():
    a, b = (torch.nn.Parameter(torch.ones(2)) for _ in "ab")
    optimiser = NovoGrad([a, b], lr=0.1)
    a.grad = torch.ones(2)
    optimiser.step()
    assert b.tolist() == [1.0, 1.0] and a.tolist() != [1.0, 1.0]
    b.grad = torch.ones(2)  # it may join later
    optimiser.step()
    assert b.tolist() != [1.0, 1.0]


def test_a_saved_state_goes_on_where_it_stopped():
    model = torch.nn.Linear(4, 3)
    optimiser = NovoGrad(model.parameters())
    x = torch.randn(8, 4, generator=torch.Generator().manual_seed(0))

    def step(model, optimiser):
        optimiser.zero_grad()
        model(x).square().sum().backward()
        optimiser.step()

    step(model, optimiser)
    other = copy.deepcopy(model)
    restored = NovoGrad(other.parameters())
    restored.load_state_dict(copy.deepcopy(optimiser.state_dict()))
    step(model, optimiser)
    step(other, restored)
    assert torch.equal(model.weight, other.weight)


def test_the_gradients_are_left_as_they_are():
    w = torch.nn.Parameter(torch.ones(3))
    w.grad = torch.tensor([1.0, 2.0, 3.0])
    NovoGrad([w]).step()
    assert w.grad.tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    "options", [{"lr": -1}, {"weight_decay": -1}, {"betas": (1.0, 0.5)}, {"betas": (0.9, -0.1)}]
)
def test_impossible_settings_are_refused(options):
    with pytest.raises(ValueError, match="negative|betas"):
        NovoGrad([torch.nn.Parameter(torch.ones(1))], **options)


def test_the_schedule_rises_then_falls_to_zero():
    rates = [cosine_rate(step, 100, 2.0, warmup=10) for step in range(101)]
    assert rates[10] == max(rates) == 2.0 and rates[100] == 0
    assert rates[55] == pytest.approx(1.0)
    assert rates[:11] == sorted(rates[:11]) and rates[10:] == sorted(rates[10:], reverse=True)
    assert rates[0] == pytest.approx(2.0 / 11)


@pytest.mark.parametrize(
    "step, steps, warmup", [(-1, 10, 0), (11, 10, 0), (0, 10, 10), (0, 10, -1)]
)
def test_steps_off_the_schedule_are_refused(step, steps, warmup):
    with pytest.raises(ValueError, match="warmup"):
        cosine_rate(step, steps, 1.0, warmup)
