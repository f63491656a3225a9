"""Darcy flow, the benchmark of Fourier operators: learnt at 16 × 16 points, asked at 32 × 32.

The pressure u of water in porous rock solves −∇·(a ∇u) = f on the unit square with u = 0 at
its rim; a takes two values, in patches. The operator maps a to u. Data: 1,000 pairs at 16²,
50 at 16² and 50 at 32², shipped with neuraloperator (Kossaifi et al., 2024), after Li et al.
(2021). Loss and measure are the relative L2 error; every contestant learns by `descent`.

Legend: N samples, Z and R points an axis.
"""

from collections import namedtuple

import torch

from .descent import descend, relative_l2
from .networks import FNO, UNet

Flow = namedtuple("Flow", "a_NZR u_NZR")  # pairs of patches (0 or 1, float32) and pressures


def load(folder):
    """A dict of `Flow`: "train_16", "test_16", "test_32"; ValueError for another file."""
    found = {}
    for name in ("train_16", "test_16", "test_32"):
        pair = torch.load(f"{folder}/darcy_{name}.pt", weights_only=True)
        if pair.keys() != {"x", "y"} or pair["x"].shape != pair["y"].shape:
            shapes = {key: tuple(value.shape) for key, value in pair.items()}
            raise ValueError(f"darcy_{name}.pt holds {shapes}: x and y of one shape are needed")
        found[name] = Flow(pair["x"].float(), pair["y"].float())
    return found


def inputs(a_NZR):
    """(N, 3, Z, R, 1): the patches as ±1 and the two coordinates, from 0 on in steps of 1/n,
    so that the same place has the same coordinates on every grid."""
    N, Z, R = a_NZR.shape
    z, r = (torch.arange(n, device=a_NZR.device) / n for n in (Z, R))
    planes = [2 * a_NZR - 1, z[:, None].expand(N, Z, R), r.expand(N, Z, R)]
    return torch.stack(planes, 1)[..., None]


def contestants(seed=0):
    """Networks by name, of about equal size: our FNO and our U-Net."""
    sizes = {"channels": 3, "outputs": 1, "times": 1, "pad": (0, 0, 0), "head": 64}
    torch.manual_seed(seed)
    found = {"FNO": FNO(width=24, modes=(6, 7), layers=4, **sizes)}
    return found | {"U-Net": UNet(width=17, axes=2, **sizes)}


def fit(net, flow, epochs=20, batch=32, rate=4e-3, seed=0, tell=None):
    """The mean relative L2 loss of each epoch; `net` is trained in place by `descend`, and from
    then on answers in units of pressure (`net.unit`, the training set's mean and spread)."""
    net.unit = flow.u_NZR.mean().item(), flow.u_NZR.std().item()
    x = inputs(flow.a_NZR)

    def loss_of(some):
        return relative_l2(answer(net, x[some]), flow.u_NZR[some]).mean()

    return descend(net, loss_of, len(x), epochs, seed, batch, rate, tell)


def answer(net, x):
    """(N, Z, R): the pressure that a fitted network predicts for `inputs`."""
    mean, spread = net.unit
    return net(x)[..., 0] * spread + mean


def errors(net, flow, batch=50):
    """(N,): the relative L2 error of each sample, on the grid that `flow` has."""
    with torch.inference_mode():
        found = torch.cat([answer(net, x) for x in inputs(flow.a_NZR).split(batch)])
    return relative_l2(found, flow.u_NZR)
