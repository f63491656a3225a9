"""What the race of samplers checks and records; with numpyro, that both have one density."""

import os
from types import SimpleNamespace

import bench_hamiltonian as race_of
import numpy as np
import pytest
import torch
from bench_hamiltonian import hamiltonian, latent
from helpers import bench, check, receipts


def raced(seconds):
    """A stand-in for `bench.race`: contestants take known seconds."""

    def race(contestants, repeats, warmup):
        results = {
            name: bench.Measurement(s, s, s, (s,) * repeats, None, "cpu")
            for name, s in ((name, seconds[name]) for name in contestants)
        }
        reference = next(iter(results))
        ratios = {name: bench.ratio(results[reference], one) for name, one in results.items()}
        return bench.Race(results, ratios, reference)

    return race


@pytest.fixture
def told(monkeypatch):
    """The metrics of a race in which each contestant's draws are worth a known number."""
    width, receipt = 1 + 2 * race_of.latent.TOPICS, receipts.start("ecosystem", "cpu", 1)
    worth = {"ours, HMC": 30.0, "ours, uncompiled": 40.0, "numpyro, HMC": 20.0}
    worth["numpyro, NUTS"] = 60.0

    def drawn(label):
        sizes = torch.full((width + 1,), 100.0)
        sizes[1], sizes[-1] = worth[label], 7  # the last is a shock, which nobody counts
        return sizes.expand(6, 4, -1)

    def ours(record, given, receipt):
        samples = {name: SimpleNamespace(divergences=0, step_size=0.1) for name in worth}
        for name, one in samples.items():
            one.draws = drawn(name)
        return {name: lambda name=name: (None, samples[name]) for name in list(worth)[:2]}, 1.5

    def theirs(record, length, given, receipt):
        assert length == pytest.approx(0.8)
        return {name: lambda name=name: drawn(name)[..., :width] for name in list(worth)[2:]}

    monkeypatch.setattr(receipt, "write", lambda name: name)
    monkeypatch.setattr(race_of.receipts, "start", lambda *given: receipt)
    monkeypatch.setattr(race_of.torch, "set_num_threads", lambda count: None)
    monkeypatch.setattr(race_of, "numpyro", True)
    monkeypatch.setattr(race_of, "drawn_log", lambda steps, users: None)
    monkeypatch.setattr(race_of, "our_contestants", ours)
    monkeypatch.setattr(race_of, "their_contestants", theirs)
    gap = lambda ours, theirs: {"least_size": float(theirs[0, 0, 1] - ours[0, 0, 1])}  # noqa: E731
    monkeypatch.setattr(race_of, "compared", gap)
    monkeypatch.setattr(race_of.hamiltonian, "effective_size", lambda draws: draws[0, 0])
    seconds = {"ours, HMC": 2.0, "ours, uncompiled": 20.0, "numpyro, HMC": 4.0}
    seconds["numpyro, NUTS"] = 1.0
    monkeypatch.setattr(race_of.bench, "race", raced(seconds))
    race_of.main(["--rounds", "6", "--threads", "2", "--users", "2"])
    return {name: one["value"] for name, one in receipt.metrics.items()}


def test_a_rate_is_of_the_worst_parameter_s_effective_draws(told):
    wanted = {"ours_hmc": 30 / 2, "ours_uncompiled": 40 / 20, "numpyro_hmc": 20 / 4}
    wanted["numpyro_nuts"] = 60 / 1
    assert {name: told[f"hmc_rate_{name}"] for name in wanted} == pytest.approx(wanted)


def test_ours_over_another_is_a_ratio_of_rates_above_one_where_ours_is_ahead(told):
    wanted = {"ours_hmc": 1, "ours_uncompiled": 15 / 2, "numpyro_hmc": 3, "numpyro_nuts": 1 / 4}
    assert {name: told[f"hmc_ours_over_{name}"] for name in wanted} == pytest.approx(wanted)
    assert told["hmc_share_of_leaps"] == pytest.approx(75)


def test_both_of_numpyro_s_samplers_are_held_against_ours_before_the_race(told):
    found = [told[f"hmc_least_size_numpyro_{kind}"] for kind in ("hmc", "nuts")]
    assert found == [20 - 30, 60 - 30]  # theirs less those of our compiled one


def test_a_sampler_that_diverges_stops_the_race(monkeypatch):
    ours = {race_of.OURS: lambda: (None, SimpleNamespace(divergences=2))}
    monkeypatch.setattr(race_of.torch, "set_num_threads", lambda count: None)
    monkeypatch.setattr(race_of, "drawn_log", lambda *_: None)
    monkeypatch.setattr(race_of, "our_contestants", lambda *_: (ours, 1.0))
    with pytest.raises(check.Failed, match="2 moves of ours, HMC diverged"):
        race_of.main(["--threads", "2"])


@pytest.mark.parametrize("threads", [1, 2])
def test_one_thread_is_one_for_torch_and_for_the_peer(monkeypatch, threads):
    def over(*_):
        raise InterruptedError

    asked = []
    monkeypatch.setenv("XLA_FLAGS", "")
    monkeypatch.delenv("XLA_FLAGS")
    monkeypatch.setattr(race_of.torch, "set_num_threads", asked.append)
    monkeypatch.setattr(race_of, "drawn_log", over)
    with pytest.raises(InterruptedError):
        race_of.main(["--threads", str(threads)])
    flags = os.environ.get("XLA_FLAGS", "")
    assert asked == [threads] and ("intra_op_parallelism_threads=1" in flags) == (threads == 1)


def test_a_compiled_step_that_is_not_the_plain_one_stops_the_race(monkeypatch):
    def other(density, like):
        return lambda *told: tuple(one + 1e-6 for one in hamiltonian.plain(density)(*told))

    monkeypatch.setattr(race_of.hamiltonian, "compiled", other)
    given = SimpleNamespace(users=2, steps=3, chains=2, warmup=4, draws=6)
    receipt = receipts.start("ecosystem", "cpu", 1)
    with pytest.raises(check.Failed, match="sums of different order"):
        race_of.our_contestants(race_of.drawn_log(3, 2), given, receipt)


def test_our_contestants_differ_by_the_compiled_step_alone(monkeypatch):
    real, asked = hamiltonian.compiled, []
    quick = lambda density, like: real(density, like, backend="aot_eager")  # noqa: E731
    monkeypatch.setattr(race_of.hamiltonian, "compiled", quick)
    monkeypatch.setattr(
        race_of.latent, "posterior", lambda *told, **how: asked.append((told, how))
    )
    measured = SimpleNamespace(median_s=2.0)  # of a hundred steps
    monkeypatch.setattr(race_of.bench, "measure", lambda call: call() and measured)
    given = SimpleNamespace(users=2, steps=3, chains=2, warmup=4, draws=6)
    record, receipt = race_of.drawn_log(3, 2), receipts.start("ecosystem", "cpu", 1)
    calls, leaps = race_of.our_contestants(record, given, receipt)
    assert leaps == pytest.approx(race_of.LEAPFROGS * (4 + 6) * 2.0 / 100)
    for call in calls.values():
        call()
    (first, how), (second, plain) = asked
    assert first[0] is second[0] and first[1:] == second[1:] == (2, 6, 4, race_of.LEAPFROGS)
    assert list(how) == ["leap"] and plain == {}


def density_gap(about, given):
    """None; Failed where the two log-densities are not a constant apart, over some places."""
    q = about.start(seed=9, spread=0.7)
    named = {name.split(".")[1]: value.numpy() for name, value in about.unpacked(q).items()}
    rows = [{name: value[row] for name, value in named.items()} for row in range(len(q))]
    model, log_density = race_of.their_model, race_of.numpyro.infer.util.log_density
    theirs = [float(log_density(model, given, {}, row)[0]) for row in rows]
    gap = about.density(q).numpy() - np.array(theirs)
    why = "float64 sums of hundreds of terms; the slates' own density is a constant"
    check.close(gap, 0 * gap + gap[0], atol=1e-6, why=why)


def test_both_densities_are_equal_up_to_a_constant_and_so_are_the_diagnostics():
    pytest.importorskip("numpyro")
    race_of.jax.config.update("jax_enable_x64", True)
    record = race_of.drawn_log(4, 3)
    about = latent.Hidden(latent.repeated(record, 5), 3)
    names = "recommender.slate", "user.choice"
    given = tuple(np.stack([one[0].numpy() for one in record[name]]) for name in names)
    density_gap(about, given)
    draws = torch.randn(60, 4, 3, generator=torch.Generator().manual_seed(0)).double().cumsum(0)
    draws[:, :, 0] += 0.1 * torch.arange(4)
    theirs = race_of.numpyro.diagnostics
    by_chain = draws.transpose(0, 1).numpy()
    halves = np.concatenate(np.split(by_chain, 2, 1), 0)
    np.testing.assert_allclose(
        hamiltonian.effective_size(draws), theirs.effective_sample_size(halves), rtol=1e-3
    )
    np.testing.assert_allclose(
        hamiltonian.split_r_hat(draws), theirs.split_gelman_rubin(by_chain), rtol=1e-3
    )


def test_the_peer_draws_as_often_as_ours_in_chains_of_its_own():
    pytest.importorskip("numpyro")
    record, given = race_of.drawn_log(3, 2), SimpleNamespace(chains=3, warmup=5, draws=7)
    race_of.jax.config.update("jax_enable_x64", True)
    names = "recommender.slate", "user.choice"
    told = tuple(np.stack([one[0].numpy() for one in record[name]]) for name in names)
    kernel = race_of.HMC(race_of.their_model, trajectory_length=0.8)
    sampled, took = race_of.their_sampler(kernel, told, given)
    draws = sampled()
    assert draws.shape == (7, 3, 1 + 2 * latent.TOPICS) and took > 0
    assert len(set(draws[0, :, 0].tolist())) == 3 and torch.equal(draws, sampled())
