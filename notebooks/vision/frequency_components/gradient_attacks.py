"""Attacks that follow the sign of the gradient, also through a low-pass filter before a model.

FGSM (Goodfellow et al. 2015) makes one step of the whole budget, PGD (Madry et al. 2018) some
small ones, each followed by the projection onto the ball |x' - x| <= epsilon and onto [0, 1]:

    x' <- clip(x + clip(x' + step · sign(dL/dx') - x, -epsilon, epsilon), 0, 1)

A filter F before a model f is part of it. F is linear and self-adjoint (`frequency_split`), so
the gradient through it needs no tape and no guess: d L(f(F x)) / dx = F (dL/df at F x), one
more filtering. Taking the identity for F backward, as is done for steps without a derivative
(Athalye et al. 2018, BPDA), attacks the same defence by a worse gradient: a weaker comparison.

The loss is summed, not averaged, so that an image's attack does not depend on how many share
its batch; the sign is the same. Attack a model in the mode in which it answers: `eval()`.

Legend: B images, C channels, H height, W width.
"""

import torch
from frequency_split import low_pass
from torch import nn
from torch.nn import functional as F


def fgsm(model, images_BCHW, labels_B, epsilon):
    """The images after one step of `epsilon` against their labels, in [0, 1]; detached.

    Raises ValueError as `pgd` does. Cost: one pass forward and one backward.
    """
    return pgd(model, images_BCHW, labels_B, epsilon, epsilon, 1)


def pgd(model, images_BCHW, labels_B, epsilon, step, steps, drawn=None):
    """The images after `steps` steps of size `step`, never farther than `epsilon`; detached.

    drawn: a `torch.Generator` on the images' device, for a random start in the ball; without
    one the attack starts at the images. No gradient is left in the model's parameters.
    Raises ValueError for images outside [0, 1], another number of labels, or sizes below zero.
    """
    _check(images_BCHW, labels_B, epsilon, step, steps)
    return ascend(model, images_BCHW, labels_B, epsilon, step, steps, drawn)


def ascend(model, images_BCHW, labels_B, epsilon, step, steps, drawn=None):
    """`pgd` without its look at the pixels, for which each step of a training would wait."""
    images_BCHW = found_BCHW = images_BCHW.detach()
    if drawn is not None:
        noise = torch.rand(images_BCHW.shape, generator=drawn, device=images_BCHW.device)
        found_BCHW = (images_BCHW + epsilon * (2 * noise.to(images_BCHW.dtype) - 1)).clamp(0, 1)
    for _ in range(steps):
        ahead_BCHW = found_BCHW + step * gradient(model, found_BCHW, labels_B).sign()
        away_BCHW = (ahead_BCHW - images_BCHW).clamp(-epsilon, epsilon)
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

    backward: "exact", the filter again, since it is self-adjoint; or "identity", as if it were
    not there, which is the weaker comparison. Raises ValueError for another word.
    """

    def __init__(self, model, radius, backward="exact"):
        super().__init__()
        if backward not in BACKWARD:
            raise ValueError(f"backward is {backward!r}; allowed are {', '.join(BACKWARD)}")
        self.model, self.radius, self.filter = model, radius, BACKWARD[backward]

    def forward(self, x_BCHW):
        return self.model(self.filter.apply(x_BCHW, self.radius))


class _Exact(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x_BCHW, radius):
        ctx.radius = radius
        return low_pass(x_BCHW, radius)

    @staticmethod
    def backward(ctx, gradient_BCHW):
        return low_pass(gradient_BCHW, ctx.radius), None


class _Identity(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x_BCHW, radius):
        return low_pass(x_BCHW, radius)

    @staticmethod
    def backward(ctx, gradient_BCHW):
        return gradient_BCHW, None


BACKWARD = {"exact": _Exact, "identity": _Identity}


def _check(images, labels, epsilon, step, steps):
    if labels.shape != images.shape[:1]:
        raise ValueError(f"{len(images)} images and labels of the shape {tuple(labels.shape)}")
    if epsilon < 0 or step < 0 or steps < 1:
        given = f"epsilon {epsilon}, step {step}, {steps} steps"
        raise ValueError(f"{given}; at least 0, 0 and 1 are allowed")
    if len(images) and not ((images >= 0) & (images <= 1)).all():  # NaN is neither
        raise ValueError("a pixel is outside [0, 1], where attacks keep it; scale images first")
