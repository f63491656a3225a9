"""ALS with both tables cut over real processes: ALX's sharded gather and scatter.

Every process stores a shard of both tables and solves its own rows: none only stores, as a
parameter server does. For a batch, all processes do the same steps together: *gather* (ids to
all; each looks up those in its range, zeros elsewhere; of the sum each keeps its slice),
*solve* alone, with the Gramian of the whole table, *scatter* (solved rows to all; each keeps
its range). The engine is gloo over the loopback device; on GPUs it is NCCL.

Shapes: `P` processes, `R` dense rows, `L` items in one, `D` factors, `U` owners in a batch.
"""

import contextlib
import ctypes
import datetime
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections import namedtuple
from concurrent.futures import FIRST_EXCEPTION, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import implicit_als as als
import numpy as np
import torch
from dense_batching import Batch, dense_batches
from implicit_als import Precision, Settings
from linear_solvers import solve
from link_graph import both_ways, histories_of
from torch import distributed
from torch.nn import functional

MOST, IDS = 64, 4  # processes on one machine; bytes of an item's number on the way
# What every process is told; `items` (N, D) are the first ones.
TOLD = "shape items alpha regularisation iterations settings timeout_s"
Job = namedtuple("Job", TOLD, defaults=(Settings(), 60))
# What a process brings back: its shards, the bytes that it wrote, seconds, those computing.
Share = namedtuple("Share", "users items sent_bytes seconds compute_s")


def shard_size(count, processes):
    """The rows of a shard: one more than fit evenly, so that every row has a place."""
    return count // processes + 1


def slices_of(processes, rows, cols, job):
    """For each process the histories of its rows and of its columns."""
    sides = [histories_of(*ends[:2], ends[2][0]) for ends in both_ways(rows, cols, job.shape)]
    return [[side[rank::processes] for side in sides] for rank in range(processes)]


def pass_bytes(processes, batches, places, owners, factors):
    """The bytes that one process sends in a pass of batches of so many item places and owners.

    Rings: an all-gather of n bytes a process sends (P - 1) n, an all-reduce of n bytes 2 (P -
    1) / P n. The gather sums P times `places` vectors, the scatter carries `owners` rows and
    their numbers, the Gramian is summed once.
    """
    gathered = places * IDS + owners * (factors * 4 + IDS)
    reduced = batches * processes * places * factors * 4 + factors * factors * 4
    return (processes - 1) * (batches * gathered + 2 * reduced // processes)


def predicted_bytes(processes, rows, cols, job):
    """The bytes that each process will send in the whole fit, from the links alone."""
    length, total = job.settings.length, 0
    for side in zip(*slices_of(processes, rows, cols, job), strict=True):
        dense = [dense_batches(own, length) for own in side]
        size = max(one.enough(job.settings.batch) for one in dense)
        made = [one.batches(size) for one in dense]
        owners = max((len(batch.owners_U) for own in made for batch in own), default=1)
        about = max(map(len, made)), size * length, owners, job.items.shape[1]
        total += pass_bytes(processes, *about)
    return job.iterations * total


def fit_sharded(processes, rows, cols, job):
    """(users, items, list of Share) of a fit by Cholesky over `processes` real processes, none
    of which outlives the call. Row r is solved by process r modulo `processes`.

    ValueError for what `implicit_als.refuse` names, an impossible number of processes, another
    precision than float32; RuntimeError where a process fails (in its words), dies, or hears
    nothing in time. A script calls this below `if __name__ == "__main__":`.
    """
    told = job.alpha, job.regularisation, job.iterations
    als.refuse(rows, cols, job.shape, job.items.shape[1], *told)
    if not 1 <= processes <= MOST:
        raise ValueError(f"processes={processes}: allowed are 1 to {MOST} on one machine")
    if job.settings.precision != Precision() or len(job.items) != job.shape[1]:
        told = f"{job.settings.precision}, {len(job.items)} items"
        raise ValueError(f"{told}: allowed are float32 alone, and {job.shape[1]} items")
    told = job._replace(items=job.items.numpy())  # tensors would go through shared memory
    packed = [
        [[history.numpy() for history in own] for own in pair]
        for pair in slices_of(processes, rows, cols, job)
    ]
    with tempfile.TemporaryDirectory() as folder:
        shares = _started(Path(folder, "rendezvous"), told, packed, 10 * job.timeout_s)
    parts = [np.concatenate([share[at] for share in shares])[: job.shape[at]] for at in (0, 1)]
    return *map(torch.from_numpy, parts), shares


class Shards:
    """One process's part of the fit: its shards of both tables, and its collectives."""

    def __init__(self, rank, processes, job):
        self.rank, self.processes, self.job, self.waited = rank, processes, job, 0.0
        self.sizes = [shard_size(count, processes) for count in job.shape]
        self.tables = [torch.zeros(size, job.items.shape[1]) for size in self.sizes]
        own = torch.from_numpy(job.items)[rank * self.sizes[1] :][: self.sizes[1]]
        self.tables[1][: len(own)] = own

    def batches(self, histories):
        """(batches of this process's rows, links of each row); all processes get as many
        batches of one shape, the last ones empty.
        """
        dense = dense_batches(histories, self.job.settings.length)
        size = _largest(dense.enough(self.job.settings.batch))
        made = dense.batches(size)
        width = _largest(max((len(batch.owners_U) for batch in made), default=1))
        nobody = torch.full((width,), -1)
        empty = Batch(torch.full((size, dense.items_RL.shape[1]), -1), (), nobody)
        made += [empty] * (_largest(len(made)) - len(made))
        wide = [torch.cat([batch.owners_U, nobody])[:width] for batch in made]
        pairs = zip(made, wide, strict=True)
        return [batch._replace(owners_U=owners) for batch, owners in pairs], dense.links_U

    def solve_side(self, side, batches, links_U):
        """None; solves this process's rows of one side, and stores its shard's."""
        job, other = self.job, self.tables[1 - side]
        gram_DD = als.gramian(other)
        self._exchange(distributed.all_reduce, gram_DD)
        links_U = functional.pad(links_U, (0, 1))  # the last one is nobody's
        own = als.penalties_of(links_U, job.shape[1 - side], job)
        self.tables[side].zero_()  # a row without links is in no batch, and its vector is zero
        for items_RL, ends, owners_U in batches:
            h_RLD = self.gather(other, items_RL, self.sizes[1 - side])
            penalties_U = torch.where(owners_U < 0, 1, own[owners_U])
            systems = als.normal_equations(h_RLD, ends, job.alpha * gram_DD, penalties_U)
            numbers = torch.where(owners_U < 0, -1, owners_U * self.processes + self.rank)
            self.scatter(side, numbers, solve(*systems))

    def gather(self, table, items_RL, size):
        """The vectors (R, L, D) of items wherever they are stored, zeros for -1."""
        ids = items_RL.reshape(-1).to(torch.int32)
        asked = ids.new_empty(self.processes * len(ids))
        self._exchange(distributed.all_gather_single, asked, ids)
        local = asked.long() - self.rank * size
        mine = (local >= 0) & (local < size) & (asked >= 0)
        found = table[torch.where(mine, local, 0)] * mine[:, None]
        self._exchange(distributed.all_reduce, found)
        return found[self.rank * len(ids) :][: len(ids)].reshape(*items_RL.shape, -1)

    def scatter(self, side, numbers_U, solved_UD):
        """None; every process sees all solved rows, and keeps those of its shard."""
        everyones = solved_UD.new_empty(self.processes * len(numbers_U), solved_UD.shape[1])
        owners = numbers_U.new_empty(self.processes * len(numbers_U), dtype=torch.int32)
        self._exchange(distributed.all_gather_single, everyones, solved_UD.contiguous())
        self._exchange(distributed.all_gather_single, owners, numbers_U.to(torch.int32))
        local = owners.long() - self.rank * self.sizes[side]
        mine = (owners >= 0) & (local >= 0) & (local < self.sizes[side])
        self.tables[side][local[mine]] = everyones[mine]

    def _exchange(self, call, *tensors):
        began = time.perf_counter()
        call(*tensors)
        self.waited += time.perf_counter() - began


def _largest(number):
    """The largest of all processes' numbers."""
    found = torch.tensor([number])
    distributed.all_reduce(found, distributed.ReduceOp.MAX)
    return int(found)


def _work(rank, processes, rendezvous, job, histories):
    """A process's Share: it meets the others, and fits with them."""
    with contextlib.suppress(OSError, AttributeError):  # Linux: die with the one who started it
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo" if sys.platform == "linux" else "lo0"
    torch.set_num_threads(1)
    wait_s = datetime.timedelta(seconds=job.timeout_s)
    store = distributed.FileStore(str(rendezvous), processes)
    about = {"store": store, "rank": rank, "world_size": processes, "timeout": wait_s}
    distributed.init_process_group("gloo", **about)
    return _fitted(Shards(rank, processes, job), histories)


def _fitted(shards, histories):
    """The Share of this process after all passes."""
    sides = [shards.batches(own) for own in histories]
    distributed.barrier()
    before, shards.waited, began = _written(), 0.0, time.perf_counter()
    for _ in range(shards.job.iterations):
        for side in (0, 1):
            shards.solve_side(side, *sides[side])
    seconds = time.perf_counter() - began
    sent = None if before is None else _written() - before
    tables = [table.numpy() for table in shards.tables]
    return Share(*tables, sent, seconds, seconds - shards.waited)


def _written():
    """The bytes that this process has handed to the system so far; None where not counted."""
    with contextlib.suppress(OSError):
        lines = Path("/proc/self/io").read_text().splitlines()
        return int(dict(line.split(": ") for line in lines)["wchar"])


def _started(rendezvous, job, slices, limit_s):
    """The Shares of all processes, in order; all are gone afterwards, whatever happened."""
    linux, count = sys.platform == "linux", len(slices)
    context = multiprocessing.get_context("forkserver" if linux else "spawn")
    if linux:
        context.set_forkserver_preload(["torch.distributed"])  # imported once, for all
    others, pool = set(multiprocessing.active_children()), ProcessPoolExecutor(count, context)
    try:
        jobs = [
            pool.submit(_work, n, count, rendezvous, job, own) for n, own in enumerate(slices)
        ]
        pool.submit(int)  # it looks anew at who lives: those that came last were not seen
        done, late = wait(jobs, limit_s, FIRST_EXCEPTION)
        for rank, error in ((jobs.index(one), one.exception()) for one in done):
            if isinstance(error, BrokenProcessPool):
                raise RuntimeError(f"a process of {count} died without a word") from error
            if error:
                told = f"process {rank} of {count} failed; all were ended"
                raise RuntimeError(f"{told}. It says:\n{error.__cause__ or error}") from error
        if late:
            raise RuntimeError(f"{len(late)} of {count} processes did not answer in time")
        return [one.result() for one in jobs]
    finally:
        for worker in set(multiprocessing.active_children()) - others:
            worker.kill()
        pool.shutdown()  # joins them
