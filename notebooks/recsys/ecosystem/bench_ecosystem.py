"""The race: worlds × steps a second, in a batch, one world and one user at a time.

    python -m bench_ecosystem --rounds 3

All contestants run the same worlds for as many steps, at the article's sizes. First the loops
and all back ends must tell the same story, in float64 with the same noise, also the lazy one,
which draws noise only where it can count. Then each has its own best settings: the batch is
float32 and lazy, beside it the same with all noise; one user at a time is the plain loop over
users in float64, whose noise is drawn for all at once. The first call, which compiles or reads
what was compiled before, is timed apart.
"""

import argparse
import time
from functools import partial

import ecosystem_world as world
import numpy as np
import torch
from array_backends import NumpyBackend, TorchBackend, fastest
from boosted_slates import level, seed_of
from helpers import bench, check, device, receipts

CAP = 1.2
NAMES = {
    "batch": "torch, all worlds in a batch",
    "all_noise": "the same, with noise for every item",
    "world": "NumPy, one world at a time",
    "one_user": "NumPy, one user at a time",
}  # the name of a metric, and what tables say


def hashed(noise, users, documents):
    """The noise of one world's scores as lazy slates have it, (U, D), number by number."""
    seed = seed_of(int(noise.uniform((1,))[0] * 2**24))
    return np.reshape([level(seed, at) for at in range(users * documents)], (users, documents))


def ecosystem_reference(cap, means_PT, horizon, users, seed, lazy=False):
    """(mean utility of each step (H,), the providers' fading clicks at the end (P,)), in loops.

    `ecosystem_reference(1.2, means, 300, 2000, seed=0)`: a world as `run` has it. The oracle of
    the tests and the slow end of the race. It draws in the story's order, so that with the
    noise of equal seeds it tells the same story to the last digits.
    """
    noise, providers = NumpyBackend(seed), len(means_PT)
    interests = _interests(means_PT, users, noise)
    clicks, pulls, got = np.zeros(providers), np.zeros(providers), None
    utility, shape = np.zeros(horizon), (1, users, providers * world.PER_PROVIDER)
    for step in range(horizon):
        if step:
            utility[step] = np.mean(got + noise.normal((1, users))[0])
        chance = (1 + clicks) ** world.GAMMA
        owner = _pick(chance, noise.uniform((1, shape[-1]))[0])
        places = means_PT[owner] + noise.normal((1, len(owner), means_PT.shape[1]))[0]
        boost = np.clip(pulls.mean() - pulls, -cap, cap)[owner] + world.EDGE
        scores = hashed(noise, users, len(owner)) if lazy else noise.uniform(shape)[0]
        got, slates, choices = np.zeros(users), [], np.zeros(users, int)
        for user in range(users):
            liking = 2 - np.sqrt(((interests[user] - places) ** 2).sum(1))
            score = liking + scores[user] * boost
            best = np.argpartition(score, -world.SLATE)[-world.SLATE :]
            slates.append(best[np.argsort(-score[best])])
        levels = noise.uniform((1, users, 1))[0]
        for user, slate in enumerate(slates):
            liking = 2 - np.sqrt(((interests[user] - places[slate]) ** 2).sum(1))
            taken = _pick(np.exp(liking), levels[user])[0]
            choices[user], got[user] = owner[slate[taken]], liking[taken]
        new = np.bincount(choices, minlength=providers)
        last, clicks, pulls = clicks, world.DISCOUNT * clicks + new, pulls + new
    return utility, last


def _interests(means_PT, users, noise):
    """Where users are: around a provider, the nearer to the middle the likelier and wider."""
    far = 1 + np.sqrt((means_PT**2).sum(1))
    home = _pick(1 / far, noise.uniform((1, users))[0])
    shape = 1, users, means_PT.shape[1]
    return means_PT[home] + (world.USER_SPREAD / far[home])[:, None] * noise.normal(shape)[0]


def _pick(chances, levels):
    """For each level from 0 to 1 the option in whose part of the running sum it falls."""
    running = np.cumsum(chances / chances.sum())
    found = [np.searchsorted(running, level * running[-1], side="right") for level in levels]
    return np.minimum(found, len(chances) - 1)


def agree(users=50, horizon=4):
    """The largest difference of the utilities that plain loops and three back ends tell."""
    means, policy, found = world.draw_providers(1, 0, clusters=5), world.provider_aware(CAP), []
    lazy = TorchBackend(dtype=torch.float64, noise=NumpyBackend(1), lazy=True)
    eager = TorchBackend(dtype=torch.float64, noise=NumpyBackend(1))
    for backend in (NumpyBackend(1), eager, lazy):
        plain, _ = ecosystem_reference(CAP, means[0], horizon, users, 1, backend.lazy)
        told = world.run(policy, 1, horizon, 0, means, users, backend=backend).utility[:, 0]
        found.append(check.close(told, plain, atol=1e-9, why="sums of different order"))
    return max(found)


def contestants(worlds, steps, users, where="cpu"):
    """{label: function}, each telling `steps` steps of as many worlds; seconds of compiling."""
    means, policy = world.draw_providers(worlds, 0), world.provider_aware(CAP)
    story = world.ecosystem_story(policy, means, users)
    apart = [world.ecosystem_story(policy, one[None], users) for one in means]
    lazy, eager, noise = fastest(0, where), fastest(0, where), NumpyBackend(0, np.float32)
    eager.lazy, started = False, time.perf_counter()
    world.outcome(story, 1, lazy)  # the first call compiles
    took = time.perf_counter() - started
    plain = partial(ecosystem_reference, CAP, horizon=steps, users=users, seed=0)
    ways = {
        "batch": lambda: world.outcome(story, steps, lazy),
        "all_noise": lambda: world.outcome(story, steps, eager),
        "world": lambda: [world.outcome(one, steps, noise) for one in apart],
        "one_user": lambda: [plain(means_PT=one) for one in means],
    }
    return {NAMES[name]: tell for name, tell in ways.items()}, took


def main(arguments=None):
    """Check, race, print the table and the receipt's path."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    sizes = {"rounds": 20, "threads": device.cores(), "worlds": 4, "steps": 10, "users": 2000}
    for name, size in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=size)
    given = parser.parse_args(arguments)
    torch.set_num_threads(given.threads)
    tier = device.tier()
    receipt = receipts.start("ecosystem", tier, given.threads)
    receipt.sizes(worlds=given.worlds, steps=given.steps, users=given.users)
    receipt.record("difference_to_plain_loops", agree(), "utility")
    pairs, took = contestants(given.worlds, given.steps, given.users, tier.device)
    receipt.record("compile_time", took, "s")
    race = bench.race(pairs, given.rounds, warmup=1, reference=NAMES["one_user"])
    print(race)
    work = {"unit": "worlds × steps/s", "count": given.worlds * given.steps}
    for name, label in NAMES.items():
        receipt.record(f"rate_{name}", race.results[label], **work)
        receipt.record(f"race_{name}_over_one_user", race.ratios[label])
    print(receipt.write(name="race"))


if __name__ == "__main__":
    main()
