"""The same network in PyTorch, and a small convolutional one.

`as_torch` copies the arrays of `digit_network` into PyTorch's modules, so both compute the same
numbers, forward and backward. `small_cnn` has 3 × 3 windows that share their weights over the
picture (LeCun et al., "Gradient-Based Learning Applied to Document Recognition", 1998).

Shapes: `N` samples, `D` inputs, `H` hidden units, `C` classes. Devices follow the inputs.
"""

import numpy as np
import torch
from torch import nn


def as_torch(net):
    """The network of `digit_network` as an `nn.Sequential`, float64, on the CPU."""
    inputs, hidden = net["w1_DH"].shape
    made = nn.Sequential(
        nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, len(net["b2_C"]))
    ).double()
    with torch.no_grad():
        for layer, weight, bias in ((made[0], "w1_DH", "b1_H"), (made[2], "w2_HC", "b2_C")):
            layer.weight.copy_(torch.from_numpy(net[weight].T))  # PyTorch keeps (out, in)
            layer.bias.copy_(torch.from_numpy(net[bias]))
    return made


def small_cnn(classes=10, channels=8, side=8, seed=0):
    """A new network for pictures of `side`² numbers in rows of shape (N, side²), float32:
    convolution, ReLU, 2 × 2 maximum, twice, then a layer to the classes.

    Raises ValueError for a side that two halvings do not divide.
    """
    if side < 4 or side % 4:
        raise ValueError(
            f"a side of {side}; a multiple of 4 is needed, since it is halved twice"
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Unflatten(1, (1, side, side)),
            nn.Conv2d(1, channels, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(channels, 2 * channels, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(2 * channels * (side // 4) ** 2, classes),
        )


def train(model, x_ND, y_N, epochs=40, rate=0.1, batch=32, seed=0):
    """The mean loss of each epoch, a list; `model` is trained in place by stochastic gradient
    descent, with batches in the order of `digit_network.train`. Tensors lie on its device.

    Raises ValueError for sizes below 1, and unless there is a label for each of some samples.
    """
    if min(epochs, batch) < 1 or not rate > 0:
        raise ValueError(f"epochs {epochs}, batch {batch}, rate {rate}: all must be positive")
    if not len(x_ND) or len(x_ND) != len(y_N):
        raise ValueError(f"{len(x_ND)} samples, {len(y_N)} labels; one each, and one at least")
    rng, losses = np.random.default_rng(seed), []
    steps = torch.optim.SGD(model.parameters(), lr=rate)
    for _ in range(epochs):
        order = torch.from_numpy(rng.permutation(len(x_ND))).to(x_ND.device)
        total = x_ND.new_zeros(())  # added up on the device: one read an epoch
        for start in range(0, len(order), batch):
            picked = order[start : start + batch]
            loss = nn.functional.cross_entropy(model(x_ND[picked]), y_N[picked])
            steps.zero_grad()
            loss.backward()
            steps.step()
            total += loss.detach() * len(picked)
        losses.append(total.item() / len(order))
    return losses


@torch.no_grad()
def log_posterior(model, x_ND):
    """log p(c | x), shape (N, C), on the samples' device."""
    return model(x_ND).log_softmax(dim=1)


def counted(model, inputs):
    """(weights, multiplications of one sample), by PyTorch's own counter, halved: it counts
    additions, too. Nothing is timed. `inputs`: numbers in a sample."""
    from torch.utils.flop_counter import FlopCounterMode

    like = next(model.parameters())
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(like.new_zeros(1, inputs))
    weights = sum(one.numel() for one in model.parameters())
    return weights, counter.get_total_flops() // 2


def activations(model, inputs):
    """The numbers of one sample that training keeps: the input, and what each layer gives; a
    layer that only gives another shape adds none. `inputs`: numbers in a sample."""
    kept, like = [inputs], next(model.parameters())
    layers = [one for one in model if not isinstance(one, nn.Flatten | nn.Unflatten)]
    hooks = [one.register_forward_hook(lambda *a: kept.append(a[-1].numel())) for one in layers]
    with torch.no_grad():
        model(like.new_zeros(1, inputs))
    for one in hooks:
        one.remove()
    return sum(kept)
