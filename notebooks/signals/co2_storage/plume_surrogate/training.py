"""Training a neural operator on simulated storage sites.

Loss and optimiser as in Wen et al., U-FNO (2022): relative L2 of the field plus half of that of
its derivative along the radius, over the rock alone; Adam with weight decay and a falling rate.

Where we differ: one network gives both fields, where the paper trains one a field; the rate
rises for a tenth of the updates and falls on a cosine; the derivative is taken from ring to
ring, which on a geometric grid is nearly the one along log r.

Legend: N cases, B batch, F fields (saturation, pressure build-up), Z rows, R rings, T times.
"""

import torch
from fourier_operator import descend, relative_l2

from .inputs import encode, pressure_unit
from .surrogate import check_cases, pick


def targets(cases, grid):
    """(N, F, Z, R, T): saturation, and pressure build-up in units of `pressure_unit`."""
    unit = pressure_unit(cases, grid).view(-1, 1, 1, 1)
    return torch.stack([cases["saturation"], cases["pressure"] / unit], 1).movedim(2, -1)


def field_loss(found_BFZRT, true_BFZRT, mask_BZR, derivative=0.5):
    """The mean over batch and fields of relative L2 plus `derivative` times that of the slope
    along the radius, inside of `mask`; ValueError for shapes that differ."""
    if found_BFZRT.shape != true_BFZRT.shape:
        shapes = tuple(found_BFZRT.shape), tuple(true_BFZRT.shape)
        raise ValueError("answers of shape {}, truths of {}".format(*shapes))
    inside = mask_BZR[:, None, :, :, None]
    found, true = ((field * inside).flatten(0, 1) for field in (found_BFZRT, true_BFZRT))
    slopes = (field[:, :, 2:] - field[:, :, :-2] for field in (found, true))
    return (relative_l2(found, true) + derivative * relative_l2(*slopes)).mean()


def train(net, cases, grid, epochs, seed=0, batch=8, rate=3e-3, device="cpu", decoupled=False):
    """A list of each epoch's mean loss; `net` is trained in place by `descend`, and left in
    eval mode. Raises ValueError for cases that `check_cases` refuses."""
    check_cases(cases, grid, trained=False)
    moving = net.head.times is None
    net.to(device).train()

    def loss_of(chosen):
        some = {name: values.to(device) for name, values in pick(cases, chosen).items()}
        found = net(encode(some, grid, moving))
        return field_loss(found, targets(some, grid), some["mask"])

    number = len(cases["mask"])
    losses = descend(net, loss_of, number, epochs, seed, batch, rate, decoupled=decoupled)
    net.eval()
    return losses
