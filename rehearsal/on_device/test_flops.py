"""FLOPs by our own formulas: closed answers, convolutions of ones, sparse products by what is stored, and the law."""

import pytest
import torch

from rehearsal import flops, traffic
from rehearsal.device import by_shapes, counted
from rehearsal.refused import CannotRehearse

CHANNELS = 8


def flops_of(call):
    """What one call computes."""
    with counted() as found:
        call()
    return found.flops


def convolution(axes, transposed, groups, **options):
    """(Input, weight, the convolution of them) on the device; ones everywhere."""
    x = torch.ones(3, CHANNELS, *[13] * axes, device="cuda", requires_grad=True)
    w = torch.ones(CHANNELS, CHANNELS // groups, *[5] * axes, device="cuda", requires_grad=True)
    function = getattr(torch.nn.functional, f"conv{'_transpose' if transposed else ''}{axes}d")
    return x, w, lambda: function(x, w, groups=groups, **options)


@pytest.mark.parametrize("axes", [1, 2])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("groups", [1, 4, CHANNELS])
@pytest.mark.parametrize("options", [{}, {"stride": 2, "padding": 3}, {"dilation": 2, "padding": 4}, {"stride": 3}])
def test_a_convolution_computes_a_product_for_each_one_in_its_sums(axes, transposed, groups, options):
    """Of ones, it adds up how many products there are; each gradient has as many."""
    *_, call = convolution(axes, transposed, groups, **options)
    with counted() as forward:
        y = call()
    assert forward.flops == 2 * y.sum().item() > 0
    assert flops_of(lambda: y.sum().backward()) == 2 * forward.flops


def test_a_depthwise_convolution_of_known_size():
    x = torch.ones(1, 256, 132, device="cuda", requires_grad=True)
    net = torch.nn.Conv1d(256, 256, 33, groups=256).cuda()
    with counted() as forward:
        y = net(x)
    assert forward.flops == 1_689_600
    assert flops_of(lambda: y.sum().backward()) == 2 * 1_689_600


@pytest.mark.parametrize("asked", ["x", "w"])
def test_a_gradient_that_is_not_asked_for_costs_nothing(asked):
    x, w, call = convolution(1, False, 2)
    (w if asked == "x" else x).requires_grad_(False)
    y = call()
    assert flops_of(lambda: y.sum().backward()) == 2 * y.sum().item()


def test_a_complex_product_is_four_real_ones():
    x = torch.ones(3, 5, dtype=torch.complex64, device="cuda")
    assert flops_of(lambda: x @ x.T) == 4 * 2 * 3 * 3 * 5


def test_attention_is_counted_by_its_two_products():
    q = torch.ones(2, 3, 7, 4, device="cuda")
    assert flops_of(lambda: torch.nn.functional.scaled_dot_product_attention(q, q, q)) == 2 * 2 * (2 * 3 * 7 * 7 * 4)


LAYOUTS = {
    "sparse_coo": lambda dense: dense.to_sparse(),
    "sparse_csr": lambda dense: dense.to_sparse_csr(),
    "sparse_csc": lambda dense: dense.to_sparse_csc(),
    "sparse_bsr": lambda dense: dense.to_sparse_bsr((2, 2)),
}
STORED = {"sparse_coo": 5, "sparse_csr": 5, "sparse_csc": 5, "sparse_bsr": 8}  # of blocks the zeros, too


def sparse(layout):
    """A matrix of 6 × 8 with five numbers in two blocks, on the device."""
    dense = torch.zeros(6, 8)
    dense[0, :2], dense[1, 0], dense[4, 6:] = 1.0, 2.0, 3.0
    return LAYOUTS[layout](dense).to("cuda")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("columns", "call"),
    [
        (3, lambda s, d: s @ d),
        (3, lambda s, d: torch.sparse.mm(s, d)),
        (3, lambda s, d: torch.sparse.addmm(torch.ones(6, 3, device="cuda"), s, d)),
        (3, lambda s, d: torch.addmm(torch.ones(6, 3, device="cuda"), s, d)),
        (1, lambda s, d: s @ d[:, 0]),
    ],
)
def test_a_sparse_product_computes_with_what_is_stored(layout, columns, call):
    s, d = sparse(layout), torch.ones(8, 3, device="cuda")
    assert flops_of(lambda: call(s, d)) == 2 * STORED[layout] * columns


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr", "sparse_csc"])
def test_a_dense_factor_may_come_first(layout):
    assert flops_of(lambda: torch.ones(7, 6, device="cuda") @ sparse(layout)) == 2 * 5 * 7


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr"])
def test_the_gradient_of_a_sparse_product_is_sparse_work_too(layout):
    s, d = sparse(layout), torch.ones(8, 3, device="cuda", requires_grad=True)
    y = torch.sparse.mm(s, d)
    assert flops_of(lambda: y.sum().backward()) == 2 * 5 * 3
    assert torch.equal(d.grad.cpu(), s.to_dense().cpu().T @ torch.ones(6, 3))


@pytest.mark.filterwarnings("ignore")
def test_a_sampled_product_computes_at_the_places_of_its_pattern():
    s, a, b = sparse("sparse_csr"), torch.ones(6, 9, device="cuda"), torch.ones(9, 8, device="cuda")
    assert flops_of(lambda: torch.sparse.sampled_addmm(s, a, b)) == 2 * 5 * 9


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("layout", "own"),
    [("sparse_coo", 5 * 4 + 2 * 5 * 8), ("sparse_csr", 5 * 4 + 7 * 8 + 5 * 8), ("sparse_csc", 5 * 4 + 9 * 8 + 5 * 8)],
)
def test_a_sparse_operand_is_read_by_its_parts_and_they_are_held(layout, own):
    d, before = torch.ones(8, 3, device="cuda"), torch.cuda.memory_allocated()
    s = sparse(layout)
    assert torch.cuda.memory_allocated() - before == 512 * len(traffic.parts_of(s.inner))
    with counted() as found:
        s @ d  # noqa: B018
    assert found.bytes_moved == own + d.nbytes + 6 * 3 * 4
    del s
    assert torch.cuda.memory_allocated() == before


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr"])
@pytest.mark.parametrize("product", [torch.mm, torch.sparse.mm])
def test_the_product_of_two_sparse_matrices_cannot_be_counted(layout, product):
    s = LAYOUTS[layout](torch.eye(4)).to("cuda")
    with pytest.raises(CannotRehearse, match="two sparse tensors.*where their values meet"):
        product(s, s)


def test_a_product_without_a_formula_is_not_told_as_none():
    x = torch.ones(2, 3, 3, device="cuda")
    with pytest.raises(CannotRehearse, match="without a formula"):
        torch.addbmm(x[0], x, x)


def test_a_sparse_tensor_of_the_host_has_no_shape_that_says_what_it_stores():
    with by_shapes(), pytest.raises(RuntimeError, match="how much it stores"):
        torch.eye(4).to_sparse().to("cuda")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("formula", "wrong", "name", "call"),
    [
        ("_convolution", lambda *_: 33 * 256 * 100 + 1, "convolution", lambda: depthwise()),
        (
            "_product",
            lambda name, args: 6 * 8 * 3,
            "mm",
            lambda: sparse("sparse_csr") @ torch.ones(8, 3, device="cuda"),
        ),
        ("_product", lambda name, args: 3 * 4 * 2 + 1, "mm", lambda: torch.ones(3, 4).cuda() @ torch.ones(4, 2).cuda()),
        ("_transform", lambda *_: (9 * 8 * 8, 8 * 8 * 8), "_fft_r2c", lambda: torch.fft.rfft(torch.ones(8).cuda())),
    ],
)
def test_a_wrong_formula_breaks_the_law(monkeypatch, formula, wrong, name, call):
    call()
    monkeypatch.setattr(flops, formula, wrong)
    with pytest.raises(flops.CountError, match=f"^{name}: .* FLOPs are counted, and its shapes allow"):
        call()


@pytest.mark.parametrize("transposed", [False, True])
def test_the_law_leaves_a_gradient_no_room(monkeypatch, transposed):
    """Of a weight, and of a kernel of one place also of the input, it allows what there is and not one product more."""
    options = {"transposed": transposed, "groups": 4}
    for asked, kernel in (([False, True, False], 5), ([True, False, False], 1), ([True, True, False], 1)):
        x, w = torch.ones(3, 8 if transposed else 12, 13), torch.ones(8, 3, kernel)
        y = torch.convolution(x, w, None, [1], [0], [1], output_padding=[0], **options)
        args = (y, x, w, None, [1], [0], [1], transposed, [0], 4, asked)
        found = flops.flops(flops.BACKWARD, args, None)
        products = y.sum().item() * sum(asked)
        assert found == 2 * products
        with monkeypatch.context() as patch, pytest.raises(flops.CountError):
            patch.setattr(flops, "_convolution", lambda *_, most=products: most + 1)
            flops.flops(flops.BACKWARD, args, None)


def depthwise():
    """A convolution in as many groups as channels."""
    return torch.nn.functional.conv1d(
        torch.ones(1, 256, 132, device="cuda"), torch.ones(256, 1, 33, device="cuda"), groups=256
    )


def test_torchs_formula_for_the_gradient_of_a_grouped_weight_breaks_the_law(monkeypatch):
    y = depthwise()
    x, w = torch.ones(1, 256, 132), torch.ones(256, 1, 33)
    args = (y.inner, x, w, None, [1], [0], [1], False, [0], 256, [True, True, False])
    found = torch.ops.aten.convolution_backward(*args)
    assert flops.flops("aten::convolution_backward", args, found) == 2 * 1_689_600
    formula = torch.utils.flop_counter.flop_registry[torch.ops.aten.convolution_backward]
    monkeypatch.setattr(flops, "_convolution", lambda *_: formula(*args, out_val=found) // 2)
    with pytest.raises(flops.CountError, match="convolution_backward: 434,227,200 FLOPs"):
        flops.flops("aten::convolution_backward", args, found)
