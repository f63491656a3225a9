"""Two back ends for one story: NumPy, the oracle, and torch, for batches, gradients and GPUs.

A back end is a source of noise and of constants. All further arithmetic follows its operands:
`of(x)` is the module, NumPy or torch, that `x` belongs to. All noise is standard, so both tell
the same story when they are fed the same numbers (`TorchBackend(noise=NumpyBackend(0))`).
"""

import numpy as np
import torch


class NumpyBackend:
    """Seeded noise and constants in NumPy: `NumpyBackend(0).normal((2, 3))`, float64."""

    lazy = False

    def __init__(self, seed, dtype=np.float64):
        self.dtype, self._generator = np.dtype(dtype), np.random.default_rng(seed)

    def normal(self, shape):
        """Standard normal numbers."""
        return self._generator.standard_normal(shape, dtype=self.dtype)

    def uniform(self, shape):
        """Numbers from 0 up to, never at, 1."""
        return self._generator.random(shape, dtype=self.dtype)

    def array(self, values):
        """The values as an array of this back end; integers stay integers."""
        values = np.asarray(values)
        return values.astype(self.dtype) if values.dtype.kind == "f" else values

    def full(self, shape, value):
        """An array of one value, made where the back end computes."""
        return np.full(shape, value, self.dtype)


class TorchBackend:
    """The same in torch: `TorchBackend(0, "cuda")`, float32, or fed by another's `noise`. Where
    it is `lazy`, on a CPU, a slate draws noise only for items that can reach it.
    """

    def __init__(self, seed=0, device="cpu", dtype=torch.float32, noise=None, lazy=False):
        self.device, self.dtype, self._noise = torch.device(device), dtype, noise
        self.lazy, self._generator = lazy, torch.Generator(self.device).manual_seed(seed)

    def normal(self, shape):
        """Standard normal numbers."""
        return self._drawn("normal", torch.randn, shape)

    def uniform(self, shape):
        """Numbers from 0 up to, never at, 1."""
        return self._drawn("uniform", torch.rand, shape)

    def array(self, values):
        """The values as a tensor on the device; tensors keep their gradient, integers stay."""
        values = torch.as_tensor(values, device=self.device)
        return values.to(self.dtype) if values.is_floating_point() else values

    def full(self, shape, value):
        """An array of one value, made on the device: nothing goes over the link."""
        return torch.full(shape, value, device=self.device, dtype=self.dtype)

    def _drawn(self, law, draw, shape):
        if self._noise:
            return self.array(getattr(self._noise, law)(shape))
        return draw(shape, device=self.device, dtype=self.dtype, generator=self._generator)


def fastest(seed, device="cpu"):
    """A float32 `TorchBackend`; on a CPU lazy, with NumPy's noise, drawn twice as fast."""
    if torch.device(device).type != "cpu":
        return TorchBackend(seed, device)
    return TorchBackend(seed, device, noise=NumpyBackend(seed, np.float32), lazy=True)


def of(*arrays):
    """The arrays' module: torch where one of them is a tensor, else NumPy."""
    return torch if any(isinstance(one, torch.Tensor) for one in arrays) else np


def take(values, index, axis):
    """The values at these places along an axis, as `np.take_along_axis`; other axes agree."""
    if of(values, index) is np:
        return np.take_along_axis(values, index, axis)
    return torch.take_along_dim(values, index, axis)


def distances(first, second):
    """How far each of the points (…, U, T) is from each of (…, D, T): (…, U, D).

    The square, |u|² − 2 u·d + |d|², is one product of matrices, the rest happens in place. In
    float32, at 20 from the middle, a distance of 1 is right to 1e-4. Points that cannot be told
    apart have a distance of 1e-7 and a gradient of zero.
    """
    own, other = ((one * one).sum(-1)[..., None] for one in (first, second))
    ones = of(own).ones_like
    left = of(own).concatenate([first, own, ones(own)], -1)
    right = of(own).concatenate([-2 * second, ones(other), other], -1)
    found = left @ of(right).swapaxes(right, -1, -2)
    found = np.maximum(found, 1e-14, out=found) if of(found) is np else found.clamp_(min=1e-14)
    found **= 0.5
    return found


def largest(values, count):
    """The places of the `count` largest values on the last axis, the largest first."""
    if of(values) is torch:
        return values.topk(count, -1).indices
    found = np.argpartition(values, -count, -1)[..., -count:]
    return take(found, np.argsort(-take(values, found, -1), -1), -1)


def logsumexp(values):
    """ln Σ exp over the last axis, without overflow; −∞ where all are."""
    if of(values) is torch:
        return values.logsumexp(-1)
    return np.logaddexp.reduce(values, -1)


def counts(index_WN, size, like):
    """How often each of 0 … `size` − 1 occurs in a row, (W, `size`); others are nobody's."""
    rows = index_WN.shape[0]
    if of(index_WN) is np:
        found = [np.bincount(row, minlength=size + 1)[:size] for row in index_WN]
        return np.asarray(found, dtype=like.dtype)
    found = torch.zeros(rows, size + 1, dtype=like.dtype, device=like.device)
    index = index_WN.clamp(max=size)
    return found.scatter_add_(1, index, torch.ones_like(index, dtype=like.dtype))[:, :size]
