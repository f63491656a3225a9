"""The study of recovery: what each estimate is given and reads, and what is held against it."""

from dataclasses import replace

import numpy as np
import pytest
import study_recovery as study
import torch
from helpers import receipts
from helpers.study import Job, StudyError
from press.study import hold, record, run
from scipy import stats
from study_recovery import latent

CLICKS = {"recommender.slate", "user.choice"}
SLOW = {"by": study.climbed, "iterations": 20, "moves": 2, "rate": 0.5, "first": 100}
EXPECTED = {
    "hidden": ("clicks", ["sensitivity", "intents"], {"by": study.sampled}),
    "em": ("clicks", ["sensitivity"], {"by": study.climbed, "iterations": 10, "moves": 3}),
    "likelihood": ("clicks", ["sensitivity"], SLOW),
    "clicks": ("clicks", ["intents"], {"by": study.counted}),
    "hidden_long": ("clicks_long", ["intents_long"], {"by": study.sampled}),
    "clicks_long": ("clicks_long", ["intents_long"], {"by": study.counted}),
}
SIZES = {"chains": 3, "log_users": 4, "log_steps": 2, "draws": 20, "warmup": 9}
LONG = {"long_users": 3, "long_steps": 4}


def test_each_estimate_sees_its_own_log_and_is_held_to_the_truth():
    seen = hold(study.STUDY)
    assert set(seen) == {(name, seed) for name in EXPECTED for seed in (0, 1)}
    for (name, seed), one in seen.items():
        log, tests, loss = EXPECTED[name]
        assert (set(one.job.train), list(one.tests), one.job.arm.loss) == (CLICKS, tests, loss)
        assert (one.job.start, one.job.choice) == ("new", None)
        assert one.job.train is seen[log, seed].job.train  # the arm of that name counts it
        if "sensitivity" in tests:
            assert one.tests["sensitivity"] == seen["em", seed].tests["sensitivity"]
    assert seen["hidden", 0].tests["intents"] is seen["clicks", 0].tests["intents"]
    assert len(seen["clicks", 0].tests["intents"]) == 4
    longer = seen["clicks_long", 0]
    assert longer.tests["intents_long"] is seen["hidden_long", 0].tests["intents_long"]
    assert (len(longer.tests["intents_long"]), len(longer.job.train["user.choice"])) == (6, 5)
    truths = [seen["em", seed].tests["sensitivity"] for seed in (0, 1)]
    assert truths[0] != truths[1] and seen["em", 0].job.train is not seen["em", 1].job.train


def test_what_is_recorded_is_sixty_logs_of_which_some_were_added_after_a_look():
    declared = study.STUDY
    assert (list(declared.seeds), declared.over) == ([*range(60)], "logs")
    assert "40 to 60" in declared.added
    sizes = {"chains": 3, "log_users": 12, "log_steps": 8, "draws": 250, "warmup": 200}
    assert declared.sizes == sizes | {"long_users": 40, "long_steps": 32}
    few = {name: arm.seeds for name, arm in declared.arms.items() if arm.seeds}
    assert few == {"hidden_long": 20, "clicks_long": 20}


def test_a_log_of_clicks_that_tells_the_sensitivity_is_refused(monkeypatch):
    monkeypatch.setattr(latent, "LOGGED", (*latent.LOGGED, "population.sensitivity"))
    with pytest.raises(StudyError, match="population.sensitivity"):
        hold(study.STUDY)


def test_truths_come_from_their_prior_and_both_logs_from_the_truth(monkeypatch):
    asked, real = [], latent.draw_log

    def kept(steps, worlds, users, backend, sensitivity):
        asked.append((float(sensitivity), steps, users))
        return real(steps, worlds, users, backend, sensitivity)

    monkeypatch.setattr(latent, "draw_log", kept)
    sizes = {"log_steps": 2, "log_users": 1, "long_steps": 3, "long_users": 2}
    found = [study.parts(seed, sizes) for seed in range(120)]
    truths = [one["sensitivity"].data for one in found]
    assert len(set(truths)) == 120  # none is asked twice
    assert asked == [(truth, *size) for truth in truths for size in ((2, 1), (3, 2))]
    logits = np.log(truths) - np.log1p(-np.array(truths))
    assert stats.kstest(logits, stats.norm(1, 1).cdf).pvalue > 1e-3  # 0.8 always: 1e-100


@pytest.mark.parametrize("which", ["", "_long"])
def test_true_topics_are_those_of_the_log_of_clicks(which):
    """Many clicks alone name most topics; those of another log would fit by a third."""
    sizes = dict.fromkeys(("log_steps", "long_steps"), 60)
    found = study.parts(3, sizes | dict.fromkeys(("log_users", "long_users"), 200))
    arm = f"clicks{which}"
    made = study.fit(Job(arm, study.STUDY.arms[arm], 3, {}, train=found[f"clicks{which}"].data))
    asked = Job(arm, None, 3, {}, test=f"intents{which}")
    assert study.judge(made, found[f"intents{which}"].data, asked)["topics"] > 0.5


def job(name, seed=5, users=4):
    log = {
        "recommender.slate": [torch.zeros(1, users, 4, 3, dtype=torch.float64)] * 2,
        "user.choice": [torch.zeros(1, users, dtype=torch.int64)] * 2,
    }
    return Job(name, study.STUDY.arms[name], seed, SIZES, "new", log)


def test_draws_are_read_at_the_ends_of_ninety_percent(monkeypatch):
    """Twenty draws of three chains: levels 1/61 to 60/61; one chain has other topics."""
    asked = {}
    levels = torch.arange(1, 61, dtype=torch.float64)[torch.randperm(60)].reshape(20, 3) / 61

    def posterior(log, users, draws, warmup, seed):
        asked.update(rows=len(log["user.choice"][0]), users=users, draws=draws, seed=seed)
        asked.update(warmup=warmup)
        hidden = latent.Hidden(log, users)
        q = torch.zeros(20, 3, hidden.count, dtype=torch.float64)
        q[..., 0] = torch.logit(levels)
        intents = torch.zeros(20, 3, 4, 3, dtype=torch.float64)
        intents[::2] += 0.01  # each half of a chain has the same mean
        for user, topic in enumerate((2, 0, 1, 1)):
            intents[:, :2, user, topic] += 1
            intents[:, 2, user, (topic + (user < 3)) % 3] += 1
        q[..., 1:13] = intents.flatten(2)
        return hidden, latent.hamiltonian.Samples(q, None, 0.1, None, 0)

    monkeypatch.setattr(latent, "posterior", posterior)
    found = study.fit(job("hidden"))
    assert asked == {"rows": 3, "users": 4, "draws": 20, "warmup": 9, "seed": 5}
    wanted = np.quantile(levels.numpy(), (0.05, 0.95))
    assert found["ends"] == pytest.approx(list(wanted)) and found["value"] == pytest.approx(0.5)
    assert found["topics"] == [2, 0, 1, 1]
    r_hat = study.hamiltonian.split_r_hat(levels[..., None])
    assert found["r_hat"] == pytest.approx(float(r_hat))
    assert found["unmixed"] == 3 / 4  # the chains agree on the last user alone


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("em", {"iterations": 10, "moves": 3, "chains": 3, "seed": 5}),
        ("likelihood", {"iterations": 20, "moves": 2, "rate": 0.5, "chains": 3, "seed": 105}),
    ],
)
def test_a_path_is_read_where_it_has_settled(monkeypatch, name, wanted):
    asked, path = [], torch.tensor([[0.5], [0.1], [0.2], [0.6], [0.8]])

    def climb(log, users, **how):
        asked.append((len(log["user.choice"][0]), users, how))
        return path

    monkeypatch.setattr(latent, "expectation_maximisation", climb)
    assert study.fit(job(name))["value"] == pytest.approx((0.2 + 0.6 + 0.8) / 3)
    assert asked == [(3, 4, wanted)]


LEARNED = ("hidden", "em", "likelihood")


def test_every_estimate_answers_for_real_in_small(monkeypatch):
    def short(*told, **how):
        return sample(*told, **how | {"warmup": 1, "leapfrogs": 1})

    sample = latent.hamiltonian.sample
    monkeypatch.setattr(latent.hamiltonian, "sample", short)
    sizes = {"log_users": 2, "log_steps": 2, "chains": 2, "draws": 4, "warmup": 2} | LONG
    found = run(replace(study.STUDY, seeds=(0,), sizes=sizes))
    inside = found["hidden"][0]["sensitivity"]["inside"]
    assert 0 < inside[1] < inside[2] < 1
    errors = [one[0]["sensitivity"]["bias"] for name, one in found.items() if name in LEARNED]
    assert len(set(errors)) == 3 and max(map(abs, errors)) < 1
    for name in ("hidden", "clicks", "hidden_long", "clicks_long"):
        word = "_long" * name.endswith("_long")
        assert 0 <= found[name][0][f"intents{word}"]["topics"] <= 1


def test_an_error_is_the_estimate_less_the_truth():
    made = {"value": 0.9, "ends": [0.8, 0.95], "topics": [1, 2, 0, 1], "r_hat": 1.2}
    made["unmixed"] = 0.5
    found = study.judge(made, 0.6, Job("hidden", None, 0, {}, test="sensitivity"))
    assert found == {"bias": pytest.approx(0.3), "inside": [0.6, 0.8, 0.95], "r_hat": [1.2]}
    plain = study.judge({"value": 0.9}, 0.6, Job("em", None, 0, {}, test="sensitivity"))
    assert plain == {"bias": pytest.approx(0.3), "inside": [], "r_hat": []}
    for test in ("intents", "intents_long"):
        topics = study.judge(made, [1, 2, 1, 1], Job("hidden", None, 0, {}, test=test))
        assert topics == {"topics": 0.75, "unmixed": 0.5}
    counted = study.judge(
        {"topics": [0, 1]}, [1, 1], Job("clicks", None, 0, {}, test="intents")
    )
    assert counted == {"topics": 0.5}


def test_coverage_errors_and_topics_have_their_numbers_and_signs():
    """Four logs: two of the hidden intervals hold their truth."""
    truths, lows, highs = (0.5, 0.6, 0.7, 0.8), (0.4, 0.65, 0.6, 0.1), (0.6, 0.7, 0.8, 0.2)
    error = {"hidden": 0.05, "em": 0.1, "likelihood": -0.1}
    rows = {name: {} for name in EXPECTED}
    for seed, (truth, low, high) in enumerate(zip(truths, lows, highs, strict=True)):
        for name, bias in error.items():
            rows[name][seed] = {"sensitivity": {"bias": bias, "inside": [], "r_hat": []}}
        rows["hidden"][seed]["sensitivity"]["inside"] = [truth, low, high]
        rows["hidden"][seed]["sensitivity"]["r_hat"] = [1.0 + 0.05 * seed]
        rows["hidden"][seed]["intents"] = {"topics": 0.75 + 0.01 * seed, "unmixed": 0.25}
        rows["clicks"][seed] = {"intents": {"topics": 0.5}}
        rows["hidden_long"][seed] = {"intents_long": {"topics": 0.9, "unmixed": 0.5}}
        rows["clicks_long"][seed] = {"intents_long": {"topics": 0.8 - 0.01 * seed}}
    receipt = receipts.start("ecosystem", "cpu")
    record(replace(study.STUDY, seeds=range(4)), receipt, rows)
    value = {name: one["value"] for name, one in receipt.metrics.items()}
    coverage = receipt.metrics["study_hidden_coverage"]
    wilson = stats.binomtest(2, 4).proportion_ci(0.95, "wilson")
    assert [coverage[key] for key in ("value", "repeats", "unit")] == [50, 4, "%"]
    assert (coverage["low"], coverage["high"]) == (100 * wilson.low, 100 * wilson.high)
    assert {name: value[f"study_{name}_bias"] for name in error} == pytest.approx(error)
    assert value["study_worst_r_hat"] == 1.15
    arms = ("hidden", "clicks", "hidden_long", "clicks_long")
    shares = [value[f"study_{name}_topics"] for name in arms]
    assert shares == pytest.approx([76.5, 50, 90, 78.5])
    assert [value[f"study_{name}_unmixed"] for name in arms[::2]] == [25, 50]
    beyond = {"topics_beyond_clicks": 26.5, "long_topics_beyond_clicks": 11.5}
    beyond["topics_beyond_chance"] = 76.5 - 100 / 3
    for name, wanted in beyond.items():
        found = receipt.metrics[f"study_{name}"]
        assert (found["unit"], found["repeats"]) == ("points", 4)
        assert found["value"] == pytest.approx(wanted) and found["low"] < wanted < found["high"]
    assert receipt.curves["recovered"] == {
        "truth": list(truths), "low": list(lows), "high": list(highs),
    }  # fmt: skip
