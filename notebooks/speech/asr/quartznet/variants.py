"""The same network, cheaper to run, as TensorRT makes it on a GPU: here for eval mode.

    folded     y = g (W x - mu) / s + b  is  (g W / s) x + (b - g mu / s): batch normalisation
               disappears into the convolution before it, exactly up to rounding
    linear     a 1x1 convolution is a matrix product at each instant, so it becomes `nn.Linear`
    int8       w = scale * q with q in -128...127 for each Linear (PyTorch's dynamic
               quantisation); activations are quantised batch by batch as they come
    compiled   torch.compile of the folded network: pointwise steps fused into C++ loops

Depthwise convolutions hold few weights and stay in float32. Legend: B batch, C channels, T
frames."""

import copy
import warnings

import torch
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

VARIANTS = ("plain", "folded", "linear", "int8", "compiled")


def variant(model, name):
    """A copy of the model as one of VARIANTS: `variant(load_model(), "int8")`. The outputs of
    `folded` and `linear` differ by rounding, those of `int8`, on CPUs alone, by its 8 bits.
    Raises ValueError for another name, or a model in training mode."""
    if name not in VARIANTS:
        raise ValueError(f"variant {name!r}: allowed are {', '.join(VARIANTS)}")
    if model.training:
        raise ValueError("the model is in training mode: call .eval() first")
    if name == "plain":
        return model
    if name == "compiled":
        return torch.compile(folded(model), dynamic=True)
    made = folded(model) if name == "folded" else linear(folded(model))
    if name != "int8":
        return made
    with warnings.catch_warnings():  # PyTorch is moving this to another package
        warnings.simplefilter("ignore")
        return torch.ao.quantization.quantize_dynamic(made, {nn.Linear}, torch.qint8)


def folded(model):
    """A copy without batch normalisation: its scale and shift moved into the convolutions."""
    made = copy.deepcopy(model)
    for block in made.blocks:
        for step in block.steps:
            step.pointwise = fuse_conv_bn_eval(step.pointwise, step.norm)
            step.norm = nn.Identity()
        if block.around is not None:
            block.around = fuse_conv_bn_eval(block.around, block.around_norm)
            block.around_norm = nn.Identity()
    return made


def linear(model):
    """A copy whose 1x1 convolutions are matrix products, which quantisation understands."""
    made = copy.deepcopy(model)
    for module in list(made.modules()):
        for name, child in list(module.named_children()):
            plain = isinstance(child, nn.Conv1d) and child.stride == child.kernel_size == (1,)
            if plain and child.groups == 1:
                setattr(module, name, PointwiseLinear(child))
    return made


class PointwiseLinear(nn.Module):
    """A 1x1 convolution (B, C, T) to (B, C', T), written as one matrix product."""

    def __init__(self, conv):
        super().__init__()
        self.stride = conv.stride
        there = {"device": conv.weight.device, "dtype": conv.weight.dtype}
        bias = conv.bias is not None
        self.product = nn.Linear(conv.in_channels, conv.out_channels, bias, **there)
        with torch.no_grad():
            self.product.weight.copy_(conv.weight[:, :, 0])
            if conv.bias is not None:
                self.product.bias.copy_(conv.bias)

    def forward(self, x_BCT):
        return self.product(x_BCT.transpose(1, 2)).transpose(1, 2)
