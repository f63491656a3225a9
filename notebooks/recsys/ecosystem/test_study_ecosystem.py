"""What the studies record, on made-up numbers: pairing, intervals, coverage, what was kept."""

import bench_ecosystem
import bench_hamiltonian
import numpy as np
import pytest
import study_ecosystem as study
import study_recovery
import torch
from helpers import check
from scipy import stats


class Receipt:
    """Keeps what is recorded."""

    def __init__(self):
        self.found, self.curves = {}, {}

    def record(self, name, value, unit, low=None, high=None, repeats=None, note=None):
        self.found[name] = (value, low, high)

    def curve(self, name, **columns):
        self.curves[name] = columns


def world(cumulative, late):
    told = {"cumulative": cumulative, "runs": np.array([cumulative - 1, cumulative + 1])}
    told |= {"early_utility": 1.0, "late_utility": late, "early_gini": 0.5, "late_gini": 0.7}
    return told | {"survivors": 10.0, "path": cumulative * np.linspace(0, 1, 5)}


def test_gains_are_paired_within_worlds():
    receipt = Receipt()
    bases, gains = [10.0, 500.0, -70.0], [1.0, 2.0, 3.0]
    found = [
        {name: world(base + gain * (name == "cap_1_2"), 0.5) for name in study.CAPS}
        for base, gain in zip(bases, gains, strict=True)
    ]
    study.record_worlds(receipt, found)
    mean, low, high = receipt.found["study_cap_1_2_gain"]
    half = stats.t.ppf(0.975, 2) * 1 / 3**0.5
    assert (mean, low, high) == pytest.approx((2, 2 - half, 2 + half))
    assert receipt.found["study_cap_1_2_gain_low"][0] == pytest.approx(2 - half)
    assert receipt.found["study_cap_1_2_worlds_better"][0] == 3
    assert receipt.found["study_cap_3_worlds_better"][0] == 0
    assert receipt.found["study_spread_of_runs"][0] == pytest.approx(2**0.5)
    path = receipt.curves["cap_1_2_path"]
    assert path["y"] == pytest.approx([0, 0.5, 1, 1.5, 2])
    assert path["low"][-1] == pytest.approx(2 - half)  # of gains, not of worlds


def test_what_concentration_costs_is_beyond_what_every_policy_loses():
    receipt = Receipt()
    found = [
        {name: world(1.0, 0.2 if name == "myopic" else 0.3) for name in study.CAPS}
        for _ in range(3)
    ]
    study.record_worlds(receipt, found)
    assert receipt.found["study_concentration"][0] == pytest.approx(-0.1)
    assert receipt.found["study_concentration_high"][0] == pytest.approx(-0.1)


def test_coverage_counts_intervals_that_hold_their_truth():
    truth = [0.5, 0.6, 0.7, 0.8]
    batch = {"truth": truth, "observed_value": truth, "observed_error": [0.01] * 4}
    batch |= {"hidden_low": [0.4, 0.65, 0.6, 0.1], "hidden_high": [0.6, 0.7, 0.8, 0.2]}
    batch |= {"hidden_value": truth, "em_value": [one + 0.1 for one in truth]}
    batch |= {"likelihood_value": [one - 0.1 for one in truth]}
    batch |= {"joint_value": truth, "r_hat": [1.0, 1.2, 1.01, 1.0]}
    batch |= {"topic_draws": [0.75] * 4, "topic_clicks": [0.5] * 4}
    receipt = Receipt()
    study_recovery.record_recovery(receipt, [batch])
    assert receipt.found["study_hidden_coverage"][0] == 50
    assert receipt.found["study_observed_coverage"][0] == 100
    assert receipt.found["study_em_bias"][0] == pytest.approx(0.1)
    assert receipt.found["study_likelihood_bias"][0] == pytest.approx(-0.1)
    assert receipt.found["study_worst_r_hat"][0] == 1.2
    assert receipt.found["study_topics_beyond_clicks_low"][0] == pytest.approx(25)


def few_logs():
    given = type("Given", (), {"experiments": 2, "log_users": 3, "log_steps": 3})()
    given.chains, given.draws, given.warmup = 2, 6, 4
    return given


def test_draws_of_logs_and_chains_are_read_in_their_order(monkeypatch):
    """Made-up draws: the first log's are all near 0.2, the second's near 0.9."""
    given, kept, told = few_logs(), {}, study_recovery.latent
    plain_log = told.draw_log

    def draw_log(*about, **more):
        kept["log"] = plain_log(*about, **more)
        return kept["log"]

    def posterior(log, users, draws, warmup, seed):
        hidden = told.Hidden(log, users)
        q = torch.zeros(draws, 4, hidden.count, dtype=torch.float64)
        level = torch.logit(torch.tensor([0.2, 0.2, 0.9, 0.9], dtype=torch.float64))
        q[..., 0] = level + 0.01 * torch.randn(draws, 4, generator=torch.manual_seed(0))
        own = kept["log"]["user.intent"][0].repeat_interleave(2, 0).flatten(1)
        q[..., 1 : 1 + own.shape[1]] = own  # each log's chains know its own users
        return hidden, told.hamiltonian.Samples(q, None, 0.1, None, 0)

    monkeypatch.setattr(told, "draw_log", draw_log)
    monkeypatch.setattr(told, "posterior", posterior)
    same = torch.full((3, 2), 0.5)  # what is not asked here
    monkeypatch.setattr(told, "expectation_maximisation", lambda *_, **more: same)
    found = study_recovery.recovery(0, given, "cpu")
    assert found["hidden_value"] == pytest.approx([0.2, 0.9], abs=0.02)
    assert found["hidden_high"][0] < 0.25 and found["hidden_low"][1] > 0.85
    assert max(found["r_hat"]) < 2 and found["topic_draws"] == [1.0, 1.0]


def test_a_batch_of_logs_gives_a_number_for_each_log():
    torch.manual_seed(0)
    found = study_recovery.recovery(0, few_logs(), "cpu")
    assert {len(values) for values in found.values()} == {2}
    assert all(
        low <= high for low, high in zip(found["hidden_low"], found["hidden_high"], strict=True)
    )
    assert all(0 <= share <= 1 for share in found["topic_draws"] + found["topic_clicks"])


def test_a_world_of_the_study_pairs_its_policies_and_has_noise_of_its_own(monkeypatch):
    given = type("Given", (), {"runs": 2, "horizon": 6, "users": 30})()
    same = study.draw_providers(1, 0)
    monkeypatch.setattr(study, "CAPS", {"myopic": 0.0, "twin": 0.0, "cap_1_2": 1.2})
    monkeypatch.setattr(study, "draw_providers", lambda worlds, seed: same)
    found, other = study.world(3, given, "cpu"), study.world(4, given, "cpu")
    np.testing.assert_array_equal(found["myopic"]["path"], found["twin"]["path"])
    assert not np.array_equal(found["myopic"]["path"], found["cap_1_2"]["path"])
    assert not np.array_equal(found["myopic"]["path"], other["myopic"]["path"])
    assert found["myopic"]["runs"][0] != found["myopic"]["runs"][1]
    again = study.world(3, given, "cpu")
    for name in study.CAPS:
        path, runs = found[name]["path"], found[name]["runs"]
        assert path[-1] == pytest.approx(runs.mean(), rel=1e-5)
        assert found[name]["cumulative"] == again[name]["cumulative"]


def test_a_compiled_story_of_another_mean_stops_the_race():
    draw = np.random.default_rng(0)
    first, second = (type("Out", (), {"utility": draw.normal(size=(5, 6))})() for _ in "ab")
    assert bench_ecosystem.same_in_mean(first, second) < 4
    second.utility = second.utility + 3
    with pytest.raises(check.Failed, match="standard errors away"):
        bench_ecosystem.same_in_mean(first, second)


def test_samplers_that_agree_pass_and_others_stop_the_race():
    noise = torch.Generator().manual_seed(0)
    kind = {"generator": noise, "dtype": torch.float64}
    ours, theirs = torch.randn(2, 200, 4, 3, **kind)
    told = bench_hamiltonian.compared(ours, theirs)
    assert told["worst_gap_of_means"] < 4 and 0.8 < told["least_ratio_of_deviations"] < 1.2
    wrong = {
        "means differ": theirs + torch.tensor([0.0, 0.3, 0.0]),
        "deviations differ": theirs * torch.tensor([1.0, 1.0, 1.5]),
        "too few effective": theirs.cumsum(0),
    }
    for message, draws in wrong.items():
        with pytest.raises(check.Failed, match=message):
            bench_hamiltonian.compared(ours, draws)
