"""The study of policies: what each arm is, in which world, what is measured, and its sign."""

from dataclasses import replace

import ecosystem_world
import numpy as np
import pytest
import study_ecosystem as study
from ecosystem_world import Outcome
from helpers import receipts
from helpers.study import Job
from press.study import hold, record, run
from scipy import stats

EXPECTED = {"myopic": (0.0, 2.0), "cap_0_3": (0.3, 2.0), "cap_1_2": (1.2, 2.0)}
EXPECTED |= {"cap_3": (3.0, 2.0), "even": (0.0, 0.0)}  # the cap, and what clicks make


def test_each_arm_has_its_own_cap_and_all_have_the_same_world():
    seen = hold(study.STUDY)
    assert set(seen) == {(name, seed) for name in EXPECTED for seed in (0, 1)}
    for (name, seed), one in seen.items():
        cap, gamma = EXPECTED[name]
        assert one.job.arm.starts == ("heuristic",)
        assert one.job.arm.setting == {"cap": cap, "gamma": gamma}
        assert (one.job.train, one.job.choice, list(one.tests)) == (None, None, ["world"])
        assert one.tests["world"] is seen["myopic", seed].tests["world"]
        assert one.tests["world"].shape == (1, 80, 2)
    worlds = [seen["myopic", seed].tests["world"] for seed in (0, 1)]
    assert (worlds[0] != worlds[1]).all()
    units = study.parts(0, {})["world"].units  # read twice: held apart, then counted
    assert [len(set(units)) for _ in "ab"] == [80, 80]


def test_what_is_recorded_is_twenty_worlds_at_the_article_s_sizes():
    declared = study.STUDY
    assert (list(declared.seeds), declared.over, declared.added) == ([*range(20)], "worlds", "")
    assert declared.sizes == {"runs": 2, "horizon": 300, "users": 2000}
    found = {
        name: (o.metric, o.arm, o.less, *o.differs) for name, o in declared.outcomes.items()
    }
    whole, moved, cap, gamma = "cumulative", "utility_moved", "setting.cap", "setting.gamma"
    assert found == {
        "study_cap_0_3_gain": (whole, "cap_0_3", "myopic", cap),
        "study_cap_1_2_gain": (whole, "cap_1_2", "myopic", cap),
        "study_cap_3_gain": (whole, "cap_3", "myopic", cap),
        "study_even_gain": (whole, "even", "myopic", gamma),
        "study_concentration": (moved, "myopic", "even", gamma),
        "study_boost_spares": (moved, "cap_1_2", "myopic", cap),
    }


def outcome(utility, clicks=None, documents=None):
    utility = np.array(utility, float)
    even = np.ones((*utility.shape, 4))
    clicks, documents = (
        even if clicks is None else clicks,
        even if documents is None else documents,
    )
    return Outcome(utility, clicks, documents, clicks[-1])


def test_policies_boost_up_to_their_caps_with_the_world_s_users_and_noise(monkeypatch):
    asked, pulls = {}, np.array([[0.0, 2.0, 10.0]])

    def kept(policy, worlds, horizon, seed, provider_means, users, gamma, backend):
        noise, boosts = backend.normal((3,)).tolist(), policy(pulls).tolist()
        about = worlds, horizon, users, noise, provider_means
        asked.setdefault(seed, []).append(((boosts, gamma), *about))
        return outcome(np.zeros((horizon, worlds)))

    monkeypatch.setattr(study, "run", kept)
    run(study.STUDY.small())
    for seed, calls in asked.items():
        gaps = np.array([[4.0, 2.0, -6.0]])
        wanted = [(gaps.clip(-cap, cap).tolist(), gamma) for cap, gamma in EXPECTED.values()]
        assert [one[0] for one in calls] == wanted
        assert all(one[1:4] == (2, 6, 30) for one in calls)
        assert all(one[4] == calls[0][4] for one in calls)  # the noise is the world's
        means = ecosystem_world.draw_providers(1, seed)[0]
        assert all((one[5] == means).all() for one in calls)
    assert asked[0][0][4] != asked[1][0][4]


def test_measures_are_of_the_ends_and_of_each_run():
    """Nothing at step 0, then 1, in the last fifty steps 3; between them what is far off."""
    utility, clicks = np.full((300, 2), 7.0), np.ones((300, 2, 4))
    utility[0], utility[1:51], utility[250:] = 0.0, (1.0, 1.0), (2.0, 4.0)
    clicks[0], clicks[51:250] = [0, 0, 0, 5], [0, 0, 5, 5]
    clicks[250:] = [0, 0, 0, 8]
    documents = np.zeros((300, 2, 4))
    documents[:250], documents[270, 1, 0] = 1, 2  # nobody in the last fifty but one, and …
    documents[-1] = [[0, 0, 3, 17], [0, 2, 3, 15]]
    found = study.measures(outcome(utility, clicks, documents))
    assert found["utility_moved"] == pytest.approx(3 - 1)
    assert (found["late_gini"], found["gini_moved"]) == pytest.approx((0.75, 0.75))
    assert (found["present"], found["survivors"]) == ((2 + 3) / 2, (2 + 4) / 2)
    assert found["runs"] == pytest.approx([50 + 199 * 7 + 100, 50 + 199 * 7 + 200])
    assert found["cumulative"] == pytest.approx(np.mean(found["runs"]))
    assert found["path"][:2] == [0, 1] and found["path"][-1] == found["cumulative"]


def world(cumulative, moved, gini_moved=0.2):
    found = {"cumulative": cumulative, "runs": [cumulative - 1, cumulative + 1]}
    found |= {"utility_moved": moved, "gini_moved": gini_moved, "late_gini": 0.7}
    return found | {
        "survivors": 20.0,
        "present": 10.0,
        "path": (cumulative * np.linspace(0, 1, 5)).tolist(),
    }


def recorded(**numbers):
    """The receipt of three worlds; `numbers`: of an arm, those of `world` by seed."""
    usual = [(10.0, -0.5), (500.0, -0.5), (-70.0, -0.5)]
    found = {
        name: {s: {"world": world(*one)} for s, one in enumerate(numbers.get(name, usual))}
        for name in EXPECTED
    }
    receipt = receipts.start("ecosystem", "cpu")
    record(replace(study.STUDY, seeds=range(3)), receipt, found)
    return receipt


def test_gains_are_paired_within_worlds_and_above_zero_where_the_boost_helps():
    receipt = recorded(cap_1_2=[(11.0, -0.5), (502.0, -0.5), (-67.0, -0.5)])
    half = stats.t.ppf(0.975, 2) * 1 / 3**0.5
    gain = receipt.metrics["study_cap_1_2_gain"]
    assert [gain[key] for key in ("value", "low", "high")] == pytest.approx(
        [2, 2 - half, 2 + half]
    )
    assert (gain["unit"], gain["repeats"]) == ("utility", 3)
    assert gain["note"] == "mean over worlds, 95 % interval"
    value = {name: one["value"] for name, one in receipt.metrics.items()}
    assert value["study_cap_0_3_gain"] == value["study_cap_3_gain"] == 0
    assert (value["study_cap_1_2_worlds_better"], value["study_cap_3_worlds_better"]) == (3, 0)
    assert value["study_spread_of_runs"] == pytest.approx(2**0.5)
    assert value["study_spread_of_worlds"] == pytest.approx(np.std([10, 500, -70], ddof=1))
    assert receipt.curves["cap_1_2_gains"] == {"world": [0, 1, 2], "y": [1, 2, 3]}
    path = receipt.curves["cap_1_2_path"]
    assert path["step"] == [0, 1, 2, 3, 4] and path["y"] == pytest.approx([0, 0.5, 1, 1.5, 2])
    assert path["low"][-1] == pytest.approx(2 - half)  # of gains, not of worlds
    assert path["high"][-1] == pytest.approx(2 + half)


def test_what_concentration_costs_is_beyond_a_world_without_and_below_zero():
    receipt = recorded(
        myopic=[(10.0, -0.6, 0.1), (500.0, -0.8, 0.2), (-70.0, -0.7, 0.3)],
        even=[(13.0, -0.1), (503.0, -0.2), (-67.0, -0.3)],
        cap_1_2=[(10.0, -0.4), (500.0, -0.5), (-70.0, -0.6)],
    )
    cost, half = receipt.metrics["study_concentration"], stats.t.ppf(0.975, 2) * 0.1 / 3**0.5
    assert cost["value"] == pytest.approx(-0.5) and cost["unit"] == "utility"
    assert cost["low"] < cost["value"] < cost["high"] < 0
    value = {name: one["value"] for name, one in receipt.metrics.items()}
    assert value["study_even_gain"] == pytest.approx(3)  # what a world without it has more
    assert value["study_boost_spares"] == pytest.approx(0.2)
    moved = receipt.metrics["study_myopic_gini_moved"]
    assert (moved["value"], moved["low"]) == pytest.approx((0.2, 0.2 - half))
    assert receipt.metrics["study_myopic_utility_moved"]["value"] == pytest.approx(-0.7)


def told(policy, seed, arm="myopic"):
    sizes, means = {"runs": 2, "horizon": 6, "users": 30}, ecosystem_world.draw_providers(1, 0)
    return study.judge(policy, means, Job(arm, study.STUDY.arms[arm], seed, sizes))


def test_a_world_repeats_and_pairs_its_policies_and_others_have_their_own_noise():
    plain, twin = told(ecosystem_world.myopic, 3), told(ecosystem_world.provider_aware(0), 3)
    assert plain == twin and plain["runs"][0] != plain["runs"][1]
    assert plain["path"] != told(ecosystem_world.provider_aware(1.2), 3)["path"]
    assert plain["path"] != told(ecosystem_world.myopic, 4)["path"]
    assert plain["path"] != told(ecosystem_world.myopic, 3, "even")["path"]
    assert plain["path"][-1] == pytest.approx(np.mean(plain["runs"]), rel=1e-5)


def test_no_world_and_no_noise_is_counted_twice(monkeypatch):
    monkeypatch.setattr(study, "run", lambda *told: told[-1].normal((3,)).tolist())
    monkeypatch.setattr(study, "measures", lambda noise: noise)
    worlds, noise = set(), set()
    for seed in study.STUDY.seeds:
        means = study.parts(seed, {})["world"].data
        job = Job("even", study.STUDY.arms["even"], seed, study.STUDY.sizes)
        worlds.add(means.tobytes())
        noise.add(tuple(study.judge(ecosystem_world.myopic, means, job)))
    assert len(worlds) == len(noise) == 20
