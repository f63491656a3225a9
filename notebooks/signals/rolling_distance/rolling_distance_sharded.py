"""Rolling distances over several processes: each owns a stretch of windows and reads M - 1
points past its end, a piece at a time.

The distances need no communication at all, and are not kept: of each piece only those go on
that could still be among the k matches (see `match_ranking`), so that memory does not grow
with the stream. What is left, (k - 1) (2 M - 1) + 1 positions and distances for each query, all
ranks send to all, once; then each makes the greedy choice that one process makes, so the result
is the same, also where a zone crosses a border.

Run by itself it is the job of one rank:

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
from match_ranking import Matches, apart, enough, nearest
from rolling_distance import zdist

PIECE = 1 << 20  # distances in memory at once, over all queries


def shard(windows, rank, ranks):
    """The windows that `rank` of `ranks` owns, as a range; sizes differ by one at most.

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
    with equal k and exclusion; costs one all-gather of 16 bytes for each candidate.
    """
    everywhere, found = [None] * dist.get_world_size(), []
    dist.all_gather_object(everywhere, known)
    for parts in zip(*everywhere, strict=True):
        positions, distances = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.argsort(distances, kind="stable")  # of equal ones the first stays first
        found.append(apart(Matches(positions[order], distances[order]), k, exclusion))
    return found


def main(argv=None):
    """Compute this rank's share, rank the matches together, and let rank 0 write `--out`."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--stream", required=True, help=".npy file, read in stretches")
    parser.add_argument("--query", required=True, help=".npy file, one (M,) or a stack (K, M)")
    parser.add_argument("--out", required=True, help=".npz file of the result, see `_run`")
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
    """Writes positions and distances (K, k), with -1 and inf where a query found fewer, and
    peak_bytes: each rank's most memory up to a quarter of its windows, and to the end."""
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
        positions = np.full((len(query), args.matches), -1)
        distances = np.full(positions.shape, np.inf)
        for row, (at, values) in enumerate(matches):
            positions[row, : len(at)], distances[row, : len(at)] = at, values
        np.savez(args.out, positions=positions, distances=distances, peak_bytes=peaks)


if __name__ == "__main__":
    main()
