"""A miniature of what the article compares with: a network that writes a sound sample by
sample.

After WaveRNN (Kalchbrenner et al. 2018), in small: one GRU that reads the last sample, pitch
and loudness, and gives chances of the next sample's 256 levels (µ-law, ITU-T G.711). Each
sample waits for the one before: that, not its size, is what makes it slow.

Shapes: `N` samples, `H` units.
"""

import numba
import numpy as np
import torch
from torch import nn

LEVELS, MU = 256, 255.0


class SampleBySample(nn.Module):
    """The network: `SampleBySample(64)`. It stays untrained: its speed is what is asked."""

    def __init__(self, width=64):
        super().__init__()
        self.gru = nn.GRU(3, width, batch_first=True)
        self.out = nn.Linear(width, LEVELS)


def written(network, controls_N2, draws_N):
    """A sound (N,) sample by sample, by compiled loops (Numba): the fair contestant of a race.
    `draws_N` in [0, 1) choose the levels.
    """
    arrays = [one.detach().numpy() for one in network.parameters()]
    draws = np.asarray(draws_N, np.float64)
    return torch.from_numpy(_loop(np.asarray(controls_N2), draws, *arrays))


@numba.njit(cache=True)
def _value(chosen):
    bent = 2 * chosen / MU - 1
    return np.sign(bent) * ((1 + MU) ** abs(bent) - 1) / MU


@numba.njit(cache=True)
def _loop(controls, draws, w_in, w_state, b_in, b_state, w_out, b_out):
    width, sound = w_state.shape[1], np.zeros(len(draws), np.float32)
    state, entry = np.zeros(width, np.float32), np.zeros(3, np.float32)
    for n in range(len(draws)):
        entry[1:] = controls[n]
        a, b = w_in @ entry + b_in, w_state @ state + b_state
        for i in range(width):
            reset = 1 / (1 + np.exp(-(a[i] + b[i])))
            update = 1 / (1 + np.exp(-(a[width + i] + b[width + i])))
            fresh = np.tanh(a[2 * width + i] + reset * b[2 * width + i])
            state[i] = (1 - update) * fresh + update * state[i]
        logits = (w_out @ state + b_out).astype(np.float64)
        chances = np.exp(logits - logits.max())
        left, chosen = draws[n] * chances.sum(), 0
        while chosen < LEVELS - 1 and left > chances[chosen]:
            left -= chances[chosen]
            chosen += 1
        sound[n] = _value(chosen)
        entry[0] = sound[n]
    return sound
