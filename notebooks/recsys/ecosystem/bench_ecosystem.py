"""The race: worlds × steps a second, in a batch, compiled, one world and one user at a time.

    python -m bench_ecosystem --rounds 3

All contestants run the same worlds for as many steps, at the article's sizes. First the loops
and both back ends must tell the same story, in float64 with the same noise, and the compiled
one, whose noise is its own, a story of the same mean. Then each has its own best settings: the
batch is float32 and its noise on a CPU NumPy's; the compiled one draws by torch, so that the
compiler can fuse it; one user at a time is the plain loop over users in float64, whose noise is
drawn for all of them at once. Compiling is timed apart.
"""

import argparse
import time
from functools import partial

import ecosystem_world as world
import numpy as np
import torch
from array_backends import NumpyBackend, TorchBackend, fastest
from helpers import bench, check, device, receipts

CAP = 1.2
NAMES = {
    "batch": "torch, all worlds in a batch",
    "compiled": "the same, compiled",
    "world": "NumPy, one world at a time",
    "one_user": "NumPy, one user at a time",
}  # the name of a metric, and what tables say


def ecosystem_reference(cap, means_PT, horizon, users, seed):
    """(mean utility of each step (H,), the providers' fading clicks at the end (P,)), in loops.

    The oracle of the tests and the slow end of the race. It draws in the story's order, so that
    with the noise of equal seeds it tells the same story to the last digits.

    `ecosystem_reference(1.2, means, 300, 2000, seed=0)`: a world as `run` has it.
    """
    noise, providers = NumpyBackend(seed), len(means_PT)
    interests = _interests(means_PT, users, noise)
    clicks, pulls, got = np.zeros(providers), np.zeros(providers), None
    utility = np.zeros(horizon)
    for step in range(horizon):
        if step:
            utility[step] = np.mean(got + noise.normal((1, users))[0])
        chance = (1 + clicks) ** world.GAMMA
        owner = _pick(chance, noise.uniform((1, providers * world.PER_PROVIDER))[0])
        places = means_PT[owner] + noise.normal((1, len(owner), means_PT.shape[1]))[0]
        boost = np.clip(pulls.mean() - pulls, -cap, cap)[owner] + world.EDGE
        scores, choices = noise.uniform((1, users, len(owner)))[0], np.zeros(users, int)
        got, slates = np.zeros(users), []
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
    """The largest difference of the utilities that plain loops, NumPy and torch tell."""
    means, policy = world.draw_providers(1, 0, clusters=5), world.provider_aware(CAP)
    plain, _ = ecosystem_reference(CAP, means[0], horizon, users, seed=1)
    backends = NumpyBackend(1), TorchBackend(dtype=torch.float64, noise=NumpyBackend(1))
    told = [world.run(policy, 1, horizon, 0, means, users, backend=one) for one in backends]
    why = "float64 sums of different order"
    return max(check.close(one.utility[:, 0], plain, atol=1e-9, why=why) for one in told)


def same_in_mean(first, second):
    """By how many standard errors two outcomes' utilities (H, W) differ; Failed from 5 on."""
    gaps = (first.utility - second.utility)[1:].ravel()  # the first step has none
    apart = abs(gaps.mean()) / (gaps.std(ddof=1) / len(gaps) ** 0.5)
    check.that(apart < 5, f"the compiled story's mean is {apart:.1f} standard errors away")
    return float(apart)


def contestants(worlds, steps, users, where="cpu", compiled=True):
    """{label: function}, each telling `steps` steps of as many worlds; seconds of compiling."""
    means, policy, took = world.draw_providers(worlds, 0), world.provider_aware(CAP), 0.0
    story = world.ecosystem_story(policy, means, users)
    backend, fused = fastest(0, where), TorchBackend(None, where)
    apart = [world.ecosystem_story(policy, one[None], users) for one in means]
    noise = NumpyBackend(0, np.float32)
    found = {NAMES["batch"]: lambda: world.outcome(story, steps, backend)}
    if compiled:
        advance = torch.compile(partial(story.advance, backend=fused), dynamic=False)
        started = time.perf_counter()
        world.outcome(story, 3, fused, advance)
        took = time.perf_counter() - started
        found[NAMES["compiled"]] = lambda: world.outcome(story, steps, fused, advance)
    found[NAMES["world"]] = lambda: [world.outcome(one, steps, noise) for one in apart]
    plain = partial(ecosystem_reference, CAP, horizon=steps, users=users, seed=0)
    found[NAMES["one_user"]] = lambda: [plain(means_PT=one) for one in means]
    return found, took


def main(arguments=None):
    """Check, race, print the table and the receipt's path."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    sizes = {"rounds": 20, "threads": device.cores(), "worlds": 4, "steps": 4, "users": 2000}
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
    told = (pairs[NAMES[name]]() for name in ("batch", "compiled"))
    receipt.record("compiled_gap_of_means", same_in_mean(*told), "standard errors")
    race = bench.race(pairs, given.rounds, warmup=1, reference=NAMES["one_user"])
    print(race)
    work = given.worlds * given.steps
    for name, label in NAMES.items():
        found = race.results[label]
        receipt.record(f"rate_{name}", found, "worlds × steps/s", count=work)
        receipt.record(f"race_{name}_over_one_user", race.ratios[label])
    print(receipt.write(name="race"))


if __name__ == "__main__":
    main()
