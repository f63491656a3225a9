"""One short training loop for images that fit into the device's memory, and the learning rates it follows.

The whole set lies on the device as bytes; a batch is an index and a scaling, so that no loader waits. Legend: N images,
B batch, C channels, H height, W width, K classes.
"""

import copy
import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch.nn import functional as F


class Images(NamedTuple):
    """Images as bytes and their classes, on one device: pixels_NCHW uint8, labels_N int64."""

    pixels_NCHW: torch.Tensor
    labels_N: torch.Tensor

    def __len__(self):
        return len(self.labels_N)

    def at(self, index, mean, std):
        """The images and labels of `index`, (B, C, H, W) float32 with the training set's mean 0 and deviation 1."""
        return (self.pixels_NCHW[index].float() - mean) / std, self.labels_N[index]


@dataclass(frozen=True)
class Recipe:
    """How a run trains: epochs, batch, rate of the start, weight decay, and the schedule by name with its settings."""

    epochs: int = 20
    batch: int = 128
    rate: float = 0.1
    decay: float = 3e-4
    momentum: float = 0.9
    schedule: str = "decay"
    start: int = 15  # epochs before weights are collected
    high: float = 0.05  # the rate that SWA keeps, or a cycle starts from
    low: float = 0.001  # the rate that a cycle ends on
    cycle: int = 2  # epochs in a cycle
    optimiser: str = "sgd"


def decaying(share):
    """The share of the first rate after `share` of a run: whole for a half, then down in a line to 1 % at nine tenths.

    share 0 to 1, scalar. Source: the schedule of Izmailov et al. (2018), section 4.1.
    """
    return 1.0 if share <= 0.5 else max(1.0 - 0.99 * (share - 0.5) / 0.4, 0.01)


def rate_at(recipe, epoch):
    """The learning rate at `epoch` (a float: epochs done so far) of the recipe's schedule.

    `decay` anneals over the whole run. `swa` anneals as if the run had `start` epochs, but no lower than `high`, and
    stays there. `cyclical` anneals so too, and then falls in a line from `high` to `low` within each cycle.
    Raises ValueError for another schedule.
    """
    if recipe.schedule == "decay":
        return recipe.rate * decaying(epoch / recipe.epochs)
    if recipe.schedule not in ("swa", "cyclical"):
        raise ValueError(f"schedule is {recipe.schedule!r}; it is decay, swa or cyclical")
    if epoch < recipe.start:
        share = decaying(epoch / recipe.start)
        floor = recipe.high / recipe.rate
        return recipe.rate * (floor + (1 - floor) * (share - 0.01) / 0.99)
    if recipe.schedule == "swa":
        return recipe.high
    within = (epoch - recipe.start) % recipe.cycle / recipe.cycle
    return recipe.high + (recipe.low - recipe.high) * within


def optimiser_of(model, recipe):
    """SGD with momentum, or Adam with decoupled weight decay, in one fused call per group of tensors."""
    if recipe.optimiser == "adam":
        return torch.optim.AdamW(model.parameters(), lr=recipe.rate, weight_decay=recipe.decay, foreach=True)
    if recipe.optimiser != "sgd":
        raise ValueError(f"optimiser is {recipe.optimiser!r}; it is sgd or adam")
    return torch.optim.SGD(
        model.parameters(), recipe.rate, momentum=recipe.momentum, weight_decay=recipe.decay, nesterov=False, foreach=True
    )


class Run(NamedTuple):
    """What a run leaves: its model, the loss of each epoch's batches, the weights at each epoch's end (on request)."""

    model: torch.nn.Module
    losses: list
    visited: list


def train(model, images, recipe, mean, std, *, seed=0, at_epoch=None, at_step=None, keep=False, first=0):
    """Train `model` in place on `images` by `recipe`, from epoch `first` on; a `Run`.

    mean, std: (C, 1, 1) or scalars, of the training set's bytes. at_epoch(epoch, model) is called after each epoch,
    at_step(step, model) after each step. The order of images depends on the seed alone. The losses stay on the device until the
    end: nothing in the loop waits. Raises ValueError for a batch larger than the set, FloatingPointError when a loss is not finite.
    """
    if not 0 < recipe.batch <= len(images):
        raise ValueError(f"batch is {recipe.batch}; with {len(images)} images it lies between 1 and {len(images)}")
    device = images.labels_N.device
    drawn = torch.Generator(device=device).manual_seed(seed)
    optimiser, steps = optimiser_of(model, recipe), len(images) // recipe.batch
    losses, visited = [], []
    for epoch in range(first, recipe.epochs):
        order = torch.randperm(len(images), generator=drawn, device=device)
        total = torch.zeros((), device=device)
        model.train()
        for step in range(steps):
            for group in optimiser.param_groups:
                group["lr"] = rate_at(recipe, epoch + step / steps)
            x_BCHW, labels_B = images.at(order[step * recipe.batch : (step + 1) * recipe.batch], mean, std)
            loss = F.cross_entropy(model(x_BCHW), labels_B)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            total += loss.detach()
            if at_step:
                at_step(epoch * steps + step, model)
        losses.append(total / steps)
        if keep:
            visited.append(copy.deepcopy(model.state_dict()))
        if at_epoch:
            at_epoch(epoch + 1, model)
    losses = torch.stack(losses).tolist() if losses else []
    if not all(math.isfinite(loss) for loss in losses):
        raise FloatingPointError(f"the loss of an epoch is not finite: {losses}; lower the rate ({recipe.rate})")
    return Run(model, losses, visited)


@torch.no_grad()
def logits_of(model, images, mean, std, batch=1000):
    """The model's logits (N, K) for all images, in its present mode."""
    index = torch.arange(len(images), device=images.labels_N.device)
    return torch.cat([model(images.at(part, mean, std)[0]) for part in index.split(batch)])
