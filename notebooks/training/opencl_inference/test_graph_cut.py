"""The proof: a graph's answers are PyTorch's, wherever it is cut and whatever runs it."""

import weakref
from types import SimpleNamespace

import graph_cut
import phone_network
import pytest
import slice_kernels
import torch
import work_groups
from torch import nn

TORCH = slice_kernels.TorchDevice()


@pytest.fixture(scope="module")
def opencl():
    device, why = slice_kernels.open_device()
    if why:
        pytest.skip(why)
    return device


@pytest.fixture(scope="module")
def nets():
    made = {}
    for name, kind in (
        ("classifier", phone_network.Classifier),
        ("detector", phone_network.Detector),
    ):
        network = phone_network.drawn(kind(0.1), 64)
        image = torch.rand(3, 64, 64, generator=torch.Generator().manual_seed(2))
        with torch.no_grad():
            made[name] = network, graph_cut.steps(network), image, network(image[None])
    return made


def assert_equal(found, wanted, tolerance=1e-4):
    torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ["classifier", "detector"])
@pytest.mark.parametrize(
    "how", [{}, {"plain": True, "activation": "apart"}, {"activation": "apart"}]
)
def test_the_reference_equals_pytorch(nets, name, how):
    _, steps, image, wanted = nets[name]
    assert_equal(graph_cut.Plan(steps, TORCH, **how).run(image)[0], wanted)


@pytest.mark.parametrize("name", ["classifier", "detector"])
@pytest.mark.parametrize("how", [{}, {"plain": True, "activation": "apart"}])
def test_opencl_equals_pytorch(opencl, nets, name, how):
    _, steps, image, wanted = nets[name]
    answer, kernels = graph_cut.Plan(steps, opencl, groups="default", **how).run(image)
    assert_equal(answer, wanted)
    assert all(one.seconds > 0 for one in kernels)


@pytest.mark.parametrize("precision", ["mixed", "float16"])
def test_halves_err_and_half_sums_more(nets, precision):
    _, steps, image, wanted = nets["classifier"]
    answer = graph_cut.Plan(steps, TORCH, precision=precision).run(image)[0]
    error = float((answer - wanted).abs().max() / wanted.abs().max())
    assert 1e-5 < error < {"mixed": 2e-2, "float16": 2e-1}[precision]


def test_batch_norms_are_folded_and_clamps_fused(nets):
    network, steps, _, _ = nets["classifier"]
    count = {kind: sum(one.kind == kind for one in steps) for kind in ("conv", "add")}
    convs = [one for one in network.modules() if isinstance(one, nn.Conv2d)]
    clamps = [one for one in network.modules() if isinstance(one, nn.ReLU6)]
    assert count["conv"] == len(convs) and sum(one.clamp for one in steps) == len(clamps)
    assert [one.kind for one in steps if one.kind not in ("conv", "add")] == [
        "AdaptiveAvgPool2d"
    ]


def test_a_clamp_stays_apart_where_another_step_reads_the_convolution():
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.clamp = nn.Conv2d(3, 4, 1), nn.ReLU6()

        def forward(self, image):
            plain = self.conv(image)
            return plain + self.clamp(plain)

    network, image = Both().eval(), torch.randn(3, 4, 4) * 3
    steps = graph_cut.steps(network)
    assert [one.kind for one in steps] == ["conv", "ReLU6", "add"] and not steps[0].clamp
    assert_equal(
        graph_cut.Plan(steps, TORCH, most=None).run(image)[0], network(image[None]).detach()
    )


def odd():
    torch.manual_seed(0)
    parts = [
        nn.Conv2d(3, 8, 1),
        nn.Hardswish(),
        nn.Conv2d(8, 8, 1),
        nn.ReLU6(),
        nn.Conv2d(8, 4, 1),
    ]
    return nn.Sequential(*parts).eval()


@pytest.mark.parametrize(
    ("most", "where", "copies"),
    [
        (0, [("host", 4)], 0),
        (1, [("host", 2), ("device", 2)], 2),
        (None, [("device", 1), ("host", 1), ("device", 2)], 4),
    ],
)
def test_the_largest_runs_go_to_the_device(most, where, copies):
    network, image = odd(), torch.randn(3, 5, 6)
    plan = graph_cut.Plan(graph_cut.steps(network), TORCH, most=most)
    answer, kernels = plan.run(image)
    assert [(one.where, len(one.steps)) for one in plan.parts] == where
    assert plan.copies == copies and len(kernels) == sum(n for w, n in where if w == "device")
    assert_equal(answer, network(image[None]).detach())


def test_a_value_crosses_once_however_often_it_is_read():
    steps = [
        graph_cut.Step("a", "odd", ["x"], torch.sin),
        graph_cut.Step("b", "add", ["a", "x"], torch.add),
        graph_cut.Step("c", "add", ["a", "b"], torch.add),
    ]
    plan, image = graph_cut.Plan(steps, TORCH), torch.randn(4, 2, 2)
    answer, _ = plan.run(image)
    assert plan.copies == 3  # a, x and the answer
    assert_equal(answer[0], 2 * image.sin() + image)


def test_what_nobody_reads_again_is_let_go(nets):
    _, steps, image, wanted = nets["classifier"]
    made, most = [], []

    class Spy(slice_kernels.TorchDevice):
        def run(self, layer, held, group=None):
            out, clock = super().run(layer, held, group)
            most.append(sum(one() is not None for one in made))
            made.append(weakref.ref(out.data))
            return out, clock

    plan = graph_cut.Plan(steps, Spy())
    assert_equal(plan.run(image)[0], wanted)
    assert max(most) == 2, "a block's input and what its next layer reads"
    assert_equal(plan.run(image)[0], wanted)


def test_an_unknown_function_is_refused():
    class Odd(nn.Module):
        def forward(self, image):
            return torch.sin(image)

    with pytest.raises(ValueError, match="modules, sums of two are allowed"):
        graph_cut.steps(Odd())


@pytest.mark.parametrize(
    "how",
    [
        {"dilation": 2},
        {"stride": (2, 1)},
        {"padding": (1, 0)},
        {"padding": "same"},
        {"padding": 1, "padding_mode": "reflect"},
        {"groups": 2},
    ],
)
def test_a_convolution_that_no_kernel_has_stays_on_the_host(how):
    torch.manual_seed(0)
    parts = [nn.Conv2d(3, 4, 1), nn.Conv2d(4, 4, 3, **how), nn.ReLU6(), nn.Conv2d(4, 4, 1)]
    network, image = nn.Sequential(*parts).eval(), torch.randn(3, 9, 9)
    steps = graph_cut.steps(network)
    assert [one.kind for one in steps] == ["conv", "Conv2d", "ReLU6", "conv"]
    plan = graph_cut.Plan(steps, TORCH, most=None)
    assert_equal(plan.run(image)[0], network(image[None]).detach())


@pytest.mark.parametrize(
    "what", ["weighted", "earlier", "two answers", "two images", "nothing"]
)
def test_what_steps_cannot_tell_is_refused(what):
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.other = nn.Conv2d(3, 3, 1), nn.Conv2d(3, 3, 1)

        def forward(self, image):
            found = self.conv(image)
            if what == "weighted":
                return torch.add(found, image, alpha=2)
            if what == "nothing":
                return image
            later = self.other(found)
            return found if what == "earlier" else (found, later)

    class Two(Odd):
        def forward(self, image, more):
            return self.conv(image) + more

    with pytest.raises(ValueError, match=r"allowed"):
        graph_cut.steps(Two() if what == "two images" else Odd())


def test_fewer_than_no_parts_are_refused():
    with pytest.raises(ValueError, match="0 or more, or None for all"):
        graph_cut.cut([], ("conv",), -1)


def test_groups_are_the_given_ones_then_the_rule_s(nets):
    _, steps, image, _ = nets["classifier"]
    asked = []

    class Spy(slice_kernels.TorchDevice):
        def run(self, layer, held, group=None):
            asked.append(group)
            return super().run(layer, held, group)

    first = next(one.name for one in steps if one.kind == "conv")
    graph_cut.Plan(steps, Spy(), groups={first: (2, 3, 1)}).run(image)
    assert asked[0] == (2, 3, 1) and (8, 4, 1) not in asked[:1]
    asked.clear()
    graph_cut.Plan(steps, Spy(), groups="default").run(image)
    assert set(asked) == {(8, 4, 1)}


def test_a_plan_takes_each_layer_s_rule_and_a_phone_s_limits(nets):
    _, steps, image, _ = nets["classifier"]
    kernels = [one for one in graph_cut.Plan(steps, TORCH).run(image)[1] if one.form != "add"]
    rules, differ = {True: work_groups.fast, False: work_groups.conv_fast}, 0
    for one in kernels:
        deep = one.form == "depthwise"
        own, other = (rules[which](one.grid, 256) for which in (deep, not deep))
        assert one.group == own
        differ += own != other
    assert differ
    stem = graph_cut.steps(nn.Sequential(nn.Conv2d(3, 32, 3)).eval())  # 3,456 bytes
    forms = [
        graph_cut.Plan(stem, TORCH, **how).layers[stem[0].name].form
        for how in ({}, {"family": "other"})
    ]
    assert forms == ["constant", "sliced"]


def test_least_bytes_and_operations_are_counted_by_hand():
    conv = nn.Conv2d(8, 4, 1)
    steps = graph_cut.steps(nn.Sequential(conv).eval())
    _, (kernel,) = graph_cut.Plan(steps, TORCH, family="other").run(torch.randn(8, 3, 5))
    assert kernel.flops == 2 * 15 * 8 * 4
    assert kernel.bytes == 4 * (8 * 15 + 8 * 4 + 4 + 4 * 15) and kernel.form == "constant"


def test_a_device_that_cannot_add_halves_refuses_a_plan_of_half_sums():
    device = slice_kernels.TorchDevice()
    device.half_sums = False
    with pytest.raises(ValueError, match="float32 and mixed are allowed"):
        graph_cut.Plan(graph_cut.steps(odd()), device, precision="float16", most=None)


@pytest.mark.parametrize("which", ["channels", "layout", "sum"])
def test_what_does_not_fit_is_refused_by_both(which, request):
    devices = [TORCH]
    if not slice_kernels.open_device()[1]:
        devices.append(request.getfixturevalue("opencl"))
    for device in devices:
        layer = device.layer(torch.ones(4, 8, 1, 1), torch.zeros(4))
        with pytest.raises(ValueError, match="allowed|put it there"):
            if which == "channels":
                device.run(layer, device.put(torch.ones(7, 2, 2)))
            elif which == "layout":
                device.run(layer, device.put(torch.ones(8, 2, 2), "float32", "naive"))
            else:
                device.add(device.put(torch.ones(4, 2, 2)), device.put(torch.ones(4, 2, 3)))


def test_a_clock_is_asked_after_the_last_kernel():
    order = []

    class Late(slice_kernels.TorchDevice):
        def run(self, layer, held, group=None):
            order.append("run")
            return super().run(layer, held, group)[0], lambda: order.append("clock") or 1.0

    graph_cut.Plan(graph_cut.steps(odd()), Late(), most=None).run(torch.randn(3, 2, 2))
    assert order == ["run"] * 3 + ["clock"] * 3, "no kernel waits for another's time"


def test_without_a_device_s_clock_the_seconds_are_the_call_s():
    conv = graph_cut.steps(nn.Sequential(nn.Conv2d(3, 4, 1)).eval())
    (kernel,) = graph_cut.Plan(conv, TORCH).run(torch.randn(3, 2, 2))[1]
    assert isinstance(kernel, graph_cut.Kernel) and kernel.seconds > 0
    assert SimpleNamespace(**kernel._asdict()).grid == (2, 2, 1)
