"""The race of samplers: ours against numpyro on the density of a log with hidden satisfaction.

    python -m bench_hamiltonian --rounds 3 --draws 100

Our HMC, numpyro's with the same length of an orbit, and its NUTS sample the same log with as
many moves. Where our compiled step is not the plain one, or means or deviations differ by more
than chance, the bench stops; a test holds that the densities agree. Compiling is timed apart.
"""

import argparse
import os
import time
from functools import partial

import hamiltonian
import latent_satisfaction as latent
import numpy as np
import torch
from array_backends import TorchBackend
from helpers import bench, check, device, receipts

try:
    import jax
    import numpyro
    from jax import numpy as jnp
    from numpyro import distributions as dist
    from numpyro.infer import HMC, NUTS
except ImportError:
    numpyro = None

LEAPFROGS, TRUTH, OURS = 8, 0.8, "ours, HMC"


def drawn_log(steps, users):
    """A record of one world with the sensitivity TRUTH, float64."""
    backend = TorchBackend(0, dtype=torch.float64)
    return latent.draw_log(steps, 1, users, backend, backend.full((1,), TRUTH))


def their_model(slates, choices):
    """The same density in numpyro: slates (H, U, K, T) and choices (H, U) are given."""
    steps, users = choices.shape
    sensitivity = 1 / (1 + jnp.exp(-numpyro.sample("logit", dist.Normal(*latent.PRIOR))))
    centres = dist.Normal(jnp.eye(latent.TOPICS), latent.SPREAD).to_event(1)
    weights = dist.Categorical(logits=jnp.zeros(latent.TOPICS))
    mixed = dist.MixtureSameFamily(weights, centres).expand([users]).to_event(1)
    intent = numpyro.sample("intent", mixed)
    normal = dist.Normal(jnp.zeros((steps - 1, users)), 1.0).to_event(2)
    shock = numpyro.sample("shock", normal)
    squares = ((intent[None, :, None] - slates) ** 2).sum(-1)
    liking = 2 - jnp.sqrt(squares + latent.SMOOTH)
    best = jnp.concatenate([jnp.zeros((1, users)), liking.max(-1)])
    levels = [jnp.full(users, latent.START)]
    for step in range(1, steps):
        moved = best[step] - best[step - 1] + latent.SHOCK * shock[step - 1]
        levels.append(sensitivity * levels[-1] + moved)
    nothing = jnp.full((steps, users, 1), latent.NOTHING)
    logits = jnp.concatenate([liking + jnp.stack(levels)[..., None], nothing], -1)
    numpyro.sample("choice", dist.Categorical(logits=logits).to_event(2), obs=choices)


def their_sampler(kernel, data, given, seed=1):
    """(a function that samples anew: logit, intents; seconds of compiling a loop of ours)."""
    keys = jax.random.split(jax.random.PRNGKey(seed), given.chains)
    start = kernel.init(keys, given.warmup, None, data, {})  # with many keys: by chains

    def step(state, _):
        state = kernel.sample(state, data, {})
        return state, state.z

    def whole(state):
        state, _ = jax.lax.scan(lambda s, _: (step(s, _)[0], None), state, length=given.warmup)
        return jax.lax.scan(step, state, length=given.draws)[1]

    began = time.perf_counter()
    compiled = jax.jit(whole).lower(start).compile()
    took = time.perf_counter() - began

    def sampled():
        found = {name: np.asarray(value) for name, value in compiled(start).items()}
        intents = found["intent"].reshape(given.draws, given.chains, -1)
        return torch.tensor(np.concatenate([found["logit"][..., None], intents], -1))

    return sampled, took


def compared(ours, theirs):
    """{measure: number} of two sets of draws (N, C, Q); Failed where, of some thirty, means are
    4.5 Monte-Carlo errors apart, or deviations six of 1/√(2n), n what the squares are worth.
    """
    both = ours, theirs
    sizes = [hamiltonian.effective_size(one) for one in both]
    worst = [float(hamiltonian.split_r_hat(one).max()) for one in both]
    mean, mean_ = (one.mean((0, 1)) for one in both)
    width, width_ = (one.flatten(0, 1).std(0) for one in both)
    gap = (mean - mean_).abs() / (width**2 / sizes[0] + width_**2 / sizes[1]).sqrt()
    ratio, least = width / width_, [float(one.min()) for one in sizes]
    squares = [hamiltonian.effective_size((one - one.mean((0, 1))) ** 2).min() for one in both]
    band = 1 + 6 / (2 * float(min(squares))) ** 0.5
    check.that(min(least) > 50, f"too few effective draws to compare: {least}")
    check.that(float(gap.max()) < 4.5, "means differ by more than chance")
    check.that(bool(((ratio < band) & (ratio > 1 / band)).all()), f"deviations differ: {ratio}")
    check.that(max(worst) < 1.1, f"chains have not mixed: R-hat {worst}")
    found = {"worst_gap_of_means": gap.max(), "least_ratio_of_deviations": ratio.min()}
    found |= {"most_ratio_of_deviations": ratio.max()}
    for name, one, other in (("least_size", *least), ("worst_r_hat", *worst)):
        found |= {name: one, f"their_{name}": other}
    return {name: float(value) for name, value in found.items()}


def our_contestants(record, given, receipt):
    """({label: function} of ours, the first compiled; seconds of its leapfrog steps)."""
    log, count = latent.repeated(record, given.chains), LEAPFROGS * (given.warmup + given.draws)
    about, began = latent.Hidden(log, given.users), time.perf_counter()
    q = about.start(seed=1)
    step = q, 0.1 * q, q, q.new_tensor(0.01), torch.ones_like(q[0])
    leap = hamiltonian.compiled(about.density, q)
    found = leap(*step)
    receipt.record("hmc_compile_ours_hmc", time.perf_counter() - began, "s")
    for one, other in zip(found, hamiltonian.plain(about.density)(*step), strict=True):
        check.close(one, other, rtol=1e-9, atol=1e-9, why="float64 sums of different order")
    leaps = bench.measure(lambda: [leap(*step) for _ in range(100)]).median_s * count / 100
    plain = partial(latent.posterior, log, given.users, given.draws, given.warmup, LEAPFROGS)
    return {OURS: partial(plain, leap=leap), "ours, uncompiled": plain}, leaps


def their_contestants(record, length, given, receipt):
    """{label: function} of numpyro's."""
    jax.config.update("jax_enable_x64", True)
    names = "recommender.slate", "user.choice"
    data = tuple(jnp.asarray(np.stack([one[0].numpy() for one in record[n]])) for n in names)
    kernels = {"numpyro, HMC": HMC(their_model, trajectory_length=length)}
    kernels["numpyro, NUTS"], calls = NUTS(their_model), {}
    for label, kernel in kernels.items():
        calls[label], took = their_sampler(kernel, data, given)
        receipt.record(f"hmc_compile_{key(label)}", took, "s")
    return calls


def key(label):
    """A contestant's name in metrics."""
    return label.replace(", ", "_").lower()


def main(arguments=None):
    """Check, race, and write the receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    sizes = {"users": 10, "steps": 7, "chains": 8, "warmup": 150, "draws": 150}
    for name, size in ({"rounds": 20, "threads": device.cores()} | sizes).items():
        parser.add_argument(f"--{name}", type=int, default=size)
    given = parser.parse_args(arguments)
    torch.set_num_threads(given.threads)
    if given.threads == 1:  # XLA reads this when it starts, at its first operation
        one = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
        os.environ.setdefault("XLA_FLAGS", one)
    receipt = receipts.start("ecosystem", "cpu", given.threads)
    receipt.sizes(**{name: vars(given)[name] for name in sizes})
    record = drawn_log(given.steps, given.users)
    (calls, leaps), drawn = our_contestants(record, given, receipt), {}
    for label, call in calls.items():
        samples = call()[1]
        check.that(samples.divergences == 0, f"{samples.divergences} moves of {label} diverged")
        drawn[label] = samples.draws[..., : 1 + given.users * latent.TOPICS]
    theirs = {}
    if numpyro:
        theirs = their_contestants(record, samples.step_size * LEAPFROGS, given, receipt)
    for label, call in theirs.items():
        drawn[label] = call()
        for measure, value in compared(drawn[OURS], drawn[label]).items():
            receipt.record(f"hmc_{measure}_{key(label)}", value, "number")
    worth = {name: float(hamiltonian.effective_size(one).min()) for name, one in drawn.items()}
    race = bench.race(calls | theirs, given.rounds, warmup=1)
    print(race)
    for label, found in race.results.items():
        receipt.record(f"hmc_time_{key(label)}", found)
        receipt.record(f"hmc_rate_{key(label)}", found, "effective draws/s", count=worth[label])
        ahead = bench.ratio(found, race.results[OURS], worth[OURS] / worth[label])
        receipt.record(f"hmc_ours_over_{key(label)}", ahead)
    share = 100 * leaps / race.results[OURS].median_s
    receipt.record("hmc_share_of_leaps", share, "%", timing=True)
    print(receipt.write(name="hmc"))


if __name__ == "__main__":
    main()
