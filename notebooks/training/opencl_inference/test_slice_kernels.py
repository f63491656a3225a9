"""The proof: OpenCL equals torch in each form; without it torch answers and says why."""

import sys
import types
import uuid

import group_tuner
import kernel_sources
import layout
import program_cache
import pytest
import slice_kernels
import torch

# A half has 11 bits: sums in another order may round to the neighbour.
TOLERANCE = {"float32": (1e-5, 1e-5), "mixed": (2**-10, 1e-4), "float16": (2**-8, 2**-8)}


@pytest.fixture(scope="module")
def opencl():
    device, why = slice_kernels.open_device()
    if why:
        pytest.skip(why)
    return device


def task(inputs, outputs, side, stride, form="sliced"):
    torch.manual_seed(1)
    depth = 1 if "depthwise" in form else inputs
    image, bias = torch.randn(inputs, 13, 11), torch.randn(outputs)
    return image, torch.randn(outputs, depth, side, side), bias, stride, side // 2


def assert_equal(opencl, *args, **options):
    found, seconds = opencl.conv(*args, **options)
    plain, _ = slice_kernels.TorchDevice().conv(*args, **options)
    rtol, atol = TOLERANCE[options.get("precision", "float32")]
    torch.testing.assert_close(found, plain, rtol=rtol, atol=atol)
    assert seconds > 0


@pytest.mark.parametrize(("inputs", "outputs", "side", "stride"), [(3, 5, 3, 2), (8, 4, 1, 1)])
@pytest.mark.parametrize("group", [(8, 4, 1), (1, 1, 1), (3, 7, 2)])
def test_opencl_equals_torch_whatever_the_group(opencl, inputs, outputs, side, stride, group):
    assert_equal(opencl, *task(inputs, outputs, side, stride), group=group)


@pytest.mark.parametrize("form", ["naive", "sliced", "constant", "dot"])
@pytest.mark.parametrize("precision", ["float32", "mixed"])
@pytest.mark.parametrize(("inputs", "outputs"), [(3, 5), (6, 3), (1, 1)])
def test_each_form_equals_torch(opencl, form, precision, inputs, outputs):
    assert_equal(opencl, *task(inputs, outputs, 3, 2), form=form, precision=precision)


@pytest.mark.parametrize("precision", ["float32", "mixed"])
@pytest.mark.parametrize("channels", [1, 6, 8])
def test_depthwise_equals_torch(opencl, precision, channels):
    depthwise = task(channels, channels, 3, 1, "depthwise")
    assert_equal(opencl, *depthwise, form="depthwise", precision=precision)


@pytest.mark.parametrize("form", kernel_sources.FORMS)
@pytest.mark.parametrize("activation", ["fused", "apart"])
def test_the_clamp_fused_or_apart_equals_torch(opencl, form, activation):
    assert_equal(opencl, *task(5, 5, 3, 1, form), form=form, activation=activation)


@pytest.mark.parametrize("form", kernel_sources.FORMS)
def test_half_sums_equal_torch_where_a_device_has_them(opencl, form):
    if not opencl.half_sums:
        pytest.skip(f"{opencl.name} adds no halves")
    assert_equal(opencl, *task(5, 5, 3, 1, form), form=form, precision="float16")


def test_half_sums_are_refused_where_a_device_has_none(opencl, monkeypatch):
    monkeypatch.setattr(opencl, "half_sums", False)
    with pytest.raises(ValueError, match="float32 and mixed are allowed"):
        opencl.conv(*task(3, 5, 3, 2), precision="float16")


def test_the_reference_adds_halves_one_by_one():
    # 2048 + 1 is 2048 in halves, so ones that come one at a time are lost.
    image, weights = torch.ones(64, 1, 1), torch.ones(1, 64, 1, 1)
    torch_device, bias = slice_kernels.TorchDevice(), torch.tensor([2048.0])
    sums = [torch_device.conv(image, weights, bias, precision=p)[0].item() for p in TOLERANCE]
    assert sums == [2112, 2112, 2048]


def test_half_sums_of_the_reference_have_the_convolution_right():
    torch_device, args = slice_kernels.TorchDevice(), task(6, 6, 3, 2, "depthwise")
    half, full = (
        torch_device.conv(*args, form="depthwise", precision=p)[0]
        for p in ("float16", "float32")
    )
    torch.testing.assert_close(half, full, rtol=2**-7, atol=2**-7)  # nine roundings


def test_a_driver_that_refuses_counts_as_refused(opencl, monkeypatch):
    monkeypatch.setattr(opencl, "max_size", 10**9)  # a device that lies about its limit
    with pytest.raises(RuntimeError, match=r"refused sliced in \(65536, 1, 1\)"):
        opencl.conv(*task(3, 5, 3, 2), group=(65536, 1, 1))


def test_a_driver_that_refuses_a_text_or_a_finished_kernel_counts_as_refused(
    opencl, monkeypatch
):
    device = slice_kernels.OpenCLDevice()
    monkeypatch.setattr(slice_kernels.kernel_sources, "source", lambda *_: "__kernel void {")
    with pytest.raises(RuntimeError, match=r"refused sliced in \(8, 4, 1\)"):
        device.conv(*task(3, 5, 3, 2))
    with pytest.raises(RuntimeError, match="refused a sum"):
        device.add(device.put(torch.ones(4, 2, 2)), device.put(torch.ones(4, 2, 2)))

    class Late:
        def wait(self):
            raise device._cl.RuntimeError("out of resources")

    with pytest.raises(RuntimeError, match="refused dot: out of resources"):
        device._seconds([Late()], "dot")


def test_the_tuner_leaves_out_what_a_driver_refuses(opencl, monkeypatch):
    monkeypatch.setattr(opencl, "max_size", 10**9)
    args, groups = task(3, 5, 3, 2), [(65536, 1, 1), (8, 4, 1)]
    seconds = group_tuner.times(lambda group: opencl.conv(*args, group=group)[1], groups, 1)
    assert list(seconds) == [(8, 4, 1)]


def test_a_second_start_compiles_nothing(opencl, tmp_path):
    args = task(3, 5, 3, 2)
    first, second = (slice_kernels.OpenCLDevice(tmp_path) for _ in range(2))
    answers = []
    for device in (first, second):
        answers.append(device.conv(*args)[0])
        device.keep()
    assert (first.compiled, second.compiled) == (1, 0) and torch.equal(*answers)


def test_a_torn_program_is_compiled_again(opencl, tmp_path):
    args = task(3, 5, 3, 2)
    first = slice_kernels.OpenCLDevice(tmp_path)
    first.conv(*args)
    first.keep()
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-1])
    again = slice_kernels.OpenCLDevice(tmp_path)
    again.conv(*args)
    assert again.compiled == 1


def test_a_whole_program_that_the_driver_refuses_is_compiled_again(opencl, tmp_path):
    args, device = task(3, 5, 3, 2), slice_kernels.OpenCLDevice(tmp_path)
    text = kernel_sources.source("sliced", "float32", False)
    program_cache.save(tmp_path, device.name, text, b"no binary of this driver")
    plain, _ = slice_kernels.TorchDevice().conv(*args)
    torch.testing.assert_close(device.conv(*args)[0], plain, rtol=1e-5, atol=1e-5)
    assert device.compiled == 1
    device.keep()
    again = slice_kernels.OpenCLDevice(tmp_path)
    again.conv(*args)
    assert again.compiled == 0, "what was compiled took the place of what was refused"


def test_what_is_kept_has_each_group_that_ran(opencl, monkeypatch, tmp_path):
    if "PoCL" not in opencl.name:
        pytest.skip("only PoCL names the groups in its binaries")
    text = kernel_sources.source("sliced", "float32", False)
    text = text[: text.index("__kernel void clamp6")]
    text += f"__constant int unlike_{uuid.uuid4().hex} = 1;"  # so in no cache of the driver's
    monkeypatch.setattr(kernel_sources, "source", lambda *_: text)
    device = slice_kernels.OpenCLDevice(tmp_path)
    for group in ((8, 4, 1), (3, 5, 1)):
        device.conv(*task(3, 5, 3, 2), group=group)
    device.keep()
    held = program_cache.load(tmp_path, device.name, text)
    assert b"/conv/8-4-1" in held and b"/conv/3-5-1" in held


def test_another_driver_s_version_is_another_device(opencl):
    assert opencl.name.endswith(f", driver {opencl._device.driver_version}")


class Platforms:
    """The part of pyopencl that finds devices: a platform without any, then the real ones."""

    def __init__(self, cl, real):
        self._cl = cl
        empty = types.SimpleNamespace(get_devices=list)
        self.get_platforms = lambda: [empty, *(cl.get_platforms() if real else [])]

    def __getattr__(self, name):
        return getattr(self._cl, name)


def test_a_platform_without_devices_is_passed_over(opencl, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyopencl", Platforms(opencl._cl, real=True))
    assert slice_kernels.open_device()[0].name == opencl.name
    monkeypatch.setitem(sys.modules, "pyopencl", Platforms(opencl._cl, real=False))
    assert slice_kernels.open_device()[1] == "no OpenCL device opened: no platform has a device"


def test_a_clock_adds_the_seconds_of_all_its_kernels(opencl):
    def event(took_ns):
        profile = types.SimpleNamespace(start=5, end=5 + took_ns)
        return types.SimpleNamespace(profile=profile, wait=lambda: None)

    assert opencl._seconds([event(2_000_000), event(500_000)], "two") == pytest.approx(0.0025)
    image, weights, bias, *_ = task(3, 5, 1, 1)
    for activation, kernels in {"none": 1, "fused": 1, "apart": 2}.items():
        layer = opencl.layer(weights, bias, activation=activation)
        _, clock = opencl.run(layer, opencl.put(image))
        assert len(clock.args[0]) == kernels


@pytest.mark.parametrize("form", kernel_sources.FORMS)
def test_only_small_weights_lie_in_constant_memory(form):
    space = "__constant" if form in ("constant", "dot") else "__global"
    text = kernel_sources.source(form, "float32", False)
    assert f"{space} const STORED *weights" in text and "__global const STORED *image" in text


@pytest.mark.parametrize("form", ["sliced", "constant", "dot", "depthwise"])
@pytest.mark.parametrize("precision", ["float32", "mixed"])
def test_the_padding_of_an_answer_is_zero(opencl, form, precision):
    image, weights, bias, *_ = task(5, 5, 3, 1, form)
    layer = opencl.layer(weights, bias, pad=1, form=form, precision=precision)
    out, _ = opencl.run(layer, opencl.put(image, precision, form))
    whole = opencl.get(out._replace(shape=(8, *out.shape[1:])))
    assert whole[5:].count_nonzero() == 0, (
        "a next layer multiplies it by zero: it must be finite"
    )


@pytest.mark.parametrize("form", ["naive", "sliced"])
def test_halves_are_stored_to_the_nearest(opencl, form):
    one, bit = (
        torch.ones(1, 1, 1),
        torch.full((1, 1, 1), 0.75 * 2**-10),
    )  # three quarters of a step
    found, _ = opencl.conv(bit, one[None], one[0, 0], form=form, precision="mixed")
    total, _ = opencl.add(*(opencl.put(a, "mixed", form) for a in (one, bit)))
    assert found.item() == opencl.get(total).item() == 1 + 2**-10


@pytest.mark.parametrize("form", ["naive", "sliced"])
@pytest.mark.parametrize("precision", ["float32", "mixed"])
def test_a_sum_reads_no_more_than_was_sent(opencl, form, precision):
    image = torch.arange(45.0).view(5, 3, 3)  # plain: 45 numbers, but two slices are summed
    held = opencl.put(image, precision, form)
    assert held.data.size == 2 * 9 * 4 * (4 if precision == "float32" else 2)
    assert torch.equal(opencl.get(opencl.add(held, held)[0]), 2 * image)


@pytest.mark.parametrize("form", kernel_sources.FORMS)
@pytest.mark.parametrize("activation", ["fused", "apart"])
def test_a_clamp_keeps_what_is_no_number(opencl, form, activation):
    image, *rest = task(5, 5, 3, 1, form)
    image[:, 6, 5] = torch.nan
    found, _ = opencl.conv(image, *rest, form=form, activation=activation)
    plain, _ = slice_kernels.TorchDevice().conv(image, *rest, form=form, activation=activation)
    assert torch.equal(found.isnan(), plain.isnan()) and plain.isnan().any()


@pytest.mark.parametrize(
    ("weights", "bias", "how"),
    [
        ((5, 3, 1, 1), 4, {}),
        ((5, 3, 1), 5, {}),
        ((0, 3, 1, 1), 0, {}),
        ((5, 3, 1, 1), 5, {"stride": 0}),
        ((5, 3, 1, 1), 5, {"pad": -1}),
    ],
)
def test_what_is_no_convolution_is_refused(weights, bias, how):
    with pytest.raises(ValueError, match="allowed"):
        slice_kernels.TorchDevice().layer(torch.ones(weights), torch.ones(bias), **how)


@pytest.mark.parametrize("form", ["constant", "dot", "sliced"])
def test_packed_weights_have_the_padding_of_their_form(form):
    sizes = {"constant": 8 * 3, "dot": 5 * 4, "sliced": 8 * 4}
    assert layout.pack(torch.ones(5, 3, 1, 1), form).numel() == sizes[form]


@pytest.mark.parametrize(
    "wrong", [{"form": "winograd"}, {"precision": "bfloat16"}, {"activation": "relu"}]
)
def test_unknown_words_are_refused(wrong):
    with pytest.raises(ValueError, match="is allowed"):
        slice_kernels.TorchDevice().conv(*task(3, 5, 3, 2), **wrong)


def test_depthwise_takes_one_input_a_filter():
    with pytest.raises(ValueError, match="1 is allowed"):
        slice_kernels.TorchDevice().conv(*task(3, 3, 3, 1), form="depthwise")


def test_without_pyopencl_torch_answers(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyopencl", None)
    device, why = slice_kernels.open_device()
    assert device.name == "torch" and why == "pyopencl is not installed"


def test_without_a_platform_torch_answers(monkeypatch):
    def refuse(self, cache):
        raise RuntimeError("PLATFORM_NOT_FOUND_KHR")

    monkeypatch.setattr(slice_kernels.OpenCLDevice, "__init__", refuse)
    device, why = slice_kernels.open_device()
    assert device.name == "torch" and "PLATFORM_NOT_FOUND_KHR" in why


def test_a_group_beyond_the_limit_is_refused():
    with pytest.raises(ValueError, match="1024 are allowed"):
        slice_kernels.TorchDevice().conv(
            torch.ones(1, 2, 2), torch.ones(1, 1, 1, 1), torch.ones(1), group=(64, 64, 1)
        )
