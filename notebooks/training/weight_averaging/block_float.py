"""Block floating point: the numbers of a block share one exponent, so that a product is one of small integers.

Low-precision training of the article's section "Low Precision Training" (SWALP; Yang et al. 2019). A block x of `bits`
bits has the exponent e = floor(log2 max|x|), and

    i = clip(round(x 2^(bits - 2 - e)), -2^(bits-1), 2^(bits-1) - 1)        x' = i 2^(e - bits + 2)

`round` goes to the nearest integer or, stochastically, up with a chance of the fraction: then the mean of x' is x as
long as nothing is clipped, and an average over many steps filters the noise out. With these definitions the largest
number of a block is at least half the range, and only one above (2^(bits-1) - 1) / 2^(bits-2) times 2^e is clipped.

A blocks's exponent is kept in 8 bits: it is clipped to [-126, 127], so that a block of zeros or subnormal numbers is zeros.
"""

import torch

ROUNDINGS = ("stochastic", "nearest")
BITS = range(2, 25)  # a float32 has 24 bits of mantissa
EXPONENTS = (-126, 127)


def quantize(values, bits=8, rounding="stochastic", *, axis=None, generator=None):
    """`values` rounded to block floating point of `bits` bits (sign included), same shape and dtype.

    >>> quantize(torch.tensor([1.0, 0.26, -0.01]), 4, "nearest")
    tensor([1.0000, 0.2500, 0.0000])

    values: a float32 or float64 tensor of any shape. axis None makes one block of it all, a number one block per index
    of that axis (a filter, a channel). generator: of the stochastic rounding, on the values' device. Integers count as
    float32. An empty tensor comes back empty.

    Raises ValueError for other bits or roundings, for values that are not finite, for an axis that is not there.
    """
    values = torch.as_tensor(values)
    values = values if values.is_floating_point() else values.float()
    if bits not in BITS:
        raise ValueError(f"bits is {bits}; a block has {BITS.start} to {BITS.stop - 1} bits, sign included")
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
    others = [other for other in range(values.dim()) if other != axis % values.dim()]
    return values.abs().amax(others, keepdim=True) if others else values.abs()


def _on_grid(values, largest, bits, rounding, generator):
    exponent = torch.frexp(largest).exponent - 1  # frexp: largest = m 2^exponent with m in [0.5, 1)
    spacing = exponent.clamp(*EXPONENTS) - (bits - 2)
    steps = torch.ldexp(values, -spacing)
    if rounding == "nearest":
        steps = steps.round()
    else:
        drawn = torch.rand(values.shape, dtype=values.dtype, device=values.device, generator=generator)
        steps = (steps + drawn).floor()
    return torch.ldexp(steps.clamp(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1), spacing)


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
    """`values` in block floating point, and the gradient that comes back through here too; blocks as in `quantize`."""
    return _Rounded.apply(values, bits, rounding)
