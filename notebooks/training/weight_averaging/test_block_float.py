"""Block floating point: exact values, the mean of stochastic rounding, and what is refused."""

import copy
import pickle

import pytest
import torch
from block_float import (
    LowPrecisionSGD,
    quantize,
    round_activations,
    rounded,
    with_rounded_weights,
)
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from small_resnet import SmallResNet
from torch import nn


def plain(values, bits):
    """The definition in Python floats, rounding to nearest (ties to even)."""
    import math

    largest = max(abs(value) for value in values)
    if not largest:
        return values
    step = 2.0 ** (math.floor(math.log2(largest)) - bits + 2)
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return [min(max(round(value / step), low), high) * step for value in values]


@pytest.mark.parametrize("bits", [2, 3, 4, 8, 16])
def test_equals_the_definition(bits):
    values = torch.randn(257, generator=torch.Generator().manual_seed(0)).double() * 3
    assert quantize(values, bits, "nearest").tolist() == plain(values.tolist(), bits)


def test_known_values():
    kept = quantize(torch.tensor([1.0, 0.26, -0.01, 1.99]), 4, "nearest")
    assert kept.tolist() == [
        1.0,
        0.25,
        0.0,
        1.75,
    ]  # steps of a quarter, the last is the seventh


def test_stochastic_rounding_has_the_right_mean_and_takes_neighbours_only():
    value, drawn = 0.3, torch.Generator().manual_seed(1)
    values = torch.full((40_000,), value)
    values[0] = 1.0
    kept = quantize(values, 4, generator=drawn)[1:]
    assert kept.unique().tolist() == [0.25, 0.5]
    assert abs(kept.mean().item() - value) < 4 * 0.1 / 200  # four standard errors of N = 200²


def test_each_index_of_an_axis_has_its_own_exponent():
    rows = torch.tensor([[1.0, 0.51], [1e-3, 0.6e-3]])
    shared, own = quantize(rows, 4, "nearest"), quantize(rows, 4, "nearest", axis=0)
    assert shared[1].tolist() == [0.0, 0.0] and (own[1] > 0).all()
    torch.testing.assert_close(quantize(rows.T, 4, "nearest", axis=1).T, own)
    torch.testing.assert_close(quantize(rows, 4, "nearest", axis=-2), own)


@given(
    arrays.arrays(
        "float32", st.integers(1, 40), elements=st.floats(-(2.0**100), 2.0**100, width=32)
    )
)
def test_nearest_is_within_a_step_and_stays_where_it_is(values):
    """A step and not half, since rounding up may be clipped at the top; unless the most
    negative integer came out, whose magnitude begins the next exponent."""
    values = torch.from_numpy(values)
    once = quantize(values, 8, "nearest")
    largest = values.abs().max()
    assert (values - once).abs().max() <= max(largest * 2.0**-6, 2.0**-126)
    if torch.frexp(once.abs().max()).exponent <= torch.frexp(largest).exponent:
        assert torch.equal(quantize(once, 8, "nearest"), once)


@pytest.mark.parametrize("size", [1e-30, 1e-37, 1e-44])
def test_tiny_values_stay_tiny(size):
    """Two to the power of the steps overflows below 2^-121, were it not bounded."""
    values = torch.tensor([size, -size / 3])
    kept = quantize(values, 8, "nearest")
    assert kept.isfinite().all() and (kept - values).abs().max() <= max(size / 64, 2.0**-127)


def test_zeros_stay_and_empty_stays():
    assert quantize(torch.zeros(3)).tolist() == [0.0] * 3 and quantize(
        torch.zeros(0)
    ).shape == (0,)
    assert quantize(torch.tensor([3, 1]), 8, "nearest").tolist() == [3.0, 1.0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [((1,), "bits is 1"), ((25,), "bits is 25"), ((8, "up"), "rounding is 'up'")],
)
def test_what_is_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        quantize(torch.ones(2), *arguments)


def test_values_that_are_not_finite_and_axes_that_are_not_there_are_refused():
    for value in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="NaN or infinite"):
            quantize(torch.tensor([1.0, value]))
    with pytest.raises(ValueError, match="axis is 2; the values have 2 axes"):
        quantize(torch.ones(2, 2), axis=2)


def test_rounding_goes_both_ways():
    values = torch.tensor([1.0, 0.26], requires_grad=True)
    (rounded(values, 4, "nearest") * torch.tensor([1.0, 0.3])).sum().backward()
    assert values.grad.tolist() == [1.0, 0.25]


def test_integers_of_other_kinds_and_halves_are_refused():
    with pytest.raises(ValueError, match="values are torch.float16"):
        quantize(torch.ones(2, dtype=torch.float16))


def test_an_optimiser_of_24_bits_is_sgd_but_for_rounding():
    torch.manual_seed(0)
    start = torch.randn(3, 4)
    ours, theirs = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    how = {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}
    low = LowPrecisionSGD([ours], bits=24, rounding="nearest", **how)
    full = torch.optim.SGD([theirs], **how)
    for step in range(5):
        for parameter, optimiser in ((ours, low), (theirs, full)):
            parameter.grad = torch.full((3, 4), 0.3 + step)
            optimiser.step()
    # 2^-22 of the largest value of a block for each of 15 roundings
    torch.testing.assert_close(ours.data, theirs.data, atol=1e-4, rtol=0)


def test_two_steps_round_where_the_authors_do():
    """The gradient before the decay is added, the momentum after the weights have moved."""

    def q(values):
        return quantize(values, 4, "nearest", axis=0)

    torch.manual_seed(0)
    weight = nn.Parameter(q(torch.randn(4, 9)))
    own, momentum = weight.detach().clone(), torch.zeros(4, 9)
    optimiser = LowPrecisionSGD([weight], 0.1, weight_decay=0.5, bits=4, rounding="nearest")
    for _ in range(2):
        weight.grad = torch.randn(4, 9)
        optimiser.step()
        momentum = 0.9 * momentum + q(weight.grad) + 0.5 * own
        own, momentum = q(own - 0.1 * momentum), q(momentum)
        assert torch.equal(weight.data, own)
        assert torch.equal(optimiser.state[weight]["momentum"], momentum)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_gradient_that_is_not_finite_moves_nothing(bad):
    first, second = (nn.Parameter(torch.ones(3)) for _ in range(2))
    optimiser = LowPrecisionSGD([{"params": [first]}, {"params": [second]}], 0.1)
    first.grad, second.grad = torch.ones(3), torch.tensor([1.0, bad, 1.0])
    with pytest.raises(ValueError, match="NaN or infinite"):
        optimiser.step()
    assert first.tolist() == second.tolist() == [1.0] * 3
    assert not any(optimiser.state[one].get("momentum") for one in (first, second))


@pytest.mark.parametrize("lr", [-1, -1e-9, float("nan")])
def test_a_rate_below_zero_is_refused(lr):
    with pytest.raises(ValueError, match=f"lr is {lr}; a rate is 0 or more"):
        LowPrecisionSGD([nn.Parameter(torch.ones(2))], lr)


def test_a_copied_optimiser_keeps_its_bits_and_its_momenta():
    weight = nn.Parameter(torch.randn(2, 9))
    optimiser = LowPrecisionSGD([weight], 0.1, bits=3)
    weight.grad = torch.randn(2, 9)
    optimiser.step()
    model, again = copy.deepcopy((weight, optimiser))
    assert again.param_groups[0]["params"][0] is model and again.param_groups[0]["bits"] == 3
    assert torch.equal(again.state[model]["momentum"], optimiser.state[weight]["momentum"])


def test_a_copy_has_its_filters_rounded_and_vectors_as_they_were():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 3, 2), nn.BatchNorm2d(3))
    kept = model[0].weight.detach().clone()
    copied = with_rounded_weights(model, 3)
    assert torch.equal(copied[0].weight, quantize(kept, 3, "nearest", axis=0))
    assert torch.equal(copied[0].bias, model[0].bias) and torch.equal(model[0].weight, kept)


def test_weights_and_momenta_lie_on_the_grid_of_their_filter():
    torch.manual_seed(0)
    weight = nn.Parameter(torch.randn(4, 9))
    optimiser = LowPrecisionSGD([weight], lr=0.1)
    for _ in range(3):
        weight.grad = torch.randn(4, 9)
        optimiser.step()
    for values in (weight.data, optimiser.state[weight]["momentum"]):
        # the most negative integer begins the next exponent, whose steps are twice as wide
        exponent = torch.frexp(values.abs().amax(1, keepdim=True)).exponent - 1
        steps = torch.ldexp(values, 7 - exponent)
        assert torch.equal(steps, steps.round()) and len(steps.unique()) > 4


def test_weights_are_rounded_at_once_and_a_vector_is_one_block():
    torch.manual_seed(0)
    start = torch.randn(2, 40) * torch.tensor([[1.0], [1e-3]])
    matrix, vector = nn.Parameter(start.clone()), nn.Parameter(start[:, :4].flatten())
    LowPrecisionSGD([matrix, vector], 0.1, bits=4, rounding="nearest")
    assert torch.equal(matrix.data, quantize(start, 4, "nearest", axis=0))
    assert torch.equal(vector.data, quantize(start[:, :4].flatten(), 4, "nearest"))
    assert not vector[4:].any()  # its small values share the exponent of the large ones


def test_rounding_is_stochastic_where_nothing_else_is_said():
    """Of 0.3 on a grid of quarters: to the nearest it would be a quarter for good."""
    torch.manual_seed(0)
    values = torch.full((4000,), 0.3)
    values[0] = 1.0
    linear, weight = nn.Linear(4000, 1), nn.Parameter(values.clone())
    round_activations(linear, 4).register_forward_pre_hook(lambda _, x: seen.append(x[0]))
    seen = [rounded(values, 4)]
    linear(values[None])
    LowPrecisionSGD([weight], 0.1, bits=4)
    for found in (*seen, weight.detach()):
        assert found.flatten()[1:].unique().tolist() == [0.25, 0.5]
        # four standard errors of 3,999 roundings
        assert found.flatten()[1:].mean().item() == pytest.approx(0.3, abs=4 * 0.1 / 63)


def test_parameters_without_a_gradient_stay_and_closures_are_refused():
    weight = nn.Parameter(torch.ones(2))
    optimiser = LowPrecisionSGD([weight], lr=0.1)
    optimiser.step()
    assert weight.tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="closure"):
        optimiser.step(lambda: None)


LAYERS = [nn.Conv2d(2, 5, 3), nn.Conv2d(2, 4, 1, groups=2), nn.Linear(6, 40)]


def step_of(values, bits=4):
    """How far apart the numbers of a block are."""
    return 2.0 ** (torch.frexp(values.abs().max()).exponent.item() - 1 - (bits - 2))


@pytest.mark.parametrize("layer", LAYERS)
def test_what_a_layer_puts_out_and_its_error_are_rounded(layer):
    torch.manual_seed(0)
    model, x = nn.Sequential(copy.deepcopy(layer)), torch.randn(3, 2, 6, 6)
    round_activations(model, bits=4)
    out = model(x)
    errors = torch.randn(out.shape)
    assert len(out.unique()) <= 16 < out.numel()
    (out * errors).sum().backward()
    # the gradient of a bias is the sum of the errors, each a multiple of their common step
    steps = model[0].bias.grad / step_of(errors)
    torch.testing.assert_close(steps, steps.round(), atol=1e-3, rtol=0)


@pytest.mark.parametrize("layer", LAYERS)
def test_what_a_layer_reads_and_the_error_that_leaves_it_are_rounded(layer):
    """Both factors of its product have 4 bits, and so has what goes back to whom it reads."""
    torch.manual_seed(0)
    model, seen = nn.Sequential(copy.deepcopy(layer)), []
    round_activations(model, bits=4)
    model[0].register_forward_pre_hook(lambda _layer, inputs: seen.append(inputs[0].detach()))
    x = torch.randn(3, 2, 6, 6, requires_grad=True)
    model(x).square().sum().backward()
    assert len(seen[0].unique()) <= 16 < seen[0].numel()
    assert (seen[0] - x).abs().max() <= step_of(x)
    assert len(x.grad.unique()) <= 16 < x.grad.numel()


def test_every_product_of_the_network_reads_few_values():
    torch.manual_seed(0)
    model, seen = SmallResNet(4), {}
    round_activations(model, bits=4)
    for name, layer in model.named_modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            layer.register_forward_pre_hook(
                lambda _, inputs, name=name: seen.update({name: len(inputs[0].unique())})
            )
    model(torch.randn(16, 1, 28, 28))
    assert len(seen) == 1 + 2 * 3 + 2 + 1 and max(seen.values()) <= 16


def test_activations_are_rounded_until_it_is_switched_off_in_copies_too():
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(5, 64)), torch.randn(7, 5)
    plain_output = model(x)
    assert round_activations(model, bits=4) is model
    copied = copy.deepcopy(model)
    assert len(model(x).unique()) <= 16 and len(copied(x).unique()) <= 16
    round_activations(round_activations(copied, None), None)
    assert torch.equal(copied(x), plain_output)
    assert len(model(x).unique()) <= 16
    assert len(pickle.loads(pickle.dumps(model))(x).unique()) <= 16
