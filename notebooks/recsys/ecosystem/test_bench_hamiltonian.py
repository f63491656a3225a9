"""What the race of samplers records where ours run alone: effective draws a second."""

from types import SimpleNamespace

import bench_hamiltonian as race_of
import pytest
import torch
from helpers import bench, receipts


def test_a_rate_is_of_the_worst_parameter_s_effective_draws(monkeypatch):
    """Two seconds for 30 of the first parameter, 50 of the next, 7 of what is no intent's."""

    def raced(contestants, repeats, warmup):
        results = {
            name: bench.Measurement(2.0, 2.0, 2.0, (2.0,) * repeats, None, "cpu")
            for name in contestants
        }
        ratios = {name: bench.ratio(one, one) for name, one in results.items()}
        return bench.Race(results, ratios, next(iter(results)))

    sizes = torch.full((1 + 2 * race_of.latent.TOPICS + 1,), 50.0)
    sizes[0], sizes[-1] = 30, 7
    samples = SimpleNamespace(divergences=0, draws=sizes.expand(6, 4, -1))
    receipt = receipts.start("ecosystem", "cpu", 1)
    monkeypatch.setattr(receipt, "write", lambda name: name)
    monkeypatch.setattr(race_of.receipts, "start", lambda *given: receipt)
    monkeypatch.setattr(race_of.torch, "set_num_threads", lambda count: None)
    monkeypatch.setattr(race_of, "numpyro", None)
    monkeypatch.setattr(race_of, "drawn_log", lambda steps, users: None)
    monkeypatch.setattr(race_of.latent, "repeated", lambda record, chains: None)
    monkeypatch.setattr(race_of.latent, "posterior", lambda *given, **named: (None, samples))
    monkeypatch.setattr(race_of.hamiltonian, "effective_size", lambda draws: draws[0, 0])
    monkeypatch.setattr(race_of.bench, "race", raced)
    race_of.main(["--rounds", "6", "--threads", "2", "--users", "2"])
    assert receipt.metrics["hmc_rate_ours_hmc"]["value"] == pytest.approx(15)
