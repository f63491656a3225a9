"""The study of MAP as it is declared: which days choose, which are reported, what is true."""

from dataclasses import asdict

import numpy as np
import outbrain
import pytest
import torch
from click_features import spec
from helpers import receipts
from helpers.study import Job, Part, StudyError
from outbrain.world import chunks
from press.study import hold, record

from . import study_map as study
from .network import Sizes, WideDeep
from .ranking import map_at_k, popularity_scores
from .training import Options

LOGS = {"small": 10_000, "middle": 30_000, "large": 100_000}
RATES = [0.001, 0.004, 0.016, 0.064]
TRUTHS = ["seen", "noisy", "alone", "noisy_match", "noisy_quality", "appeal"]


def named(log, of):
    return of if log == "large" else f"{of}_{log}"


EXPECTED = {"model": (tuple(f"rate {rate:g}" for rate in RATES), None, "choice_large", "large")}
for _log in LOGS:  # start, train, choice, log
    EXPECTED |= {named(_log, of): ("truth", None, None, _log) for of in TRUTHS}
    EXPECTED[named(_log, "popularity")] = "counts", f"train_{_log}", None, _log
    for _rate in RATES:
        EXPECTED[named(_log, f"rate {_rate:g}")] = "new", f"train_{_log}", None, _log


def kept():
    """({seed: its parts}, a `parts` that draws them by the study's own function)."""
    drawn = {}

    def parts(seed, sizes):
        drawn[seed] = study.parts(seed, sizes)
        return drawn[seed]

    return drawn, parts


def test_each_arm_is_given_what_it_is_named_for():
    drawn, parts = kept()
    seen = hold(study.STUDY, parts)
    assert set(seen) == {(name, seed) for name in EXPECTED for seed in (0, 1)}
    for (name, seed), one in seen.items():
        start, train, choice, log = EXPECTED[name]
        own, job = drawn[seed], one.job
        if isinstance(start, tuple):
            assert job.start == tuple(("made", word, seed) for word in start)
        elif train:
            assert job.start == start, name
        else:
            assert one.made == start
        assert job.train is (own[train].data if train else None)
        assert job.choice is (own[choice].data if choice else None)
        assert set(one.tests) == {f"test_{log}"}
        assert one.tests[f"test_{log}"] is own[f"test_{log}"].data
        of = "model" if start == "new" else name.removesuffix(f"_{log}")
        assert dict(job.arm.setting) == {"log": log, "of": of} and not job.arm.shares
        if start == "new":
            rate = float(name.split()[1].removesuffix(f"_{log}"))
            how = Options(epochs=3, warmup_epochs=0.5, wide_lr=0.05, deep_lr=rate)
            assert asdict(job.arm.loss) == asdict(how)
        else:
            assert job.arm.loss is None


def test_what_is_recorded_has_these_sizes_and_worlds():
    assert study.STUDY.sizes == LOGS | {"batch": 4096}
    assert list(study.STUDY.seeds) == [0, 1, 2, 3, 4] and study.STUDY.over == "worlds"


def days_of(world, display_id):
    """The day of each row's display, from the drawn clock and not from a file."""
    when = np.concatenate([one.timestamp_ms for one in chunks(world.catalogue())])
    return when[display_id.numpy() - 1] // outbrain.DAY_MS


def test_nothing_is_learned_or_chosen_on_the_days_that_are_reported(tmp_path):
    sizes = study.STUDY.small().sizes
    parts = study.parts(1, sizes)
    world, train, valid = study.data_of(sizes["middle"], tmp_path, 1)
    assert world.seed == 1
    late = days_of(world, valid["display_id"]) > 10
    assert set(days_of(world, train["display_id"])) == set(range(11))
    wanted = {"train": np.full(len(train["clicked"]), True), "choice": ~late, "test": late}
    for part, which in wanted.items():
        data, units = parts[f"{part}_middle"]
        rows = data.rows if part == "test" else data
        assert which.sum() > 100
        for name, column in (train if part == "train" else valid).items():
            assert torch.equal(rows[name], column[torch.from_numpy(which)])
        assert units == set(rows["display_id"].tolist())
    reported = parts["test_middle"].data.rows["display_id"]
    assert set(days_of(world, reported)) == {11, 12}
    assert set(days_of(world, parts["choice_middle"].data["display_id"])) == set(range(11))
    asked = parts["test_middle"].data
    at = world.rows(asked.rows["display_id"].numpy(), asked.rows["ad_id"].numpy())
    wanted = {"match": world.seen(("match",)), "quality": world.seen(("quality",))}
    wanted |= {"seen": world.seen(), "appeal": world.appeal}
    wanted["pairs"] = sum(world.seen((name,)) for name in ("platform", "state", "site"))
    assert set(asked.truth) == set(wanted)
    for name, values in wanted.items():
        np.testing.assert_allclose(asked.truth[name], values[at], atol=1e-12)


def test_a_row_s_click_rates_count_the_clicks_of_other_folds(tmp_path, monkeypatch):
    asked, build = [], study.with_polars.build
    monkeypatch.setattr(
        study.with_polars, "build", lambda *of, **how: asked.append(how) or build(*of, **how)
    )
    study.data_of(60, tmp_path)
    assert asked == [{"folds": 5, "check": False}]


@pytest.mark.parametrize("wrong", ["choice_large", "train_large", "choice_small"])
def test_displays_of_the_report_elsewhere_are_refused(wrong):
    everywhere = {f"{part}_{log}" for part in ("train", "choice", "test") for log in LOGS}
    parts = {name: Part(name, {name}) for name in everywhere}
    parts[wrong] = Part(None, parts[wrong].units | {"test_large"})
    if wrong == "choice_small":  # nobody chooses on it, so that it harms nobody
        assert hold(study.STUDY, lambda seed, sizes: parts)
        return
    with pytest.raises(StudyError, match=f"{wrong}.*'test_large'"):
        hold(study.STUDY, lambda seed, sizes: parts)


def job_of(name, start=None, train=None, choice=None, seed=3):
    sizes = {"small": 1, "middle": 2, "large": 7, "batch": 5}
    return Job(name, study.STUDY.arms[name], seed, sizes, start, train, choice)


@pytest.mark.parametrize("rate", RATES)
def test_a_rate_trains_its_own_network_on_its_own_rows(rate, monkeypatch):
    told = []
    monkeypatch.setattr(study, "trained", lambda *given: told.append(given))
    train = {"ad_id": torch.arange(12), "clicked": torch.ones(12)}
    model = torch.nn.Linear(1, 1)
    assert study.fit(job_of(f"rate {rate:g}", model, train)) is model
    [(trained, rows, looked, options)] = told
    assert trained is model and (rows.batch, rows.seed) == (5, 3)
    assert all(torch.equal(rows.data[name], train[name]) for name in train)
    assert len(looked["ad_id"]) == 1  # so that no other rows are scored meanwhile
    assert (options.deep_lr, options.seed, options.epochs) == (rate, 3, 3)


def test_a_new_network_has_the_size_of_the_page():
    model = study.begin("new", job_of("rate 0.004"))
    wanted = WideDeep(Sizes.published().scaled(dims=1 / 16, hidden=(64, 64)), sparse=True)
    shapes = [one.shape for one in wanted.parameters()]
    assert model.sparse and [one.shape for one in model.parameters()] == shapes
    assert study.begin("truth", None) == "truth"


def test_the_rate_of_the_model_is_the_best_on_what_it_is_to_choose_on(monkeypatch):
    scores, asked = {"a": 0.2, "b": 0.6, "c": 0.5, "d": 0.1}, []

    def evaluate(model, rows):
        asked.append(rows)
        return scores[model]

    monkeypatch.setattr(study, "evaluate", evaluate)
    assert study.fit(job_of("model", tuple(scores), choice="earlier")) == "b"
    assert asked == ["earlier"] * 4


def asked_rows(rows=60):
    rng = np.random.default_rng(0)
    numbers = torch.from_numpy(rng.normal(size=(rows, len(spec.NUMBERS))))
    at = {name: spec.NUMBERS.index(name) for name in spec.NUMBERS}
    likeness = [at[name] for name in spec.NUMBERS if name.startswith("sim_")]
    match = 3 * numbers[:, likeness[0]].numpy() - 1  # told in full
    truth = {"match": match, "quality": rng.normal(size=rows), "pairs": rng.normal(size=rows)}
    truth["seen"] = truth["match"] + truth["quality"] + truth["pairs"]
    truth["appeal"] = truth["seen"] + rng.normal(size=rows)
    told = {"numbers": numbers, "display_id": torch.arange(rows) // 4}
    told |= {"ad_id": torch.arange(rows) % 7, "clicked": (torch.arange(rows) % 4 == 1).float()}
    return study.Asked(told, truth)


def test_ceilings_put_lines_in_the_place_of_terms():
    asked = asked_rows()
    found, truth = study.ceilings(*asked), asked.truth
    assert set(found) == set(TRUTHS)
    np.testing.assert_allclose(found["noisy_match"], truth["seen"], atol=1e-9)
    lost = found["noisy_quality"] - truth["seen"] + truth["quality"]  # the line that is left
    assert 0 < lost.std() < truth["quality"].std()
    np.testing.assert_allclose(found["noisy"], found["noisy_quality"], atol=1e-9)
    np.testing.assert_allclose(found["alone"], found["noisy"] - truth["pairs"], atol=1e-9)
    assert found["seen"] is truth["seen"] and found["appeal"] is truth["appeal"]
    line = study.best_line(np.arange(5.0)[:, None], 3 * np.arange(5.0) - 1)
    np.testing.assert_allclose(line, 3 * np.arange(5.0) - 1, atol=1e-12)


@pytest.mark.parametrize("name", EXPECTED)
def test_each_arm_is_judged_by_its_own_scores(name, monkeypatch):
    asked = asked_rows()
    start, *_, log = EXPECTED[name]
    wanted, made = torch.arange(60) % 5, object()
    monkeypatch.setattr(study, "predict", lambda model, rows: wanted if model is made else 0)
    if start == "truth":
        of = name.removesuffix(f"_{log}")
        made, wanted = "truth", torch.from_numpy(study.ceilings(*asked)[of])
    elif start == "counts":
        rows = {"ad_id": torch.arange(9) % 7, "clicked": (torch.arange(9) % 2).float()}
        made = study.fit(job_of(name, "counts", rows | {"other": None}))
        assert made == rows
        wanted = popularity_scores(rows, asked.rows, seed=0)
    found = study.judge(made, asked, job_of(name))
    score = map_at_k(wanted, asked.rows["clicked"], asked.rows["display_id"])
    assert found.pop("point") == [{"small": 1, "middle": 2, "large": 7}[log], score]
    curve_alone = log != "large" or start == "new"
    assert found == ({} if curve_alone else {"map": score})


def test_directions_and_curves():
    def score(name, seed):
        return {"seen": 0.7 + 0.02 * seed, "noisy": 0.6, "model": 0.4 + 0.1 * seed}.get(name, 0)

    found = {
        name: {
            seed: {
                f"test_{log}": {"point": [LOGS[log], score(name, seed) or len(name) + seed]}
                | ({"map": score(name, seed)} if log == "large" and start != "new" else {})
            }
            for seed in (0, 1)
        }
        for name, (start, *_, log) in EXPECTED.items()
    }
    receipt = receipts.start("wide_deep", "cpu")
    record(study.STUDY, receipt, found)
    metrics = receipt.metrics
    large = {*TRUTHS, "popularity", "model", "lost_to_noise", "left_to_learn"}
    assert set(metrics) == {f"map_{name}" for name in large}
    lost, left = metrics["map_lost_to_noise"], metrics["map_left_to_learn"]
    assert lost["value"] == pytest.approx(0.11) and left["value"] == pytest.approx(0.15)
    assert (lost["low"], lost["high"]) == pytest.approx(  # 0.10 and 0.12, one degree of freedom
        (0.11 - 12.7062 * 0.01, 0.11 + 12.7062 * 0.01), rel=1e-4
    )
    assert lost["unit"] == "MAP@12" and metrics["map_model"]["value"] == pytest.approx(0.45)
    known, trials = receipt.curves["map_ceilings"], receipt.curves["map_trials"]
    assert known["displays"] == [10_000, 30_000, 100_000]
    assert known["seen"] == pytest.approx([10.5, 11.5, 0.71])  # "seen_small" has ten letters
    assert set(known) == {"displays", "popularity", *TRUTHS}
    assert trials["rate"] == RATES * 3
    assert trials["displays"] == [10_000] * 4 + [30_000] * 4 + [100_000] * 4
    assert trials["map"][0] == 16.5 and trials["map"][-1] == 10.5  # "rate 0.064" has ten


def test_noise_costs_in_a_drawn_world(tmp_path):
    world, train, valid = study.data_of(900, tmp_path)
    shown = world.rows(valid["display_id"].numpy(), valid["ad_id"].numpy())
    truth = {name: world.seen((name,))[shown] for name in ("match", "quality")}
    truth |= {"seen": world.seen()[shown], "appeal": world.appeal[shown], "pairs": 0}
    label = valid["clicked"], valid["display_id"]
    scores = study.ceilings(valid, truth)
    found = {name: map_at_k(torch.as_tensor(one), *label) for name, one in scores.items()}
    popular = map_at_k(popularity_scores(train, valid, seed=0), *label)
    assert found["appeal"] > found["noisy"] > popular
    assert found["seen"] > min(found["noisy_match"], found["noisy_quality"])
