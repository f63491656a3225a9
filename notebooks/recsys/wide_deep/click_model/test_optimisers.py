"""FTRL and RMSprop take the steps of their formulas, for dense and for sparse gradients."""

import math

import pytest
import torch

from . import optimisers
from .optimisers import Ftrl, RmsProp


def ftrl_reference(grads, lrs, start=0.0, l1=0.0, l2=0.0, beta=0.0, accumulator=0.1):
    """The weight after each gradient, one number at a time, in float64."""
    n, z, w, path = accumulator, 0.0, start, []
    for g, lr in zip(grads, lrs, strict=True):
        after = n + g * g
        z += g - (math.sqrt(after) - math.sqrt(n)) / lr * w
        n = after
        w = 0.0
        if abs(z) > l1:
            w = (math.copysign(l1, z) - z) / ((beta + math.sqrt(n)) / lr + 2 * l2)
        path.append(w)
    return path


def rmsprop_reference(grads, lrs, start=0.0, rho=0.5, eps=1e-7):
    """The weight after each gradient, one number at a time, in float64."""
    v, w, path = 0.0, start, []
    for g, lr in zip(grads, lrs, strict=True):
        v = rho * v + (1 - rho) * g * g
        w -= lr * g / (math.sqrt(v) + eps)
        path.append(w)
    return path


def gradients(steps, rows, columns, seed):
    """Gradients (steps, rows, columns) float64 of very different sizes; many rows are 0."""
    torch.manual_seed(seed)
    scale = 10.0 ** torch.randint(-4, 3, (rows, columns)).double()
    touched = torch.rand(steps, rows, 1) < 0.4
    touched[:, 0], touched[:, 1] = True, False
    return torch.randn(steps, rows, columns, dtype=torch.float64) * scale * touched


def rows_of(grad):
    """The same gradient, sparse and not coalesced: one of its rows comes in two halves."""
    rows = grad.any(1).nonzero()[:, 0]
    rows, values = torch.cat([rows, rows[:1]]), torch.cat([grad[rows], grad[rows[:1]] / 2])
    values[0] /= 2
    return torch.sparse_coo_tensor(rows[None], values, grad.shape, check_invariants=True)


def path(make, grads, lrs, start, sparse):
    """The weights after each step, (steps, rows, columns)."""
    weight = torch.nn.Parameter(start.clone())
    optimiser, found = make([weight]), []
    for grad, lr in zip(grads, lrs, strict=True):
        optimiser.param_groups[0]["lr"] = lr
        weight.grad = rows_of(grad) if sparse else grad.clone()
        optimiser.step()
        found.append(weight.detach().clone())
    return torch.stack(found)


def assert_steps(make, reference, options, start, sparse, seed, lrs=None):
    grads = gradients(30, 7, 3, seed)
    lrs = lrs or torch.linspace(0.001, 0.5, 30).tolist()
    start = torch.full((7, 3), start, dtype=torch.float64)
    found = path(make, grads, lrs, start, sparse)
    for row in range(7):
        for column in range(3):
            want = reference(grads[:, row, column].tolist(), lrs, float(start[0, 0]), **options)
            torch.testing.assert_close(
                found[:, row, column],
                torch.tensor(want, dtype=torch.float64),
                rtol=1e-11,  # the decay of rows that were not touched is one power here
                atol=1e-15,
            )


FTRL = [{}, {"l1": 0.3}, {"l2": 0.2, "beta": 1.0}, {"l1": 0.05, "l2": 1.0, "beta": 0.5}]


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("options", FTRL)
@pytest.mark.parametrize("seed", range(3))
def test_ftrl_steps_equal_the_formula(options, sparse, seed):
    def make(weights):
        return Ftrl(weights, **options)

    lrs = [0.02] * 30 if sparse else None
    assert_steps(make, ftrl_reference, options, 0.0, sparse, seed, lrs)


def test_ftrl_rows_without_a_gradient_wait_when_the_rate_changes():
    grads, lrs = gradients(30, 7, 1, 0), torch.linspace(0.001, 0.5, 30).tolist()
    found = path(Ftrl, grads, lrs, torch.zeros(7, 1).double(), True)[-1, :, 0]
    for row, weight in enumerate(found.tolist()):
        steps = grads[:, row, 0].nonzero()[:, 0].tolist()
        kept = [(float(grads[t, row, 0]), lrs[t]) for t in steps]
        want = ftrl_reference(*zip(*kept, strict=True)) if kept else [0.0]
        assert weight == pytest.approx(want[-1], rel=1e-11)
    dense = path(Ftrl, grads, lrs, torch.zeros(7, 1).double(), False)[-1, :, 0]
    assert not torch.allclose(found, dense)


def test_ftrl_from_another_start_equals_the_formula():
    assert_steps(Ftrl, ftrl_reference, {}, 0.7, False, 0)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("options", [{}, {"rho": 0.9, "eps": 1e-3}, {"rho": 0.0}])
@pytest.mark.parametrize("seed", range(3))
def test_rmsprop_steps_equal_the_formula(options, sparse, seed):
    def make(weights):
        return RmsProp(weights, **options)

    assert_steps(make, rmsprop_reference, options, 0.7, sparse, seed)


def test_dense_rmsprop_equals_torchs_with_our_defaults():
    def torchs(weights):
        return torch.optim.RMSprop(weights, lr=1, alpha=0.5, eps=1e-7)

    grads, lrs = gradients(20, 5, 2, 1), [1e-3] * 20
    start = torch.ones(5, 2, dtype=torch.float64)
    torch.testing.assert_close(
        path(RmsProp, grads, lrs, start, False), path(torchs, grads, lrs, start, False)
    )


def test_torchs_own_defaults_take_other_steps_and_it_refuses_sparse_gradients():
    grads, lrs = gradients(20, 5, 2, 1), [1e-3] * 20
    start = torch.ones(5, 2, dtype=torch.float64)
    ours = path(RmsProp, grads, lrs, start, False)
    assert not torch.allclose(ours, path(torch.optim.RMSprop, grads, lrs, start, False))
    with pytest.raises(RuntimeError, match="sparse"):
        path(torch.optim.RMSprop, grads, lrs, start, True)


@pytest.mark.parametrize("kind", [Ftrl, RmsProp])
def test_steps_that_wait_for_no_count_are_equal(kind, monkeypatch):
    grads, lrs, start = gradients(9, 7, 3, 3), [0.02] * 9, torch.zeros(7, 3).double()
    wanted, waits = path(kind, grads, lrs, start, True), optimisers.rows_of
    monkeypatch.setattr(optimisers, "rows_of", lambda grad: waits(grad, wait=False))
    torch.testing.assert_close(path(kind, grads, lrs, start, True), wanted)


def test_rows_that_repeat_come_with_their_sum():
    values = torch.tensor([[1.0], [2.0], [4.0], [8.0]])
    grad = torch.sparse_coo_tensor([[3, 0, 3, 0]], values, (5, 1))
    rows, sums = optimisers.rows_of(grad, wait=False)
    assert rows.tolist() == [0, 0, 3, 3] and sums[:, 0].tolist() == [10, 10, 5, 5]
    assert optimisers.rows_of(grad)[1][:, 0].tolist() == [10, 5]
    none = torch.sparse_coo_tensor(torch.zeros(1, 0), torch.zeros(0, 1), (5, 1))
    assert len(optimisers.rows_of(none, wait=False)[0]) == 0


def test_first_steps_in_closed_form():
    one = torch.tensor([[1.0]], dtype=torch.float64)
    start = torch.zeros(1, 1, dtype=torch.float64)
    ftrl = path(Ftrl, [2 * one], [0.02], start, False)
    assert float(ftrl) == pytest.approx(-0.02 * 2 / math.sqrt(0.1 + 4), rel=1e-14)
    rms = path(RmsProp, [2 * one], [0.02], start, False)
    assert float(rms) == pytest.approx(-0.02 * 2 / (math.sqrt(0.5 * 4) + 1e-7), rel=1e-14)


def test_l1_leaves_zeros():
    weight = torch.nn.Parameter(torch.zeros(3, 1))
    optimiser = Ftrl([weight], l1=0.5)
    weight.grad = torch.tensor([[0.4], [-0.5], [0.6]])
    optimiser.step()
    assert weight[0] == weight[1] == 0 and weight[2] < 0


@pytest.mark.parametrize("kind", [Ftrl, RmsProp])
def test_weights_without_a_gradient_stay(kind):
    weights = [torch.nn.Parameter(torch.ones(2, 2)) for _ in range(2)]
    weights[0].grad = torch.ones(2, 2)
    kind(weights).step()
    assert torch.equal(weights[1], torch.ones(2, 2)) and not torch.equal(*weights)


@pytest.mark.parametrize("kind", [Ftrl, RmsProp])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_saved_state_goes_on_as_if_never_stopped(kind, sparse):
    grads, weight = gradients(6, 5, 2, 2), torch.nn.Parameter(torch.zeros(5, 2).double())
    lrs = [0.02] * 6
    straight = path(kind, grads, lrs, weight.detach(), sparse)[-1]
    first = kind([weight], lr=0.02)
    for step, grad in enumerate(grads):
        if step == 3:
            first, saved = kind([weight], lr=0.02), first.state_dict()
            first.load_state_dict(saved)
        weight.grad = rows_of(grad) if sparse else grad.clone()
        first.step()
    torch.testing.assert_close(weight.detach(), straight, rtol=0, atol=0)


def test_a_change_of_kind_is_refused():
    weight = torch.nn.Parameter(torch.zeros(3, 2))
    optimiser = RmsProp([weight])
    weight.grad = torch.ones(3, 2)
    optimiser.step()
    weight.grad = torch.ones(3, 2).to_sparse(1)
    with pytest.raises(ValueError, match="keep one kind"):
        optimiser.step()


@pytest.mark.parametrize(
    "kind, options",
    [
        (Ftrl, {"lr": 0}),
        (Ftrl, {"l1": -1}),
        (Ftrl, {"initial_accumulator": 0}),
        (RmsProp, {"lr": -1}),
        (RmsProp, {"rho": 1}),
        (RmsProp, {"eps": 0}),
    ],
)
def test_options_that_make_no_sense_are_refused(kind, options):
    with pytest.raises(ValueError, match=next(iter(options))):
        kind([torch.nn.Parameter(torch.zeros(1))], **options)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("kind", [Ftrl, RmsProp])
@pytest.mark.parametrize("sparse", [False, True])
def test_gpu_equals_cpu(kind, sparse):
    grads, lrs, start = gradients(9, 7, 3, 0), [0.02] * 9, torch.zeros(7, 3).double()
    there = path(kind, grads.cuda(), lrs, start.cuda(), sparse).cpu()
    torch.testing.assert_close(there, path(kind, grads, lrs, start, sparse))
