"""The article's other half: hits of a calorimeter become clusters, clusters are calibrated,
jets come out.

A jet is simulated as particles that share its energy; each leaves hits in cells of 0.1 × 0.1 in
η × φ, in two layers. Hadrons are seen too faintly, the more so the softer they are (Groom's
parametrisation). Cells above 4 sigmas of noise start a cluster, neighbours above 2 join, and
theirs (ATLAS's 4-2-0 rule). A tiny network corrects each cluster's energy; anti-kt joins
clusters to jets.

Units: GeV. Legend: J jets, P particles, C clusters, F features of a cluster.
"""

from typing import NamedTuple

import numpy as np
import torch
from scipy import ndimage
from torch import nn

__all__ = ["FEATURES", "Calibration", "anti_kt", "clusters_of", "collision", "fit", "response"]

CELL, ETA, NOISE = 0.1, 2.0, 0.05  # size of a cell, |η| covered, GeV of noise in each cell
ROWS, COLUMNS = int(2 * ETA / CELL), int(round(2 * np.pi / CELL))
FEATURES = ("log energy", "share of the first layer", "log cells", "share of the hottest cell")
EH, GROOM_M, GROOM_E0 = 1.6, 0.82, 1.0  # e/h, exponent, GeV


class Collision(NamedTuple):
    """`cells` (2, rows, columns) in GeV, and `jets` (J, 3): transverse momentum, η, φ, the
    truth.
    """

    cells: np.ndarray
    jets: np.ndarray


def response(energy, electromagnetic):
    """The share of a particle's energy that is seen: 1 for electrons and photons, less for
    hadrons.

    >>> response(np.array([100.0]), np.array([True]))
    array([1.])
    """
    fraction = 1 - (np.maximum(energy, 2.0) / GROOM_E0) ** (GROOM_M - 1)
    return np.where(electromagnetic, 1.0, fraction + (1 - fraction) / EH)


def collision(rng, jets=2, least=30.0, most=200.0):
    """One Collision with `jets` jets, apart from each other, and noise in all cells."""
    cells = NOISE * rng.standard_normal((2, ROWS, COLUMNS)).astype(np.float32)
    truth = []
    for i in range(jets):
        pt, eta = np.exp(rng.uniform(np.log(least), np.log(most))), rng.uniform(-1.2, 1.2)
        phi = 2 * np.pi * (i + rng.uniform(0, 0.5)) / jets
        share = rng.dirichlet(np.full(rng.integers(8, 20), 0.6))
        seen = _seen(pt * share, rng)
        width = 0.12 / np.sqrt(1 + pt * share / 5)
        _deposit(
            cells,
            seen,
            eta + width * rng.standard_normal(len(share)),
            phi + width * rng.standard_normal(len(share)),
            rng,
        )
        truth.append((pt, eta, phi % (2 * np.pi)))
    return Collision(cells, np.array(truth))


def _seen(energy, rng):
    """(first layer, second layer) of what is seen of particles, with the resolution of their
    kind.
    """
    light = rng.random(len(energy)) < 1 / 3  # photons of neutral pions
    found = energy * response(energy, light)
    blur = np.where(light, 0.1, 0.5) * np.sqrt(found) * rng.standard_normal(len(energy))
    found = np.maximum(found + blur, 0)
    first = np.where(light, rng.uniform(0.9, 1, len(energy)), rng.uniform(0, 0.7, len(energy)))
    return found * first, found * (1 - first)


def _deposit(cells, seen, eta, phi, rng):
    for layer, energy in enumerate(seen):
        for _ in range(4):  # a shower is wider than a cell
            wide = 0.04 * (1 + layer) * rng.standard_normal((2, len(energy)))
            row = ((eta + wide[0] + ETA) / CELL).astype(int)
            column = ((phi + wide[1]) / CELL).astype(int) % COLUMNS
            inside = (row >= 0) & (row < ROWS)
            np.add.at(cells[layer], (row[inside], column[inside]), energy[inside] / 4)


def clusters_of(cells):
    """(features (C, 4) float32, momenta (C, 3)) of a collision's cells: energy seen, η, φ for
    each.

    φ is not joined at 2π here: jets are simulated away from the seam.
    """
    whole = cells.sum(0)
    sigma = np.sqrt(2) * NOISE
    near = ndimage.label(whole > 2 * sigma, np.ones((3, 3)))[0]
    kept = np.unique(near[whole > 4 * sigma])
    grown = np.where(np.isin(near, kept[kept > 0]), near, 0)
    grown = np.where(grown > 0, grown, ndimage.grey_dilation(grown, (3, 3)))
    labels = kept[kept > 0]
    if not len(labels):
        return np.zeros((0, 4), np.float32), np.zeros((0, 3))
    rows, columns = np.indices(whole.shape)
    weight = np.maximum(whole, 1e-6)
    sums = ndimage.sum_labels
    energy = np.maximum(sums(whole, grown, labels), 1e-3)
    first, size = sums(cells[0], grown, labels), sums(np.ones_like(whole), grown, labels)
    hottest = ndimage.maximum(whole, grown, labels)
    middle = [
        sums(weight * x, grown, labels) / sums(weight, grown, labels) for x in (rows, columns)
    ]
    features = np.stack([np.log(energy), first / energy, np.log(size), hottest / energy], 1)
    place = (middle[0] + 0.5) * CELL - ETA, (middle[1] + 0.5) * CELL
    return features.astype(np.float32), np.stack([energy, *place], 1)


def anti_kt(momenta, radius=0.4, least=10.0):
    """Jets (J, 3) of clusters (C, 3) with transverse momentum, η, φ, hardest first: anti-kt
    with sums weighted by momentum. Cost: C³, meant for tens of clusters."""
    left, found = [np.array(m, float) for m in momenta], []
    while left:
        pt, eta, phi = np.array(left).T
        turn = np.abs(phi[:, None] - phi)
        apart = (eta[:, None] - eta) ** 2 + np.minimum(turn, 2 * np.pi - turn) ** 2
        alone = pt**-2.0
        pairs = np.minimum(alone[:, None], alone) * apart / radius**2
        np.fill_diagonal(pairs, np.inf)
        i, j = np.unravel_index(pairs.argmin(), pairs.shape)
        if pairs[i, j] < alone.min():
            one, other = left[i], left[j]
            whole = one[0] + other[0]
            joined = (one * one[0] + other * other[0]) / whole
            joined[0] = whole
            left = [m for k, m in enumerate(left) if k not in (i, j)] + [joined]
        else:
            found.append(left.pop(int(alone.argmin())))
    kept = [jet for jet in found if jet[0] >= least]
    return np.array(sorted(kept, key=lambda jet: -jet[0])).reshape(-1, 3)


class Calibration(nn.Module):
    """`factors_B1 = Calibration()(features_BF)`: what to multiply a cluster's energy with."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, features_BF):
        """(B, 1), positive."""
        return self.layers(features_BF).exp()


def fit(collisions, steps=300, seed=0):
    """A Calibration that makes the clusters within 0.4 of each true jet sum to its momentum."""
    rows, owners, wanted = [], [], []
    for one in collisions:
        features, momenta = clusters_of(one.cells)
        for pt, eta, phi in one.jets:
            turn = np.abs(momenta[:, 2] - phi)
            near = (momenta[:, 1] - eta) ** 2 + np.minimum(turn, 2 * np.pi - turn) ** 2 < 0.16
            rows.append(features[near])
            owners += [len(wanted)] * near.sum()
            wanted.append(pt)
    x, owner = torch.from_numpy(np.concatenate(rows)), torch.tensor(owners)
    goal = torch.tensor(wanted, dtype=torch.float32)
    torch.manual_seed(seed)
    network = Calibration()
    mover = torch.optim.Adam(network.parameters(), 0.02)
    for _ in range(steps):
        energy = network(x)[:, 0] * x[:, 0].exp()
        sums = torch.zeros_like(goal).index_add(0, owner, energy)
        loss = ((sums / goal - 1) ** 2).mean()
        mover.zero_grad()
        loss.backward()
        mover.step()
    return network.eval()
