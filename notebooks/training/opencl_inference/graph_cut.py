"""A network's graph, cut around what a device does not compute, and run on both sides.

`steps` traces a PyTorch network with `torch.fx`, folds batch norms and fuses each clamp into
the convolution before it. A convolution that no kernel here computes (dilated, in some groups,
with unequal strides) keeps its class's name as its kind, so it stays on the host.

`cut` follows TensorFlow Lite's delegate (whose default is one partition): runs of supported
steps are partitions, the largest `most` of them go to the device, everything else stays on the
host. Values that cross are copied. `Plan` runs it, on any device of `slice_kernels`: torch's
answers are those that one without OpenCL falls back to.
"""

import math
import time
from collections import namedtuple
from itertools import groupby

import layout
import phone_network
import slice_kernels
import torch
import work_groups
from torch import fx, nn
from torch.fx.experimental.optimization import fuse

# One operation: its name, kind ('conv', 'add' or the name of what no device has), the names of
# its inputs, a function for the host, and of a convolution its module and whether it clamps.
Step = namedtuple("Step", "name kind inputs host conv clamp", defaults=(None, False))
Part = namedtuple("Part", "where steps")  # 'device' or 'host'
# What a kernel did: its step, form, grid, group, bytes and operations at least, and seconds.
Kernel = namedtuple("Kernel", "name form grid group bytes flops seconds")


class _Tracer(fx.Tracer):
    def is_leaf_module(self, module, name):
        return isinstance(module, phone_network.Decode) or super().is_leaf_module(module, name)


def steps(network):
    """The steps of a network in order, the last one its answer; batch norms are folded.

    Raises ValueError unless it takes one image, is made of modules and sums of two, and answers
    with what its last step makes.
    """
    traced = fx.GraphModule(network, _Tracer().trace(network))
    traced = fuse(traced, no_trace=True)
    found, renamed = [], {}
    for node in traced.graph.nodes:
        inputs = [renamed.get(one.name, one.name) for one in node.all_input_nodes]
        if node.op == "placeholder":
            continue
        if node.op == "output":
            if not found or inputs != [found[-1].name]:
                raise ValueError(
                    f"{inputs} are answered; the last step's value alone is allowed"
                )
            continue
        module = traced.get_submodule(node.target) if node.op == "call_module" else None
        if isinstance(module, nn.ReLU6) and _clamps(found, inputs[0], node):
            at = [one.name for one in found].index(inputs[0])
            found[at] = found[at]._replace(clamp=True)
            renamed[node.name] = inputs[0]
        elif isinstance(module, nn.Conv2d) and _computed(module):
            found.append(Step(node.name, "conv", inputs, module, module))
        elif module is not None:
            found.append(Step(node.name, type(module).__name__, inputs, module))
        elif _plain_sum(node):
            found.append(Step(node.name, "add", inputs, torch.add))
        else:
            raise ValueError(
                f"{node.name} is {node.op} of {node.target}; modules, sums of two are allowed"
            )
    if sum(node.op == "placeholder" for node in traced.graph.nodes) != 1:
        raise ValueError("the network takes more than one value; one image is allowed")
    return found


def cut(found, supports, most=1):
    """The steps as parts of 'device' and 'host' in order: the largest `most` runs of what a
    device supports go there, all if `most` is None.

    Raises ValueError for most below 0.
    """
    if most is not None and most < 0:
        raise ValueError(f"most is {most}; 0 or more, or None for all, are allowed")
    runs = [(ok, list(run)) for ok, run in groupby(found, lambda one: one.kind in supports)]
    able = sorted(
        (at for at, (ok, _) in enumerate(runs) if ok), key=lambda at: -len(runs[at][1])
    )
    chosen = set(able if most is None else able[:most])
    parts = [("device" if at in chosen else "host", run) for at, (_, run) in enumerate(runs)]
    return [
        Part(where, [one for _, run in same for one in run])
        for where, same in groupby(parts, lambda part: part[0])
    ]


class Plan:
    """A graph ready to run on a device: its parts, its layers there, and their work groups.

        plan = Plan(steps(network), device)
        answer, kernels = plan.run(image_CHW)

    `plain` takes the naive forms, else `layout.form_of` chooses each layer's. `activation` is
    'fused' or 'apart'. `groups` is {step: work group}, the rules of `work_groups` where it has
    none; 'default' takes the default for all.
    """

    def __init__(
        self,
        found,
        device,
        precision="float32",
        activation="fused",
        groups=None,
        most=1,
        family="adreno",
        plain=False,
    ):
        self.parts, self.device = cut(found, slice_kernels.SUPPORTS, most), device
        self.precision, self.groups = precision, groups or {}
        self.form = "naive" if plain else "sliced"
        self.layers = {
            one.name: _layer(one, device, precision, activation, family, plain)
            for part in self.parts
            for one in part.steps
            if part.where == "device" and one.kind == "conv"
        }
        self.last = {name: one.name for one in found for name in one.inputs}  # its last reader
        self.copies = 0  # of values between host and device, in the last run

    def run(self, image_CHW):
        """The answer of the last step, and the Kernels of the device in order."""
        values, kernels, self.copies = {}, [], 0
        first = self.parts[0].steps[0].inputs[0]
        values[first] = {"host": image_CHW[None]}
        with torch.no_grad():
            for part in self.parts:
                for one in part.steps:
                    given = [self._there(values[name], part.where) for name in one.inputs]
                    if part.where == "host":
                        out = one.host(*given)
                        values[one.name] = {"host": out.clamp(0, 6) if one.clamp else out}
                    else:
                        held, kernel = self._kernel(one, given)
                        values[one.name] = {"device": held}
                        kernels.append(kernel)
                    for name in {*one.inputs}:
                        if self.last[name] == one.name:
                            del values[name]  # a phone has no room for what nobody reads again
            answer = self._there(values[one.name], "host")
        return answer, [one._replace(seconds=_seconds(*one.seconds)) for one in kernels]

    def _there(self, value, where):
        if where not in value:
            self.copies += 1
            if where == "host":
                value["host"] = self.device.get(value["device"])[None]
            else:
                value["device"] = self.device.put(value["host"][0], self.precision, self.form)
        return value[where]

    def _kernel(self, one, given):
        began, width = time.perf_counter(), layout.BYTES[self.precision]
        if one.kind == "add":
            held, clock = self.device.add(*given)
            took, numbers = time.perf_counter() - began, math.prod(held.shape)
            sizes = (None, None, 3 * width * numbers, numbers)
            return held, Kernel(one.name, "add", *sizes, (clock, took))
        layer = self.layers[one.name]
        grid = layout.grid_of(layer, given[0].shape)
        group = self.group(one.name, grid)
        held, clock = self.device.run(layer, given[0], group)
        took, work = time.perf_counter() - began, layout.least(layer, given[0].shape)
        return held, Kernel(one.name, layer.form, grid, group, *work, (clock, took))

    def group(self, name, grid):
        """The work group of a step over a grid."""
        if self.groups == "default":
            return work_groups.DEFAULT
        depthwise = "depthwise" in self.layers[name].form
        rule = work_groups.fast if depthwise else work_groups.conv_fast
        return self.groups.get(name) or rule(grid, min(256, self.device.max_size))


def _seconds(clock, took):
    """The kernel's own seconds, or those of the call where the device has no clock."""
    found = clock()
    return took if found is None else found


def _layer(step, device, precision, activation, family, plain):
    conv = step.conv
    outputs, inputs, *kernel = conv.weight.shape
    form = layout.form_of(inputs * conv.groups, outputs, kernel, precision, family, conv.groups)
    if plain:
        form = "naive_depthwise" if form == "depthwise" else "naive"
    bias = conv.weight.new_zeros(outputs) if conv.bias is None else conv.bias
    return device.layer(
        conv.weight.detach(),
        bias.detach(),
        conv.stride[0],
        conv.padding[0],
        form=form,
        precision=precision,
        activation=activation if step.clamp else "none",
    )


def _plain_sum(node):
    named = getattr(node.target, "__name__", "") == "add"
    return named and len(node.all_input_nodes) == len(node.args) == 2 and not node.kwargs


def _computed(conv):
    """Whether the kernels here compute this convolution."""
    whole = conv.groups == 1 or conv.groups == conv.in_channels == conv.out_channels
    equal = len({*conv.stride}) == 1 == len({*conv.padding})  # 'same' is no number of points
    return whole and equal and {*conv.dilation} == {1} and conv.padding_mode == "zeros"


def _clamps(found, name, node):
    """Whether this clamp may be fused into the step before it: a convolution that nothing else
    reads.
    """
    before = next((one for one in found if one.name == name), None)
    return (
        before is not None and before.kind == "conv" and len(node.all_input_nodes[0].users) == 1
    )
