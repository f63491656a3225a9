"""The race: a training step of DLRM, its tables spread by our layer, by torchrec, or copied by
plain data parallelism.

    python -m bench_hybrid               # two processes, 20 rounds; a receipt of each size

All train the same model from the same weights on the same samples; after three steps weights
are held against one process's. A control separates placing from merging: our layer with all
tables copied. torchrec comes with its planner and fused optimiser, where it is installed.
"""

import argparse
import importlib.util
from unittest import mock

import torch
import torch.distributed as dist
from click_logs import Clicks, World, shrunk_rows
from crew import Crew
from dlrm import SMALL, Dlrm, PlainTables, train_step
from exchange import world, written_bytes
from helpers import bench, device, receipts
from hybrid import DistributedEmbedding, average_gradients, broadcast
from placement import plan
from synthetic_models import DLRM_TERABYTE
from torch.nn.parallel import DistributedDataParallel

RATE, FEW = 0.1, 2**13
FACTORS = (
    2_000,
    20_000,
)  # what divides the log's rows: tables that are large beside the network, and small
HYBRID, COPIED, PEER = "ours, hybrid", "ours, all copied", "torchrec"
PEERS = [PEER] * bool(importlib.util.find_spec("torchrec"))
SPARSE, DENSE = "DDP, sparse gradients", "DDP, dense gradients"
ALONE, THREAD = "one process, all cores", "one process, one thread"
# where GPUs race: over the fastest of these
GAINS = {"gpu_hybrid_over_data_parallel": (DENSE, SPARSE), "gpu_hybrid_gain": (ALONE, THREAD)}


def load(state, rows, batch, steps):
    """None; keeps the world's samples: this process's share of `steps` batches."""
    (rank, size), place = world(), where()
    clicks, share = World(rows).draw(batch * steps), batch // size
    firsts = range(rank * share, batch * steps, batch)
    state["batches"] = [clicks.part(first, first + share).to(place) for first in firsts]
    state["rows"], state["tables"] = rows, start_tables(rows)


def spread(rows, devices, copied=FEW):
    """Copies of small tables, which add up gradients before they round; others by memory."""
    shapes = [(n, SMALL.width) for n in rows]
    return plan(shapes, devices, "memory_balanced", replicate_threshold=copied)


def where():
    """This process's device: a GPU of its own where the group speaks NCCL."""
    return torch.device("cuda" if dist.get_backend() == "nccl" else "cpu")


def start_tables(rows, width=SMALL.width):
    """The tables that all contestants begin with."""
    draw = torch.Generator().manual_seed(7)
    return [torch.randn(n, width, generator=draw) / width**0.5 for n in rows]


def model_on(tables):
    """A DLRM with the same first weights in every process."""
    torch.manual_seed(3)
    return Dlrm(tables, 26).to(where())


def build(state, name):
    """None; the contestant of this name: (step on clicks, its whole tables, its model)."""
    shapes, state["at", name] = [(n, SMALL.width) for n in state["rows"]], 0
    if name == PEER:
        state[name] = _torchrec(state, shapes)
        return
    average = None
    if name in (HYBRID, COPIED, ALONE, THREAD):
        copied = float("inf") if name == COPIED else FEW
        tables = DistributedEmbedding(spread(state["rows"], world()[1], copied), check=False)
        model = called = model_on(tables)
        average = average_gradients
        broadcast(model)
    else:
        tables = PlainTables(shapes, sparse=name == SPARSE)
        model = model_on(tables)
        called = DistributedDataParallel(model, gradient_as_bucket_view=name == DENSE)
    tables.set_weights(state["tables"])
    optimiser = torch.optim.SGD(model.parameters(), RATE)
    step = lambda clicks: train_step(called, clicks, optimiser, average)  # noqa: E731
    state[name] = step, tables.get_weights, model


class _PeerTables(torch.nn.Module):
    """torchrec's tables behind the interface of ours: keys in, a list of vectors out."""

    def __init__(self, names, shapes):
        from torchrec import EmbeddingBagCollection, EmbeddingBagConfig

        super().__init__()
        pairs = zip(names, shapes, strict=True)
        configs = [
            EmbeddingBagConfig(
                name=f"t_{one}", embedding_dim=wide, num_embeddings=rows, feature_names=[one]
            )
            for one, (rows, wide) in pairs
        ]
        self.names, self.bags = names, EmbeddingBagCollection(tables=configs, device=where())

    def forward(self, told):
        found = self.bags(told).to_dict()  # in the planner's order
        return [found[one] for one in self.names]


def _torchrec(state, shapes):
    with mock.patch.dict("os.environ", {"LOCAL_WORLD_SIZE": str(world()[1])}):
        from torchrec import KeyedJaggedTensor
        from torchrec.distributed import DistributedModelParallel
        from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
        from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
        from torchrec.optim.apply_optimizer_in_backward import apply_optimizer_in_backward

    names, place = [f"C{i}" for i in range(1, 27)], where()
    model, sharders = model_on(_PeerTables(names, shapes)), [EmbeddingBagCollectionSharder()]
    apply_optimizer_in_backward(torch.optim.SGD, model.tables.parameters(), {"lr": RATE})
    planner = EmbeddingShardingPlanner(Topology(world()[1], compute_device=place.type))
    chosen = planner.collective_plan(model, sharders, dist.GroupMember.WORLD)
    called = DistributedModelParallel(model, device=place, plan=chosen, sharders=sharders)
    _fill(called, names, state["tables"])
    # what its fused optimiser has stepped has no gradient; what its planner copied has one
    optimiser = torch.optim.SGD([weight for _, weight in called.named_parameters()], RATE)
    lengths = torch.ones(26 * len(state["batches"][0].labels), dtype=torch.int32, device=place)

    def step(clicks):
        told = KeyedJaggedTensor(names, clicks.ids.reshape(-1), lengths=lengths)
        with mock.patch.object(Clicks, "bags", lambda self: told):
            return train_step(called, clicks, optimiser)

    return step, lambda: _fill(called, names, None), model


@torch.no_grad()
def _fill(called, names, tables):
    """Copies whole tables into torchrec's shards; with None, all tables from the shards."""
    found = [None] * len(names)
    for key, value in called.state_dict().items():
        if ".bags." not in key:
            continue
        at = names.index(key.split(".t_")[1].split(".")[0])
        if not hasattr(value, "local_shards"):  # its planner copies small tables
            found[at] = value.clone() if tables is None else value.copy_(tables[at])
            continue
        found[at] = torch.zeros(value.metadata().size, device=where())
        for shard in value.local_shards():
            (row, col), (high, wide) = shard.metadata.shard_offsets, shard.metadata.shard_sizes
            if tables is None:
                found[at][row : row + high, col : col + wide] = shard.tensor
            else:
                shard.tensor.copy_(tables[at][row : row + high, col : col + wide])
        if tables is None:
            dist.all_reduce(found[at])
    return found


def steps(state, name, count):
    """The losses of this process in `count` steps, over the kept batches in turn."""
    step, at = state[name][0], state["at", name]
    state["at", name] = at + count
    batches = state["batches"]
    return [step(batches[k % len(batches)]).item() for k in range(at, at + count)]


def whole_tables(state, name):
    """(all tables, dense weights) of a contestant, from process 0; the others give None."""
    tables, model = state[name][1](), state[name][2]
    dense = [
        w.detach().clone() for n, w in model.named_parameters() if not n.startswith("tables.")
    ]
    tables = [table.detach().clone().cpu() for table in tables]
    return (tables, dense) if dist.get_rank() == 0 else None


def proof(state, shapes, options, whole, bags, rate=0.1, steps=3, scaled=True):
    """(first vectors of this process's samples, tables after so many steps) in float64; with
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
    """({exchange: bytes to each process}, bytes the kernel says were written) in one step."""
    tables = state[name][2].tables
    tables.traffic.clear()
    dist.barrier()
    before = written_bytes()
    steps(state, name, 1)
    after = written_bytes()
    return dict(tables.traffic), None if before is None else after - before


def check(crew, alone, names, count=3):
    """{name: (losses apart, weights over their way)}; AssertionError beyond 0.02 of it."""
    alone.run("bench_hybrid:build", ALONE)
    begin = alone.run("bench_hybrid:whole_tables", ALONE)[0]
    base_losses = torch.tensor(alone.run("bench_hybrid:steps", ALONE, count)[0])
    base, found = alone.run("bench_hybrid:whole_tables", ALONE)[0], {}
    for name in names:
        losses = torch.tensor(crew.run("bench_hybrid:steps", name, count)).mean(0)
        own = crew.run("bench_hybrid:whole_tables", name)[0]
        share = max(
            _apart(part, end) / _apart(first, end)
            for part, first, end in zip(own, begin, base, strict=True)
        )
        if share > 0.02:
            raise AssertionError(f"{name}: weights {share:.2g} of their way from one process's")
        found[name] = (losses - base_losses).abs().max().item(), share
    return found


def _apart(some, others):
    return max((a - b).abs().max().item() for a, b in zip(some, others, strict=True))


def main(argv=None):
    """Race at this machine's sizes and write the receipts."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    most = max(2, min(device.cores(), 8))
    parser.add_argument("--threads", type=int, default=most, help="processes, from two up")
    parser.add_argument("--batch", type=int, default=4096, help="samples of a step, of all")
    parser.add_argument("--factor", type=int, help="divides the log's rows; default: two sizes")
    args = parser.parse_args(argv)
    if args.threads < 2:
        parser.error("--threads are the processes of the race: at least two are needed")
    for factor in [args.factor] if args.factor else FACTORS:
        race_at(factor, args)


def race_at(factor, args):
    """None; races at one size of the tables and writes its receipt."""
    tier, cards = device.tier(), torch.cuda.device_count()
    size = cards if cards > 1 else args.threads
    receipt = receipts.start("distributed_embeddings", tier, size)
    rows = shrunk_rows(DLRM_TERABYTE, factor)
    receipt.sizes(processes=size, batch=args.batch, all_rows=sum(rows), width=SMALL.width)
    names = [HYBRID, COPIED, SPARSE, DENSE, *PEERS]
    with (
        Crew(size, 300, 300, gpus=cards > 1) as crew,
        Crew(1, 300, 300, threads=args.threads) as alone,
        Crew(1, 300, 300) as thread,
    ):
        for one in (crew, alone, thread):
            one.run("bench_hybrid:load", rows, args.batch // size * size, 8)
        for name in names:
            crew.run("bench_hybrid:build", name)
        equal = check(crew, alone, names)
        calls = {n: lambda n=n: crew.run("bench_hybrid:steps", n, 1) for n in names}
        thread.run("bench_hybrid:build", THREAD)
        calls[ALONE] = lambda: alone.run("bench_hybrid:steps", ALONE, 1)
        calls[THREAD] = lambda: thread.run("bench_hybrid:steps", THREAD, 1)
        race = bench.race(calls, args.rounds, 3, reference=HYBRID, device="cpu")  # waited for
    print(race)
    for name, (loss, weights) in equal.items():
        print(f"{name}: losses within {loss:.2g}, weights within {weights:.1%} of their way")
    other = f"_{factor}" * (factor != FACTORS[0])
    record(receipt, race, args.batch, cards > 1, f"race{other}_")
    print(receipt.write(name=f"hybrid{other}"))


def record(receipt, race, batch, gpus, prefix="race_"):
    """None; the race's times and rates, and the ratios of ours to each other contestant."""
    for name, found in race.results.items():
        stem = prefix + name.replace(",", "").replace(" ", "_").lower()
        receipt.record(f"{stem}_step", found)
        receipt.record(f"{stem}_rate", found, "samples/s", count=batch)
        if name != HYBRID:
            told = "ours over it, round by round: above 1 it is faster"
            receipt.record(f"{stem}_ratio", race.ratios[name], note=told)
    ours = race.results[HYBRID]
    for metric, some in GAINS.items() if gpus else ():
        name = min(some, key=lambda one: race.results[one].median_s)
        receipt.record(metric, bench.ratio(race.results[name], ours), device="cuda")


if __name__ == "__main__":
    main()
