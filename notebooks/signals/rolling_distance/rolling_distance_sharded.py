"""Rolling distances over several processes: each owns a stretch of windows and reads M - 1
points past its end.

The distances need no communication at all. The ranked matches need one small message a
match: every rank offers its best free window, the smallest wins, and all close the zone
around it. That is the same greedy choice that one process makes, so the result is the same,
also where a zone crosses a border.

Run by itself it is the job of one rank; `torchrun` starts as many as there are cores, GPUs
or machines:

    torchrun --nproc-per-node 2 rolling_distance_sharded.py \\
        --stream s.npy --query q.npy --out o.npz
"""

import argparse
import os
from datetime import timedelta

import numpy as np
import rolling_distance
import torch
import torch.distributed as dist
from match_ranking import Matches, Ranking

# windows whose points are read at once: what a rank keeps in memory besides its distances
PIECE = 1 << 22


def shard(windows, rank, ranks):
    """The windows that `rank` of `ranks` owns, as a range: contiguous, sizes differing by
    one at most.

    >>> [shard(10, rank, 3) for rank in range(3)]
    [range(0, 3), range(3, 6), range(6, 10)]
    """
    return range(windows * rank // ranks, windows * (rank + 1) // ranks)


def distances(measure, query, read, windows, device="cpu"):
    """Distances of the windows in the range `windows`, float64 NumPy, shape (len(windows),)
    or (K, len(windows)).

    measure: "sdist", "mdist" or "zdist"; query (M,) or (K, M); read(start, stop) returns
    those points of the stream, from a memory map, a file or a network: at most PIECE + M -
    1 points are asked for at once, so the stream may be longer than memory.
    """
    length = query.shape[-1]
    query = torch.as_tensor(query, dtype=torch.float64, device=device)
    out = np.empty((*query.shape[:-1], len(windows)))
    for first in range(windows.start, windows.stop, PIECE):
        last = min(first + PIECE, windows.stop)
        points = torch.as_tensor(np.array(read(first, last + length - 1)), device=device)
        found = getattr(rolling_distance, measure)(query, points)
        out[..., first - windows.start : last - windows.start] = found.cpu().numpy()
    return out


def ranked_matches(own, windows, k, exclusion):
    """The k best non-overlapping matches over all ranks: `Matches`, the same on every rank.

    own (len(windows),): this rank's distances of the windows in the range `windows`. Must
    be called by all ranks of the default process group with equal k and exclusion; costs
    one all-gather of two numbers a rank and match.
    """
    ranking = Ranking(own, exclusion)
    device = "cuda" if dist.get_backend() == "nccl" else "cpu"
    picked = []
    while len(picked) < k:
        value, at = ranking.best()
        offer = torch.tensor([value, at + windows.start], dtype=torch.float64, device=device)
        offers = [torch.empty_like(offer) for _ in range(dist.get_world_size())]
        dist.all_gather(offers, offer)
        best = min((float(v), int(p)) for v, p in offers)
        if best[0] == float("inf"):
            break
        picked.append(best)
        ranking.close(best[1] - windows.start)
    values, positions = np.array(picked, dtype=np.float64).reshape(-1, 2).T
    return Matches(positions.astype(np.int64), values)


def main(argv=None):
    """Compute this rank's share, rank the matches together, and let rank 0 write
    `--out`."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--stream",
        required=True,
        help=".npy file with the stream, memory-mapped by every rank",
    )
    parser.add_argument("--query", required=True, help=".npy file with the query")
    parser.add_argument("--measure", default="zdist", choices=["sdist", "mdist", "zdist"])
    parser.add_argument("--matches", type=int, default=10)
    parser.add_argument(
        "--out", required=True, help=".npz file for the positions and distances"
    )
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
    stream, query = np.load(args.stream, mmap_mode="r"), np.load(args.query)
    windows = shard(len(stream) - len(query) + 1, dist.get_rank(), dist.get_world_size())
    own = distances(
        args.measure, query, lambda start, stop: stream[start:stop], windows, device
    )
    matches = ranked_matches(own, windows, args.matches, len(query))
    if dist.get_rank() == 0:
        np.savez(args.out, positions=matches.positions, distances=matches.distances)


if __name__ == "__main__":
    main()
