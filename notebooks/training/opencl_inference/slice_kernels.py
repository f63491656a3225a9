"""Convolutions and sums on slices of four channels: in OpenCL where it is there, else in torch.

`open_device` asks at run time. Both kinds have the same interface, so what calls them does not
know which it got; answers agree to rounding:

    held = device.put(image_CHW, precision, form)    # onto the device, in the form's layout
    layer = device.layer(weights_OIKK, bias_O, …)    # weights packed and sent, once
    held, clock = device.run(layer, held, group)     # stays there; `clock()` has the seconds
    image_CHW = device.get(held)

`conv` does all four. An OpenCL device says how long the kernel itself ran, by its event,
without the time to start it. The forms and precisions are those of `kernel_sources`.

Shapes: `S` slices, `H` height, `W` width, `I` inputs, `O` outputs, `K` sides of the kernel.
"""

import contextlib
import functools
import math

import kernel_sources
import layout
import numpy as np
import program_cache
import torch
import work_groups

ACTIVATIONS = ("none", "fused", "apart")  # apart: the clamp to [0, 6] in a kernel of its own
SUPPORTS = ("conv", "add")  # the operations of a graph that a device computes


def open_device(cache=None):
    """(A device, None), or (TorchDevice(), why there is no OpenCL): a sentence for the page."""
    try:
        return OpenCLDevice(cache), None
    except ImportError:
        return TorchDevice(), "pyopencl is not installed"
    except Exception as error:  # pyopencl's own errors have no name where it is absent
        return TorchDevice(), f"no OpenCL device opened: {error}"


class _Device:
    def layer(
        self,
        weights_OIKK,
        bias_O,
        stride=1,
        pad=0,
        form="sliced",
        precision="float32",
        activation="none",
    ):
        """The Layer of these weights, which lie on the device from now on.

        Raises ValueError for an unknown form, precision or activation, for a bias, stride or
        padding that do not fit, and for 'float16' on a device without half sums.
        """
        kernel_sources.checked(form, precision)
        if activation not in ACTIVATIONS:
            raise ValueError(
                f"activation is {activation!r}; one of {', '.join(ACTIVATIONS)} is allowed"
            )
        if "depthwise" in form and weights_OIKK.shape[1] != 1:
            raise ValueError(
                f"depthwise weights have {weights_OIKK.shape[1]} inputs a filter; 1 is allowed"
            )
        if precision == "float16" and not self.half_sums:
            raise ValueError(
                f"{self.name} adds no halves (cl_khr_fp16); float32 and mixed are allowed"
            )
        shape = tuple(weights_OIKK.shape)
        layout.checked_weights(shape, tuple(bias_O.shape), stride, pad)
        kept = self._keep(weights_OIKK, bias_O, form, precision)
        return layout.Layer(shape, stride, pad, form, precision, activation, kept)

    def conv(self, image_CHW, weights_OIKK, bias_O, stride=1, pad=0, group=None, **options):
        """The convolution (O, H, W), float32, and its kernels' seconds, None without a clock.

        `options` are those of `layer`. Raises ValueError as `layer` and `run` do, and
        RuntimeError where a driver refuses the kernel.
        """
        layer = self.layer(weights_OIKK, bias_O, stride, pad, **options)
        held = self.put(image_CHW, layer.precision, layer.form)
        out, clock = self.run(layer, held, group)
        return self.get(out), clock()


class TorchDevice(_Device):
    """The reference: the same by torch, on the device of its inputs, without a clock."""

    name, max_size, half_sums, compiled = "torch", 1024, True, 0

    def keep(self):
        """None: torch has no programs to save."""

    def put(self, image_CHW, precision="float32", form="sliced"):
        """The Held of an image, its numbers rounded as the precision stores them."""
        rounded, plain = _rounded(image_CHW, precision), form in kernel_sources.PLAIN
        return layout.Held(rounded, tuple(image_CHW.shape), plain, precision)

    def get(self, held):
        """The image (C, H, W), float32."""
        return held.data

    def _keep(self, weights_OIKK, bias_O, form, precision):
        return _rounded(weights_OIKK, precision), _rounded(bias_O, precision)

    def run(self, layer, held, group=None):
        """The Held of the convolution, and a clock that says None.

        Raises ValueError for a group that is too large, and for an image that does not fit.
        """
        layout.checked_image(layer, held)
        work_groups.checked_group(group or work_groups.DEFAULT, self.max_size)
        groups = held.shape[0] if "depthwise" in layer.form else 1
        task, rest = (held.data, *layer.kept), (layer.stride, layer.pad)
        if layer.precision == "float16":
            out = _half_sums(*task, *rest, groups)
        else:
            conv2d = torch.nn.functional.conv2d
            out = conv2d(task[0][None], *task[1:], *rest, groups=groups)[0]
        if layer.activation != "none":
            out = out.clamp_(0, 6) if layer.activation == "fused" else out.clamp(0, 6)
        return self.put(out, layer.precision, layer.form), lambda: None

    def add(self, one, other):
        """The Held of a sum of two of one shape, and a clock that says None."""
        layout.checked_sum(one, other)
        return one._replace(data=_rounded(one.data + other.data, one.precision)), lambda: None


class OpenCLDevice(_Device):
    """The first OpenCL device of any platform of this machine; each program is compiled once.

    `half_sums` says whether it adds halves, as precision 'float16' needs. `cache` is a folder
    where `keep` puts programs for the next start; None keeps none. `compiled` counts those that
    were compiled from their text.
    """

    def __init__(self, cache=None):
        import pyopencl as cl

        self._cl = cl
        found = [one for platform in cl.get_platforms() for one in platform.get_devices()]
        if not found:
            raise RuntimeError("no platform has a device")
        self._device = found[0]
        self._context = cl.Context([self._device])
        profile = cl.command_queue_properties.PROFILING_ENABLE
        self._queue = cl.CommandQueue(self._context, properties=profile)
        self.half_sums = "cl_khr_fp16" in self._device.extensions.split()
        self.max_size = self._device.max_work_group_size
        about = (
            self._device
        )  # a file of another driver is foreign, so its version is in the name
        self.name = f"{about.name}, {about.platform.version}, driver {about.driver_version}"
        self._program, self._kernel = functools.cache(self._build), functools.cache(cl.Kernel)
        self._cache, self._built, self.compiled = cache, {}, 0

    def put(self, image_CHW, precision="float32", form="sliced"):
        """The Held of an image: sent to the device in the layout that the form reads."""
        plain = form in kernel_sources.PLAIN
        sent = image_CHW if plain else layout.to_slices(image_CHW)
        buffer = self._send(sent, precision, _fours(image_CHW.shape))
        return layout.Held(buffer, tuple(image_CHW.shape), plain, precision)

    def get(self, held):
        """The image (C, H, W), float32, read from the device."""
        channels, height, width = held.shape
        stored = np.float32 if held.precision == "float32" else np.float16
        found = np.empty(held.data.size // np.dtype(stored).itemsize, stored)
        self._cl.enqueue_copy(self._queue, found, held.data)
        found = torch.from_numpy(found.astype(np.float32))
        if held.plain:
            return found[: math.prod(held.shape)].view(held.shape)
        return layout.from_slices(found.view(-1, height, width, layout.SLICE), channels)

    def _keep(self, weights_OIKK, bias_O, form, precision):
        bias = torch.zeros(layout.slices(len(bias_O)) * layout.SLICE)
        bias[: len(bias_O)] = bias_O
        packed = layout.pack(weights_OIKK, form)
        return self._send(packed, precision), self._send(bias, precision)

    def run(self, layer, held, group=None):
        """The Held of the convolution, and a clock: a function that waits and says the seconds.

        Raises ValueError for a group that is too large or an image that does not fit, and
        RuntimeError where the driver refuses the kernel.
        """
        layout.checked_image(layer, held)
        group = work_groups.checked_group(group or work_groups.DEFAULT, self.max_size)
        grid, shape = layout.grid_of(layer, held.shape), layout.out_shape(layer, held.shape)
        (inputs, height, width), (rows, columns) = held.shape, layer.shape[2:]
        fours = [
            (width, height, layout.slices(inputs), inputs),
            (*grid, layer.shape[0]),
            (rows, columns, layer.stride, layer.pad),
        ]
        sizes, what = [np.array(four, np.int32) for four in fours], f"{layer.form} in {group}"
        with self._refusals(what):
            program = self._program(layer.form, layer.precision, layer.activation == "fused")
            out = self._room(shape, layer.form in kernel_sources.PLAIN, layer.precision)
            arguments = [held.data, *layer.kept, out.data, *sizes]
            launched = work_groups.aligned(grid, group)
            events = [self._start(program, "conv", launched, group, arguments)]
            if layer.activation == "apart":
                events += [self._start(program, "clamp6", (_fours(shape),), None, [out.data])]
        return out, functools.partial(self._seconds, events, what)

    def add(self, one, other):
        """The Held of a sum of two of one shape, and its clock, as `run` returns them."""
        layout.checked_sum(one, other)
        with self._refusals("a sum"):
            out = self._room(one.shape, one.plain, one.precision)
            program = self._program("sliced", one.precision, False)
            buffers = [one.data, other.data, out.data]
            event = self._start(program, "add", (_fours(one.shape),), None, buffers)
        return out, functools.partial(self._seconds, [event], "a sum")

    @contextlib.contextmanager
    def _refusals(self, what):
        try:
            yield
        except self._cl.Error as error:
            raise RuntimeError(f"{self.name} refused {what}: {error}") from error

    def _seconds(self, events, what):
        with self._refusals(what):
            for event in events:
                event.wait()
            return sum(event.profile.end - event.profile.start for event in events) * 1e-9

    def _send(self, tensor, precision, fours=0):
        stored = torch.float32 if precision == "float32" else torch.float16
        flat = tensor.to(stored).contiguous().numpy().ravel()
        # Whole fours, and as many as a sum or clamp reads: it counts slices in plain ones, too.
        flat = np.pad(flat, (0, max(-len(flat) % layout.SLICE, 4 * fours - len(flat))))
        flags = self._cl.mem_flags
        return self._cl.Buffer(
            self._context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=flat
        )

    def _room(self, shape, plain, precision):
        size = _fours(shape) * 4 * (4 if precision == "float32" else 2)
        buffer = self._cl.Buffer(self._context, self._cl.mem_flags.READ_WRITE, size)
        return layout.Held(buffer, shape, plain, precision)

    def _start(self, program, name, launched, group, arguments):
        return self._kernel(program, name)(self._queue, launched, group, *arguments)

    def _build(self, form, precision, fused):
        text = kernel_sources.source(form, precision, fused)
        known = self._cache and program_cache.load(self._cache, self.name, text)
        program = self._loaded(known) if known else None
        if program:
            return program
        self._built[text] = self._cl.Program(self._context, text).build(cache_dir=False)
        self.compiled += 1
        return self._built[text]

    def _loaded(self, binary):
        with contextlib.suppress(self._cl.Error):  # a driver may refuse what it wrote itself
            return self._cl.Program(self._context, [self._device], [binary]).build()
        return None

    def keep(self):
        """None. Saves what was compiled, for each work group that ran, too. Call it once, at
        the end: PoCL hands out for good what it held when first asked. Needs a cache.
        """
        for text, program in self._built.items() if self._cache else ():
            binary = program.get_info(self._cl.program_info.BINARIES)[0]
            program_cache.save(self._cache, self.name, text, binary)


def _half_sums(image_CHW, weights_OIKK, bias_O, stride, pad, groups):
    # torch's own half convolution on a CPU sums floats, so products are added one by one.
    outputs, inputs, rows, columns = weights_OIKK.shape
    size = [
        (n + 2 * pad - k) // stride + 1
        for n, k in zip(image_CHW.shape[1:], (rows, columns), strict=True)
    ]
    patches = torch.nn.functional.unfold(image_CHW[None], (rows, columns), 1, pad, stride)[0]
    patches = patches.view(groups, inputs * rows * columns, 1, -1).half()
    weights = weights_OIKK.reshape(groups, outputs // groups, -1).half()
    total = bias_O.half().view(groups, -1, 1).repeat(1, 1, patches.shape[-1])
    for k in range(patches.shape[1]):
        total = total + weights[:, :, k, None] * patches[:, k]
    return total.view(outputs, *size).float()


def _rounded(tensor, precision):
    return tensor.float() if precision == "float32" else tensor.half().float()


def _fours(shape):
    return layout.slices(shape[0]) * math.prod(shape[1:])
