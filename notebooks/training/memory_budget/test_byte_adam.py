import copy

import byte_adam
import pytest
import torch
from byte_adam import BLOCK, ByteAdam, pack, state_bytes, table, unpack


@pytest.mark.parametrize("signed", [True, False])
def test_the_table_has_256_values_up_to_one(signed):
    entries = table(signed)
    assert len(entries.unique()) == 256 and entries[-1] == 1
    # the least: the middle of 0.1 to 1, or of its lower half, times a millionth
    least = entries[entries > 0][0].item()
    assert least == pytest.approx((0.55 if signed else 0.325) * 1e-6)


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("n", [1, 2047, 2049, 5000])
def test_a_packed_value_comes_back_as_the_tables_nearest(signed, n):
    x = torch.randn(n, generator=torch.Generator().manual_seed(n))
    x = x if signed else x.abs()
    back = unpack(*pack(x, signed), x.shape, signed)
    scale = torch.cat([block.abs().max().expand(len(block)) for block in x.split(BLOCK)])
    nearest = (table(signed) - (x / scale)[:, None]).abs().min(1).values
    torch.testing.assert_close((back - x).abs() / scale, nearest, rtol=0, atol=1e-6)


def test_zeros_stay_zeros():
    assert not unpack(*pack(torch.zeros(300), True), torch.Size([300]), True).any()


def test_a_small_second_moment_is_never_rounded_to_zero():
    x = torch.full((BLOCK,), 1e-20)
    x[0] = 1.0
    assert unpack(*pack(x, False), x.shape, False).min() > 0


def path(make, n):
    torch.manual_seed(0)
    p = torch.nn.Parameter(torch.randn(n))
    optimizer = make([p], lr=0.01)
    for _ in range(20):
        optimizer.zero_grad()
        (p**2).sum().backward()
        optimizer.step()
    return p.detach(), optimizer


def test_a_small_tensor_takes_adams_own_path():
    ours, theirs = path(ByteAdam, 100)[0], path(torch.optim.Adam, 100)[0]
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def test_a_large_tensor_stays_near_adams_path():
    ours, theirs = path(ByteAdam, 5000)[0], path(torch.optim.Adam, 5000)[0]
    assert (ours - theirs).norm() < 0.02 * theirs.norm()


def test_slices_change_no_bit(monkeypatch):
    whole = path(ByteAdam, 3 * BLOCK + 5)[0]
    monkeypatch.setattr(byte_adam, "SLICE", BLOCK)
    assert torch.equal(path(ByteAdam, 3 * BLOCK + 5)[0], whole)


def test_the_state_takes_a_quarter():
    ours, theirs = path(ByteAdam, 8192)[1], path(torch.optim.Adam, 8192)[1]
    assert state_bytes(ours) == 2 * 8192 + 2 * 4 * 4
    assert state_bytes(theirs) == 2 * 4 * 8192 + 4


@pytest.mark.parametrize("n", [100, 4096, 5000])
def test_the_state_is_what_was_planned(n):
    optimizer = path(ByteAdam, n)[1]
    assert optimizer.planned_bytes() == state_bytes(optimizer)


def test_a_rate_of_nothing_is_refused():
    with pytest.raises(ValueError, match="lr and eps above 0"):
        ByteAdam([torch.nn.Parameter(torch.ones(1))], lr=0)


def test_a_frozen_tensor_has_no_state():
    frozen = torch.nn.Parameter(torch.ones(5000), requires_grad=False)
    assert ByteAdam([frozen, torch.nn.Parameter(torch.ones(10))]).planned_bytes() == 80


def test_a_saved_state_goes_on_in_bytes_and_changes_no_bit():
    p, first = path(ByteAdam, 5000)
    q = torch.nn.Parameter(p.clone())
    second = ByteAdam([q], lr=0.01)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    assert state_bytes(second) == state_bytes(first)
    for parameter, optimizer in ((first.param_groups[0]["params"][0], first), (q, second)):
        parameter.grad = torch.linspace(-1, 1, 5000)
        optimizer.step()
    assert torch.equal(q, p) and state_bytes(second) == state_bytes(first)


@pytest.mark.parametrize(
    "p",
    [torch.ones(64, 128).t(), torch.ones(8192, dtype=torch.float16)],
    ids=["turned", "half"],
)
def test_what_cannot_be_cut_into_blocks_is_refused(p):
    p = torch.nn.Parameter(p)
    p.grad = torch.ones_like(p)
    with pytest.raises(ValueError, match="ones in float32"):
        ByteAdam([p]).step()
