"""The race of samplers: ours against numpyro on the density of a log with hidden satisfaction.

    python -m bench_hamiltonian --rounds 3 --draws 100

First the densities must agree at random places, up to a constant. Then our HMC, numpyro's with
the same length of an orbit, and its NUTS sample the same log with as many moves. Where means,
deviations, or our effective sizes and R-hat on the same draws differ by more than chance, the
bench stops. numpyro's loop is compiled once, ahead, and timed apart.
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
    from numpyro.infer import HMC, NUTS, util
except ImportError:
    numpyro = None

LEAPFROGS, TRUTH = 8, 0.8


def drawn_log(steps, users, seed=0):
    """A record of one world with the sensitivity TRUTH, float64."""
    backend = TorchBackend(seed, dtype=torch.float64)
    return latent.draw_log(steps, 1, users, backend, torch.tensor([TRUTH], dtype=torch.float64))


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


def density_gap(about, given):
    """How far the two log-densities are from a constant apart, over some places."""
    q = about.start(seed=9, spread=0.7)
    named = {name.split(".")[1]: value.numpy() for name, value in about.unpacked(q).items()}
    theirs = [
        float(
            util.log_density(their_model, given, {}, {n: v[row] for n, v in named.items()})[0]
        )
        for row in range(len(q))
    ]
    gap = about.density(q).numpy() - np.array(theirs)
    why = "float64 sums of hundreds of terms; the slates' own density is a constant"
    return check.close(gap, np.full_like(gap, gap[0]), atol=1e-6, why=why)


def their_sampler(kernel, given, chains, warmup, draws, seed=1):
    """(a function that samples anew, (N, C, 1 + U·T): logit and intents; seconds of compiling).

    `MCMC.run` compiles its loop at each call; so the loop is ours, compiled once and ahead.
    """
    keys = jax.random.split(jax.random.PRNGKey(seed), chains)
    start = kernel.init(keys, warmup, None, given, {})  # with many keys it samples by chains

    def step(state, _):
        state = kernel.sample(state, given, {})
        return state, state.z

    def whole(state):
        state, _ = jax.lax.scan(lambda s, _: (step(s, _)[0], None), state, length=warmup)
        return jax.lax.scan(step, state, length=draws)[1]

    began = time.perf_counter()
    compiled = jax.jit(whole).lower(start).compile()
    took = time.perf_counter() - began

    def sampled():
        found = {name: np.asarray(value) for name, value in compiled(start).items()}
        parts = found["logit"][..., None], found["intent"].reshape(draws, chains, -1)
        return torch.tensor(np.concatenate(parts, -1))

    return sampled, took


def compared(ours, theirs):
    """{measure: number} of two sets of draws (N, C, Q); Failed where they differ.

    Some thirty parameters are compared at once, so means may be 4.5 Monte-Carlo errors apart;
    a deviation from n effective draws is known to about 1/√(2n), and six of these are allowed.
    """
    sizes = [hamiltonian.effective_size(one) for one in (ours, theirs)]
    worst = [float(hamiltonian.split_r_hat(one).max()) for one in (ours, theirs)]
    (mean, width), (mean_, width_) = (
        (one.mean((0, 1)), one.flatten(0, 1).std(0)) for one in (ours, theirs)
    )
    gap = (mean - mean_).abs() / (width**2 / sizes[0] + width_**2 / sizes[1]).sqrt()
    ratio, least = width / width_, [float(one.min()) for one in sizes]
    band = 1 + 6 / (2 * min(least)) ** 0.5
    check.that(min(least) > 50, f"too few effective draws to compare: {least}")
    check.that(float(gap.max()) < 4.5, "means differ by more than chance")
    check.that(bool(((ratio < band) & (ratio > 1 / band)).all()), f"deviations differ: {ratio}")
    check.that(max(worst) < 1.1, f"chains have not mixed: R-hat {worst}")
    names = ("least_size", "their_least_size", "worst_r_hat", "their_worst_r_hat")
    return dict(zip(names, least + worst, strict=True)) | {
        "worst_gap_of_means": float(gap.max()),
        "least_ratio_of_deviations": float(ratio.min()),
        "most_ratio_of_deviations": float(ratio.max()),
    }


def diagnostics_gap(draws):
    """The largest relative difference of our effective size and R-hat from numpyro's."""
    by_chain, whole = draws.transpose(0, 1).numpy(), draws[..., 0].numel()
    halves = np.concatenate(np.split(by_chain[:, : by_chain.shape[1] // 2 * 2], 2, 1), 0)
    sizes, most = numpyro.diagnostics.effective_sample_size(halves), whole * np.log10(whole)
    sizes = np.where((sizes > 0) & (sizes < most), sizes, most)  # theirs has no upper limit
    r_hat = numpyro.diagnostics.split_gelman_rubin(by_chain)
    pairs = (hamiltonian.effective_size(draws), sizes), (hamiltonian.split_r_hat(draws), r_hat)
    gap = max(float(np.abs(a.numpy() / np.asarray(b) - 1).max()) for a, b in pairs)
    check.that(gap < 1e-3, f"effective size or R-hat differs from numpyro's by {gap:.1g}")
    return gap


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
    log = latent.repeated(record, given.chains)
    ours = partial(
        latent.posterior, log, given.users, given.draws, given.warmup, leapfrogs=LEAPFROGS
    )
    about, samples = ours()
    check.that(samples.divergences == 0, f"{samples.divergences} moves of ours diverged")
    own = samples.draws[..., : 1 + given.users * latent.TOPICS]
    calls, worth = {"ours, HMC": ours}, {"ours, HMC": hamiltonian.effective_size(own).min()}
    if numpyro:
        receipt.record("hmc_diagnostics_gap", diagnostics_gap(samples.draws), "share")
        calls |= their_contestants(record, about, samples.step_size, given, receipt)
    else:
        print("numpyro is not installed: ours alone is timed")
    for label in list(calls)[1:]:
        found, name = calls[label](), label.replace(", ", "_").lower()
        worth[label] = hamiltonian.effective_size(found).min()
        for measure, value in compared(own, found).items():
            receipt.record(f"hmc_{measure}_{name}", value, "number")
    race = bench.race(calls, given.rounds, warmup=1)
    print(race)
    for label, found in race.results.items():
        name = label.replace(", ", "_").lower()
        receipt.record(f"hmc_time_{name}", found)
        receipt.record(
            f"hmc_rate_{name}", found, "effective draws/s", count=float(worth[label])
        )
    print(receipt.write(name="hmc"))


def their_contestants(record, about, step_size, given, receipt):
    """{label: function} of numpyro's; that the densities agree is checked on the way."""
    jax.config.update("jax_enable_x64", True)
    names = "recommender.slate", "user.choice"
    data = tuple(jnp.asarray(np.stack([one[0].numpy() for one in record[n]])) for n in names)
    receipt.record("hmc_density_gap", density_gap(about, data), "nat")
    kernels = {"numpyro, HMC": HMC(their_model, trajectory_length=step_size * LEAPFROGS)}
    kernels["numpyro, NUTS"], calls = NUTS(their_model), {}
    for label, kernel in kernels.items():
        sizes = given.chains, given.warmup, given.draws
        calls[label], took = their_sampler(kernel, data, *sizes)
        receipt.record(f"hmc_compile_{label.replace(', ', '_').lower()}", took, "s")
    return calls


if __name__ == "__main__":
    main()
