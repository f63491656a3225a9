"""The article's other half: hits of a calorimeter become clusters, clusters are calibrated,
jets come out.

A jet is simulated as particles that share its energy; each leaves hits in cells of 0.1 × 0.1 in
η × φ, in two layers. Hadrons are seen too faintly, the more so the softer they are (Groom's
parametrisation). Cells above 4 sigmas of noise start a cluster, neighbours above 2 join, and
theirs (ATLAS's 4-2-0 rule). A tiny network corrects each cluster's energy; anti-kt joins
clusters to jets. φ is not joined at 2π in clusters: jets are simulated away from the seam.

Units: GeV; energy stands for transverse momentum (no angles to the beam).
Legend: J jets, P particles, C clusters, F features of a cluster.
"""

from typing import NamedTuple

import numpy as np
import torch
from scipy import ndimage
from torch import nn

__all__ = ["Calibration", "anti_kt", "clusters_of", "collision", "fit", "response"]

CELL, ETA, NOISE = 0.1, 2.0, 0.05  # size of a cell, |η| covered, GeV of noise in each cell
ROWS, COLUMNS = int(2 * ETA / CELL), int(round(2 * np.pi / CELL))
EH, GROOM_M, GROOM_E0 = 1.6, 0.82, 1.0  # e/h, exponent, GeV


class Collision(NamedTuple):
    """`cells` (2, rows, columns) in GeV; `jets` (J, 3), the truth: momentum, η, φ."""

    cells: np.ndarray
    jets: np.ndarray


def response(energy, electromagnetic):
    """The share of particles' energy that is seen: 1 for electrons and photons, less for
    hadrons.
    """
    fraction = 1 - (np.maximum(energy, 2.0) / GROOM_E0) ** (GROOM_M - 1)
    return np.where(electromagnetic, 1.0, fraction + (1 - fraction) / EH)


def collision(rng, jets=2):
    """One Collision with jets of 30 to 200 GeV, apart from each other, noise in all cells."""
    cells = NOISE * rng.standard_normal((2, ROWS, COLUMNS)).astype(np.float32)
    truth = []
    for i in range(jets):
        pt, eta = np.exp(rng.uniform(np.log(30), np.log(200))), rng.uniform(-1.2, 1.2)
        phi = 2 * np.pi * (i + rng.uniform(0.25, 0.75)) / jets
        energy = pt * rng.dirichlet(np.full(rng.integers(8, 20), 0.6))
        light = rng.random(len(energy)) < 1 / 3  # photons of neutral pions
        seen = energy * response(energy, light)
        blur = np.where(light, 0.1, 0.5) * np.sqrt(seen) * rng.standard_normal(len(energy))
        high = np.where(light, 1, 0.7)  # photons end in the first layer
        first = rng.uniform(np.where(light, 0.9, 0), high) * np.maximum(seen + blur, 0)
        place = (eta, phi) + 0.12 / np.sqrt(1 + energy / 5)[:, None] * rng.standard_normal(
            (len(energy), 2)
        )
        for layer, left in enumerate((first, np.maximum(seen + blur, 0) - first)):
            for _ in range(4):  # a shower is wider than a cell
                at = place + 0.04 * (1 + layer) * rng.standard_normal(place.shape)
                row, column = ((at + (ETA, 0)) // CELL).astype(int).T
                inside = (row >= 0) & (row < ROWS)
                where = row[inside], column[inside] % COLUMNS
                np.add.at(cells[layer], where, left[inside] / 4)
        truth.append((pt, eta, phi))
    return Collision(cells, np.array(truth))


def clusters_of(cells):
    """(features (C, 4) float32, momenta (C, 3)) of a collision's cells: the logarithms of
    energy and size, the shares of first layer and hottest cell; energy seen, η, φ."""
    whole, sigma = cells.sum(0), np.sqrt(2) * NOISE
    near = ndimage.label(whole > 2 * sigma, np.ones((3, 3)))[0]
    labels = np.setdiff1d(near[whole > 4 * sigma], [0])
    if not len(labels):
        return np.zeros((0, 4), np.float32), np.zeros((0, 3))
    grown = np.where(np.isin(near, labels), near, 0)
    grown = np.where(grown > 0, grown, ndimage.grey_dilation(grown, (3, 3)))

    def sums(values):
        return ndimage.sum_labels(values, grown, labels)

    weight, energy = np.maximum(whole, 1e-6), np.maximum(sums(whole), 1e-3)
    size, hottest = sums(np.ones_like(whole)), ndimage.maximum(whole, grown, labels)
    columns = [np.log(energy), sums(cells[0]) / energy, np.log(size), hottest / energy]
    row, column = (sums(weight * at) / sums(weight) for at in np.indices(whole.shape))
    place = (row + 0.5) * CELL - ETA, (column + 0.5) * CELL
    return np.stack(columns, 1).astype(np.float32), np.stack([energy, *place], 1)


def distances(momenta, eta, phi):
    """How far clusters or jets (C, 3) are from a direction in η and φ, (C,)."""
    turn = (momenta[:, 2] - phi + np.pi) % (2 * np.pi) - np.pi
    return np.hypot(momenta[:, 1] - eta, turn)


def anti_kt(momenta, radius=0.4, least=10.0):
    """Jets (J, 3) of clusters (C, 3) with transverse momentum, η, φ, hardest first: anti-kt
    with sums weighted by momentum. Cost: C³, meant for tens of clusters."""
    left, found = np.array(momenta, float).reshape(-1, 3), []
    while len(left):
        alone = left[:, 0] ** -2.0
        apart = np.stack([distances(left, *one[1:]) for one in left]) / radius
        pairs = np.minimum(alone[:, None], alone) * apart**2
        np.fill_diagonal(pairs, np.inf)
        i, j = np.unravel_index(pairs.argmin(), pairs.shape)
        if pairs[i, j] >= alone.min():
            found.append(left[alone.argmin()])
            left = np.delete(left, alone.argmin(), 0)
            continue
        share = left[j, 0] / (left[i, 0] + left[j, 0])
        turn = (left[j, 2] - left[i, 2] + np.pi) % (2 * np.pi) - np.pi
        eta = left[i, 1] + share * (left[j, 1] - left[i, 1])
        joined = left[i, 0] + left[j, 0], eta, left[i, 2] + share * turn
        left = np.vstack([np.delete(left, (i, j), 0), joined])
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
        for pt, *direction in one.jets:
            near = distances(momenta, *direction) < 0.4
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
        loss = ((torch.zeros_like(goal).index_add(0, owner, energy) / goal - 1) ** 2).mean()
        mover.zero_grad()
        loss.backward()
        mover.step()
    return network.eval()


def jet_ratios(collisions, factor_of=None):
    """Found over true momentum of each jet that has a partner within 0.4, (J,); `factor_of`
    features (C, 4) gives what clusters are multiplied with, (C, 1)."""
    found = []
    for one in collisions:
        features, momenta = clusters_of(one.cells)
        if factor_of:
            momenta[:, :1] *= factor_of(features)
        jets = anti_kt(momenta)
        for pt, *direction in one.jets:
            away = distances(jets, *direction)
            found += [jets[away.argmin(), 0] / pt] if (away < 0.4).any() else []
    return np.array(found)
