"""Block floating point: the numbers of a block share one exponent, so that a product is one of
small integers; and SGD in it (SWALP; Yang et al. 2019). With e = floor(log2 max|x|),

    i = clip(round(x 2^(bits-2-e)), -2^(bits-1), 2^(bits-1) - 1)       x' = i 2^(e-bits+2)

`round` goes to the nearest integer or, stochastically, up with a chance of the fraction: then
the mean of x' is x where nothing is clipped, and an average over many steps filters the noise
out. One step of low-precision SGD, with Q for this rounding and momentum b:

    m = b m + Q(gradient) + decay w        w = Q(w - rate m)        m = Q(m)

What a convolution or linear layer reads and puts out passes through Q going forward, its error
coming back: both factors of a product have few bits. A filter's weights are one block, a
layer's input another. In float32 stay batch norms, sums, loss and average. The authors' code
(stevenygd/SWALP) leaves in float32, too, what the first convolution, shortcuts and the last
layer read, and what the latter two put out; it clips exponents to [-128, 127], not [-126, 127].
"""

import copy

import torch
from torch import nn

ROUNDINGS = ("stochastic", "nearest")
BITS = range(2, 25)  # a float32 has 24 bits of mantissa
EXPONENTS = (-126, 127)


def quantize(values, bits=8, rounding="stochastic", *, axis=None, generator=None):
    """`values` in block floating point of `bits` bits (sign included), same shape and dtype.

    >>> quantize(torch.tensor([1.0, 0.26, -0.01]), 4, "nearest")
    tensor([ 1.0000,  0.2500, -0.0000])

    values: float32 or float64; integers count as float32. axis None makes one block of it all,
    a number one for each index of that axis (a filter, a channel). generator: of the stochastic
    rounding, on the values' device. ValueError for other bits, roundings, dtypes or axes, and
    for values that are not finite.
    """
    values, largest = _blocks(values, bits, rounding, axis)
    exponent = torch.frexp(largest).exponent - 1  # largest = m 2^exponent, 1 <= m < 2
    spacing = (exponent.clamp(*EXPONENTS) - (bits - 2)).clamp_min(EXPONENTS[0])
    steps = torch.ldexp(values, -spacing)
    if rounding == "nearest":
        steps = steps.round()
    else:
        kind = {"dtype": values.dtype, "device": values.device}
        steps = (steps + torch.rand(values.shape, generator=generator, **kind)).floor()
    half = 2 ** (bits - 1)
    return torch.ldexp(steps.clamp(-half, half - 1), spacing)


def _blocks(values, bits, rounding, axis):
    """(the values, the largest magnitude of each one's block), once all is allowed."""
    values = torch.as_tensor(values)
    values = values if values.is_floating_point() else values.float()
    if values.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"values are {values.dtype}; float32 and float64 are allowed")
    if bits not in BITS:
        raise ValueError(f"bits is {bits}; a block has 2 to 24 bits, sign included")
    if rounding not in ROUNDINGS:
        raise ValueError(f"rounding is {rounding!r}; it is one of {', '.join(ROUNDINGS)}")
    if axis is not None and not -values.dim() <= axis < values.dim():
        raise ValueError(f"axis is {axis}; the values have {values.dim()} axes")
    axes, largest = range(values.dim()), values.abs()
    others = [one for one in axes if axis is None or one != axis % values.dim()]
    if values.numel() and others:
        largest = largest.amax(others, keepdim=True)
    if not largest.isfinite().all():
        raise ValueError("a value is NaN or infinite; a shared exponent cannot hold it")
    return values, largest


class _Rounded(torch.autograd.Function):
    """The identity with rounding both ways: activations forward, their errors backward."""

    @staticmethod
    def forward(ctx, values, bits, rounding):
        ctx.how = (bits, rounding)
        return quantize(values, bits, rounding)

    @staticmethod
    def backward(ctx, error):
        return quantize(error, *ctx.how), None, None


def rounded(values, bits=8, rounding="stochastic"):
    """`values` as one block, and the gradient that comes back through here as another; with
    bits None the values."""
    return values if bits is None else _Rounded.apply(values, bits, rounding)


def with_rounded_weights(model, bits):
    """A copy of the model whose matrices and filters have `bits` bits, rounded to the nearest,
    with one block for each filter. What flows through it changes: recompute batch norms."""
    copied = copy.deepcopy(model)
    for weight in (one for one in copied.parameters() if one.dim() > 1):
        weight.data = quantize(weight.data, bits, "nearest", axis=0)
    return copied


def round_activations(model, bits=8):
    """The model, whose convolutions and linear layers from now on round what they read, what
    they put out, and the errors that come back; with bits None no longer. Copies do so, too."""
    for layer in model.modules():
        if isinstance(layer, (nn.Conv2d, nn.Linear)):
            if not hasattr(layer, "bits"):
                layer.register_forward_pre_hook(_round_input)
                layer.register_forward_hook(_round_output)
            layer.bits = bits
    return model


def _round_input(layer, inputs):
    return tuple(rounded(one, layer.bits) for one in inputs)


def _round_output(layer, _inputs, output):
    return rounded(output, layer.bits)


class LowPrecisionSGD(torch.optim.Optimizer):
    """SGD whose weights (at once, too), gradients and momenta are block floating point of
    `bits`: the words of `torch.optim.SGD` and `quantize`; ValueError for a rate below 0."""

    def __init__(
        self, params, lr, *, momentum=0.9, weight_decay=3e-4, bits=8, rounding="stochastic"
    ):
        if not lr >= 0:
            raise ValueError(f"lr is {lr}; a rate is 0 or more")
        own = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay}
        super().__init__(params, own | {"bits": bits, "rounding": rounding})
        with torch.no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    parameter.copy_(self._round(parameter, group))

    def _round(self, values, group):
        """The values with one block for each filter, or one for a vector."""
        axis = 0 if values.dim() > 1 else None
        return quantize(values, group["bits"], group["rounding"], axis=axis)

    @torch.no_grad()
    def step(self, closure=None):
        """One step; parameters without a gradient stay. A closure is refused; ValueError for a
        gradient that is not finite: then nothing has moved."""
        if closure is not None:
            raise ValueError("a closure came; this optimiser takes one gradient for each step")
        after = []
        for group in self.param_groups:
            for parameter in (each for each in group["params"] if each.grad is not None):
                moved = group["momentum"] * self.state[parameter].get("momentum", 0)
                moved = moved + self._round(parameter.grad, group)
                moved = moved + group["weight_decay"] * parameter
                weights = self._round(parameter - group["lr"] * moved, group)
                after.append((parameter, weights, self._round(moved, group)))
        for parameter, weights, momentum in after:  # all of them, or none
            parameter.copy_(weights)
            self.state[parameter]["momentum"] = momentum
