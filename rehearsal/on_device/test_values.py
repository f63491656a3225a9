"""The device computes what the CPU computes, keeps it on cuda:0, and casts under autocast as a card does."""

import copy

import pytest
import torch
import torch.utils.checkpoint

from rehearsal import autocast


def same(function, *shapes):
    """Whether a function gives on the device what it gives on the host, and where it leaves it."""
    torch.manual_seed(1)
    host = [torch.randn(shape) for shape in shapes]
    expected, found = function(*host), function(*(x.cuda() for x in host))
    assert found.device == torch.device("cuda", 0) and found.is_cuda
    torch.testing.assert_close(found.cpu(), expected, rtol=0, atol=0)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[1:, ::2] + x[:-1, 1::2],
        lambda x: torch.fft.irfft(torch.fft.rfft(x).conj() * 2),
        lambda x: torch.fft.fft(x).imag,
        lambda x: x.clone().resize_(3, 2),
        lambda x: torch.zeros_like(x).scatter_(1, x.argsort(1), 1.0),
        lambda x: torch.nn.functional.conv1d(x[None], x[:, :5, None].repeat(1, 1, 3)[:, : x.shape[0]]),
        lambda x: torch.vmap(lambda row: row.cumsum(0))(x),
        lambda x: torch.linalg.solve(x[:, :5] + 9 * torch.eye(5, device=x.device), x),
        lambda x: torch.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None]),
        lambda x: torch.from_numpy(x.cpu().numpy()).to(x.device),
        lambda x: x[x > 0],
        lambda x: torch.arange(3, device=x.device) + torch.full((3,), 2, device=x.device),
        lambda x: torch.sparse_coo_tensor(torch.tensor([[0, 2]], device=x.device), x[:2, 0], (3,)).to_dense(),
    ],
)
def test_operations_equal_the_hosts(function):
    same(function, (5, 8))


def test_a_device_that_is_set_for_a_region_is_the_device():
    with torch.device("cuda"):
        assert torch.randn(3).is_cuda and torch.tensor([1.0]).is_cuda and torch.nn.Linear(2, 2).weight.is_cuda
    assert not torch.ones(1).is_cuda


def test_gradient_scaling_and_checkpoints_go_through_the_device():
    weight = torch.eye(3, device="cuda").requires_grad_()
    optimiser, scaler = torch.optim.SGD([weight], 0.5), torch.amp.GradScaler("cuda", init_scale=8)
    with torch.autocast("cuda", dtype=torch.float16):
        loss = torch.utils.checkpoint.checkpoint(lambda w: (w @ w).sum(), weight, use_reentrant=False)
    scaler.scale(loss).backward()
    scaler.step(optimiser)
    scaler.update()
    assert torch.equal(weight.detach().cpu(), torch.eye(3) - 1)  # the gradient is two everywhere


def test_a_training_equals_the_hosts():
    def trained(where):
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(6, 9), torch.nn.LayerNorm(9), torch.nn.Tanh(), torch.nn.Linear(9, 1))
        rows = torch.randn(12, 6)
        net, rows = net.to(where), rows.to(where)
        optimiser = torch.optim.AdamW(net.parameters(), 0.1)
        for _ in range(3):
            optimiser.zero_grad()
            net(rows).square().mean().backward()
            optimiser.step()
        return torch.cat([p.detach().cpu().flatten() for p in copy.deepcopy(net).parameters()])

    torch.testing.assert_close(trained("cuda"), trained("cpu"), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    ("function", "narrow"),
    [
        (lambda x: x @ x, True),
        (lambda x: torch.nn.functional.linear(x, x), True),
        (lambda x: torch.nn.functional.conv1d(x[None], x[:, :, None]), True),
        (lambda x: torch.einsum("ij,jk->ik", x, x), True),
        (lambda x: (x @ x).exp(), False),
        (lambda x: (x @ x).softmax(1), False),
        (lambda x: (x @ x).sum(), False),
        (lambda x: torch.nn.functional.layer_norm(x @ x, (6,)), False),
        (lambda x: torch.nn.functional.mse_loss(x @ x, x), False),
        (lambda x: (x @ x).relu(), True),
        (lambda x: x + x @ x, False),
        (lambda x: torch.dot(x[0], (x @ x)[0]), False),
    ],
)
def test_autocast_casts_by_cudas_lists(function, narrow, dtype):
    x = torch.randn(6, 6, device="cuda")
    with torch.autocast("cuda", dtype=dtype):
        assert function(x).dtype == (dtype if narrow else torch.float32)
    assert function(x).dtype == torch.float32


def test_autocast_leaves_float64_and_disabled_regions_alone():
    x = torch.randn(4, 4, device="cuda")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert (x.double() @ x.double()).dtype == torch.float64
        with torch.autocast("cuda", enabled=False):
            assert (x @ x).dtype == torch.float32


def test_gradients_pass_through_autocasts_casts():
    weight = torch.randn(4, 4, device="cuda", requires_grad=True)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        (weight @ weight).sum().backward()
        assert len(autocast._cast_weights) == 1  # cast once a region
    assert weight.grad.dtype == torch.float32 and not autocast._cast_weights


def test_autocast_refuses_what_a_card_refuses():
    x = torch.rand(3, device="cuda")
    with torch.autocast("cuda", dtype=torch.float16), pytest.raises(RuntimeError, match="unsafe to autocast"):
        torch.nn.functional.binary_cross_entropy(x, x)


def test_autocast_of_the_host_is_untouched():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16
