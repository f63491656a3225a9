"""The study as it is declared: who trains on what with how many processes, who is judged."""

import click_logs
import pytest
import study_accuracy as study
import torch
from crew import Crew
from exchange import world
from helpers import receipts
from helpers.study import Job, StudyError
from hybrid import sharded
from press.study import hold, record

STEPS = 100  # of the whole network
SEEDS, TRIAL = (101, 102), {"samples": 256, "held_out": 100}
ROWS = click_logs.shrunk_rows(study.DLRM_TERABYTE, 20_000)


def drawn(seed):
    """(samples to learn from, samples to be judged on) of a world."""
    own = click_logs.World(ROWS, bias=-2.5, seed=seed)
    return own.draw(256, 0), own.draw(100, 99)


def same(some, others):
    return all(torch.equal(one, two) for one, two in zip(some, others, strict=True))


def test_both_learn_from_the_same_samples_and_all_are_judged_on_others():
    seen = hold(study.STUDY)
    processes = {"one_process": 1, "hybrid": 2, "truth": None}
    assert set(seen) == {(arm, seed) for arm in processes for seed in SEEDS}
    for (name, seed), one in seen.items():
        learned, judged = drawn(seed)
        assert one.job.arm.setting.get("processes") == processes[name]
        assert list(one.tests) == ["test"] and same(one.tests["test"], judged), name
        if name == "truth":
            assert one.made == "true chances" and one.job.train is None
        else:
            assert one.job.start == "new" and same(one.job.train, learned), name
            assert one.job.arm.loss == (128, 0.05, 1e-4) and one.job.choice is None


def test_twenty_worlds_beside_the_pages_are_recorded():
    assert list(study.STUDY.seeds) == list(range(101, 121))
    assert study.STUDY.sizes == {"samples": 102_400, "held_out": 30_000}


def test_a_sample_in_both_parts_is_seen(monkeypatch):
    monkeypatch.setattr(study, "held_out", lambda seed, n: study.world_of(seed).draw(256, 0))
    with pytest.raises(StudyError, match="'train' and 'test' share 256 units"):
        hold(study.STUDY)


@pytest.fixture(scope="module")
def models():
    """What each arm makes of 512 samples of a world, the weights that all begin with among
    them.
    """
    clicks = study.world_of(101).draw(600)  # the last 88 fill no batch
    arms = study.STUDY.arms
    jobs = {name: Job(name, arms[name], 101, TRIAL, train=clicks) for name in arms}
    made = {name: study.fit(jobs[name]) for name in ("one_process", "hybrid")}
    begun = jobs["one_process"]._replace(train=clicks.part(0, 100))
    return made | {"begun": study.fit(begun)}


def test_all_begin_with_the_race_s_tables_at_a_twentieth(models):
    assert same(models["begun"][0], [table / 20 for table in study.start_tables(ROWS)])


def test_two_processes_train_what_one_trains(models):
    one, two, begun = (torch.cat([t.flatten() for t in models[name][0]]) for name in models)
    moved = (one - begun).abs().max()
    assert moved > 0.01 and (one - two).abs().max() < 1e-3 * moved
    for name, weight in models["hybrid"][1].items():
        torch.testing.assert_close(weight, models["one_process"][1][name], atol=1e-4, rtol=1e-3)
        assert not torch.equal(weight, models["begun"][1][name]), name


def test_a_model_put_together_gives_the_chances_that_its_processes_gave(models):
    held = study.held_out(101, 60)
    with Crew(1, 60) as crew:
        told = crew.run("test_study_accuracy:trained_and_asked", 512, held)[0]
    torch.testing.assert_close(study.chances(models["one_process"], held), told)
    assert told.std() > 0.003


def trained_and_asked(state, count, held):
    """The chances that a process's own model gives after its training."""
    kept = []
    model_on = study.model_on
    study.model_on = lambda tables: kept.append(model_on(tables)) or kept[-1]
    study.trained(state, study.world_of(101).draw(600), study.Recipe())
    with torch.no_grad():
        return kept[0](held.numbers, held.bags()).sigmoid()


def test_as_many_processes_work_as_the_arm_says_on_what_it_is_given(monkeypatch):
    asked = []

    class Fake(Crew):
        def __init__(self, size, timeout_s):
            asked.append(size)

        def run(self, *job):
            asked.append(job)
            return ["made", "the same"]

        def close(self):
            pass

    monkeypatch.setattr(study, "Crew", Fake)
    job = Job("any", study.STUDY.arms["hybrid"], 101, TRIAL, train="clicks")
    assert study.fit(job) == "made"
    assert asked == [2, ("study_accuracy:trained", "clicks", study.Recipe())]


def test_models_are_judged_by_their_scores_and_the_truth_by_its_chances(monkeypatch):
    labels = torch.tensor([1.0, 0, 1, 0])
    held = click_logs.Clicks(labels, None, None, torch.tensor([0.9, 0.4, 0.3, 0.2]))
    worst = torch.tensor([0.1, 0.9, 0.2, 0.3])
    monkeypatch.setattr(study, "chances", lambda made, clicks: worst)
    assert study.judge("true chances", held, None) == {"auc": 0.75}
    assert study.judge(([], {}), held, None) == {"auc": 0}


def test_differences_are_the_hybrids_less_one_process_s_and_the_truth_s_less_the_hybrids():
    values = {"one_process": (0.70, 0.80), "hybrid": (0.71, 0.83), "truth": (0.9, 0.92)}
    found = {
        name: {seed: {"test": {"auc": v}} for seed, v in zip(SEEDS, both, strict=True)}
        for name, both in values.items()
    }
    receipt = receipts.start("distributed_embeddings", "cpu")
    record(study.STUDY, receipt, found)
    told = {name: (one["value"], one["unit"]) for name, one in receipt.metrics.items()}
    assert told == {
        "auc_one_process": (pytest.approx(0.75), "AUC"),
        "auc_hybrid": (pytest.approx(0.77), "AUC"),
        "auc_truth": (pytest.approx(0.91), "AUC"),
        "auc_hybrid_over_one_process": (pytest.approx(0.02), "AUC"),
        "auc_truth_over_hybrid": (pytest.approx(0.14), "AUC"),
    }
    over = receipt.metrics["auc_hybrid_over_one_process"]
    assert over["high"] == pytest.approx(0.02 + 12.7062 * 0.01, rel=1e-4)  # 95 %, two worlds


def undivided(state, clicks, recipe):
    """`trained`, but the gradients of tables are left as the sum over processes."""
    divided = study.average_gradients

    def average(model):
        divided(model)
        for weight in sharded(model).values():
            weight.grad *= world()[1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "average_gradients", average)
        return study.trained(state, clicks, recipe)


@pytest.fixture(scope="module")
def after_training():
    """The weights after training the whole network in float64, by how it was trained."""
    clicks = study.doubled(study.world_of(101).draw(128 * STEPS))
    with Crew(1, 100, 100) as single, Crew(2, 100, 100) as pair:
        runs = {
            "one": (single, "study_accuracy:trained"),
            "two": (pair, "study_accuracy:trained"),
        }
        runs["undivided"] = pair, f"{__name__}:undivided"
        made = {
            name: crew.run(job, clicks, study.Recipe())[0] for name, (crew, job) in runs.items()
        }
    return {name: [*tables, *dense.values()] for name, (tables, dense) in made.items()}


def test_training_in_float64_has_no_weight_of_another_kind(after_training):
    assert {weight.dtype for weights in after_training.values() for weight in weights} == {
        torch.float64
    }


def apart(some, others):
    return max((a - b).abs().max().item() for a, b in zip(some, others, strict=True))


def test_two_processes_train_the_whole_network_as_one_does(after_training):
    assert apart(after_training["two"], after_training["one"]) < 1e-9


def test_tables_whose_gradients_are_not_divided_end_elsewhere(after_training):
    assert apart(after_training["undivided"], after_training["one"]) > 1e-3


@pytest.mark.parametrize(
    ("recipe", "kept"),
    [(study.Recipe(), True), (study.Recipe(rate=0.02), False), (study.Recipe(start=1), False)],
)
def test_rate_and_start_are_the_recipe_s(recipe, kept):
    """One batch's first step of Adagrad is known: rate * slope / sqrt(start + slope^2)."""
    clicks = study.world_of(101).draw(128)
    with Crew(1, 60) as crew:
        tables, layers = crew.run("study_accuracy:trained", clicks, recipe)[0]
        begun, first = crew.run("study_accuracy:trained", clicks.part(0, 100), recipe)[0]
    model = study.Dlrm(study.PlainTables(study.SHAPES), len(study.SHAPES))
    model.load_state_dict(first, strict=False)
    model.tables.set_weights(begun)
    adagrad = torch.optim.Adagrad(model.parameters(), 0.05, initial_accumulator_value=1e-4)
    study.train_step(model, clicks, adagrad)
    wanted = [one.detach() for name, one in model.named_parameters() if "tables" not in name]
    own = [layers[name] for name, _ in model.named_parameters() if "tables" not in name]
    off = max((one - two).abs().max().item() for one, two in zip(own, wanted, strict=True))
    assert (off < 1e-4) == kept, off
