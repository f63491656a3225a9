"""How the network learns: which patches it sees, what it is told, what moves it.

After larrecodnn's script: 0.1 · cross-entropy of track, shower, none plus 1.0 · squared error
of the Michel output; SGD with rate 0.01, decay 1e-5 per step, Nesterov momentum 0.9; batches of
256. With the few patches of minutes that hardly moves, so `adam` takes its place where that is
said. Which patches are kept depends on their kind, in shares of our own. Training and test are
apart by event, never by patch: neighbours overlap, so patches of one event must not be on both
sides.
"""

from typing import NamedTuple

import numpy as np
import torch
from lartpc import EM, MICHEL, TRACK, Detector, draw_primaries, simulate
from reconstruction import hit_truth, prepare
from torch.nn import functional as nn_f

__all__ = ["Examples", "examples", "loss_of", "train"]

KEPT = {TRACK: 0.3, EM: 0.5, MICHEL: 1.0}  # the share of hits of each kind to learn from
NONE, EMPTY = 3, 0.05  # hits of noise, and as many patches where nothing is, for each hit
RATE, DECAY, MOMENTUM = 0.01, 1e-5, 0.9


class Examples(NamedTuple):
    """`patches` (N, 48, 48) float32, `kinds` (N,) of TRACK, EM, MICHEL or NONE."""

    patches: torch.Tensor
    kinds: torch.Tensor


def examples(events, seed, detector=None, **counts):
    """Examples of so many simulated events; `counts` go to `lartpc.draw_primaries`.

    Training and test take different seeds: no event, track or noise is shared.
    """
    rng, found = np.random.default_rng(seed), []
    for _ in range(events):
        place = detector or Detector()
        event = simulate(draw_primaries(place, rng, **counts), place, rng)
        _, hits, patches = prepare(event)
        kinds = np.concatenate(
            [hit_truth(h, t) for h, t in zip(hits, event.truth, strict=True)]
        )
        kinds = np.where(kinds < 0, NONE, kinds)
        share = np.array([KEPT[TRACK], KEPT[EM], KEPT[MICHEL], 1.0])[kinds]
        kept = rng.random(len(kinds)) < share
        empty = (
            torch.randn(int(EMPTY * kept.sum()), *patches.shape[1:]) * patches.abs().median()
        )
        found.append(
            (torch.cat([patches[kept], empty]), np.append(kinds[kept], [NONE] * len(empty)))
        )
    patches, kinds = zip(*found, strict=True)
    return Examples(torch.cat(patches), torch.as_tensor(np.concatenate(kinds)))


def loss_of(network, patches, kinds):
    """0.1 · cross-entropy + squared error of the Michel output. A Michel hit is a shower to the
    first output, which has no class of its own for it."""
    three, one = network(patches)
    target = torch.where(kinds == MICHEL, EM, kinds).where(kinds != NONE, 2)
    michel = (kinds == MICHEL).to(one.dtype)
    return 0.1 * nn_f.cross_entropy(three, target) + nn_f.mse_loss(one[:, 0].sigmoid(), michel)


def train(network, seen, epochs, batch=256, seed=0, rate=RATE, adam=False):
    """The mean loss of each epoch; moves the network, on its device.

    Raises ValueError for examples without a kind.
    """
    if not len(seen.kinds):
        raise ValueError("no examples came; at least one is needed to learn from")
    device = next(network.parameters()).device
    shuffled = torch.Generator().manual_seed(seed)
    weights = network.parameters()
    plain = (
        torch.optim.SGD(weights, rate, momentum=MOMENTUM, nesterov=True) if not adam else None
    )
    mover = plain or torch.optim.Adam(weights, rate)
    slower = torch.optim.lr_scheduler.LambdaLR(mover, lambda step: 1 / (1 + DECAY * step))
    network.train()
    losses = []
    for _ in range(epochs):
        total = 0.0
        for rows in torch.randperm(len(seen.kinds), generator=shuffled).split(batch):
            flipped = [axis for axis in (1, 2) if torch.rand((), generator=shuffled) < 0.5]
            patches = seen.patches[rows].flip(flipped) if flipped else seen.patches[rows]
            loss = loss_of(network, patches.to(device), seen.kinds[rows].to(device))
            mover.zero_grad()
            loss.backward()
            mover.step()
            slower.step()
            total += loss.detach() * len(rows)
        losses.append(float(total) / len(seen.kinds))
    return losses
