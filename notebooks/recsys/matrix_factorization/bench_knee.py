"""Where more processes stop to help: seconds and bytes of a sharded pass by their number.

`--threads` are the cores that all processes share, each with one thread. The factors are the
article's 128: with few, a process computes too little for what it sends.
"""

import os
import statistics

import bench_matrix_factorization as race_of
import implicit_als
import link_graph
import sharded_als
from helpers import bench, data, device

TRIED, FACTORS, TURNS = (1, 2, 4, 8), 128, 3
KINDS = ("seconds", "compute_s", "sent_bytes")


def job_of(graph, factors):
    """A sharded fit of a few passes, from a fit's first items."""
    items = implicit_als.first_tables(graph.shape, factors)[1]
    return sharded_als.Job(graph.shape, items, 0.1, 0.01, TURNS)


def measured(graph, job, rounds, tried=TRIED):
    """{processes: {kind: a number for each round}} of the slowest in a pass."""
    found = {count: {kind: [] for kind in KINDS} for count in tried}
    for turn in range(rounds):
        for count in tried[turn % len(tried) :] + tried[: turn % len(tried)]:
            shares = sharded_als.fit_sharded(count, graph.rows, graph.cols, job)[2]
            for kind, values in found[count].items():
                most = max(getattr(share, kind) or 0 for share in shares)
                values.append(most / job.iterations)
    return found


def record(receipt, found, predicted):
    """Records the curve, each number's seconds, and which number is fastest."""
    middle = {kind: [statistics.median(one[kind]) for one in found.values()] for kind in KINDS}
    receipt.curve("knee", processes=list(found), **middle, predicted_bytes=predicted)
    for count, one in found.items():
        receipt.record(f"study_knee_{count}", bench.spread(one["seconds"]), "s")
    fastest = min(found, key=lambda count: statistics.median(found[count]["seconds"]))
    receipt.record("study_knee_fastest", fastest, "processes")


def main(arguments=None):
    """Fits with each number of processes, and writes the receipt."""
    given, receipt = race_of.begun(__doc__, device.cores(), arguments)
    if hasattr(os, "sched_setaffinity"):  # all processes inherit it
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: given.threads])
    graph = link_graph.with_links(link_graph.read_links(data.fetch("wikispeedia")), 10)
    sizes = {"pages": len(graph.titles), "links": len(graph.rows), "rounds": given.rounds}
    receipt.sizes(**sizes, factors=FACTORS)
    ends, job = (graph.rows, graph.cols), job_of(graph, FACTORS)
    told = [sharded_als.predicted_bytes(n, *ends, job) / TURNS for n in TRIED]
    record(receipt, measured(graph, job, given.rounds), told)
    print(receipt.write("study_knee"))


if __name__ == "__main__":
    main()
