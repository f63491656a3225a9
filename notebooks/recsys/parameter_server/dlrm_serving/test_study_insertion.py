"""The study as it is declared: one model a world, three thresholds, the same requests."""

import numpy as np
import pytest
import torch
from helpers import receipts
from helpers.study import Job, StudyError
from press.study import hold, record

from . import study_insertion as study
from .click_world import ClickWorld, auc
from .dlrm import Dlrm

SIZES = {"samples": 1024, "served": 1280}
LIMITS = {"never_wait": 0.0, "at_70": 0.7, "always_wait": 1.1}


def drawn(seed, stream, count):
    return ClickWorld(seed=seed).draw(count, np.random.default_rng([seed, stream]))


def same(some, others):
    return all(torch.equal(one, two) for one, two in zip(some, others, strict=True))


def test_one_model_of_a_world_is_asked_the_same_under_three_thresholds():
    seen = hold(study.STUDY)
    assert set(seen) == {(arm, seed) for arm in ("model", *LIMITS) for seed in (0, 1)}
    for seed in (0, 1):
        model = seen["model", seed]
        assert same(model.job.train[1:], drawn(seed, 1, 1024)) and not model.tests
        assert np.array_equal(model.job.train.world.effects, ClickWorld(seed=seed).effects)
        assert model.job.start == "new" and model.job.choice is None
        for name, limit in LIMITS.items():
            one = seen[name, seed]
            assert one.made == ("made", "model", seed) and one.job.train is None, name
            assert one.job.arm.setting == {"threshold": limit} and not one.job.arm.loss
            assert list(one.tests) == ["test"]
            assert same(one.tests["test"][1:], drawn(seed, 2, 1280)), name


def test_twenty_worlds_are_recorded():
    assert list(study.STUDY.seeds) == list(range(20))
    assert study.STUDY.sizes == {"samples": 40_000, "served": 9_600}


def test_requests_that_the_model_learned_from_are_seen(monkeypatch):
    draw = ClickWorld.draw

    def again(self, count, rng):
        return [one[:count] for one in draw(self, 1280, np.random.default_rng(0))]

    monkeypatch.setattr(ClickWorld, "draw", again)
    with pytest.raises(StudyError, match="'train' and 'test' share"):
        hold(study.STUDY)


def test_a_model_learns_its_own_log_in_whole_batches(monkeypatch):
    asked = []

    def learned(world, batches, seed):
        asked.extend(
            [world, [torch.cat(column) for column in zip(*batches, strict=True)], seed]
        )
        return "a model"

    monkeypatch.setattr(study, "learned", learned)
    log = study.Log("a world", *drawn(3, 1, 1100))
    job = Job("model", study.STUDY.arms["model"], 3, SIZES, train=log)
    assert study.fit(job) == "a model"
    world, columns, seed = asked
    assert (world, seed) == ("a world", 3)
    assert same(columns, [one[:1024] for one in log[1:]])


@pytest.fixture(scope="module")
def served():
    """(log, its model, the model's own AUCs, what each arm is told), of a small world."""
    world = ClickWorld(features=2, categories=300, exponent=1.8, seed=5)
    torch.manual_seed(2)
    model = Dlrm(world, 4).requires_grad_(False)
    model.table.weight *= 60  # so that a vector of zeros is another one
    numbers, keys, _ = world.draw(960, np.random.default_rng(1))
    own = model(numbers, keys).sigmoid()
    clicked = (own > own.median()).float()
    told = {}
    for name in LIMITS:
        job = Job(name, study.STUDY.arms[name], 5, SIZES, test="test")
        told[name] = study.judge(model, study.Log(world, numbers, keys, clicked), job)
    half = {"auc_cold": auc(own[:640], clicked[:640]), "auc": auc(own[480:], clicked[480:])}
    return half, told


def test_the_worker_is_done_between_two_requests(monkeypatch):
    """Else what a late vector costs hangs on the machine's load."""
    world, calls, made = ClickWorld(features=2, categories=300, seed=5), [], study.hierarchy

    def watched(model, table):
        score, drain = made(model, table), table.drain
        monkeypatch.setattr(table, "drain", lambda: calls.append("done") or drain())
        return lambda *asked: calls.append("asked") or score(*asked)

    monkeypatch.setattr(study, "hierarchy", watched)
    log = study.Log(
        world, *world.draw(960, np.random.default_rng(1))[:2], torch.arange(960) % 2
    )
    model = Dlrm(world, 4).requires_grad_(False)
    study.judge(model, log, Job("at_70", study.STUDY.arms["at_70"], 5, SIZES, test="test"))
    assert calls == ["asked", "done"] * (960 // study.BATCH)


def test_who_always_waits_is_served_the_model_s_own_vectors(served):
    own, told = served
    assert own == {"auc_cold": 1, "auc": 1}
    assert told["always_wait"]["auc"] == told["always_wait"]["auc_cold"] == 1


def test_who_never_waits_loses_most_on_a_cold_cache(served):
    _, told = served
    never, some = told["never_wait"], told["at_70"]
    assert never["auc_cold"] < some["auc_cold"] < 1
    assert never["auc_cold"] < never["auc"] < 1


def test_what_is_lost_is_above_zero_where_waiting_ranks_better():
    found = {"model": {0: {}, 1: {}}}
    for arm, lost in (("never_wait", 0.2), ("at_70", 0.1), ("always_wait", 0)):
        found[arm] = {
            seed: {"test": {"auc": 0.8 - lost, "auc_cold": 0.7 - (2 + seed) * lost}}
            for seed in (0, 1)
        }
    receipt = receipts.start("parameter_server", "cpu")
    record(study.STUDY, receipt, found)
    told = {name: one["value"] for name, one in receipt.metrics.items()}
    wanted = {"auc_lost_never_wait": 0.2, "auc_lost_cold_never_wait": 0.5}
    wanted |= {"auc_lost_at_70": 0.1, "auc_lost_cold_at_70": 0.25, "auc_always_wait": 0.8}
    assert {name: told[name] for name in wanted} == pytest.approx(wanted)
    cold = receipt.metrics["auc_lost_cold_at_70"]
    assert cold["unit"] == "AUC" and cold["repeats"] == 2
    assert cold["high"] == pytest.approx(0.25 + 12.7062 * 0.05, rel=1e-4)  # 95 %, two worlds


@pytest.mark.parametrize(
    ("metric", "wanted"), [("auc_cold", range(640)), ("auc", range(480, 960))]
)
def test_the_cold_auc_is_of_640_samples_the_other_of_a_half(metric, wanted, monkeypatch):
    """Each sample's score and click are its place, so that an AUC tells what it was asked."""
    asked, places = [], torch.arange(960.0)

    def kept(scores, clicked):
        assert torch.equal(scores, clicked)
        asked.append(clicked.tolist())
        return float(len(asked))

    monkeypatch.setattr(study, "auc", kept)
    monkeypatch.setattr(study, "hierarchy", lambda model, table: lambda numbers, keys: numbers)
    world = ClickWorld(features=2, categories=300, seed=5)
    log = study.Log(world, places, torch.zeros(960, 2, dtype=torch.int64), places)
    model = Dlrm(world, 4).requires_grad_(False)
    job = Job("at_70", study.STUDY.arms["at_70"], 5, SIZES, test="test")
    told = study.judge(model, log, job)
    assert asked[int(told[metric]) - 1] == list(wanted)


@pytest.mark.parametrize(("arm", "limit"), LIMITS.items())
def test_a_tenth_of_the_rows_is_served_at_the_arm_s_threshold(arm, limit, monkeypatch):
    deployed, deploy = [], study.ParameterServer.deploy

    def watched(self, name, **options):
        deployed.append(options)
        return deploy(self, name, **options)

    monkeypatch.setattr(study.ParameterServer, "deploy", watched)
    world = ClickWorld(features=2, categories=300, seed=5)
    numbers, keys, _ = world.draw(64, np.random.default_rng(1))
    model = Dlrm(world, 4).requires_grad_(False)
    job = Job(arm, study.STUDY.arms[arm], 5, SIZES, test="test")
    study.judge(model, study.Log(world, numbers, keys, torch.arange(64) % 2), job)
    assert deployed == [{"cache_rows": 60, "threshold": limit}]


def test_requests_are_of_32_samples_and_steps_of_512():
    assert (study.BATCH, study.LEARN) == (32, 512)
