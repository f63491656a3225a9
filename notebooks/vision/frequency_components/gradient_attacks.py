"""Attacks that follow the sign of the gradient, also through a low-pass filter before a model.

FGSM (Goodfellow et al. 2015) makes one step of the whole budget, PGD (Madry et al. 2018) some
small ones, each followed by the projection onto the ball |x' - x| <= epsilon and onto [0, 1]:

    x' <- clip(x + clip(x' + step · sign(dL/dx') - x, -epsilon, epsilon), 0, 1)

A filter F before a model f is part of it. F is linear and self-adjoint (`frequency_split`), so
the gradient through it is no guess: d L(f(F x)) / dx = F (dL/df at F x), one more filtering,
which is what autograd does on its way back. Taking the identity for F there, as is done for
steps without a derivative (Athalye et al. 2018, BPDA), attacks the same defence by a worse
gradient: a weaker comparison.

The loss is summed, not averaged, so that an image's attack does not depend on how many share
its batch; the sign is the same. Attack a model in the mode in which it answers: `eval()`.

Legend: B images, C channels, H height, W width.
"""

import math

import torch
from frequency_split import low_pass
from torch import nn
from torch.nn import functional as F


def fgsm(model, images_BCHW, labels_B, epsilon):
    """The images after one step of `epsilon` against their labels, in [0, 1]; see `pgd`."""
    return pgd(model, images_BCHW, labels_B, epsilon, epsilon, 1)


def pgd(model, images_BCHW, labels_B, epsilon, step, steps, drawn=None):
    """The images after `steps` steps of size `step`, never farther than `epsilon`; detached.

    drawn: a `torch.Generator` on the images' device, for a random start in the ball; without
    one the attack starts at the images. No gradient is left in the model's parameters.
    Raises ValueError for images outside [0, 1], another number of labels, sizes below zero or
    not finite, and for a model whose gradient is NaN: it would seem unbeaten.
    """
    _check(images_BCHW, labels_B, epsilon, step, steps)
    found_BCHW = ascend(model, images_BCHW, labels_B, epsilon, step, steps, drawn)
    if found_BCHW.isnan().any():
        raise ValueError("the model's gradient is NaN, so no attack moves; look at its weights")
    return found_BCHW


def ascend(model, images_BCHW, labels_B, epsilon, step, steps, drawn=None):
    """`pgd` without its looks at the pixels, for which training would wait at each step;
    where a gradient is NaN, so is the image."""
    images_BCHW = found_BCHW = images_BCHW.detach()
    if drawn is not None:
        noise = torch.rand(images_BCHW.shape, generator=drawn, device=images_BCHW.device)
        found_BCHW = (images_BCHW + epsilon * (2 * noise.to(images_BCHW.dtype) - 1)).clamp(0, 1)
    for _ in range(steps):
        slope_BCHW = gradient(model, found_BCHW, labels_B)
        sign_BCHW = slope_BCHW.sign().where(slope_BCHW == slope_BCHW, slope_BCHW)  # not NaN's 0
        away_BCHW = (found_BCHW + step * sign_BCHW - images_BCHW).clamp(-epsilon, epsilon)
        found_BCHW = (images_BCHW + away_BCHW).clamp(0, 1)
    return found_BCHW


def gradient(model, images_BCHW, labels_B):
    """The gradient of the summed cross-entropy with respect to the images, in their shape."""
    with torch.enable_grad():
        images_BCHW = images_BCHW.detach().requires_grad_()
        loss = F.cross_entropy(model(images_BCHW), labels_B, reduction="sum")
        return torch.autograd.grad(loss, images_BCHW)[0]


class Filtered(nn.Module):
    """A model that sees only the low part of its images, at `radius`.

    backward: how gradients come back through the filter: "exact", filtered again, or
    "identity", as if it were not there, the weaker comparison. ValueError for another word.
    """

    def __init__(self, model, radius, backward="exact"):
        super().__init__()
        if backward not in ("exact", "identity"):
            raise ValueError(f"backward is {backward!r}; allowed are exact, identity")
        self.model, self.radius, self.backward = model, radius, backward

    def forward(self, x_BCHW):
        low_BCHW = low_pass(x_BCHW, self.radius)
        if self.backward == "identity":
            low_BCHW = x_BCHW + (low_BCHW - x_BCHW).detach()
        return self.model(low_BCHW)


def _check(images, labels, epsilon, step, steps):
    if labels.shape != images.shape[:1]:
        raise ValueError(f"{len(images)} images and labels of the shape {tuple(labels.shape)}")
    if not (0 <= epsilon < math.inf and 0 <= step < math.inf and steps >= 1):  # nor NaN
        given = f"epsilon {epsilon}, step {step}, {steps} steps"
        raise ValueError(f"{given}; finite numbers of at least 0, 0 and 1 are allowed")
    if len(images) and not ((images >= 0) & (images <= 1)).all():  # NaN is neither
        raise ValueError("a pixel is outside [0, 1], where attacks keep it; scale images first")
