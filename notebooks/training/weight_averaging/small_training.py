"""One short training loop for images that fit into the device's memory.

The whole set lies on the device as bytes. A batch is an index and a scaling there, so that
nothing is copied; the losses stay on the device until the run ends, so that nobody waits.

Legend: N images, B batch, C channels, H height, W width, K classes.
"""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch.nn import functional as F

SGD = partial(torch.optim.SGD, momentum=0.9, weight_decay=3e-4, foreach=True)
ADAM = partial(torch.optim.AdamW, weight_decay=1e-2, foreach=True)


class Images(NamedTuple):
    """Images as bytes with their classes, and the scaling by which a network reads them.

    pixels_NCHW uint8, labels_N int64, mean and std (C, 1, 1) float32, all on one device. The
    scaling is the training set's for every part: `moments` of that, then `scaled_as`.
    """

    pixels_NCHW: torch.Tensor
    labels_N: torch.Tensor
    mean: torch.Tensor
    std: torch.Tensor

    @property
    def count(self):
        """N."""
        return self.labels_N.shape[0]

    def at(self, index):
        """The images x_BCHW (float32, mean 0, deviation 1) and labels_B of `index` (B,)."""
        pixels_BCHW = self.pixels_NCHW.index_select(0, index).float()
        return (pixels_BCHW - self.mean) / self.std, self.labels_N.index_select(0, index)

    def part(self, index):
        """The `Images` of `index`, scaled as these are."""
        index = index.to(self.labels_N.device)
        return self._replace(pixels_NCHW=self.pixels_NCHW[index], labels_N=self.labels_N[index])

    def scaled_as(self, other):
        """The same images, read with the scaling of other ones."""
        return self._replace(mean=other.mean, std=other.std)

    def batches(self, size=500):
        """All images in order, scaled, `size` at a time: an iterator of x_BCHW."""
        index = torch.arange(self.count, device=self.labels_N.device)
        return (self.at(some)[0] for some in index.split(size))


def images(pixels_NCHW, labels_N):
    """`Images` of uint8 pixels and int64 labels, with the moments of their own bytes (deviation
    1 of a constant channel). Raises ValueError for other dtypes or numbers, or none."""
    if pixels_NCHW.dtype != torch.uint8 or labels_N.dtype != torch.int64:
        got = f"{pixels_NCHW.dtype} and {labels_N.dtype}"
        raise ValueError(f"pixels and labels are {got}; they are uint8 and int64")
    if pixels_NCHW.dim() != 4 or labels_N.shape != pixels_NCHW.shape[:1] or not len(labels_N):
        got = f"{tuple(pixels_NCHW.shape)} and {tuple(labels_N.shape)}"
        raise ValueError(f"pixels and labels are {got}; they are (N, C, H, W) and (N,), N > 0")
    values = pixels_NCHW.float()
    mean, std = values.mean((0, 2, 3)), values.std((0, 2, 3), correction=0)
    std = torch.where(std > 0, std, 1.0)
    return Images(pixels_NCHW, labels_N, mean[:, None, None], std[:, None, None])


@dataclass(frozen=True)
class Recipe:
    """How a run trains. rate: a number, or a function of the epochs done (a float: it is asked
    before every step). optimiser: called with the parameters and `lr`."""

    epochs: int = 20
    batch: int = 64
    rate: float | Callable[[float], float] = 0.1
    optimiser: Callable = SGD

    def rate_at(self, epoch):
        """The learning rate after `epoch` epochs (a float)."""
        return self.rate(epoch) if callable(self.rate) else self.rate


def annealed(rate, epochs, low=0.01):
    """A learning rate as a function of the epochs done: whole for the first half of `epochs`,
    then down in a line to the share `low` of it at nine tenths, and so to the end.

    >>> [annealed(0.1, 10)(epoch) for epoch in (0, 5, 7, 9, 10)]  # 0.1, 0.1, 0.0505, 0.001, …
    """

    def at(epoch):
        down = min(max((epoch / epochs - 0.5) / 0.4, 0.0), 1.0)
        return rate * (1 - (1 - low) * down)

    return at


class Run(NamedTuple):
    """What a run leaves: its model, the mean loss of each epoch, its optimiser (to go on)."""

    model: torch.nn.Module
    losses: list
    optimiser: torch.optim.Optimizer


def train(
    model, data, recipe, *, seed=0, first=0, last=None, state=None, at_epoch=None, at_step=None
):
    """Train `model` in place on the `Images` data, epochs `first` to `last`; a `Run`.

    The order of images depends on `seed` and the epoch alone, so that a run in two parts, the
    second with `state=run.optimiser.state_dict()`, is the run in one; the state is copied.
    at_epoch(epochs done, model) and at_step(steps done, model) are called after each. What is
    left over by whole batches waits for the next epoch's order.

    Raises ValueError for a batch larger than the set, FloatingPointError for a loss that is not
    finite.
    """
    if not 0 < recipe.batch <= data.count:
        allowed = f"with {data.count} images it lies between 1 and {data.count}"
        raise ValueError(f"batch is {recipe.batch}; {allowed}")
    device, last = data.labels_N.device, recipe.epochs if last is None else last
    drawn = torch.Generator(device=device).manual_seed(seed)
    optimiser = recipe.optimiser(model.parameters(), lr=recipe.rate_at(first))
    if state is not None:
        optimiser.load_state_dict(copy.deepcopy(state))  # torch would share the momenta
    losses = []
    for epoch in range(last):
        order = torch.randperm(data.count, generator=drawn, device=device)
        if epoch >= first:
            losses.append(_epoch(model, data, recipe, optimiser, order, epoch, at_step))
            if at_epoch:
                at_epoch(epoch + 1, model)
    losses = torch.stack(losses).tolist() if losses else []
    if not all(math.isfinite(loss) for loss in losses):
        tip = f"lower the rate, which began with {recipe.rate_at(first):g}"
        raise FloatingPointError(f"the loss of an epoch is not finite: {losses}; {tip}")
    return Run(model, losses, optimiser)


def _epoch(model, data, recipe, optimiser, order, epoch, at_step):
    """One epoch in this order; the mean of its batches' losses, a scalar on the device."""
    model.train()
    steps, total = data.count // recipe.batch, torch.zeros((), device=order.device)
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = recipe.rate_at(epoch + step / steps)
        x_BCHW, labels_B = data.at(order[step * recipe.batch : (step + 1) * recipe.batch])
        loss = F.cross_entropy(model(x_BCHW), labels_B)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        total += loss.detach()
        if at_step:
            at_step(epoch * steps + step + 1, model)
    return total / steps


@torch.no_grad()
def logits_of(model, data, batch=500):
    """The model's logits (N, K) for all images, in the mode that it is in."""
    return torch.cat([model(x_BCHW) for x_BCHW in data.batches(batch)])
