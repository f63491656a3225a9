"""Integers: equal to int32 arithmetic, to the rewrites, and near the float network."""

import ct_phantom
import kidney_int8 as k8
import kidney_unet as ku
import pytest
import torch


def chance(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    net = ku.Unet()
    net.train()
    for seed in range(3):
        net(chance(2, 1, 16, 16, 16, seed=seed))
    return ku.folded(net)


@pytest.fixture(scope="module")
def step():
    conv = torch.nn.Conv3d(8, 16, 3, padding=1)
    torch.nn.init.normal_(conv.weight, generator=torch.Generator().manual_seed(1))
    return k8.step_of(conv, 2.0)


def whole(*shape, seed=0, low=0):
    made = torch.Generator().manual_seed(seed)
    return torch.randint(low, 128, shape, generator=made).float()


def test_sums_are_those_of_int32(step):
    q = whole(1, 8, 6, 6, 6, low=-127)
    cut = q[0, :, 1:4, 2:5, 3:6].to(torch.int32)
    wanted = (cut * step.weight.to(torch.int32)).sum((1, 2, 3, 4)) + step.bias.to(torch.int32)
    assert torch.equal(k8.sums(step, q)[0, :, 2, 3, 4].to(torch.int32), wanted.to(torch.int32))


def test_the_largest_sum_stays_exact(step):
    full = torch.full((1, 8, 3, 3, 3), 127.0)
    extreme = step._replace(weight=torch.full_like(step.weight, 127.0), bias=step.bias * 0 + 1)
    assert k8.sums(extreme, full)[0, 0, 1, 1, 1] == 8 * 27 * 127 * 127 + 1 < k8.EXACT


def test_too_wide_a_layer_is_refused():
    with pytest.raises(ValueError, match="cannot hold"):
        k8.step_of(torch.nn.Conv3d(64, 1, 3), 1.0)
    loud = torch.nn.Conv3d(1, 1, 3)
    loud.bias.data[0] = 1e6
    with pytest.raises(ValueError, match="cannot hold"):
        k8.step_of(loud, 1.0)


def test_a_channel_of_zeros_keeps_its_bias():
    conv = torch.nn.Conv3d(1, 2, 1)
    conv.weight.data[0], conv.bias.data[0] = 0, 0.5
    step = k8.step_of(conv, 2.0)
    found = k8.sums(step, whole(1, 1, 2, 2, 2))[0, 0] * step.scale_in * step.scale_weight[0]
    assert torch.allclose(found, torch.tensor(0.5), atol=1e-4) and step.bias.abs().max() < 2**24


def test_the_committed_network_keeps_its_classes_in_integers():
    scan, _ = ct_phantom.reduced(ct_phantom.geometric(56), 16)
    net = ku.load()
    cuts = [scan[None, None, :16, :16, at : at + 16] for at in (16, 32)]
    integers = k8.Integers(net, k8.ranges(net, cuts))
    same = [(integers(one).argmax(1) == net(one).argmax(1)).float().mean() for one in cuts]
    assert min(same) > 0.95


def test_each_channel_has_a_scale():
    conv = torch.nn.Conv3d(1, 2, 3)
    conv.weight.data[0], conv.weight.data[1] = 100 * chance(1, 3, 3, 3), chance(1, 3, 3, 3)
    own, one = k8.step_of(conv, 1.0), k8.step_of(conv, 1.0, per_channel=False)
    assert own.weight.abs().amax((1, 2, 3, 4)).tolist() == [127, 127]
    assert one.weight.abs().amax((1, 2, 3, 4))[1] < 10, (
        "a quiet channel drowns beside a loud one"
    )


def test_quantising_rounds_and_clips():
    found = k8.quantised(torch.tensor([0.26, -0.24, 9.0, -9.0]), 0.05)
    assert found.tolist() == [5.0, -5.0, 127.0, -127.0]


def test_int8_is_near_float(network):
    windows = [chance(1, 1, 16, 16, 16, seed=seed) for seed in range(4)]
    integers = k8.Integers(network, k8.ranges(network, windows[:3]))
    wanted, found = network(windows[3]), integers(windows[3])
    assert (found - wanted).abs().mean() < 0.1 * wanted.std()
    assert (found.argmax(1) == wanted.argmax(1)).float().mean() > 0.9


def test_calibration_keeps_the_largest_of_all_windows(network):
    small, large = chance(1, 1, 16, 16, 16), 5 * chance(1, 1, 16, 16, 16, seed=1)
    both = k8.ranges(network, [small, large])
    assert both == k8.ranges(network, [large, small])
    assert both["enter"] == pytest.approx(float(large.abs().max()))
    assert set(both) == {*network.convs, "head"}
    with pytest.raises(ValueError, match="windows with values"):
        k8.ranges(network, [])


def test_what_crosses_to_a_later_sum_is_kept_in_eight_bits(network):
    window, kept = chance(1, 1, 16, 16, 16), []
    integers = k8.Integers(network, k8.ranges(network, [window]))
    keep = integers.keep
    integers.keep = lambda name, x: kept.append((name, keep(name, x))) or kept[-1][1]
    integers(window)
    assert [name for name, _ in kept] == ["down1", "down2"]
    for name, one in kept:
        whole = one / integers.steps[name].scale_in
        assert torch.allclose(whole, whole.round(), atol=1e-3) and whole.abs().max() <= 127.01


def test_weights_take_about_a_quarter(network):
    floats = sum(4 * one.numel() for one in network.parameters())
    integers = k8.Integers(network, k8.ranges(network, [chance(1, 1, 16, 16, 16)]))
    assert 0.25 < integers.bytes_of_weights() / floats < 0.3


@pytest.mark.parametrize("channels", [1, 31, 32, 33])
def test_blocks_of_32_come_back_linear(channels):
    q = whole(channels, 2, 3, 4, low=-127)
    blocks = k8.blocked(q)
    assert (
        tuple(blocks.shape) == (-(-channels // 32), 2, 3, 4, 32) and blocks.dtype == torch.int8
    )
    assert torch.equal(k8.linear(blocks, channels).float(), q)
    assert blocks[-1, ..., (channels - 1) % 32 + 1 :].abs().sum() == 0


def test_pooling_early_equals_pooling_late(step):
    q = whole(2, 8, 8, 8, 8)
    assert torch.equal(k8.pooled_early(step, q, 0.3), k8.pooled_late(step, q, 0.3))


@pytest.mark.parametrize("depth", [1, 4, 7])
def test_the_sum_inside_equals_the_sum_apart(step, depth):
    q, across = whole(1, 8, depth, 6, 6), whole(1, 16, depth, 6, 6, seed=1)
    args = (step, q, across, 0.2, 0.7)
    assert torch.equal(k8.added_inside(*args), k8.added_apart(*args))


@pytest.mark.parametrize("depth", [1, 3, 8, 9])
def test_a_chain_of_slabs_equals_one_after_the_other(step, depth):
    conv = torch.nn.Conv3d(16, 8, 3, padding=1)
    second, q = k8.step_of(conv, 3.0), whole(1, 8, depth, 6, 6)
    scale = step.scale_in * step.scale_weight.view(1, -1, 1, 1, 1)
    between = k8.quantised((k8.sums(step, q) * scale).relu(), second.scale_in)
    wanted = k8.sums(second, between)
    assert torch.equal(k8.chained(step, second, q, second.scale_in), wanted)
