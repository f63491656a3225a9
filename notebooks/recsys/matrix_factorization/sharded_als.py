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
import multiprocessing.connection
import os
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import NamedTuple

import implicit_als as als
import numpy as np
import torch
from dense_batching import Batch, dense_batches
from implicit_als import Precision, Settings
from linear_solvers import solve
from shard_traffic import shard_size, slices_of
from torch import distributed

MOST = 64  # processes on one machine


class Job(NamedTuple):
    """What every process is told: shape, first items (N, D), weights, how long to wait."""

    shape: tuple
    items: torch.Tensor
    alpha: float
    regularisation: float
    iterations: int
    settings: Settings = Settings()
    timeout_s: float = 60


class Share(NamedTuple):
    """What a process brings back: its shards, bytes that it wrote, seconds, those computing."""

    users: np.ndarray
    items: np.ndarray
    sent_bytes: int | None
    seconds: float
    compute_s: float


def fit_sharded(processes, rows, cols, job):
    """(users, items, list of Share) of a fit by Cholesky over `processes` real processes.

    Row r is solved by process r modulo `processes`, and stored where its shard lies. ValueError
    for what `implicit_als.refuse` names, an impossible number of processes, and a precision
    other than float32; RuntimeError with the process's own words where one fails, dies, or
    hears nothing for the job's time. None outlives the call. Processes import the caller's
    script again: a script calls this below `if __name__ == "__main__":`.
    """
    told = job.alpha, job.regularisation, job.iterations
    als.refuse(rows, cols, job.shape, job.items.shape[1], *told)
    if not 1 <= processes <= MOST:
        raise ValueError(f"processes={processes}: allowed are 1 to {MOST} on one machine")
    if job.settings.precision != Precision() or len(job.items) != job.shape[1]:
        told = f"{job.settings.precision}, {len(job.items)} items"
        raise ValueError(f"{told}: allowed are float32 alone, and {job.shape[1]} items")
    slices = slices_of(processes, rows, cols, job)
    packed = [[_packed(own) for own in pair] for pair in slices]
    with tempfile.TemporaryDirectory() as folder:
        told = job._replace(items=job.items.numpy())  # a tensor would go through shared memory
        shares = _started(Path(folder, "rendezvous"), told, packed, 10 * job.timeout_s)
    parts = [np.concatenate([share[at] for share in shares])[: job.shape[at]] for at in (0, 1)]
    return *map(torch.from_numpy, parts), shares


class Shards:
    """One process's part of the fit: its shards of both tables, and its collectives."""

    def __init__(self, rank, processes, job):
        self.rank, self.processes, self.job, self.waited = rank, processes, job, 0.0
        self.sizes = [shard_size(count, processes) for count in job.shape]
        factors = job.items.shape[1]
        items = torch.zeros(self.sizes[1] * processes, factors)
        items[: len(job.items)] = torch.from_numpy(job.items)
        self.tables = [
            torch.zeros(self.sizes[0], factors),
            items.chunk(processes)[rank].clone(),
        ]

    def batches(self, histories):
        """(batches of this process's rows, links of each row); all processes get as many
        batches of one shape, the last ones empty.
        """
        settings, dense = self.job.settings, dense_batches(histories, self.job.settings.length)
        size = _largest(dense.enough(settings.batch))
        made = dense.batches(size)
        count = _largest(len(made))
        width = _largest(max((len(batch.owners_U) for batch in made), default=1))
        nothing = torch.zeros(0, dtype=torch.int64)
        items, place = torch.full((size, settings.length), -1), torch.zeros(size).long()
        made += [Batch(items, place, nothing)] * (count - len(made))
        found = []
        for batch in made:
            owners = torch.full((width,), -1)
            owners[: len(batch.owners_U)] = batch.owners_U
            found.append(batch._replace(owners_U=owners))
        return found, dense.links_U

    def solve_side(self, side, batches, links_U):
        """None; solves this process's rows of one side, and stores its shard's."""
        job, other = self.job, self.tables[1 - side]
        gram_DD = als.gramian(other)
        self._exchange(distributed.all_reduce, gram_DD)
        own = als.penalties_of(
            torch.cat([links_U, links_U.new_zeros(1)]), job.shape[1 - side], job
        )
        self.tables[side].zero_()  # a row without links is in no batch, and its vector is zero
        for items_RL, place_R, owners_U in batches:
            h_RLD = self.gather(other, items_RL, self.sizes[1 - side])
            penalties_U = torch.where(owners_U < 0, 1, own[owners_U])
            systems = als.normal_equations(h_RLD, place_R, job.alpha * gram_DD, penalties_U)
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


def _packed(histories):
    """(lengths, items) as arrays: tensors would go through shared memory, one file each."""
    items = torch.cat([*histories, torch.zeros(0, dtype=torch.int64)])
    return [len(history) for history in histories], items.numpy()


def _work(rank, processes, rendezvous, job, histories, pipe):
    """A process's life: meet the others, fit, send a Share, or the traceback as a text."""
    with contextlib.suppress(OSError, AttributeError):  # Linux: die with the one who started it
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo" if sys.platform == "linux" else "lo0"
    torch.set_num_threads(1)
    try:
        wait = datetime.timedelta(seconds=job.timeout_s)
        store = distributed.FileStore(str(rendezvous), processes)
        about = {"store": store, "rank": rank, "world_size": processes, "timeout": wait}
        distributed.init_process_group("gloo", **about)
        pipe.send(_fitted(Shards(rank, processes, job), histories))
        distributed.barrier()
    except Exception:
        pipe.send(traceback.format_exc())
    finally:
        pipe.close()
        os._exit(0)  # a peer that died would keep the group's end waiting


def _fitted(shards, histories):
    """The Share of this process after all passes."""
    cut = [torch.split(torch.from_numpy(items), lengths) for lengths, items in histories]
    sides = [shards.batches(own) for own in cut]
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
    """The bytes that this process has handed to the system so far.

    None where the system does not count them.
    """
    with contextlib.suppress(OSError):
        return int(
            dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())[
                "wchar"
            ]
        )


def _started(rendezvous, job, slices, limit_s):
    """The Shares of all processes, in order; all are gone afterwards, whatever happened."""
    context = multiprocessing.get_context("forkserver" if sys.platform == "linux" else "spawn")
    if sys.platform == "linux":
        context.set_forkserver_preload(["torch.distributed"])  # imported once, for all
    pipes, workers = [], []
    try:
        for rank, histories in enumerate(slices):
            ours, theirs = context.Pipe(duplex=False)
            worker = context.Process(
                target=_work,
                args=(rank, len(slices), rendezvous, job, histories, theirs),
                daemon=True,
            )
            worker.start()
            theirs.close()
            pipes.append(ours)
            workers.append(worker)
        return _collected(pipes, time.monotonic() + limit_s)
    finally:
        for worker in workers:
            worker.kill()
            worker.join()


def _collected(pipes, deadline):
    shares = {}
    while len(shares) < len(pipes):
        waiting = [pipe for at, pipe in enumerate(pipes) if at not in shares]
        ready = multiprocessing.connection.wait(waiting, max(0, deadline - time.monotonic()))
        if not ready:
            told = f"{len(waiting)} of {len(pipes)} processes"
            raise RuntimeError(f"{told} did not answer in time, and were ended")
        for pipe in ready:
            rank = pipes.index(pipe)
            try:
                shares[rank] = pipe.recv()
            except EOFError as error:
                raise RuntimeError(
                    f"process {rank} of {len(pipes)} died without a word; all were ended"
                ) from error
            if isinstance(shares[rank], str):
                told = f"process {rank} of {len(pipes)} failed; all were ended"
                raise RuntimeError(f"{told}. It says:\n{shares[rank]}")
    return [shares[rank] for rank in range(len(pipes))]
