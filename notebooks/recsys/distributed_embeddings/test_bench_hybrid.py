"""What the race records: ours over the faster way of each kind; weights apart stop it. What is
raced: each contestant is built as it is named, and works on processes of its own.
"""

from types import SimpleNamespace

import bench_hybrid as race_of
import pytest
import torch
from click_logs import World, shrunk_rows
from crew import Crew
from helpers import bench, receipts
from helpers.device import Tier
from synthetic_models import DLRM_TERABYTE

SECONDS = {race_of.HYBRID: 1.0, race_of.COPIED: 8.0, race_of.SPARSE: 2.0, race_of.DENSE: 3.0}
SECONDS |= {race_of.ALONE: 7.0, race_of.THREAD: 5.0, race_of.PEER: 6.0}


def raced(contestants, repeats, warmup, reference, device):
    """A Race whose contestants take the seconds above."""
    results = {
        name: bench.Measurement(s, s, s, (s,) * repeats, None, device)
        for name, s in SECONDS.items()
        if name in contestants
    }
    ratios = {name: bench.ratio(results[reference], one) for name, one in results.items()}
    return bench.Race(results, ratios, reference)


class Idle:
    """A crew that does nothing, and says of itself how many processes and threads it has."""

    def __init__(self, size, *limits, gpus=False, threads=1):
        self.has = size, threads

    __enter__ = lambda self: self  # noqa: E731
    __exit__ = lambda self, *error: None  # noqa: E731
    run = lambda self, *asked: (self.has, asked)  # noqa: E731


@pytest.fixture(params=[0, 2], ids=["no cards", "two cards"])
def told(request, monkeypatch):
    """(cards, the metrics of a race of 100 samples beside so many)."""
    receipt = receipts.start("distributed_embeddings", "cpu", 2)
    monkeypatch.setattr(receipt, "write", lambda name: name)
    monkeypatch.setattr(race_of.receipts, "start", lambda *given: receipt)
    monkeypatch.setattr(race_of.device, "tier", lambda: Tier("cpu", "cpu", ""))
    monkeypatch.setattr(race_of.torch.cuda, "device_count", lambda: request.param)
    monkeypatch.setattr(race_of, "Crew", Idle)
    monkeypatch.setattr(race_of, "check", lambda crew, alone, names: {})
    monkeypatch.setattr(race_of.bench, "race", raced)
    given = SimpleNamespace(rounds=6, threads=2, batch=100)
    race_of.race_at(race_of.FACTORS[0], given)
    return request.param, {name: one["value"] for name, one in receipt.metrics.items()}


def test_a_gain_is_over_the_faster_way_and_on_cards_alone(told):
    cards, found = told
    gains = {"gpu_hybrid_over_data_parallel": 2, "gpu_hybrid_gain": 5}
    assert {name: found[name] for name in gains if name in found} == (gains if cards else {})


def test_a_ratio_is_our_time_over_the_other_s_turned_so_that_above_one_it_is_faster(told):
    found = told[1]
    assert found["race_ddp_dense_gradients_ratio"] == pytest.approx(1 / 3)
    assert found["race_one_process_one_thread_ratio"] == pytest.approx(1 / 5)
    assert "race_ours_hybrid_ratio" not in found


def test_a_rate_counts_the_samples_of_a_step(told):
    assert told[1]["race_ddp_sparse_gradients_rate"] == 50


def test_each_contestant_steps_on_the_processes_and_threads_of_its_name(told, monkeypatch):
    took = {}

    def kept(contestants, *more, **options):
        took.update({name: call() for name, call in contestants.items()})
        return raced(contestants, 6, 3, race_of.HYBRID, "cpu")

    monkeypatch.setattr(race_of.bench, "race", kept)
    race_of.race_at(race_of.FACTORS[0], SimpleNamespace(rounds=6, threads=2, batch=100))
    has = {race_of.ALONE: (1, 2), race_of.THREAD: (1, 1)}
    wanted = {name: (has.get(name, (2, 1)), ("bench_hybrid:steps", name, 1)) for name in took}
    assert took == wanted and has.keys() < took.keys()


def built(state, name):
    """(tables that each process copies, or the kind of gradient; first and second sample)."""
    race_of.build(state, name)
    tables = state[name][2].tables
    first = [clicks.ids[:, 0].tolist() for clicks in state["batches"]]
    if isinstance(tables, race_of.PlainTables):
        return {bag.sparse for bag in tables.bags}, first
    return len(tables.plan.copies()), first


@pytest.fixture(scope="module")
def contestants():
    """What two processes say of each contestant that they have built, and the samples drawn."""
    rows = shrunk_rows(DLRM_TERABYTE, 20_000)
    with Crew(2, 60) as crew:
        crew.run("bench_hybrid:load", rows, 8, 2)
        names = race_of.HYBRID, race_of.COPIED, race_of.SPARSE, race_of.DENSE
        told = {name: crew.run("test_bench_hybrid:built", name) for name in names}
    return rows, told


def test_each_contestant_places_or_copies_its_tables_as_it_is_named(contestants):
    rows, told = contestants
    small = sum(n * race_of.SMALL.width < race_of.FEW for n in rows)
    wanted = {race_of.HYBRID: small, race_of.COPIED: 26}
    wanted |= {race_of.SPARSE: {True}, race_of.DENSE: {False}}
    assert {name: one[0][0] for name, one in told.items()} == wanted and 0 < small < 26


def test_processes_train_on_their_own_shares_of_a_batch(contestants):
    rows, told = contestants
    ids = World(rows).draw(16).ids.T.tolist()
    assert [firsts for _, firsts in told[race_of.HYBRID]] == [
        [ids[0], ids[8]],
        [ids[4], ids[12]],
    ]


PAGE, RECORDED = (
    (4_000, 2_048),
    (2_000, 4_096),
)  # what divides the log's rows; samples of a step


def looked_up(factor, batch):
    """(rows of all tables, look-ups of one of two processes in a step, different rows)."""
    rows = shrunk_rows(DLRM_TERABYTE, factor)
    ids = World(rows).draw(batch).part(0, batch // 2).ids
    return sum(rows), ids.numel(), sum(len(one.unique()) for one in ids)


@pytest.mark.parametrize("sizes", [PAGE, RECORDED], ids=["page", "recorded"])
def test_most_look_ups_ask_for_the_same_few_rows(sizes):
    rows, asked, different = looked_up(*sizes)
    assert 10 * different < asked < rows / 8


@pytest.mark.parametrize("sizes", [PAGE, RECORDED], ids=["page", "recorded"])
def test_sparse_gradients_are_a_small_part_of_the_bytes_of_dense_ones(sizes):
    """Each row that was looked up goes with its number of 8 bytes."""
    rows, _, different = looked_up(*sizes)
    width = 4 * race_of.SMALL.width
    assert 10 * different * (width + 8) < rows * width


def trained(losses, *ends):
    """Processes that tell these losses, and in turn these (tables, dense weights)."""
    told = iter(ends)

    def run(what, name, *count):
        if what.endswith("steps"):
            return losses
        if what.endswith("whole_tables"):
            return [tuple([torch.full((2,), end)] for end in next(told))]

    return SimpleNamespace(run=run)


def checked(tables, dense):
    """What `check` says of two processes whose weights should go from 0 to 1, and end here."""
    alone = trained([[2.0, 3.0, 4.5]], (0.0, 0.0), (1.0, 1.0))
    crew = trained([[1.0, 2.0, 3.0], [3.0, 4.0, 5.0]], (tables, dense))
    return race_of.check(crew, alone, ["other"])["other"]


def test_a_hundredth_of_the_way_apart_is_told_and_so_are_mean_losses():
    assert checked(1.01, 1.0) == pytest.approx((0.5, 0.01), rel=1e-4)


@pytest.mark.parametrize("ends", [(1.03, 1.0), (1.0, 0.97)], ids=["tables", "dense"])
def test_three_hundredths_of_the_way_apart_stop_the_race(ends):
    with pytest.raises(AssertionError, match="other: weights 0.03 of their way"):
        checked(*ends)


def test_all_train_on_the_same_samples_at_a_size_s_rows_and_all_are_checked(told, monkeypatch):
    asked, checked, repeats = [], [], []
    kept = lambda self, *job: asked.append((self.has, job)) or (self.has, job)  # noqa: E731
    monkeypatch.setattr(Idle, "run", kept)
    monkeypatch.setattr(race_of, "PEERS", [race_of.PEER])

    def check(crew, alone, names):
        checked.append((crew.has, alone.has, names))
        return {}

    def race(contestants, rounds, *more, **options):
        repeats.append((rounds, *more))
        return raced(contestants, rounds, *more, **options)

    monkeypatch.setattr(race_of, "check", check)
    monkeypatch.setattr(race_of.bench, "race", race)
    race_of.race_at(race_of.FACTORS[1], SimpleNamespace(rounds=6, threads=2, batch=101))
    rows = shrunk_rows(DLRM_TERABYTE, 20_000)
    load = "bench_hybrid:load", rows, 100, 8
    assert asked[:3] == [((2, 1), load), ((1, 2), load), ((1, 1), load)]
    names = [race_of.HYBRID, race_of.COPIED, race_of.SPARSE, race_of.DENSE, race_of.PEER]
    assert checked == [((2, 1), (1, 2), names)] and repeats == [(6, 3)]
    build = [("bench_hybrid:build", name) for name in (*names, race_of.THREAD)]
    assert asked[3:] == [*(((2, 1), job) for job in build[:-1]), ((1, 1), build[-1])]


def test_steps_go_over_the_kept_batches_in_turn():
    seen = []
    step = lambda clicks: seen.append(clicks) or torch.tensor(float(clicks))  # noqa: E731
    state = {"batches": [0, 1, 2], "any": (step, None, None), ("at", "any"): 0}
    assert race_of.steps(state, "any", 2) == [0, 1]
    assert race_of.steps(state, "any", 3) == [2, 0, 1]


@pytest.fixture(scope="module")
def after_three():
    """What `check` says of two real processes beside one, of each contestant at hand."""
    rows = shrunk_rows(DLRM_TERABYTE, 20_000)
    names = race_of.HYBRID, race_of.COPIED, race_of.SPARSE, race_of.DENSE
    with Crew(2, 60) as crew, Crew(1, 60) as alone:
        for one in (crew, alone):
            one.run("bench_hybrid:load", rows, 64, 3)
        for name in names:
            crew.run("bench_hybrid:build", name)
        return race_of.check(crew, alone, names)


def test_every_contestant_ends_three_steps_where_one_process_does(after_three):
    assert len(after_three) == 4
    for name, (losses, weights) in after_three.items():
        assert losses < 1e-3 and weights < 0.02, name


@pytest.mark.parametrize(("cores", "processes"), [(1, 2), (4, 4), (64, 8)])
def test_both_sizes_are_raced_on_two_to_eight_processes(monkeypatch, cores, processes):
    asked = []
    monkeypatch.setattr(race_of.device, "cores", lambda: cores)
    kept = lambda factor, args: asked.append((factor, args.threads, args.batch))  # noqa: E731
    monkeypatch.setattr(race_of, "race_at", kept)
    race_of.main([])
    assert asked == [(2_000, processes, 4096), (20_000, processes, 4096)]


@pytest.mark.parametrize(("factor", "other"), [(2_000, ""), (20_000, "_20000")])
def test_each_size_has_a_receipt_of_its_own(monkeypatch, factor, other):
    receipt, named = receipts.start("distributed_embeddings", "cpu", 2), []
    monkeypatch.setattr(receipt, "write", lambda name: named.append(name))
    monkeypatch.setattr(race_of.receipts, "start", lambda *given: receipt)
    monkeypatch.setattr(receipt, "sizes", lambda **sizes: named.append(sizes))
    monkeypatch.setattr(race_of.torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(race_of, "Crew", Idle)
    monkeypatch.setattr(race_of, "check", lambda crew, alone, names: {})
    monkeypatch.setattr(race_of.bench, "race", raced)
    race_of.race_at(factor, SimpleNamespace(rounds=6, threads=2, batch=100))
    rows = sum(shrunk_rows(DLRM_TERABYTE, factor))
    sizes = {"processes": 2, "batch": 100, "all_rows": rows, "width": race_of.SMALL.width}
    assert named == [sizes, f"hybrid{other}"]
    assert receipt.metrics[f"race{other}_one_process_one_thread_ratio"]["value"] == 0.2
