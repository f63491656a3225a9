"""How the chapter trains: a recipe for the house's loop, and what may change a run's batches.

As in the experiments of Wang et al. (2020): pixels between 0 and 1, no standardisation, no
augmentation, Adam.

Legend: B batch, C channels, H height, W width, K classes.
"""

from dataclasses import dataclass

import torch
from frequency_split import stretch
from gradient_attacks import ascend
from helpers import images as house
from kernel_smoothness import roughness_penalty
from torch.nn import functional as F


@dataclass(frozen=True)
class Recipe:
    """How a run trains: epochs, batch, Adam's rate, which is halved in the last third; what a
    batch is replaced by (its attack in two steps, if `epsilon`; stretched or mixed images); and
    the strength of a penalty on rough kernels."""

    epochs: int = 5
    batch: int = 50
    rate: float = 1e-3
    epsilon: float = 0.0
    stretched: bool = False
    mixed: bool = False
    penalty: float = 0.0

    @property
    def change(self):
        """What the loop calls for each batch, or None."""
        if self.stretched:
            return lambda model, x_BCHW, targets, drawn: (stretch(x_BCHW), targets)
        if self.mixed:
            return mixed()
        return adversarial(self.epsilon, 2) if self.epsilon else None

    def rate_after(self, epochs):
        """The rate after so many epochs, whole or not: each epoch has one rate."""
        return self.rate * (0.5 if 3 * int(epochs) >= 2 * self.epochs else 1)


def train(model, images, recipe, **how):
    """The `Run` of `helpers.images.train` by the recipe; its model, trained in place, infers.

    how: `seed`, `at_epoch` and what else that loop takes; a `change` instead of the recipe's.
    """
    adam = torch.optim.Adam(model.parameters(), lr=recipe.rate, foreach=True)
    penalty = roughness_penalty(recipe.penalty) if recipe.penalty else None
    how = {"change": recipe.change, "penalty": penalty, "rate": recipe.rate_after} | how
    run = house.train(model, images, adam, epochs=recipe.epochs, batch=recipe.batch, **how)
    model.eval()
    return run


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
