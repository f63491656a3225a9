"""Block floating point: the numbers of a block share one exponent, so that a product is one of
small integers; and SGD with every number kept so (SWALP; Yang et al. 2019).

A block x of `bits` bits has the exponent e = floor(log2 max|x|), and

    i = clip(round(x 2^(bits-2-e)), -2^(bits-1), 2^(bits-1) - 1)       x' = i 2^(e-bits+2)

`round` goes to the nearest integer or, stochastically, up with a chance of the fraction: then
the mean of x' is x as long as nothing is clipped, and an average over many steps filters the
noise out. The exponent is kept in 8 bits, clipped to [-126, 127], and no step is finer than
2^-126.

One step of low-precision SGD with Q for this rounding and momentum b:

    g = Q(gradient + decay w)        m = Q(b m + g)        w = Q(w - rate m)

Activations pass through Q going forward, their errors coming back, after every convolution and
linear layer. Weights have one block for each filter, activations one for each layer's output.
In float32 stay, as in the original's experiments, the batch norms' arithmetic, the loss, and
the average, in which the rounding errors of many steps cancel.
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

    values: a float32 or float64 tensor of any shape; integers count as float32. axis None makes
    one block of it all, a number one block for each index of that axis (a filter, a channel).
    generator: of the stochastic rounding, on the values' device. Raises ValueError for other
    bits, roundings, dtypes or axes, and for values that are not finite.
    """
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
    if not values.numel():
        return values.clone()
    largest = _largest(values, axis)
    if not largest.isfinite().all():
        raise ValueError("a value is NaN or infinite; a shared exponent cannot hold it")
    return _on_grid(values, largest, bits, rounding, generator)


def _largest(values, axis):
    """The largest magnitude of each block, shaped to spread over `values`."""
    if axis is None:
        return values.abs().amax()
    others = [one for one in range(values.dim()) if one != axis % values.dim()]
    return values.abs().amax(others, keepdim=True) if others else values.abs()


def _on_grid(values, largest, bits, rounding, generator):
    """The values rounded; `largest` has the largest magnitude of each one's block."""
    exponent = torch.frexp(largest).exponent - 1  # largest = m 2^exponent, m in [0.5, 1)
    spacing = (exponent.clamp(*EXPONENTS) - (bits - 2)).clamp_min(EXPONENTS[0])
    steps = torch.ldexp(values, -spacing)
    if rounding == "nearest":
        steps = steps.round()
    else:
        kind = {"dtype": values.dtype, "device": values.device}
        steps = (steps + torch.rand(values.shape, generator=generator, **kind)).floor()
    half = 2 ** (bits - 1)
    return torch.ldexp(steps.clamp(-half, half - 1), spacing)


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
    """`values` as one block, and the gradient that comes back through here as another."""
    return _Rounded.apply(values, bits, rounding)


def with_rounded_weights(model, bits):
    """A copy of the model whose matrices and filters have `bits` bits, rounded to the nearest,
    with one block for each filter. What flows through it changes: recompute batch norms."""
    copied = copy.deepcopy(model)
    for weight in (one for one in copied.parameters() if one.dim() > 1):
        weight.data = quantize(weight.data, bits, "nearest", axis=0)
    return copied


def round_activations(model, bits=8):
    """The handles (`.remove()` undoes it) of hooks by which every convolution and linear layer
    of the model rounds what it puts out, both ways."""
    layers = [one for one in model.modules() if isinstance(one, (nn.Conv2d, nn.Linear))]
    return [
        layer.register_forward_hook(lambda _layer, _inputs, output: rounded(output, bits))
        for layer in layers
    ]


class LowPrecisionSGD(torch.optim.Optimizer):
    """SGD whose weights, gradients and momenta are block floating point of `bits` bits.

    lr, momentum, weight_decay as in `torch.optim.SGD`; rounding and generator as in `quantize`.
    The weights are rounded at once and after every step.
    """

    def __init__(
        self,
        params,
        lr,
        *,
        momentum=0.9,
        weight_decay=3e-4,
        bits=8,
        rounding="stochastic",
        generator=None,
    ):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        self._how = {"bits": bits, "rounding": rounding, "generator": generator}
        with torch.no_grad():
            for parameter in (each for group in self.param_groups for each in group["params"]):
                parameter.copy_(self._round(parameter))

    def _round(self, values):
        """The values with one block for each filter, or one for a vector."""
        return quantize(values, axis=0 if values.dim() > 1 else None, **self._how)

    @torch.no_grad()
    def step(self, closure=None):
        """One step; parameters without a gradient stay. A closure is refused."""
        if closure is not None:
            raise ValueError("a closure came; this optimiser takes one gradient for each step")
        for group in self.param_groups:
            for parameter in (each for each in group["params"] if each.grad is not None):
                gradient = self._round(parameter.grad + group["weight_decay"] * parameter)
                past = self.state[parameter].get("momentum")
                moved = gradient
                if past is not None:
                    moved = self._round(group["momentum"] * past + gradient)
                self.state[parameter]["momentum"] = moved
                parameter.copy_(self._round(parameter - group["lr"] * moved))
