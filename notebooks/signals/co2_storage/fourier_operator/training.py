"""Training a neural operator on simulated storage sites.

Loss and optimiser as in Wen et al., U-FNO (2022): relative L2 of the field plus half of that of
its derivative along the radius, over the rock alone; Adam with weight decay and a falling rate.

Where we differ: one network gives both fields, where the paper trains one a field; the rate
rises for a tenth of the updates and falls on a cosine; the derivative is taken from ring to
ring, which on a geometric grid is nearly the one along log r.

Legend: N cases, B batch, F fields (saturation, pressure build-up), Z rows, R rings, T times.
"""

import math

import torch

from .inputs import FLOOR, encode, pressure_unit
from .surrogate import check_cases, pick

FEWEST_UPDATES = 20  # that the rate needs to rise and fall; a shorter training ends on the way


def targets(cases, grid):
    """(N, F, Z, R, T): saturation, and pressure build-up in units of `pressure_unit`."""
    unit = pressure_unit(cases, grid).view(-1, 1, 1, 1)
    return torch.stack([cases["saturation"], cases["pressure"] / unit], 1).movedim(2, -1)


def relative_l2(found_BZRT, true_BZRT):
    """(B,): ‖found − true‖ / ‖true‖, a field of zeros counting as one of norm 1e-6."""
    gap = (found_BZRT - true_BZRT).flatten(1).norm(dim=1)
    return gap / true_BZRT.flatten(1).norm(dim=1).clamp(min=FLOOR)


def field_loss(found_BFZRT, true_BFZRT, mask_BZR, derivative=0.5):
    """The mean over batch and fields of relative L2 plus `derivative` times that of the slope
    along the radius; cells outside of `mask` do not count.

    Raises ValueError for shapes that differ.
    """
    if found_BFZRT.shape != true_BFZRT.shape:
        raise ValueError(
            f"answers of shape {tuple(found_BFZRT.shape)}, truths of {tuple(true_BFZRT.shape)}"
        )
    inside = mask_BZR[:, None, :, :, None]
    found, true = ((field * inside).flatten(0, 1) for field in (found_BFZRT, true_BFZRT))
    slopes = (field[:, :, 2:] - field[:, :, :-2] for field in (found, true))
    return (relative_l2(found, true) + derivative * relative_l2(*slopes)).mean()


def train(net, cases, grid, epochs, seed=0, batch=8, rate=3e-3, device="cpu", tell=None):
    """A list of each epoch's mean loss; `net` is trained in place, and left in eval mode.

    cases: as `storage_sites.load` gives them. Raises ValueError for cases that `check_cases`
    refuses, and what `descend` raises.
    """
    check_cases(cases, grid, trained=False)
    moving = net.head.times is None
    net.to(device).train()

    def loss_of(chosen):
        some = {name: values.to(device) for name, values in pick(cases, chosen).items()}
        found = net(encode(some, grid, moving))
        return field_loss(found, targets(some, grid), some["mask"])

    losses = descend(net, loss_of, len(cases["mask"]), epochs, seed, batch, rate, tell)
    net.eval()
    return losses


def descend(net, loss_of, number, epochs, seed=0, batch=8, rate=3e-3, tell=None):
    """A list of each epoch's mean loss over `number` samples, while `net` follows its gradient.

    `loss_of` maps the numbers of a batch's samples, an index tensor, to their loss. Their order
    comes from `seed`. Adam, weight decay 1e-4; the rate rises for a tenth of the updates and
    falls on a cosine. `tell(epoch, loss)` is called after each epoch. Raises ValueError for no
    samples, and FloatingPointError, naming the epoch, once the loss is not finite.
    """
    if not number:
        raise ValueError("no samples: at least one is needed to learn from")
    order = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.Adam(net.parameters(), rate, weight_decay=1e-4)
    updates = max(epochs * -(-number // batch), FEWEST_UPDATES)
    course = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, updates, pct_start=0.1)
    losses = []
    for epoch in range(epochs):
        total = 0.0
        for chosen in torch.randperm(number, generator=order).split(batch):
            loss = loss_of(chosen)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            course.step()
            total += loss.item() * len(chosen)
        losses.append(total / number)
        if not math.isfinite(losses[-1]):
            raise FloatingPointError(f"the loss of epoch {epoch} is {losses[-1]}")
        if tell:
            tell(epoch, losses[-1])
    return losses
