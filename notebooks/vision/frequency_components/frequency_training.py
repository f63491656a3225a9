"""One short training loop for images that fit into the device's memory, and what may change it.

The whole set lies on the device as bytes; a batch is an index and a division, so that no loader
waits. As in the experiments of Wang et al. (2020): pixels between 0 and 1, no standardisation,
no augmentation, Adam. A run may change its batches (`adversarial`, `mixed`), or add a penalty.

Legend: N images, B batch, C channels, H height, W width, K classes.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from gradient_attacks import ascend
from torch.nn import functional as F


class Images(NamedTuple):
    """Images as bytes and their classes, on one device: pixels_NCHW uint8, labels_N int64."""

    pixels_NCHW: torch.Tensor
    labels_N: torch.Tensor

    def __len__(self):
        return len(self.labels_N)

    def take(self, index):
        """Those of `index`, still as bytes."""
        return Images(self.pixels_NCHW[index], self.labels_N[index])

    def at(self, index):
        """The images of `index`, (B, C, H, W) float32 between 0 and 1, and their labels."""
        return self.pixels_NCHW[index].float() / 255, self.labels_N[index]

    def whole(self):
        """All of them."""
        return self.at(slice(None))


@dataclass(frozen=True)
class Recipe:
    """How a run trains: epochs, batch, Adam's rate, which is halved in the last third."""

    epochs: int = 5
    batch: int = 50
    rate: float = 1e-3


class Run(NamedTuple):
    """What a run leaves: its model, and the mean loss of each epoch's batches."""

    model: torch.nn.Module
    losses: list


def train(model, images, recipe, *, seed=0, at_epoch=None, change=None, penalty=None):
    """Train `model` in place on `images` by `recipe`; a `Run`.

    at_epoch(epoch, model) is called after each epoch; change(model, x_BCHW, labels_B, drawn)
    gives the batch that is trained on, its targets classes or rows of probabilities;
    penalty(model) is added to the loss. The order of the images depends on the seed alone:
    what `change` draws comes from a generator of its own.
    Losses stay on the device until the end, so nothing in the loop waits. Raises ValueError for
    a batch larger than the set, FloatingPointError when a loss is not finite.
    """
    if not 0 < recipe.batch <= len(images):
        raise ValueError(f"a batch of {recipe.batch}; between 1 and {len(images)} is allowed")
    device = images.labels_N.device
    order_drawn = torch.Generator(device=device).manual_seed(seed)
    drawn = torch.Generator(device=device).manual_seed(seed + 1)
    optimiser = torch.optim.Adam(model.parameters(), lr=recipe.rate, foreach=True)
    steps, losses = len(images) // recipe.batch, []
    for epoch in range(recipe.epochs):
        late = 3 * epoch >= 2 * recipe.epochs
        optimiser.param_groups[0]["lr"] = recipe.rate * (0.5 if late else 1)
        order = torch.randperm(len(images), generator=order_drawn, device=device)
        total = torch.zeros((), device=device)
        model.train()
        for index in order[: steps * recipe.batch].split(recipe.batch):
            x_BCHW, targets = images.at(index)
            if change:
                x_BCHW, targets = change(model, x_BCHW, targets, drawn)
            loss = F.cross_entropy(model(x_BCHW), targets)
            loss = loss + penalty(model) if penalty else loss
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            total += loss.detach()
        losses.append(total / steps)
        if at_epoch:
            at_epoch(epoch + 1, model.eval())
    losses = torch.stack(losses).tolist() if losses else []
    if not all(map(math.isfinite, losses)):
        raise FloatingPointError(f"an epoch's loss is not finite: {losses}; lower the rate")
    return Run(model.eval(), losses)


def adversarial(epsilon, steps=3):
    """A change for `train`: each batch is replaced by its PGD attack (Madry et al. 2018).

    Steps of 2.5 epsilon / steps from a random start in the ball, by a model that infers, so
    that the attack leaves batch norm's running statistics alone.
    """

    def change(model, x_BCHW, labels_B, drawn):
        model.eval()
        x_BCHW = ascend(model, x_BCHW, labels_B, epsilon, 2.5 * epsilon / steps, steps, drawn)
        model.train()
        return x_BCHW, labels_B

    return change


def mixed(classes=10):
    """A change for `train`: mixup (Zhang et al. 2018) with uniform weights, Beta(1, 1)."""

    def change(model, x_BCHW, labels_B, drawn):
        share_B = torch.rand(len(labels_B), generator=drawn, device=x_BCHW.device)
        other_B = torch.randperm(len(labels_B), generator=drawn, device=x_BCHW.device)
        one_BK, share_B111 = F.one_hot(labels_B, classes).float(), share_B[:, None, None, None]
        x_BCHW = share_B111 * x_BCHW + (1 - share_B111) * x_BCHW[other_B]
        return x_BCHW, share_B[:, None] * one_BK + (1 - share_B[:, None]) * one_BK[other_B]

    return change
