"""Rolling distances over several processes: each owns a stretch of windows and reads M - 1
points past its end, a piece at a time.

The distances need no communication at all, and are not kept: of each piece only those go on
that could still be among the k matches (see `match_ranking`), so that memory does not grow
with the stream. The ranking needs one small message a match: every rank offers its best free
window for each query, the smallest wins, and all close the zone around it. That is the same
greedy choice that one process makes, so the result is the same, also where a zone crosses a
border.

Run by itself it is the job of one rank; `torchrun` starts as many as there are cores, GPUs or
machines:

    torchrun --nproc-per-node 2 rolling_distance_sharded.py \\
        --stream s.npy --query q.npy --out o.npz
"""

import argparse
import os
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist
from helpers import bench
from match_ranking import Matches, Ranking, enough, nearest
from rolling_distance import zdist

PIECE = 1 << 20  # distances in memory at once, over all queries


def shard(windows, rank, ranks):
    """The windows that `rank` of `ranks` owns, as a range: contiguous, sizes differing by one
    at most.

    >>> [shard(10, rank, 3) for rank in range(3)]
    [range(0, 3), range(3, 6), range(6, 10)]
    """
    return range(windows * rank // ranks, windows * (rank + 1) // ranks)


def candidates(query, read, windows, count, device="cpu"):
    """The `count` windows of the range `windows` nearest to each query by `zdist`, neighbours
    included: a list of `Matches` whose positions count from the start of the stream.

    query (M,) or (K, M); read(start, stop) returns those points of the stream, from a file or a
    network. About PIECE / K + M points are asked for at once, and count K candidates are kept:
    memory does not grow with `windows`.
    """
    queries = torch.atleast_2d(torch.as_tensor(query, dtype=torch.float64, device=device))
    known = [Matches(np.empty(0, np.int64), np.empty(0))] * len(queries)
    step = max(1, PIECE // len(queries))
    for first in range(windows.start, windows.stop, step):
        last = min(first + step, windows.stop)
        points = read(first, last + queries.shape[1] - 1)
        points = torch.as_tensor(np.array(points), device=device)
        found_KW = zdist(queries, points).cpu().numpy()
        known = [nearest(d, count, first, k) for d, k in zip(found_KW, known, strict=True)]
    return known


def ranked_matches(known, k, exclusion):
    """For each query the k best non-overlapping matches over all ranks: a list of `Matches`,
    the same on every rank.

    known: this rank's `candidates`. Must be called by all ranks of the default process group
    with equal k and exclusion; costs k all-gathers of two numbers a rank and query.
    """
    rankings = [Ranking(one, exclusion) for one in known]
    device = "cuda" if dist.get_backend() == "nccl" else "cpu"
    picked = [[] for _ in rankings]
    for _ in range(k):
        offer = torch.tensor([r.best() for r in rankings], dtype=torch.float64, device=device)
        offers = [torch.empty_like(offer) for _ in range(dist.get_world_size())]
        dist.all_gather(offers, offer)
        for own, ranking, pairs in zip(
            picked, rankings, torch.stack(offers, 1).tolist(), strict=True
        ):
            value, at = min(map(tuple, pairs))
            if value < np.inf:
                own.append((int(at), value))
                ranking.close(int(at))
    columns = [np.array(own, dtype=np.float64).reshape(-1, 2).T for own in picked]
    return [Matches(at.astype(np.int64), values) for at, values in columns]


def main(argv=None):
    """Compute this rank's share, rank the matches together, and let rank 0 write `--out`."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    files = {
        "--stream": ".npy file with the stream, of which every rank reads its own stretch",
        "--query": ".npy file with a query (M,) or a stack (K, M)",
        "--out": ".npz file for positions and distances, (K, k), with -1 and inf where a query "
        "found fewer, and peak_bytes: each rank's most memory up to a quarter, and to the end",
    }
    for name, told in files.items():
        parser.add_argument(name, required=True, help=told)
    parser.add_argument("--matches", type=int, default=10)
    args = parser.parse_args(argv)
    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    dist.init_process_group("nccl" if cuda else "gloo", timeout=timedelta(seconds=120))
    try:
        _run(args, torch.device("cuda" if cuda else "cpu"))
    finally:
        dist.destroy_process_group()


def _run(args, device):
    query, taken = np.atleast_2d(np.load(args.query)), []
    total, exclusion = len(np.load(args.stream, mmap_mode="r")), query.shape[1]
    windows = shard(total - exclusion + 1, dist.get_rank(), dist.get_world_size())

    def read(start, stop):
        taken.append(bench.peak_memory() or 0)
        # mapped anew each time: pages once touched would count as memory until the end
        return np.load(args.stream, mmap_mode="r")[start:stop]

    count = enough(args.matches, exclusion)
    known = candidates(query, read, windows, count, device)
    matches = ranked_matches(known, args.matches, exclusion)
    peaks, taken = [None] * dist.get_world_size(), taken or [0]
    dist.all_gather_object(peaks, [taken[len(taken) // 4], bench.peak_memory() or 0])
    if dist.get_rank() == 0:
        most = max(len(one.positions) for one in matches)
        found = {}
        for name, fill in (("positions", -1), ("distances", np.inf)):
            rows = [getattr(one, name) for one in matches]
            found[name] = [np.pad(x, (0, most - len(x)), constant_values=fill) for x in rows]
        np.savez(args.out, **found, peak_bytes=peaks)


if __name__ == "__main__":
    main()
