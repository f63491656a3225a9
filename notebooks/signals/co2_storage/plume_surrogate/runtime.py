"""A trained operator as it is deployed: the whole of it in ONNX Runtime, called site by site.

PyTorch starts a kernel for each small operation of a small network, and that start is most of
the time. A runtime that sees the whole graph plans memory once and fuses what follows each
other; `deployed` leaves it less to do. The graph holds all that lies between a site and its
fields: encoding, network, units. No weight is rounded, so that the answers are PyTorch's but
for the order of additions.

Legend: N sites, Z rows, R rings, T report times.
"""

import io
import warnings

import numpy as np
import torch
from fourier_operator import as_matrices
from fourier_operator.networks import FourierLayer, Pointwise
from torch import nn

from .surrogate import check_cases, pick

OPSET = 17

READ = (
    "permeability", "kv_kh", "porosity", "perforation_mask", "rate", "depth", "thickness",
    "swi", "lam", "mask",
)  # fmt: skip
ANSWERS = ("saturation", "pressure")


class Compiled:
    """A `Surrogate` in ONNX Runtime: `Compiled(surrogate, sites).predict(sites)`.

    example: cases as `storage_sites.load` gives them, whose first is traced; the graph is for
    one site of its grid, on the CPU, with as many threads as torch has.
    """

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
        fields = zip(*(self.session.run(ANSWERS, one) for one in each), strict=True)
        return tuple(torch.from_numpy(np.concatenate(parts)) for parts in fields)


def to_onnx(module, inputs, names, answers):
    """The bytes of a module's ONNX model: `to_onnx(member, (pattern, knobs), ("pattern",
    "knobs"), ("saturation", "pressure", "pressed"))`.

    inputs: tensors to trace with, whose shapes the model keeps; names and answers: of what goes
    in and comes out.
    """
    target = io.BytesIO()
    torch.onnx.register_custom_op_symbolic("aten::movedim", _movedim, OPSET)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of constants in the graph; the tests compare numbers
        torch.onnx.export(
            module,
            inputs,
            target,
            dynamo=False,
            opset_version=OPSET,
            do_constant_folding=False,  # or stored weights would be widened in the file
            input_names=names,
            output_names=answers,
        )
    return target.getvalue()


def _movedim(graph, x, source, destination):
    """`Tensor.movedim` in the graph: the exporter's own takes a negative axis for an axis."""
    from torch.onnx import symbolic_helper

    rank = x.type().dim()
    found = (symbolic_helper._maybe_get_const(value, "t") for value in (source, destination))
    start, end = (int(value) for value in found)
    order = [axis for axis in range(rank) if axis != start % rank]
    order.insert(end % rank, start % rank)
    return graph.op("Transpose", x, perm_i=order)


def deployed(surrogate, example):
    """A copy of a `Surrogate` for the runtime: the same answers but for rounding, from fewer
    operations.

    Spectral layers become products of real matrices. Maps of the channels become convolutions
    over one point, into which a runtime draws what is added and rectified. Where a layer has a
    U path, its matrix a cell joins the middle of the path's last convolution, which reads the
    same field. example: a tuple of inputs.
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
        """Saturation and build-up (N, T, Z, R)."""
        return self.surrogate(dict(zip(READ, values, strict=True)))
