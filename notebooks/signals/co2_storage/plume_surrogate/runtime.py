"""A trained operator as it is deployed: the whole of it in ONNX Runtime, called site by site.

PyTorch starts a kernel for each small operation of a small network, and that start is most of
the time. The graph holds all that lies between a site and its fields: encoding, network, units,
mass. No weight is rounded, so that the answers are PyTorch's but for the order of additions.

Legend: N sites, Z rows, R rings, T report times.
"""

import io
import warnings

import numpy as np
import torch
from fourier_operator import as_matrices
from fourier_operator.networks import FourierLayer, Pointwise
from torch import nn

from .mass import check_held
from .surrogate import check_cases, pick

OPSET = 17

READ = (
    "permeability", "kv_kh", "porosity", "perforation_mask", "rate", "depth", "thickness",
    "swi", "lam", "mask",
)  # fmt: skip
ANSWERS = ("saturation", "pressure", "held")


class Compiled:
    """A `Surrogate` in ONNX Runtime: `Compiled(surrogate, sites).predict(sites)`. Of the sites
    the first is traced; the graph is for one, on the CPU, with as many threads as torch has."""

    def __init__(self, surrogate, example):
        import onnxruntime

        self.grid, first = surrogate.grid, pick(example, [0])
        whole = deployed(surrogate, (first,))
        graph = to_onnx(whole, tuple(first[name] for name in READ), READ, ANSWERS)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = torch.get_num_threads(), 3
        self.session = onnxruntime.InferenceSession(graph, options)

    def predict(self, cases, trained=True):
        """Saturation and build-up in bar, (N, T, Z, R), as `Surrogate.predict`, which also says
        what is refused."""
        fed = {name: cases[name].numpy() for name in READ}
        check_cases(fed, self.grid, trained)  # on arrays, whose small operations cost half
        each = [{k: x[n : n + 1] for k, x in fed.items()} for n in range(len(fed["mask"]))]
        found = zip(*(self.session.run(ANSWERS, one) for one in each), strict=True)
        *fields, held = (torch.from_numpy(np.concatenate(parts)) for parts in found)
        check_held(held)
        return tuple(fields)


def to_onnx(module, inputs, names, answers):
    """The bytes of a module's ONNX model. inputs: tensors to trace with, whose shapes the model
    keeps; names and answers: of what goes in and comes out."""
    target = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of constants in the graph; the tests compare numbers
        torch.onnx.export(
            module, inputs, target, dynamo=False, opset_version=OPSET, input_names=names,
            output_names=answers, do_constant_folding=False,  # or weights would be widened
        )  # fmt: skip
    return target.getvalue()


def deployed(surrogate, example):
    """A copy of a `Surrogate` for the runtime: the same answers but for rounding, from fewer
    operations.

    Spectral layers become products of real matrices; maps of the channels convolutions over one
    point, into which a runtime draws what is added and rectified. Where a layer has a U path,
    its matrix a cell joins the path's last convolution. example: a tuple of inputs.
    """
    copied = as_matrices(surrogate, example)
    axes = 3 if copied.net.head.times is None else 2
    for layer in [each for each in copied.modules() if isinstance(each, FourierLayer)]:
        if layer.unet is not None:
            last, local = layer.unet.out, layer.local
            middle = tuple(size // 2 for size in last.kernel_size)
            last.weight[:, : local.in_features, *middle] += local.weight
            last.bias += local.bias
            layer.local = _Nothing()
    for module in [*copied.modules()]:
        for name, child in module.named_children():
            if isinstance(child, Pointwise):
                setattr(module, name, _over_one_point(child, axes))
    return _Named(copied).eval()


class _Nothing(nn.Module):
    def forward(self, v):
        """Zero."""
        return 0.0


def _over_one_point(linear, axes):
    kind = {2: nn.Conv2d, 3: nn.Conv3d}[axes]
    conv = kind(linear.in_features, linear.out_features, 1).requires_grad_(False)
    conv.weight.copy_(linear.weight.reshape(conv.weight.shape))
    conv.bias.copy_(linear.bias)
    return conv


class _Named(nn.Module):
    """A surrogate that takes what it reads as tensors in the order of `READ`."""

    def __init__(self, surrogate):
        super().__init__()
        self.surrogate = surrogate

    def forward(self, *values):
        """Saturation and build-up (N, T, Z, R), gas held (N, T)."""
        return self.surrogate(dict(zip(READ, values, strict=True)))
