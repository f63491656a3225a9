"""The article's ecosystem in plain loops: one world, one user at a time, NumPy's float64.

The oracle of the tests and the slow end of the race. It draws in the story's order, so that
with the noise of equal seeds it tells the same story to the last digits.
"""

import numpy as np
from array_backends import NumpyBackend
from ecosystem_world import DISCOUNT, EDGE, GAMMA, PER_PROVIDER, SLATE, USER_SPREAD


def ecosystem_reference(cap, means_PT, horizon, users, seed):
    """(mean utility of each step (H,), the providers' fading clicks at the end (P,)).

    `ecosystem_reference(1.2, means, 300, 2000, seed=0)`: a world as `run` has it.
    """
    noise, providers = NumpyBackend(seed), len(means_PT)
    interests = _interests(means_PT, users, noise)
    clicks, pulls, got = np.zeros(providers), np.zeros(providers), None
    utility = np.zeros(horizon)
    for step in range(horizon):
        if step:
            utility[step] = np.mean(got + noise.normal((1, users))[0])
        chance = (1 + clicks) ** GAMMA
        owner = _pick(chance, noise.uniform((1, providers * PER_PROVIDER))[0])
        places = means_PT[owner] + noise.normal((1, len(owner), means_PT.shape[1]))[0]
        boost = np.clip(pulls.mean() - pulls, -cap, cap)[owner] + EDGE
        scores, choices = noise.uniform((1, users, len(owner)))[0], np.zeros(users, int)
        got, slates = np.zeros(users), []
        for user in range(users):
            liking = 2 - np.sqrt(((interests[user] - places) ** 2).sum(1))
            slates.append(np.argsort(-(liking + scores[user] * boost), kind="stable")[:SLATE])
        levels = noise.uniform((1, users, 1))[0]
        for user, slate in enumerate(slates):
            liking = 2 - np.sqrt(((interests[user] - places[slate]) ** 2).sum(1))
            taken = _pick(np.exp(liking), levels[user])[0]
            choices[user], got[user] = owner[slate[taken]], liking[taken]
        new = np.bincount(choices, minlength=providers)
        last, clicks, pulls = clicks, DISCOUNT * clicks + new, pulls + new
    return utility, last


def _interests(means_PT, users, noise):
    """Where users are: around a provider, the nearer to the middle the likelier and wider."""
    far = 1 + np.sqrt((means_PT**2).sum(1))
    home = _pick(1 / far, noise.uniform((1, users))[0])
    shape = 1, users, means_PT.shape[1]
    return means_PT[home] + (USER_SPREAD / far[home])[:, None] * noise.normal(shape)[0]


def _pick(chances, levels):
    """For each level from 0 to 1 the option in whose part of the running sum it falls."""
    running = np.cumsum(chances / chances.sum())
    found = [np.searchsorted(running, level * running[-1], side="right") for level in levels]
    return np.minimum(found, len(chances) - 1)
