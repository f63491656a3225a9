"""Each switch leaves the answers as they are; gradients, targets and evaluations one by one."""

import threading
from copy import deepcopy

import pytest
import step_switches as ss
import torch
from step_switches import Detector, Plan, Switches, run
from torch.nn import functional as F

EXACT = 1e-10  # float64 in another order
NAMES = tuple(Switches.__dataclass_fields__)


@pytest.fixture(scope="module")
def job():
    random = torch.Generator().manual_seed(2)
    torch.manual_seed(0)
    held = ss.ready(ss.draw(2, (64, 90), 3, random), torch.float64)
    return Detector(8, 16, 1).double(), ss.draw(5, (64, 90), 3, random), held


def ran(job, on, target=None, **plan):
    model, data, held = job
    mine = deepcopy(model)
    losses, evaluated = run(
        mine, data, held, on, Plan(**{"batch": 2, "falls": (1, 2)} | plan), target
    )
    weights = torch.cat([one.detach().flatten() for one in mine.parameters()])
    return torch.tensor(losses, dtype=torch.float64), evaluated, weights


@pytest.mark.parametrize("name", [*NAMES, "all"])
def test_losses_evaluations_and_weights_are_those_of_the_baseline(job, name):
    on = Switches(**dict.fromkeys(NAMES if name == "all" else [name], True))
    losses, evaluated, weights = ran(job, on)
    expected, wanted, others = ran(job, Switches())
    assert (losses - expected).abs().max() < EXACT and (weights - others).abs().max() < EXACT
    assert [s for s, _ in evaluated] == ([4] if name in ("held_back", "all") else [2, 4])
    assert evaluated[-1][1] == pytest.approx(wanted[-1][1], abs=EXACT)
    assert (weights - torch.cat([p.flatten() for p in job[0].parameters()])).abs().max() > 1e-4


@pytest.mark.parametrize("rows", [1, 7, ss.TILE + 5])
def test_a_fused_product_has_the_gradients_of_two_kernels(rows):
    torch.manual_seed(rows)
    given = [torch.randn(*shape, dtype=torch.float64) for shape in ((rows, 3), (5, 3), (5,))]
    grad, found = torch.randn(rows, 5, dtype=torch.float64), []
    for fused in (True, False):
        mine = [one.clone().requires_grad_() for one in given]
        value = ss.product_gelu(*mine, fused)
        value.backward(grad)
        found.append([value, *(one.grad for one in mine)])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=EXACT, rtol=EXACT)


def test_a_frozen_norm_is_that_of_torch_without_epsilon():
    torch.manual_seed(1)
    layer = ss.FrozenNorm(2, 3, 3).double()
    x = torch.randn(1, 2, 6, 6, dtype=torch.float64)
    norms = (layer.mean, layer.variance, layer.gamma, layer.beta)
    expected = F.batch_norm(F.conv2d(x, layer.weight, padding=1), *norms, eps=0.0)
    for folded in (True, False):
        torch.testing.assert_close(layer(x, folded), expected, atol=1e-7, rtol=1e-7)
    assert [name for name, _ in layer.named_parameters()] == ["weight"]  # frozen


@pytest.mark.parametrize(
    ("as_bool", "kind", "size"), [(True, torch.bool, 1), (False, torch.float16, 2)]
)
def test_a_mask_is_kept_in_its_kind_and_its_gradient_is_that_of_relu(as_bool, kind, size):
    kept = []
    x = torch.tensor([-1.0, 0.0, 2.0], requires_grad=True)
    hooks = torch.autograd.graph.saved_tensors_hooks(
        lambda one: kept.append(one) or one, lambda one: one
    )
    with hooks:
        y = ss.masked_relu(x, as_bool)
    y.backward(torch.tensor([3.0, 3.0, 3.0]))
    assert x.grad.tolist() == [0, 0, 3] and y.tolist() == [0, 0, 2]
    assert [(one.dtype, one.element_size()) for one in kept] == [(kind, size)]


def test_a_prepared_picture_does_not_depend_on_what_the_pool_held():
    random = torch.Generator().manual_seed(0)
    (one, other), _ = ss.draw(2, (64, 130), 2, random)
    matrices = {size: ss.resize_matrix(size) for size in (*one.shape, *other.shape)}
    pool = torch.full((2 * max(one.numel(), other.numel()),), torch.nan)
    for picture in (one, other, one):
        assert torch.equal(ss.prepare(picture, matrices, pool), ss.prepare(picture, matrices))


def test_a_flat_picture_has_no_light_and_a_resize_keeps_the_mean():
    flat = torch.full((64, 65), 40, dtype=torch.uint8)
    matrices = {64: ss.resize_matrix(64), 65: ss.resize_matrix(65)}
    assert ss.prepare(flat, matrices).abs().max() < 1e-6
    assert torch.allclose(matrices[65].sum(1), torch.ones(ss.SIDE))


def test_a_cell_answers_for_the_box_that_lies_on_it():
    boxes = torch.tensor([[0.0, 0.0, 0.3, 0.3], [0.6, 0.6, 0.9, 0.9]])
    labels, edges = ss.match(boxes, side=10)
    at = lambda row, column: row * 10 + column  # noqa: E731
    assert labels[at(1, 1)] == labels[at(7, 7)] == 1 and labels[at(1, 7)] == 0
    assert edges[at(7, 7)].tolist() == pytest.approx([0.6, 0.6, 0.9, 0.9])


def test_a_target_ends_a_job_and_beside_the_training_one_evaluation_later(job):
    easy = 1e9
    assert len(ran(job, Switches(), easy, steps=6)[0]) == 2
    assert len(ran(job, Switches(asynchronous=True), easy, steps=6)[0]) == 4
    assert len(ran(job, Switches(held_back=True), easy, steps=6)[0]) == 4
    assert len(ran(job, Switches(), -1.0, steps=6)[0]) == 6


def test_each_switch_does_what_it_is_named_for(job, monkeypatch):
    pools, threads, biases = set(), set(), set()
    prepare, targets, conv2d = ss.prepare, ss.targets, F.conv2d

    def prepared(picture, matrices, pool=None):
        pools.add(pool is not None)
        return prepare(picture, matrices, pool)

    def settled(boxes):
        threads.add(threading.current_thread() is threading.main_thread())
        return targets(boxes)

    def convolved(x, weight, bias=None, **how):
        biases.add(bias is not None)
        return conv2d(x, weight, bias, **how)

    monkeypatch.setattr(ss, "prepare", prepared)
    monkeypatch.setattr(ss, "targets", settled)
    monkeypatch.setattr(F, "conv2d", convolved)
    for name, seen, off, on in (
        ("pooled", pools, False, True),
        ("targets_outside", threads, True, False),
        ("folded_norm", biases, False, True),
    ):
        for is_on, expected in ((False, off), (True, on)):
            seen.clear()
            ran(job, Switches(**{name: is_on}), steps=2)
            assert seen == {expected}, name


@pytest.mark.parametrize(("fused", "name"), [(True, "_FusedGelu"), (False, "Gelu")])
def test_a_product_is_fused_where_it_says_so(fused, name):
    given = [torch.ones(*shape, requires_grad=True) for shape in ((2, 3), (4, 3), (4,))]
    assert ss.product_gelu(*given, fused).grad_fn.name().startswith(name)
