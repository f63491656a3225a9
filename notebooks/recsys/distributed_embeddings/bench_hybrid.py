"""The race: a training step of DLRM, its tables spread by our layer, by torchrec, or copied by
plain data parallelism.

    python -m bench_hybrid               # two processes, 20 rounds; a receipt
    python -m bench_hybrid --rounds 3

All train the same model from the same weights on the same samples with plain SGD; after three
steps the losses and all weights are held against each other. torchrec comes with its own
planner and its fused optimiser; where it is not installed, it is left out. What the page lets
its processes do stands here, too: each function gets the `state` of its process in a `crew`.
"""

import argparse
import importlib.util
import time
from unittest import mock

import torch
import torch.distributed as dist
from click_logs import Clicks, World, shrunk_rows
from crew import Crew
from dlrm import SMALL, Dlrm, PlainTables, Sgd, train_step
from exchange import world, written_bytes
from helpers import bench, device, receipts
from hybrid import DistributedEmbedding, average_gradients, broadcast
from placement import plan
from synthetic_models import DLRM_TERABYTE
from torch.nn.parallel import DistributedDataParallel

RATE = 0.1
HYBRID, SPARSE, DENSE, PEER = (
    "ours, hybrid",
    "DDP, sparse gradients",
    "DDP, dense gradients",
    "torchrec",
)
ALONE = "one process"


def load(state, rows, batch, steps, seed=0, alpha=1.2):
    """None; keeps the world's samples: this process's share of `steps` batches."""
    rank, size = dist.get_rank(), dist.get_world_size()
    clicks = World(rows, alpha=alpha).draw(batch * steps, seed)
    share = batch // size
    state["batches"] = [
        clicks.part(at * batch + rank * share, at * batch + (rank + 1) * share)
        for at in range(steps)
    ]
    state["rows"] = rows
    state["tables"] = start_tables(rows)


def start_tables(rows, width=SMALL.width):
    """The tables that all contestants begin with."""
    draw = torch.Generator().manual_seed(7)
    return [torch.randn(n, width, generator=draw) / width**0.5 for n in rows]


def _model(tables, sizes=SMALL):
    torch.manual_seed(3)
    return Dlrm(tables, 26, sizes)


def build(state, name, more=None):
    """None; the contestant of this name, ready: `state[name]` is (step on clicks, its tables
    whole).
    """
    described, state["at", name] = [(n, SMALL.width) for n in state["rows"]], 0
    if name in (HYBRID, ALONE):
        tables = DistributedEmbedding(
            plan(described, dist.get_world_size(), **(more or {})), check=False
        )
        model = _model(tables)
        tables.set_weights(state["tables"])
        broadcast(model)
        optimiser = Sgd(model.parameters(), RATE)
        state[name] = (
            lambda clicks: train_step(model, clicks, optimiser, average_gradients),
            tables.get_weights,
            model,
        )
    elif name in (SPARSE, DENSE):
        tables = PlainTables(described, sparse=name == SPARSE)
        model = _model(tables)
        tables.set_weights(state["tables"])
        wrapped = DistributedDataParallel(model, gradient_as_bucket_view=name == DENSE)
        optimiser = Sgd(model.parameters(), RATE)
        state[name] = (
            lambda clicks: train_step(wrapped, clicks, optimiser),
            tables.get_weights,
            model,
        )
    else:
        state[name] = _torchrec(state, described)


def _torchrec(state, described):
    with mock.patch.dict("os.environ", {"LOCAL_WORLD_SIZE": str(dist.get_world_size())}):
        from torchrec import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor
        from torchrec.distributed import DistributedModelParallel
        from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
        from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
        from torchrec.optim.apply_optimizer_in_backward import apply_optimizer_in_backward

    names = [f"C{i}" for i in range(1, 27)]
    bags = EmbeddingBagCollection(
        tables=[
            EmbeddingBagConfig(
                name=f"t_{one}", embedding_dim=width, num_embeddings=rows, feature_names=[one]
            )
            for one, (rows, width) in zip(names, described, strict=True)
        ],
        device=torch.device("cpu"),
    )

    class Tables(torch.nn.Module):
        """torchrec's tables behind the interface of ours: keys in, a list of vectors out."""

        def __init__(self):
            super().__init__()
            self.bags = bags

        def forward(self, told):
            found = self.bags(told).to_dict()  # in the planner's order
            return [found[one] for one in names]

    apply_optimizer_in_backward(torch.optim.SGD, bags.parameters(), {"lr": RATE})
    model, sharder = _model(Tables()), EmbeddingBagCollectionSharder()
    place = torch.device("cpu")
    planner = EmbeddingShardingPlanner(
        Topology(world_size=dist.get_world_size(), compute_device="cpu")
    )
    chosen = planner.collective_plan(model, [sharder], dist.GroupMember.WORLD)
    wrapped = DistributedModelParallel(model, device=place, plan=chosen, sharders=[sharder])
    _fill(wrapped, names, state["tables"])
    dense = [
        w for _, w in wrapped.named_parameters()
    ]  # what the fused optimiser steps has no gradient
    optimiser = Sgd(dense, RATE)
    lengths = {}

    def step(clicks):
        count = len(clicks.labels)
        if count not in lengths:
            lengths[count] = torch.ones(26 * count, dtype=torch.int32)
        told = KeyedJaggedTensor(names, clicks.ids.reshape(-1), lengths=lengths[count])
        with mock.patch.object(Clicks, "bags", lambda self: told):
            return train_step(wrapped, clicks, optimiser)

    return step, lambda: _fill(wrapped, names, None), model


@torch.no_grad()
def _fill(wrapped, names, tables):
    """Copies whole tables into torchrec's shards; with None, the whole tables from all shards."""
    found = [None] * len(names)
    for key, value in wrapped.state_dict().items():
        if ".bags." in key:
            at = names.index(key.split(".t_")[1].split(".")[0])
            if not hasattr(value, "local_shards"):  # its planner copies small tables
                found[at] = value.clone() if tables is None else value.copy_(tables[at])
                continue
            rows, width = value.metadata().size
            whole = torch.zeros(rows, width)
            for shard in value.local_shards():
                (row, col), (high, wide) = (
                    shard.metadata.shard_offsets,
                    shard.metadata.shard_sizes,
                )
                if tables is None:
                    whole[row : row + high, col : col + wide] = shard.tensor
                else:
                    shard.tensor.copy_(tables[at][row : row + high, col : col + wide])
            if tables is None:
                dist.all_reduce(whole)
                found[at] = whole
    return found


def steps(state, name, count):
    """The losses of this process in `count` steps, over the kept batches in turn."""
    step, at = state[name][0], state["at", name]
    state["at", name] = at + count
    batches = state["batches"]
    return [step(batches[k % len(batches)]).item() for k in range(at, at + count)]


def whole_tables(state, name):
    """(all tables, dense weights) of a contestant; from process 0 alone, the others take part
    and give None.
    """
    tables, model = state[name][1](), state[name][2]
    dense = [
        w.detach().clone() for n, w in model.named_parameters() if not n.startswith("tables.")
    ]
    return (tables, dense) if dist.get_rank() == 0 else None


def trained(state, seed, samples, batch, rate, held_out):
    """(scores, labels) of this process's share of held-out samples, after one pass over samples
    of a world by Adagrad.
    """
    from bench_accuracy import world_of

    rank, size, world = dist.get_rank(), dist.get_world_size(), world_of(seed)
    tables = DistributedEmbedding(
        plan([(n, SMALL.width) for n in world.rows], size, "memory_balanced"), check=False
    )
    model = _model(tables)
    tables.set_weights([table / 20 for table in start_tables(world.rows)])
    broadcast(model)
    optimiser, share = torch.optim.Adagrad(model.parameters(), rate), batch // size
    clicks = world.draw(samples)
    for first in range(rank * share, samples // batch * batch, batch):
        train_step(model, clicks.part(first, first + share), optimiser, average_gradients)
    share = held_out // size
    held = world.draw(held_out, 99).part(rank * share, (rank + 1) * share)
    with torch.no_grad():
        return model(held.numbers, held.bags()).sigmoid(), held.labels


def proof(state, shapes, options, whole, bags, rate=0.1, steps=3, scaled=True):
    """(first vectors of this process's samples, tables after so many steps) in float64.

    The loss of a process is the mean over its samples of the sine of all vectors' sum. With
    `scaled=False` the gradients of tables stay sums over processes: the mistake, to look at.
    """
    rank, size = world()
    layer = DistributedEmbedding(plan(shapes, size, **options), dtype=torch.float64)
    layer.set_weights(whole)
    share, first = bags.batch // size, None
    own, weights = bags.part(rank * share, (rank + 1) * share), list(layer.parameters())
    for _ in range(steps):
        layer.zero_grad()
        vectors = torch.cat(layer(own), 1)
        first = vectors.detach() if first is None else first
        vectors.sum(1).sin().mean().backward()
        if scaled:
            average_gradients(layer)
        torch.optim.SGD(weights, rate).step()
    return first, layer.get_weights()


def counted(state, name):
    """({exchange: bytes to each process}, bytes that the kernel says were written) in one step
    of the hybrid.
    """
    tables = state[name][2].tables
    tables.traffic.clear()
    dist.barrier()
    before = written_bytes()
    steps(state, name, 1)
    after = written_bytes()
    return dict(tables.traffic), None if before is None else after - before


def exchange_times(state, sizes, repeats=7):
    """The best seconds of an all-to-all of so many float32 numbers to each process."""
    found, size = [], dist.get_world_size()
    for count in sizes:
        sent, times = torch.zeros(size * count), []
        got = torch.empty_like(sent)
        for _ in range(repeats):
            dist.barrier()
            start = time.perf_counter()
            dist.all_to_all_single(got, sent)
            times.append(time.perf_counter() - start)
        found.append(sorted(times)[len(times) // 2])
    return found


def check(crew, alone, names, count=3):
    """{name: (largest difference of losses, of weights) from one process's} after `count` steps
    of all.
    """
    alone.run("bench_hybrid:build", ALONE)
    base_losses = alone.run("bench_hybrid:steps", ALONE, count)[0]
    base, dense = alone.run("bench_hybrid:whole_tables", ALONE)[0]
    found = {}
    for name in names:
        losses = torch.tensor(crew.run("bench_hybrid:steps", name, count)).mean(0)
        tables, own = crew.run("bench_hybrid:whole_tables", name)[0]
        pairs = zip([*tables, *own], [*base, *dense], strict=True)
        weights = max((a - b).abs().max().item() for a, b in pairs)
        loss = (losses - torch.tensor(base_losses)).abs().max().item()
        if max(loss, weights) > 1e-4:
            raise AssertionError(
                f"{name}: losses differ by {loss:.2g}, weights by {weights:.2g} from one's"
            )
        found[name] = loss, weights
    return found


def main(argv=None):
    """Race at this machine's size and write the receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument(
        "--threads", type=int, default=device.cores(), help="as many processes, one thread each"
    )
    parser.add_argument(
        "--batch", type=int, default=4096, help="samples of a step, of all processes together"
    )
    parser.add_argument(
        "--factor", type=int, default=2_000, help="the Terabyte log's rows over this"
    )
    args = parser.parse_args(argv)
    tier, size = device.tier(), max(2, min(args.threads, 8))
    receipt = receipts.start("distributed_embeddings", tier, size)
    rows = shrunk_rows(DLRM_TERABYTE, args.factor)
    receipt.sizes(processes=size, batch=args.batch, rows=sum(rows), width=SMALL.width)
    names = [HYBRID, SPARSE, DENSE] + [PEER] * bool(importlib.util.find_spec("torchrec"))
    with Crew(size, 300, 300) as crew, Crew(1, 300, 300) as alone:
        for one in (crew, alone):
            one.run("bench_hybrid:load", rows, args.batch, 8)
        for name in names:
            crew.run("bench_hybrid:build", name)
        equal = check(crew, alone, names)
        calls = {
            name: (lambda name=name: crew.run("bench_hybrid:steps", name, 1)) for name in names
        }
        calls[ALONE] = lambda: alone.run("bench_hybrid:steps", ALONE, 1)
        race = bench.race(calls, args.rounds, 3, reference=HYBRID)
    print(race)
    for name, found in race.results.items():
        stem = "race_" + name.replace(",", "").replace(" ", "_").lower()
        receipt.record(f"{stem}_step", found)
        receipt.record(f"{stem}_rate", found, "samples/s", count=args.batch)
        if name != HYBRID:
            receipt.record(
                f"{stem}_ratio",
                race.ratios[name],
                note="ours over it, round by round: above 1 it is faster",
            )
    for name, (loss, weights) in equal.items():
        print(f"{name}: losses within {loss:.2g}, weights within {weights:.2g} of one process")
    print(receipt.write(name="hybrid"))


if __name__ == "__main__":
    main()
