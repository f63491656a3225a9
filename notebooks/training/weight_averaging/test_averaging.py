"""Averages, batch norms and rates equal plain sums, torch's own and closed forms."""

import copy

import averaging
import pytest
import torch
from averaging import WeightAverage, recompute_batch_norm
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel, get_ema_multi_avg_fn, update_bn

PLACES = ["cpu"]
PLACES += [
    pytest.param(
        "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
    )
]


def small(seed=0, dtype=torch.float32):
    torch.manual_seed(seed)
    layers = nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(3 * 4, 2)
    return nn.Sequential(*layers).to(dtype)


def walk(count, dtype=torch.float32):
    """Models that differ as those of a run do, statistics too."""
    return [small(seed, dtype) for seed in range(count)]


def weights(model):
    return torch.cat([parameter.flatten().double() for parameter in model.parameters()])


@pytest.mark.parametrize("count", [1, 2, 7, 13])
def test_an_equal_average_is_the_mean_of_all(count):
    models = walk(count)
    average = WeightAverage(models[0])
    for model in models:
        average.update(model)
    mean = torch.stack([weights(model) for model in models]).mean(0)
    torch.testing.assert_close(weights(average.model), mean, atol=1e-6, rtol=0)


@pytest.mark.parametrize("device", PLACES)
@pytest.mark.parametrize("check", [True, False])
def test_the_average_lives_where_the_model_does(device, check):
    models = [model.to(device) for model in walk(3)]
    average = WeightAverage(models[0], check=check)
    for model in models:
        average.update(model)
    batches = [torch.randn(8, 1, 4, 4).to(device) for _ in range(2)]
    recompute_batch_norm(average.model, batches)
    tensors = [*average.model.parameters(), *average.model.buffers()]
    assert {tensor.device.type for tensor in tensors} == {device}
    mean = torch.stack([weights(model.cpu()) for model in models]).mean(0)
    torch.testing.assert_close(weights(average.model.cpu()), mean, atol=1e-6, rtol=0)


@pytest.mark.parametrize("decay", [None, 0.9])
@pytest.mark.parametrize("buffers", ["last", "average"])
def test_equals_torch_s_averaged_model(decay, buffers):
    models = walk(5)
    blend = None if decay is None else get_ema_multi_avg_fn(decay)
    theirs = AveragedModel(models[0], multi_avg_fn=blend, use_buffers=buffers == "average")
    ours = WeightAverage(models[0], decay, buffers)
    for model in models:
        theirs.update_parameters(model)
        ours.update(model)
    torch.testing.assert_close(weights(ours.model), weights(theirs.module), atol=1e-6, rtol=0)
    if buffers == "average":
        torch.testing.assert_close(ours.model[1].running_var, theirs.module[1].running_var)


def test_an_exponential_average_has_the_closed_form():
    models = walk(4)
    average = WeightAverage(models[0], decay=0.75)
    for model in models:
        average.update(model)
    shares = [0.75**3, 0.25 * 0.75**2, 0.25 * 0.75, 0.25]
    expected = sum(share * weights(model) for share, model in zip(shares, models, strict=True))
    torch.testing.assert_close(weights(average.model), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("decay", [None, 0.75])
def test_the_first_update_leaves_nothing_of_the_model_that_it_was_made_of(decay):
    average, (first, second) = WeightAverage(small(9), decay), walk(2)
    average.update(first)
    torch.testing.assert_close(weights(average.model), weights(first), atol=1e-7, rtol=0)
    average.update(second)
    share = 0.5 if decay is None else 0.25
    expected = (1 - share) * weights(first) + share * weights(second)
    torch.testing.assert_close(weights(average.model), expected, atol=1e-6, rtol=0)


def test_the_model_is_left_alone_and_the_average_needs_no_gradient():
    model = small()
    before = copy.deepcopy(model.state_dict())
    average = WeightAverage(model)
    average.update(small(1))
    average.update(model)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not any(parameter.requires_grad for parameter in average.model.parameters())
    assert not average.model.training


def test_last_buffers_are_the_last_model_s():
    models = walk(3)
    for number, model in enumerate(models):
        model[1].running_mean.fill_(number)
        model[1].num_batches_tracked.fill_(number)
    last, blended = WeightAverage(models[0]), WeightAverage(models[0], buffers="average")
    for model in models:
        last.update(model), blended.update(model)
    assert last.model[1].running_mean.tolist() == [2.0] * 3
    assert blended.model[1].running_mean.tolist() == [1.0] * 3
    for average in (last, blended):
        assert average.model[1].num_batches_tracked == 2


def test_sixteen_bits_are_averaged_in_float32():
    """A thousand equal steps of 1/n; in bfloat16 the average would stop moving before."""
    first, second = small(0, torch.bfloat16), small(1, torch.bfloat16)
    average = WeightAverage(first)
    for number in range(600):
        average.update(second if number % 2 else first)
    assert next(average.model.parameters()).dtype == torch.float32
    middle = (weights(first) + weights(second)) / 2
    torch.testing.assert_close(weights(average.model), middle, atol=1e-5, rtol=0)


def test_weights_that_are_not_finite_leave_the_average_as_it_was():
    average = WeightAverage(small())
    average.update(small(1))
    broken = small(2)
    broken[3].bias.data[1] = float("nan")
    with pytest.raises(ValueError, match="NaN or infinite"):
        average.update(broken)
    assert torch.equal(weights(average.model), weights(small(1))) and average.count == 1


class Wave(nn.Module):
    """A complex weight and a complex buffer of this value, and a NaN if asked."""

    def __init__(self, value, dtype=torch.complex64):
        super().__init__()
        self.weight = nn.Parameter(torch.full((3,), value, dtype=dtype))
        self.register_buffer("state", torch.full((2,), value, dtype=dtype))


@pytest.mark.parametrize("buffers", ["last", "average"])
def test_complex_weights_are_averaged_as_torch_does(buffers):
    values = (1 + 1j, 2 - 3j, 6 + 5j)
    ours = WeightAverage(Wave(9j), buffers=buffers)
    theirs = AveragedModel(Wave(9j), use_buffers=True)
    for value in values:
        ours.update(Wave(value))
        theirs.update_parameters(Wave(value))
    assert ours.model.weight.tolist() == pytest.approx([3 + 1j] * 3)
    torch.testing.assert_close(ours.model.weight, theirs.module.weight)
    last = 3 + 1j if buffers == "average" else 6 + 5j
    assert ours.model.state.tolist() == pytest.approx([last] * 2)


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
def test_complex_weights_of_sixteen_bits_are_averaged_in_32_and_a_nan_is_refused():
    first, second = (Wave(value, torch.complex32) for value in (1 + 1j, 3 + 1j))
    average = WeightAverage(first)
    average.update(first)
    average.update(second)
    assert average.model.weight.dtype == torch.complex64
    assert average.model.weight.tolist() == pytest.approx([2 + 1j] * 3)
    average = WeightAverage(Wave(1j))
    with pytest.raises(ValueError, match="NaN or infinite"):
        average.update(Wave(complex(0, float("nan"))))
    assert average.model.weight.tolist() == [1j] * 3


def test_another_model_is_refused():
    average = WeightAverage(small())
    with pytest.raises(ValueError, match="other tensors"):
        average.update(nn.Linear(2, 2))
    wider = nn.Sequential(nn.Conv2d(1, 4, 3), *small()[1:])
    words = r"0\.weight has shape \(4, 1, 3, 3\); the first model had \(3, 1, 3, 3\)"
    with pytest.raises(ValueError, match=words):
        average.update(wider)
    assert average.count == 0


@pytest.mark.parametrize("decay", [0, 1, -0.5, 2])
def test_a_decay_outside_its_range_is_refused(decay):
    with pytest.raises(ValueError, match="decay"):
        WeightAverage(small(), decay)
    with pytest.raises(ValueError, match="buffers is 'none'"):
        WeightAverage(small(), buffers="none")


def test_batch_norm_statistics_equal_torch_s_for_batches_of_one_size():
    ours, theirs = small(), small()
    batches = [torch.randn(8, 1, 4, 4) * 3 + 1 for _ in range(4)]
    recompute_batch_norm(ours, batches)
    update_bn(batches, theirs)
    torch.testing.assert_close(ours[1].running_mean, theirs[1].running_mean)
    torch.testing.assert_close(ours[1].running_var, theirs[1].running_var)
    assert ours[1].momentum == 0.1


def test_a_short_batch_counts_by_its_size():
    model, data = small(), torch.randn(9, 1, 4, 4)
    recompute_batch_norm(model, [data[:8], data[8:]])
    whole = model[0](data).mean((0, 2, 3)).detach()
    torch.testing.assert_close(model[1].running_mean, whole, atol=1e-6, rtol=1e-5)


def test_without_a_batch_the_statistics_stay():
    model = small()
    model[1].running_mean.fill_(5)
    with pytest.raises(ValueError, match="no batch"):
        recompute_batch_norm(model, [])
    assert model[1].running_mean.tolist() == [5.0] * 3
    assert recompute_batch_norm(nn.Linear(2, 2), []) is None


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_batch_that_is_not_finite_leaves_the_old_statistics(bad):
    model, data = small(), torch.randn(8, 1, 4, 4)
    before = copy.deepcopy(model[1].state_dict())
    broken = data.clone()
    broken[3, 0, 1, 1] = bad
    with pytest.raises(ValueError, match="a statistic came out NaN or infinite"):
        recompute_batch_norm(model, [data, broken])
    after = model[1].state_dict()
    assert all(torch.equal(value, before[name]) for name, value in after.items())


@pytest.mark.parametrize("kind", [tuple, list])
def test_of_a_batch_with_labels_the_inputs_count_as_torch_has_it(kind):
    ours, theirs = small(), small()
    batches = [kind((torch.randn(8, 1, 4, 4), torch.arange(8))) for _ in range(3)]
    recompute_batch_norm(ours, batches)
    update_bn(batches, theirs)
    torch.testing.assert_close(ours[1].running_mean, theirs[1].running_mean)
    torch.testing.assert_close(ours[1].running_var, theirs[1].running_var)


@pytest.mark.parametrize("mode", [True, False])
def test_the_mode_comes_back_even_after_an_error(mode):
    model = small().train(mode)
    with pytest.raises(RuntimeError):
        recompute_batch_norm(model, [torch.zeros(2, 5, 4, 4)])
    assert model.training is mode and model[1].momentum == 0.1


def test_only_layers_with_statistics_are_found():
    without = nn.BatchNorm1d(2, track_running_stats=False)
    assert averaging.batch_norms(nn.Sequential(without, nn.LayerNorm(2))) == []


def test_a_tensor_that_two_layers_share_is_averaged_once_and_stays_shared():
    def tied(value):
        model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
        model[1].weight = model[0].weight
        model[0].weight.data.fill_(value)
        return model

    average = WeightAverage(tied(0.0))
    for value in (1.0, 2.0, 6.0):
        average.update(tied(value))
    assert average.model[1].weight is average.model[0].weight
    torch.testing.assert_close(average.model[1].weight.data, torch.full((2, 2), 3.0))


def test_a_parameter_without_elements_is_averaged_like_any_other():
    class Empty(nn.Linear):
        def __init__(self):
            super().__init__(2, 2)
            self.nothing = nn.Parameter(torch.empty(0, 3))

    average, model = WeightAverage(Empty()), Empty()
    average.update(model)
    assert torch.equal(average.model.weight, model.weight) and average.count == 1


def test_without_the_check_nothing_is_refused():
    average, broken = WeightAverage(small(), check=False), small()
    broken[3].bias.data[0] = float("inf")
    average.update(broken)
    assert not average.model[3].bias[0].isfinite()


def test_after_an_error_midway_the_old_statistics_are_there_again():
    model = small()
    before = copy.deepcopy(model[1].state_dict())
    with pytest.raises(RuntimeError):
        recompute_batch_norm(model, [torch.randn(4, 1, 4, 4), torch.zeros(2, 5, 4, 4)])
    assert all(
        torch.equal(value, before[name]) for name, value in model[1].state_dict().items()
    )


def test_dropout_is_off_while_statistics_are_taken():
    model = nn.Sequential(nn.Dropout(0.5), nn.BatchNorm1d(3))
    data = torch.randn(64, 3) + 2
    recompute_batch_norm(model, [data])
    torch.testing.assert_close(model[1].running_mean, data.mean(0))
    assert model[0].training and model[1].training


def test_rates_fall_stay_and_saw():
    rate = averaging.then_constant(0.1, start=4, high=0.02, anneal=2)
    assert [round(rate(epoch), 6) for epoch in (0, 3.9, 4, 5, 6, 99)] == [
        0.1,
        0.1,
        0.1,
        0.06,
        0.02,
        0.02,
    ]
    assert averaging.then_constant(lambda epoch: epoch, 4, 7)(4) == 7
    saw = averaging.then_cyclical(lambda epoch: epoch, start=4, high=0.5, low=0.1, cycle=2)
    assert [round(saw(epoch), 6) for epoch in (3, 4, 5, 5.5, 6)] == [3, 0.5, 0.3, 0.2, 0.5]
    with pytest.raises(ValueError, match="cycle is 0"):
        averaging.then_cyclical(0.1, 4, 0.5, 0.1, 0)


def test_the_annealed_rate_is_that_of_torch():
    """SWALR with a line, stepped once for each epoch."""
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    theirs = SWALR(optimiser, swa_lr=0.02, anneal_epochs=3, anneal_strategy="linear")
    ours, found = averaging.then_constant(0.1, start=0, high=0.02, anneal=3), []
    for _ in range(6):
        found.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        theirs.step()
    assert found == pytest.approx([ours(epoch) for epoch in range(6)])


def test_torch_s_asgd_averages_from_its_second_step_on():
    """With a rate that stays (alpha=0, lambd=0) its average is ours, begun one step later."""
    models = small(), small()
    models[1].load_state_dict(models[0].state_dict())
    theirs = torch.optim.ASGD(models[0].parameters(), lr=1e-3, lambd=0, alpha=0, t0=0)
    plain = torch.optim.SGD(models[1].parameters(), lr=1e-3)
    average, x_BCHW = WeightAverage(models[1]), torch.randn(8, 1, 4, 4)
    for step in range(6):
        for model, optimiser in zip(models, (theirs, plain), strict=True):
            optimiser.zero_grad()
            model(x_BCHW).square().sum().backward()
            optimiser.step()
        if step:
            average.update(models[1])
    found = torch.cat([theirs.state[one]["ax"].flatten() for one in models[0].parameters()])
    torch.testing.assert_close(found.double(), weights(average.model), atol=1e-5, rtol=1e-4)
