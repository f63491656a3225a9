"""The benches' own checks: what is not the same stops the race; what the receipt says."""

import json

import bench_ecosystem
import bench_hamiltonian
import pytest
import torch
from helpers import bench, check
from helpers.device import Tier


def test_back_ends_that_tell_another_story_stop_the_race(monkeypatch):
    assert bench_ecosystem.agree(users=20, horizon=3) < 1e-9
    other = bench_ecosystem.world.provider_aware(0.2)
    monkeypatch.setattr(bench_ecosystem.world, "provider_aware", lambda cap: other)
    with pytest.raises(check.Failed, match="sums of different order"):
        bench_ecosystem.agree(users=20, horizon=3)


def test_a_lazy_walk_that_tells_another_story_stops_the_race(monkeypatch):
    slates = bench_ecosystem.world.slates
    last_first = lambda *told: slates(*told).flip(-1)  # noqa: E731
    monkeypatch.setattr(bench_ecosystem.world, "slates", last_first)
    with pytest.raises(check.Failed, match="sums of different order"):
        bench_ecosystem.agree(users=20, horizon=3)


def test_each_contestant_tells_all_worlds_and_the_batch_alone_lazily(monkeypatch):
    pairs, took = bench_ecosystem.contestants(2, 3, 10)
    real, lazy = bench_ecosystem.world.slates, []
    kept = lambda *told: lazy.append(1) or real(*told)  # noqa: E731
    monkeypatch.setattr(bench_ecosystem.world, "slates", kept)
    assert took > 0 and set(pairs) == set(bench_ecosystem.NAMES.values())
    whole = [pairs[bench_ecosystem.NAMES[name]]().utility for name in ("batch", "all_noise")]
    assert [one.shape for one in whole] == [(3, 2), (3, 2)] and len(lazy) == 3  # of three steps
    assert len(pairs[bench_ecosystem.NAMES["world"]]()) == 2
    assert [len(one[0]) for one in pairs[bench_ecosystem.NAMES["one_user"]]()] == [3, 3]


def test_all_contestants_have_as_many_users_and_the_loop_is_the_reference_itself():
    """Ten users click in each of two steps; fading, the first ten are 9.6 in the end."""
    pairs, _ = bench_ecosystem.contestants(2, 3, 10)
    batch, eager, apart, loops = (pairs[name]() for name in bench_ecosystem.NAMES.values())
    assert [one.pulls.sum(-1).tolist() for one in (batch, eager)] == [[20, 20], [20, 20]]
    assert [one.pulls.sum() for one in apart] == [20, 20]
    assert [one[1].sum() for one in loops] == pytest.approx([19.6, 19.6])
    means = bench_ecosystem.world.draw_providers(2, 0)
    for one, (utility, _) in zip(means, loops, strict=True):
        wanted, _ = bench_ecosystem.ecosystem_reference(bench_ecosystem.CAP, one, 3, 10, 0)
        assert utility.tolist() == wanted.tolist()


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


def test_chains_that_have_not_mixed_stop_the_race():
    """Many chains around two places: worth enough draws, alike in means and deviations."""
    noise = torch.Generator().manual_seed(1)
    kind = {"generator": noise, "dtype": torch.float64}
    apart = 0.6 * (torch.arange(64) % 2 * 2 - 1.0)[:, None]
    ours, theirs = (apart + torch.randn(100, 64, 3, **kind) for _ in range(2))
    with pytest.raises(check.Failed, match="have not mixed"):
        bench_hamiltonian.compared(ours, theirs)


@pytest.fixture
def told(monkeypatch, tmp_path):
    """The metrics of a race of 3 worlds and 5 steps whose contestants take known seconds."""
    seconds = {"batch": 1.0, "all_noise": 2.0, "world": 4.0, "one_user": 11.0}
    labels = {bench_ecosystem.NAMES[name]: took for name, took in seconds.items()}

    def raced(contestants, repeats, warmup, reference):
        results = {
            label: bench.Measurement(s, s, s, (s,) * repeats, None, "cpu")
            for label, s in labels.items()
            if label in contestants
        }
        ratios = {name: bench.ratio(results[reference], one) for name, one in results.items()}
        return bench.Race(results, ratios, reference)

    pairs = dict.fromkeys(labels, lambda: None)
    monkeypatch.setattr(bench_ecosystem, "agree", lambda: 3e-12)
    monkeypatch.setattr(bench_ecosystem, "contestants", lambda *sizes: (pairs, 0.25))
    monkeypatch.setattr(bench_ecosystem.bench, "race", raced)
    monkeypatch.setattr(bench_ecosystem.device, "tier", lambda: Tier("cpu", "cpu", ""))
    monkeypatch.setattr(bench_ecosystem.torch, "set_num_threads", lambda count: None)
    monkeypatch.setenv("REBUILT_RECEIPTS", str(tmp_path))
    bench_ecosystem.main(["--rounds", "6", "--worlds", "3", "--steps", "5"])
    content = json.loads((tmp_path / "ecosystem.cpu.race.json").read_text())
    return {name: one["value"] for name, one in content["metrics"].items()}


def test_a_batch_of_one_second_is_eleven_times_as_fast_as_a_user_at_a_time_of_eleven(told):
    wanted = {"batch": 11, "all_noise": 11 / 2, "world": 11 / 4, "one_user": 1}
    assert {name: told[f"race_{name}_over_one_user"] for name in wanted} == wanted


def test_a_rate_counts_the_steps_of_all_worlds(told):
    wanted = {"batch": 15, "all_noise": 15 / 2, "world": 15 / 4, "one_user": 15 / 11}
    assert {name: told[f"rate_{name}"] for name in wanted} == pytest.approx(wanted)


def test_the_check_of_equality_is_asked_and_recorded(told):
    assert told["difference_to_plain_loops"] == 3e-12
