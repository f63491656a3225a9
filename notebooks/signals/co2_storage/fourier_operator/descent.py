"""How every network of the chapter learns: Adam, a rate that rises and falls, one loss.

The decay of the weights is the coupled one of torch's `Adam`: it is added to the gradient, and
Adam divides the sum by its size. So where a weight hardly changes the loss, decay alone is
left, divided by itself, and takes the weight to zero in full steps. `decoupled`, as in
`AdamW`, it hardly moves it.
"""

import math

import torch

FEWEST_UPDATES = 20  # that the rate needs to rise and fall; a shorter training ends on the way


def relative_l2(found, true):
    """(B,): ‖found − true‖ / ‖true‖, a field of zeros counting as one of norm 1e-6."""
    gap = (found - true).flatten(1).norm(dim=1)
    return gap / true.flatten(1).norm(dim=1).clamp(min=1e-6)


def descend(
    net, loss_of, number, epochs, seed=0, batch=8, rate=3e-3, tell=None, decoupled=False
):
    """A list of each epoch's mean loss over `number` samples, while `net` follows its gradient.

    `loss_of` maps the numbers of a batch's samples, an index tensor, to their loss. Their order
    comes from `seed`. Adam (`decoupled`: AdamW), weight decay 1e-4; the rate rises for a tenth
    of the updates and falls on a cosine. `tell(epoch, loss)` is called after each epoch. Raises
    ValueError for no samples, FloatingPointError once the loss is not finite.
    """
    if not number:
        raise ValueError("no samples: at least one is needed to learn from")
    order = torch.Generator().manual_seed(seed)
    kind = torch.optim.AdamW if decoupled else torch.optim.Adam
    optimiser = kind(net.parameters(), rate, weight_decay=1e-4)
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
