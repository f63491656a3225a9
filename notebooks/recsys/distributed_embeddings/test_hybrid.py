"""The layer on 1, 2 and 4 real processes equals one process, for every way to place tables."""

import hybrid
import numpy as np
import pytest
import torch
from crew import Crew
from exchange import written_bytes
from hybrid import DistributedEmbedding, average_gradients, broadcast
from lookup import Bags
from placement import plan
from step_cost import sent
from step_cost import traffic as traffic_of
from torch import nn

TABLES = [(7, 8), (40, 8, "mean"), (11, 4), (40, 8), (3, 6, "mean"), (23, 4)]
INPUTS = (0, 1, 2, 3, 4, 5, 1, 3)  # two tables are read by two inputs
BATCH = 8  # of all processes together
HOT = (1, 3, 2, 1, 1, 2, 4, 1)
WAYS = {
    "basic": {},
    "balanced": {"strategy": "memory_balanced"},
    "optimised": {"strategy": "memory_optimized"},
    "columns": {"column_threshold": 70},
    "columns that meet": {"column_threshold": 40, "strategy": "memory_optimized"},
    "rows": {"row_threshold": 100},
    "copies": {"replicate_threshold": 50},
    "all three": {"replicate_threshold": 30, "row_threshold": 300, "column_threshold": 100},
    "offloaded": {"device_limit": 200},
}


class Small(nn.Module):
    """Tables, and a layer on them that is copied to all processes."""

    def __init__(self, own_plan, **more):
        super().__init__()
        self.tables = DistributedEmbedding(own_plan, dtype=torch.float64, **more)
        self.top = nn.Linear(
            sum(t[1] for t in (TABLES[i] for i in INPUTS)), 1, dtype=torch.float64
        )

    def forward(self, bags, **more):
        return self.top(torch.cat(self.tables(bags, **more), 1).sin())[:, 0]


@torch.no_grad()
def start(top, rank):
    """None; the same numbers for each rank."""
    torch.manual_seed(rank)
    for weight in top.parameters():
        weight.copy_(torch.randn_like(weight))


def whole_tables():
    torch.manual_seed(1)
    return [torch.randn(rows, width, dtype=torch.float64) for rows, width, *_ in TABLES]


def edges(rows):
    """The first row, the last, and those at which slices of two and four devices begin."""
    return torch.tensor([0, rows // 4, rows // 2, 3 * rows // 4, rows - 1])


def batches(kind):
    """Three batches; ids repeat within a bag, between samples and between processes; some bags
    are empty.
    """
    draw, found = torch.Generator().manual_seed(5), []
    for _ in range(3):
        lengths = [[n] * BATCH for n in HOT]
        if kind == "ragged":
            lengths = torch.randint(0, 4, (len(INPUTS), BATCH), generator=draw).tolist()
            lengths[2] = [0] * BATCH
        ids = [
            edges(TABLES[i][0])[torch.randint(0, 5, (sum(own),), generator=draw)]
            for i, own in zip(INPUTS, lengths, strict=True)
        ]
        found.append(Bags(torch.cat(ids), HOT if kind == "fixed" else torch.tensor(lengths)))
    return found


def only(bags, inputs):
    """The bags of these inputs."""
    lengths = tuple(bags.lengths[i] for i in inputs) if bags.fixed else bags.lengths[inputs]
    parts = bags.by_input()
    return Bags(torch.cat([bags.ids[:0], *(parts[i] for i in inputs)]), lengths)


def trained(state, ways, kind, optimiser, model_parallel=False):
    """{way: (outputs of the first batch, tables after three steps, top after them)} in a
    process of a crew.
    """
    found = {}
    for name, way in ways.items():
        size = torch.distributed.get_world_size()
        rank, share = torch.distributed.get_rank(), BATCH // size
        model = Small(plan_for(size, **way))
        start(model.top, rank)  # others begin elsewhere, so that a forgotten broadcast is seen
        broadcast(model)
        model.tables.set_weights(whole_tables())
        state["model"] = model
        steps = optimiser_of(optimiser)(model.parameters(), 0.1)
        outputs = []
        for at, bags in enumerate(batches(kind)):
            own = bags.part(rank * share, (rank + 1) * share)
            if model_parallel:
                own = only(bags, [one for one, _ in model.tables.wanted[rank]])
            steps.zero_grad()
            output = model(own, model_parallel=model_parallel)
            (output - at).square().mean().backward()
            outputs.append(output.detach())
            average_gradients(model)
            steps.step()
        found[name] = outputs[0], model.tables.get_weights(), model.top.weight.detach()
    return found


def optimiser_of(name):
    return {"sgd": torch.optim.SGD, "adagrad": torch.optim.Adagrad}[name]


def one_process(kind, optimiser):
    """The same by plain tables, lookups in loops over samples, dense gradients."""
    tables = [nn.Parameter(table) for table in whole_tables()]
    top = nn.Linear(sum(TABLES[i][1] for i in INPUTS), 1, dtype=torch.float64)
    start(top, 0)
    steps, first = optimiser_of(optimiser)([*tables, *top.parameters()], 0.1), None
    for at, bags in enumerate(batches(kind)):
        joined = []
        for one, (ids, own) in enumerate(zip(bags.by_input(), bags.lengths_FB(), strict=True)):
            table, mean = tables[INPUTS[one]], "mean" in TABLES[INPUTS[one]]
            sums = [
                table[bag].sum(0) / (max(1, len(bag)) if mean else 1)
                for bag in ids.split(own.tolist())
            ]
            joined.append(torch.stack(sums))
        steps.zero_grad()
        output = top(torch.cat(joined, 1).sin())[:, 0]
        (output - at).square().mean().backward()
        first = output.detach() if first is None else first
        steps.step()
    return first, [table.detach() for table in tables], top.weight.detach()


def plan_for(size, **more):
    return plan(TABLES, size, inputs=INPUTS, **more)


@pytest.fixture(scope="module")
def crews():
    found = {size: Crew(size, timeout_s=20) for size in (1, 2, 4)}
    yield found
    for crew in found.values():
        crew.close()


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize(("kind", "optimiser"), [("fixed", "sgd"), ("ragged", "adagrad")])
def test_every_way_of_placing_equals_one_process(crews, size, kind, optimiser):
    output, tables, top = one_process(kind, optimiser)
    told = crews[size].run("test_hybrid:trained", WAYS, kind, optimiser)
    for name in WAYS:
        torch.testing.assert_close(
            torch.cat([own[name][0] for own in told]), output, rtol=1e-12, atol=1e-12
        )
        for own in told:
            for got, want in zip(own[name][1], tables, strict=True):
                torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)
            torch.testing.assert_close(own[name][2], top, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", ["fixed", "ragged"])
def test_inputs_of_all_processes_give_the_same_without_sending_ids(crews, kind):
    ways = {name: way for name, way in WAYS.items() if "replicate_threshold" not in way}
    output, tables, _ = one_process(kind, "sgd")
    for size in (2, 4):
        told = crews[size].run("test_hybrid:trained", ways, kind, "sgd", True)
        for name in ways:
            got = torch.cat([own[name][0] for own in told])
            torch.testing.assert_close(got, output, rtol=1e-12, atol=1e-12)
            for got, want in zip(told[-1][name][1], tables, strict=True):
                torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)
        assert all("ids" not in traffic for traffic in crews[size].run("test_hybrid:traffic"))


def traffic(state):
    return dict(state["model"].tables.traffic)


def looked_at(state, kind):
    """What the layer says to inputs that are wrong on one process, or everywhere."""
    rank, size = torch.distributed.get_rank(), torch.distributed.get_world_size()
    layer = DistributedEmbedding(plan_for(size), dtype=torch.float64)
    bags = batches("fixed")[0].part(0, 2)
    if kind == "id" and rank == 1:
        bags.ids[3] = 99
    if kind == "batch" and rank == 1:
        bags = batches("fixed")[0].part(0, 3)
    try:
        layer(bags)
    except ValueError as error:
        return str(error)


def test_an_id_outside_its_table_is_told_by_all_processes(crews):
    told = crews[2].run("test_hybrid:looked_at", "id")
    assert "process 1 refused" in told[0] and "id 99; allowed are 0 to" in told[1]


def test_batches_of_unequal_size_are_told_by_all_processes(crews):
    told = crews[4].run("test_hybrid:looked_at", "batch")
    assert all("batches of [2, 3, 2, 2] samples" in one for one in told)
    assert crews[4].run("test_hybrid:looked_at", "none") == [None] * 4


def test_a_plan_of_another_size_is_told():
    with pytest.raises(ValueError, match="the plan has 2 devices, the group 1"):
        DistributedEmbedding(plan_for(2))


def test_tables_of_other_shapes_are_told():
    layer = DistributedEmbedding(plan_for(1))
    with pytest.raises(ValueError, match="tables of shapes"):
        layer.set_weights(layer.get_weights()[:-1])
    with pytest.raises(ValueError, match="a copy needs its own samples"):
        copies = DistributedEmbedding(plan_for(1, replicate_threshold=50))
        copies(batches("fixed")[0], model_parallel=True)


def moved(state, options):
    """Tables of this size of crew, set from the same whole tables and collected again in small
    blocks.
    """
    size = torch.distributed.get_world_size()
    layer = DistributedEmbedding(plan_for(size, **options), dtype=torch.float64)
    layer.set_weights([table.numpy() for table in whole_tables()])
    return layer.get_weights(rows_at_once=5)


def kept(state, folder):
    """What process 0 finds in files that it mapped, and what process 1 keeps."""
    size, rank = torch.distributed.get_world_size(), torch.distributed.get_rank()
    layer, files = DistributedEmbedding(plan_for(size), dtype=torch.float64), False
    if rank == 0:
        files = [
            torch.from_numpy(np.memmap(f"{folder}/{at}", "float64", "w+", shape=(rows, width)))
            for at, (rows, width, *_) in enumerate(TABLES)
        ]
    found = layer.get_weights(rows_at_once=5, keep=files)
    return found and [table.clone() for table in found]


def test_tables_may_go_into_files_and_need_not_be_kept_by_all(crews, tmp_path):
    first, second = crews[2].run("test_hybrid:kept", str(tmp_path))
    whole = DistributedEmbedding(plan_for(1), dtype=torch.float64).get_weights()
    assert second is None
    assert all(torch.equal(a, b) for a, b in zip(first, whole, strict=True))


@pytest.mark.parametrize("size", [1, 2, 4])
def test_weights_go_in_and_out_whatever_the_plan(crews, size):
    for options in WAYS.values():
        for told in crews[size].run("test_hybrid:moved", options):
            assert all(torch.equal(a, b) for a, b in zip(told, whole_tables(), strict=True))


def predicted_and_counted(state, kind):
    """Bytes of one forward and backward pass: as step_cost has them, as counted, as the kernel
    saw.
    """
    rank, size = torch.distributed.get_rank(), torch.distributed.get_world_size()
    made = plan_for(size, **WAYS["all three"])
    layer, share = DistributedEmbedding(made, dtype=torch.float64, check=False), BATCH // size
    bags = batches(kind)[0].part(rank * share, (rank + 1) * share)
    layer.traffic.clear()
    torch.distributed.barrier()
    before = written_bytes()
    torch.cat(layer(bags), 1).sum().backward()
    after = written_bytes()
    hot = [len(own) / share for own in bags.by_input()]
    want = traffic_of(made, share, hot, vector_bytes=8, ragged=kind == "ragged")
    want.pop("all-reduce")
    leaving = sum(sent(matrix, rank) for matrix in want.values())
    return {k: m[rank] for k, m in want.items()}, dict(layer.traffic), leaving, after - before


@pytest.mark.parametrize("kind", ["fixed", "ragged"])
def test_the_predicted_bytes_are_counted_and_the_kernel_saw_little_more(crews, kind):
    for size in (2, 4):
        for want, counted, leaving, kernel in crews[size].run(
            "test_hybrid:predicted_and_counted", kind
        ):
            assert want.keys() == counted.keys()
            for name in want:
                assert counted[name] == pytest.approx(want[name])
            exchanges = len(want) * (size - 1)
            assert leaving <= kernel <= leaving + 400 * exchanges


def begun(state, options, seeded):
    torch.manual_seed(seeded)
    size = torch.distributed.get_world_size()
    return DistributedEmbedding(plan_for(size, **options), dtype=torch.float64).get_weights()


def test_tables_start_alike_whatever_the_plan(crews):
    whole = DistributedEmbedding(plan_for(1), dtype=torch.float64).get_weights()
    for size in (2, 4):
        for options in WAYS.values():
            for tables in crews[size].run("test_hybrid:begun", options, size):
                assert all(torch.equal(a, b) for a, b in zip(tables, whole, strict=True))


def test_a_start_fills_the_range_of_its_table_and_repeats_nothing():
    layer = DistributedEmbedding(plan([(500, 16), (500, 16)], 1), dtype=torch.float64)
    first, second = layer.get_weights()
    assert len(torch.cat([first, second]).unique()) == 2 * 500 * 16
    assert first.abs().max() <= 0.25 and abs(first.mean()) < 0.01
    assert abs(first.std() - 0.5 / 12**0.5) < 0.003
    layer.start(1)
    assert not torch.equal(layer.get_weights()[0], first)


def mixed(state, few):
    """The integers that ids take in a forward pass, where 32 bits could name few rows."""
    hybrid.FEW = few
    try:
        layer = DistributedEmbedding(plan([(50, 4), (40, 2), (30, 4)], 2), dtype=torch.float64)
        layer(Bags(torch.tensor([49, 39, 29]), (1, 1, 1)))
        return layer.index
    finally:
        hybrid.FEW = 2**31


def test_all_devices_speak_in_the_same_integers(crews):
    for few, index in ((60, torch.int64), (81, torch.int64), (82, torch.int32)):
        told = crews[2].run("test_hybrid:mixed", few)
        assert told == [index] * 2


def told_apart(state):
    """Weights, buffer and tables of a process whose own were its rank, after the broadcast."""
    rank, layer = torch.distributed.get_rank(), DistributedEmbedding(plan([(6, 2)], 2))
    model = nn.Sequential(layer, nn.Linear(1, 1))
    model.register_buffer("seen", torch.tensor([9.0]))
    for one in (*model.parameters(), model.seen):
        one.data.fill_(rank + 1)
    broadcast(model)
    return *(w.unique().tolist() for w in (model[1].weight, model.seen)), sum(
        [w.unique().tolist() for w in layer.parameters()], []
    )


def test_a_broadcast_brings_weights_and_buffers_and_leaves_pieces_of_tables(crews):
    for rank, (weight, buffer, table) in enumerate(crews[2].run("test_hybrid:told_apart")):
        assert (weight, buffer) == ([1], [1]) and table in ([], [rank + 1])


def lonely(state, told):
    """Model-parallel inputs of one table on two devices: one of them has none."""
    rank = torch.distributed.get_rank()
    layer = DistributedEmbedding(plan([(6, 1)], 2), dtype=torch.float64)
    bags = Bags(torch.tensor([0, 1, 2, 3]), (1,)) if layer.wanted[rank] else Bags(EMPTY, ())
    try:
        return layer(bags, model_parallel=True, batch=4 if told else None)[0].detach()
    except ValueError as error:
        return str(error)


EMPTY = torch.zeros(0, dtype=torch.long)


def test_a_device_that_answers_nothing_is_told_how_many_samples_came(crews):
    found = torch.cat(crews[2].run("test_hybrid:lonely", True))
    whole = DistributedEmbedding(plan([(6, 1)], 1), dtype=torch.float64).get_weights()[0]
    assert torch.equal(found, whole[:4])
    assert all("batches of [" in one for one in crews[2].run("test_hybrid:lonely", False))


def frozen(state):
    """What a frozen weight's gradient is, and what is said of a sparse one beside the layer."""
    model = Small(plan_for(torch.distributed.get_world_size()))
    model.top.bias.requires_grad_(False)
    average_gradients(model)
    model.beside = nn.Embedding(5, 2, sparse=True)
    model.beside(torch.tensor([1])).sum().backward()
    try:
        average_gradients(model)
    except ValueError as error:
        return model.top.bias.grad, str(error)


def test_frozen_weights_get_no_gradient_and_sparse_ones_beside_the_layer_a_word(crews):
    for gradient, words in crews[2].run("test_hybrid:frozen"):
        assert gradient is None and "plan its table" in words
