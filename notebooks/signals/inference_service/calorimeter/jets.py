"""The article's other half: hits of a calorimeter become clusters, clusters are calibrated,
jets come out.

A jet's particles share its energy; each leaves hits in cells of 0.1 × 0.1 in η × φ. Hadrons
are seen too faintly, the more so the softer they are (Groom's parametrisation). Cells above 4
sigmas of noise start a cluster, neighbours above 2 join. The hardest cluster with all around it
is a jet: experiments use anti-kt, which divides jets that touch; ours are apart.
Units: GeV of transverse momentum. Legend: J jets, C clusters.
"""

from collections import namedtuple

import numpy as np
import torch
from scipy import ndimage
from torch import nn

CELL, ETA, NOISE = 0.1, 2.0, 0.05  # size of a cell, |η| covered, GeV of noise in each cell
ROWS, COLUMNS = int(2 * ETA / CELL), int(round(2 * np.pi / CELL))
EH, GROOM_M, RADIUS, RATE = 1.6, 0.82, 0.4, 0.05  # e/h, exponent; of a jet; of learning
# cells (rows, columns) in GeV; jets (J, 3), the truth: momentum, η, φ
Collision = namedtuple("Collision", "cells jets")


def response(energy, electromagnetic):
    """The share of particles' energy that is seen: 1 for electrons and photons."""
    fraction = 1 - np.maximum(energy, 2.0) ** (GROOM_M - 1)
    return np.where(electromagnetic, 1.0, fraction + (1 - fraction) / EH)


def collision(rng, jets=2):
    """One Collision with jets of 30 to 200 GeV, apart from each other, noise in all cells."""
    cells, truth = NOISE * rng.standard_normal((ROWS, COLUMNS)), []
    for i in range(jets):
        pt, eta = np.exp(rng.uniform(np.log(30), np.log(200))), rng.uniform(-1.2, 1.2)
        phi = 2 * np.pi * (i + rng.uniform(0.25, 0.75)) / jets
        energy = pt * rng.dirichlet(np.full(rng.integers(8, 20), 0.6))
        light = rng.random(len(energy)) < 1 / 3  # photons of neutral pions
        seen = energy * response(energy, light)
        blur = np.where(light, 0.1, 0.5) * np.sqrt(seen) * rng.standard_normal(len(energy))
        seen = np.repeat(np.maximum(seen + blur, 0) / 4, 4)  # a shower is wider than a cell
        far = np.repeat(0.12 / np.sqrt(1 + energy / 5), 4)[:, None]
        at = (eta, phi) + np.hypot(far, 0.06) * rng.standard_normal((len(seen), 2))
        row, column = ((at + (ETA, 0)) // CELL).astype(int).T
        inside = (row >= 0) & (row < ROWS)
        np.add.at(cells, (row[inside], column[inside] % COLUMNS), seen[inside])
        truth.append((pt, eta, phi))
    return Collision(cells, np.array(truth))


def clusters_of(cells):
    """(features (C, 3) float32, momenta (C, 3)) of a collision's cells: the logarithms of
    energy and size, the share of the hottest cell; energy seen, η, φ."""
    near = ndimage.label(cells > 2 * NOISE, np.ones((3, 3)))[0]
    labels = np.setdiff1d(near[cells > 4 * NOISE], [0])
    if not len(labels):
        return np.zeros((0, 3), np.float32), np.zeros((0, 3))
    summed = cells, np.ones_like(cells), *np.indices(cells.shape) * cells
    energy, size, row, column = (ndimage.sum_labels(one, near, labels) for one in summed)
    columns = np.log(energy), np.log(size), ndimage.maximum(cells, near, labels) / energy
    place = (row / energy + 0.5) * CELL - ETA, (column / energy + 0.5) * CELL
    return np.stack(columns, 1).astype(np.float32), np.stack([energy, *place], 1)


def distances(momenta, eta, phi):
    """How far clusters (C, 3) are from a direction in η and φ, (C,)."""
    turn = (momenta[:, 2] - phi + np.pi) % (2 * np.pi) - np.pi
    return np.hypot(momenta[:, 1] - eta, turn)


def cones(momenta, least=10.0):
    """Jets (J, 3) of clusters (C, 3), both momentum, η, φ: the hardest that is left with the
    energy of all left within RADIUS, until less than `least` is found."""
    left, found = np.array(momenta, float).reshape(-1, 3), []
    while len(left):
        hardest = left[left[:, 0].argmax()]
        near = distances(left, *hardest[1:]) < RADIUS
        found.append((left[near, 0].sum(), *hardest[1:]))
        left = left[~near]
    return np.array([jet for jet in found if jet[0] >= least]).reshape(-1, 3)


class Calibration(nn.Module):
    """`factors_C1 = Calibration()(features_C3)`: what to multiply clusters' energies with."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, features_C3):
        """(C, 1), positive."""
        return self.layers(features_C3).exp()


def fit(collisions, steps=300, seed=0):
    """A Calibration: clusters within RADIUS of each true jet then sum to its momentum."""
    rows, owners, goal = [], [], torch.tensor([pt for c in collisions for pt, *_ in c.jets])
    found = [(*clusters_of(c.cells), at) for c in collisions for _, *at in c.jets]
    for number, (features, momenta, direction) in enumerate(found):
        rows.append(features[near := distances(momenta, *direction) < RADIUS])
        owners += [number] * near.sum()
    x, owner, goal = torch.from_numpy(np.concatenate(rows)), torch.tensor(owners), goal.float()
    torch.manual_seed(seed)
    network = Calibration()
    weights = list(network.parameters())
    for _ in range(steps):
        energy = network(x)[:, 0] * x[:, 0].exp()
        loss = ((torch.zeros_like(goal).index_add(0, owner, energy) / goal - 1) ** 2).mean()
        for weight, slope in zip(weights, torch.autograd.grad(loss, weights), strict=True):
            weight.data -= RATE * slope
    return network.eval()


def jet_ratios(collisions, factor_of=None):
    """Found over true momentum of each jet that has a partner within RADIUS, (J,); `factor_of`
    features (C, 3) gives what clusters are multiplied with, (C, 1)."""
    found = []
    for one in collisions:
        features, momenta = clusters_of(one.cells)
        if factor_of:
            momenta[:, :1] *= factor_of(features)
        jets = cones(momenta)
        for pt, *direction in one.jets:
            away = distances(jets, *direction)
            found += [jets[away.argmin(), 0] / pt] if (away < RADIUS).any() else []
    return np.array(found)
