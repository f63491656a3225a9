"""Is the model that the processes train the same model? Its AUC, over worlds, beside what no
model can exceed.

    python -m bench_accuracy --rounds 5       # a round is a world of its own; a receipt

In each world the hybrid on two processes and one process train on the same samples once, and
are judged on samples that neither has seen. Batch, rate and start were chosen by hand, of a
dozen tried in world 9; the worlds of the study begin at 101, the page's is 100. The true
chances' AUC on the same samples is the limit.
"""

import argparse
import statistics

import torch
from bench_hybrid import model_on, start_tables
from click_logs import World, auc, shrunk_rows
from crew import Crew
from dlrm import SMALL, train_step
from exchange import world
from helpers import device, receipts
from hybrid import DistributedEmbedding, average_gradients, broadcast
from placement import plan
from synthetic_models import DLRM_TERABYTE

CHOSEN = {"batch": 128, "rate": 0.05, "start": 1e-4}  # start: of Adagrad's sums
FACTOR, HELD_OUT = 20_000, 30_000


def world_of(seed):
    """The World of this number."""
    return World(shrunk_rows(DLRM_TERABYTE, FACTOR), bias=-2.5, seed=seed)


def trained(state, seed, samples, batch, rate, start, held_out):
    """(scores, labels) of this process's share of held-out samples, after one pass by Adagrad
    over samples of a world.
    """
    (rank, size), drawn = world(), world_of(seed)
    shapes = [(rows, SMALL.width) for rows in drawn.rows]
    tables = DistributedEmbedding(plan(shapes, size, "memory_balanced"), check=False)
    model = model_on(tables)
    tables.set_weights([table / 20 for table in start_tables(drawn.rows)])
    broadcast(model)
    share, weights = batch // size, model.parameters()
    optimiser = torch.optim.Adagrad(weights, rate, initial_accumulator_value=start)
    clicks = drawn.draw(samples)
    for first in range(rank * share, samples // batch * batch, batch):
        train_step(model, clicks.part(first, first + share), optimiser, average_gradients)
    share = held_out // size
    held = drawn.draw(held_out, 99).part(rank * share, (rank + 1) * share)
    with torch.no_grad():
        return model(held.numbers, held.bags()).sigmoid(), held.labels


def judged(crew, seed, samples):
    """The AUC of a crew's model after one pass over so many samples of a world."""
    told = crew.run("bench_accuracy:trained", seed, samples, *CHOSEN.values(), HELD_OUT)
    return auc(torch.cat([one for one, _ in told]), torch.cat([labels for _, labels in told]))


def interval(values):
    """(mean, low, high): Student's 95 % interval of a mean over worlds; equal ends for one."""
    from scipy.stats import t

    mean = statistics.fmean(values)
    if len(values) < 2:
        return mean, mean, mean
    half = t.ppf(0.975, len(values) - 1) * statistics.stdev(values) / len(values) ** 0.5
    return mean, mean - half, mean + half


def main(argv=None):
    """Train in so many worlds and write the receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=20, help="worlds")
    parser.add_argument(
        "--threads",
        type=int,
        default=device.cores(),
        help="not used: two processes, one thread each",
    )
    parser.add_argument("--samples", type=int, default=160_000)
    args = parser.parse_args(argv)
    receipt = receipts.start("distributed_embeddings", device.tier(), 1)
    receipt.sizes(worlds=args.rounds, samples=args.samples, held_out=HELD_OUT, **CHOSEN)
    found = {"one_process": [], "hybrid": [], "truth": []}
    with Crew(2, 600) as pair, Crew(1, 600) as alone:
        for seed in range(101, 101 + args.rounds):
            held = world_of(seed).draw(HELD_OUT, 99)
            found["truth"].append(auc(held.chances, held.labels))
            found["hybrid"].append(judged(pair, seed, args.samples))
            found["one_process"].append(judged(alone, seed, args.samples))
            print(seed, {name: round(one[-1], 5) for name, one in found.items()}, flush=True)
    for name, values in found.items():
        _record(receipt, f"auc_{name}", values)
    for name, other in (("hybrid", "one_process"), ("truth", "hybrid")):
        pairs = zip(found[name], found[other], strict=True)
        _record(receipt, f"auc_{name}_over_{other}", [a - b for a, b in pairs])
    print(receipt.write(name="accuracy"))


def _record(receipt, name, values):
    mean, low, high = interval(values)
    receipt.record(
        name, mean, "AUC", low, high, len(values), note="mean over worlds and its 95 % interval"
    )


if __name__ == "__main__":
    main()
