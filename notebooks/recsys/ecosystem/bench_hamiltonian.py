"""The race of samplers: ours against numpyro on the density of a log with hidden satisfaction.

    python -m bench_hamiltonian               # 20 rounds; a receipt
    python -m bench_hamiltonian --rounds 3 --draws 100

First the densities: ours and numpyro's model must agree at random places, up to a constant.
Then each samples the same log with as many chains, warm-up moves and draws: our HMC, numpyro's
HMC with the same length of an orbit, and its NUTS. Means and deviations of the sensitivity and
of all intents are compared in units of their Monte-Carlo error, effective sizes and R-hat stand
beside them, and our diagnostics are held against numpyro's on the same draws: where they differ
by more than chance the bench stops. numpyro's loop is compiled once, ahead, and timed apart.
Where it is not installed, ours alone is timed, and it is said.
"""

import argparse
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
    sensitivity = torch.tensor([TRUTH], dtype=torch.float64)
    return latent.draw_log(
        steps, 1, users, TorchBackend(seed, dtype=torch.float64), sensitivity
    )


def their_model(slates, choices):
    """The same density in numpyro: slates (H, U, K, T) and choices (H, U) are given."""
    steps, users = choices.shape
    logit = numpyro.sample("logit", dist.Normal(*latent.PRIOR))
    sensitivity = 1 / (1 + jnp.exp(-logit))
    centres = dist.Normal(jnp.eye(latent.TOPICS), latent.SPREAD).to_event(1)
    weights = dist.Categorical(logits=jnp.zeros(latent.TOPICS))
    mixed = dist.MixtureSameFamily(weights, centres).expand([users]).to_event(1)
    intent = numpyro.sample("intent", mixed)
    normal = dist.Normal(jnp.zeros((steps - 1, users)), 1.0).to_event(2)
    shock = numpyro.sample("shock", normal)
    far = jnp.sqrt(((intent[None, :, None] - slates) ** 2).sum(-1) + latent.SMOOTH)
    liking = 2 - far
    best = jnp.concatenate([jnp.zeros((1, users)), liking.max(-1)])
    level, levels = jnp.full(users, latent.START), []
    for step in range(steps):
        if step:
            level = sensitivity * level + best[step] - best[step - 1]
            level = level + latent.SHOCK * shock[step - 1]
        levels.append(level)
    nothing = jnp.full((steps, users, 1), latent.NOTHING)
    logits = jnp.concatenate([liking + jnp.stack(levels)[..., None], nothing], -1)
    numpyro.sample("choice", dist.Categorical(logits=logits).to_event(2), obs=choices)


def their_values(about, q):
    """Rows of ours, (C, Q), as numpyro's {site: array}, one a chain."""
    found = about.unpacked(q)
    return [
        {name.split(".")[1]: jnp.asarray(value[chain].numpy()) for name, value in found.items()}
        for chain in range(len(q))
    ]


def density_gap(about, given):
    """How far the two log-densities are from a constant apart, over some places."""
    q = about.start(seed=9, spread=0.7)
    ours = about.density(q).numpy()
    theirs = [
        float(util.log_density(their_model, given, {}, one)[0])
        for one in their_values(about, q)
    ]
    gap = ours - np.array(theirs)
    why = "float64 sums of hundreds of terms; the slates' own density is a constant"
    return check.close(gap, np.full_like(gap, gap[0]), atol=1e-6, why=why)


def their_sampler(kernel, given, chains, warmup, draws, seed=1):
    """(a function that samples anew, to {site: (N, C, …)}; the seconds of compiling it).

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
    return lambda: {n: np.asarray(v) for n, v in compiled(start).items()}, took


def as_draws(found):
    """numpyro's samples in the layout of ours: logit and intents, (N, C, 1 + U·T)."""
    logit, intent = found["logit"], found["intent"]
    both = np.concatenate([logit[..., None], intent.reshape(*logit.shape, -1)], -1)
    return torch.tensor(both)


def compared(ours, theirs):
    """{measure: number}: gaps of means in Monte-Carlo errors, ratios of deviations, sizes."""
    sizes = [hamiltonian.effective_size(one) for one in (ours, theirs)]
    flat = [one.reshape(-1, one.shape[-1]) for one in (ours, theirs)]
    deviations = [one.std(0) for one in flat]
    error = sum(d**2 / size for d, size in zip(deviations, sizes, strict=True)).sqrt()
    gaps, ratios = (
        (flat[0].mean(0) - flat[1].mean(0)).abs() / error,
        deviations[0] / deviations[1],
    )
    return {
        "worst_gap_of_means": gaps.max(),
        "least_ratio_of_deviations": ratios.min(),
        "most_ratio_of_deviations": ratios.max(),
        "least_size": sizes[0].min(),
        "their_least_size": sizes[1].min(),
        "worst_r_hat": hamiltonian.split_r_hat(ours).max(),
        "their_worst_r_hat": hamiltonian.split_r_hat(theirs).max(),
    }


def agreed(found):
    """None; Failed unless both samplers tell the same means and deviations, and have mixed.

    Some thirty parameters are compared at once, so means may be 4.5 errors apart; a deviation
    from `least_size` draws is known to about 1/√(2 · size), heavy tails add to that, and six
    of these are allowed.
    """
    size = min(found["least_size"], found["their_least_size"])
    check.that(size > 50, f"too few effective draws to compare: {size:.0f}")
    check.that(found["worst_gap_of_means"] < 4.5, "means differ by more than chance")
    band = 1 + 6 / float(2 * size) ** 0.5
    ratios = found["least_ratio_of_deviations"], found["most_ratio_of_deviations"]
    check.that(1 / band < ratios[0] and ratios[1] < band, f"deviations differ: {ratios}")
    worst = max(found["worst_r_hat"], found["their_worst_r_hat"])
    check.that(worst < 1.1, f"chains have not mixed: R-hat {worst:.2f}")


def diagnostics_gap(draws):
    """The largest relative difference of our effective size and R-hat from numpyro's."""
    theirs = numpyro.diagnostics
    by_chain = draws.transpose(0, 1).numpy()
    halves = np.concatenate(np.split(by_chain[:, : by_chain.shape[1] // 2 * 2], 2, 1), 0)
    sizes, whole = theirs.effective_sample_size(halves), draws[..., 0].numel()
    most = whole * np.log10(whole)  # theirs has no upper limit
    sizes = np.where((sizes > 0) & (sizes < most), sizes, most)
    pairs = [(hamiltonian.effective_size(draws), sizes)]
    pairs += [(hamiltonian.split_r_hat(draws), theirs.split_gelman_rubin(by_chain))]
    return max(float(np.abs(a.numpy() / np.asarray(b) - 1).max()) for a, b in pairs)


def main(arguments=None):
    """Check, race, and write the receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    sizes = {"rounds": 20, "threads": device.cores(), "users": 10, "steps": 7, "chains": 8}
    for name, size in (sizes | {"warmup": 150, "draws": 150}).items():
        parser.add_argument(f"--{name}", type=int, default=size)
    given = parser.parse_args(arguments)
    torch.set_num_threads(given.threads)
    receipt = receipts.start("ecosystem", "cpu", given.threads)
    receipt.sizes(**{n: v for n, v in vars(given).items() if n not in ("rounds", "threads")})
    record = drawn_log(given.steps, given.users)
    log = latent.repeated(record, given.chains)
    told = {"steps": given.draws, "warmup": given.warmup, "leapfrogs": LEAPFROGS}
    ours = partial(latent.posterior, log, given.users, **told)
    about, samples = ours()
    calls, parts = {"ours, HMC": ours}, 1 + given.users * latent.TOPICS
    sizes = {"ours, HMC": float(hamiltonian.effective_size(samples.draws[..., :parts]).min())}
    if numpyro:
        calls |= their_contestants(record, about, samples, given, receipt, sizes)
    else:
        print("numpyro is not installed: ours alone is timed")
    race = bench.race(calls, given.rounds, warmup=1)
    print(race)
    for label, found in race.results.items():
        name = label.replace(", ", "_").lower()
        receipt.record(f"hmc_time_{name}", found)
        receipt.record(f"hmc_rate_{name}", found, "effective draws/s", count=sizes[label])
    print(receipt.write(name="hmc"))


def their_contestants(record, about, samples, given, receipt, sizes):
    """numpyro's contestants; what must agree is checked and recorded on the way."""
    jax.config.update("jax_enable_x64", True)
    slates = np.stack([one[0].numpy() for one in record["recommender.slate"]])
    choices = np.stack([one[0].numpy() for one in record["user.choice"]])
    data = jnp.asarray(slates), jnp.asarray(choices)
    receipt.record("hmc_density_gap", density_gap(about, data), "nat")
    gap = diagnostics_gap(samples.draws)
    check.that(gap < 1e-3, f"effective size or R-hat differs from numpyro's by {gap:.1g}")
    receipt.record("hmc_diagnostics_gap", gap, "share")
    length = samples.step_size * LEAPFROGS
    kernels = {"numpyro, HMC": HMC(their_model, trajectory_length=length)}
    kernels["numpyro, NUTS"] = NUTS(their_model)
    calls, own = {}, samples.draws[..., : 1 + given.users * latent.TOPICS]
    for label, kernel in kernels.items():
        how = given.chains, given.warmup, given.draws
        calls[label], took = their_sampler(kernel, data, *how)
        found, name = as_draws(calls[label]()), label.replace(", ", "_").lower()
        receipt.record(f"hmc_compile_{name}", took, "s")
        told = compared(own, found)
        for measure, value in told.items():
            receipt.record(f"hmc_{measure}_{name}", float(value), "number")
        agreed(told)
        sizes[label] = float(hamiltonian.effective_size(found).min())
    return calls


if __name__ == "__main__":
    main()
