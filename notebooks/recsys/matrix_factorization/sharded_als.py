"""ALS with both tables cut over real processes: the sharded gather and scatter of ALX, on torch.distributed.

Every process stores a shard of both tables and solves its own rows, so none only stores and none only computes, which is
where ALX leaves the parameter server. For a batch, all processes do the same steps together:

- gather: ids to all (all-gather); each looks up those in its range, zeros elsewhere; the sum over processes (all-reduce)
  holds every vector, and each keeps the slice that it asked for;
- solve, alone, with the Gramian of the whole table (one all-reduce a pass);
- scatter: solved rows to all (all-gather); each keeps those of its range.

The engine here is gloo over the loopback device; on GPUs it is NCCL. A shard has `rows // processes + 1` rows, as in ALX.

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

import numpy as np
import torch
from dense_batching import Batch, dense_batches
from implicit_als import Settings, gramian, normal_equations
from linear_solvers import solve
from link_graph import histories_of
from torch import distributed

_NONE = torch.zeros(0, dtype=torch.int64)
IDS = 4  # bytes of an item's number on the way
MOST = 64  # processes on one machine


class Job(NamedTuple):
    """What every process is told: sizes, weights, the first items (N, D), and how long to wait for the others."""

    shape: tuple
    alpha: float
    regularisation: float
    iterations: int
    settings: Settings
    items: np.ndarray
    timeout_s: float


class Share(NamedTuple):
    """What one process brings back: its shards, bytes that it sent (predicted, and counted by the system), seconds."""

    users: np.ndarray
    items: np.ndarray
    predicted_bytes: int
    sent_bytes: int | None
    seconds: float
    compute_s: float


def fit_sharded(processes, rows, cols, items, users_count, alpha, regularisation, iterations, settings=None, timeout_s=60):
    """(users, items, list of Share) of a fit over `processes` real processes, from the given items (N, D).

    Row r is solved by process r modulo `processes`, and stored where its shard lies. ValueError for an impossible number of processes;
    RuntimeError with the process's own words where one fails, dies, or hears nothing for `timeout_s`. None outlives the call.
    """
    if not 1 <= processes <= MOST:
        raise ValueError(f"processes={processes}: allowed are 1 to {MOST} on one machine")
    shape = users_count, len(items)
    job = Job(shape, alpha, regularisation, iterations, settings or Settings(), items.numpy(), timeout_s)
    sides = histories_of(rows, cols, shape[0]), histories_of(cols, rows, shape[1])
    slices = [[_packed(side[rank::processes]) for side in sides] for rank in range(processes)]
    with tempfile.TemporaryDirectory() as folder:
        shares = _started(Path(folder, "rendezvous"), job, slices, 10 * timeout_s)
    users, items = (torch.from_numpy(np.concatenate([share[at] for share in shares])[: shape[at]]) for at in (0, 1))
    return users, items, shares


def shard_size(count, processes):
    """The rows of a shard: one more than fit evenly, so that every row has a place."""
    return count // processes + 1


def pass_bytes(processes, batches, places, owners, factors, storage=4):
    """The bytes that one process sends in a pass of `batches` batches, each of `places` item places and `owners` owners.

    Rings: an all-gather of n bytes a process sends (P - 1) n, an all-reduce of n bytes sends 2 (P - 1) / P n. The gather sums
    P times `places` vectors; the scatter carries `owners` rows and their numbers.
    """
    gather = _all_gather(processes, places * IDS) + _all_reduce(processes, processes * places * factors * storage)
    scatter = _all_gather(processes, owners * factors * storage) + _all_gather(processes, owners * IDS)
    return batches * (gather + scatter) + _all_reduce(processes, factors * factors * 4)


class _Shards:
    """One process's part of the fit: its shards of both tables, and the collectives with their predicted bytes."""

    def __init__(self, rank, processes, job):
        self.rank, self.processes, self.job = rank, processes, job
        self.predicted, self.waited = 0, 0.0
        self.sizes = [shard_size(count, processes) for count in job.shape]
        factors = job.items.shape[1]
        whole = torch.zeros(self.sizes[1] * processes, factors)
        whole[: len(job.items)] = torch.from_numpy(job.items)
        self.tables = [torch.zeros(self.sizes[0], factors), whole[rank * self.sizes[1] :][: self.sizes[1]].clone()]

    def batches(self, histories):
        """The batches of this process's rows; every process gets as many, of one shape, the last ones empty."""
        settings = self.job.settings
        dense = dense_batches(histories, settings.length)
        own = dense.batches(settings.batch)
        size = torch.tensor([len(own), *([len(own[0].owners_U)] if own else [1])])
        distributed.all_reduce(size, distributed.ReduceOp.MAX)
        count, width = size.tolist()
        empty = Batch(torch.full((settings.batch, settings.length), -1), torch.zeros(settings.batch).long(), None)
        made = []
        for at in range(count):
            items, place, owners = own[at] if at < len(own) else empty
            padded = torch.full((width,), -1)
            if owners is not None:
                padded[: len(owners)] = owners
            made.append(Batch(items, place, padded))
        return made, dense.links_U

    def solve_side(self, side, batches, links_U):
        """None; solves this process's rows of one side, and stores the rows of its own shard, whoever solved them."""
        job, others = self.job, self.job.shape[1 - side]
        gram_DD = gramian(self.tables[1 - side])
        self._collective(distributed.all_reduce, gram_DD, predicted=_all_reduce(self.processes, gram_DD.nbytes))
        self.tables[side].zero_()  # a row without links is in no batch, and its vector is zero
        for batch in batches:
            h_RLD = self.gather(self.tables[1 - side], batch.items_RL, self.sizes[1 - side])
            scale = links_U[batch.owners_U] + job.alpha * others if job.settings.scaled else torch.ones(len(batch.owners_U))
            A_UDD, b_UD = normal_equations(h_RLD, batch.place_R, job.alpha * gram_DD, job.regularisation * scale)
            numbers = torch.where(batch.owners_U < 0, -1, batch.owners_U * self.processes + self.rank)
            self.scatter(side, numbers, solve(A_UDD, b_UD))

    def gather(self, table, items_RL, size):
        """The vectors (R, L, D) of items wherever they are stored, zeros for -1."""
        ids = items_RL.reshape(-1).to(torch.int32)
        asked = ids.new_empty(self.processes * len(ids))
        self._collective(distributed.all_gather_single, asked, ids, predicted=_all_gather(self.processes, ids.nbytes))
        local = asked.long() - self.rank * size
        here = (local >= 0) & (local < size) & (asked >= 0)
        found = table[torch.where(here, local, 0)] * here[:, None]
        self._collective(distributed.all_reduce, found, predicted=_all_reduce(self.processes, found.nbytes))
        return found[self.rank * len(ids) :][: len(ids)].reshape(*items_RL.shape, -1)

    def scatter(self, side, numbers_U, solved_UD):
        """None; every process sees all solved rows, and keeps those of its shard."""
        everyones = solved_UD.new_empty(self.processes * len(numbers_U), solved_UD.shape[1])
        numbers = numbers_U.to(torch.int32)
        owners = numbers.new_empty(self.processes * len(numbers))
        for whole, own in ((everyones, solved_UD.contiguous()), (owners, numbers)):
            predicted = _all_gather(self.processes, own.nbytes)
            self._collective(distributed.all_gather_single, whole, own, predicted=predicted)
        local = owners.long() - self.rank * self.sizes[side]
        here = (owners >= 0) & (local >= 0) & (local < self.sizes[side])
        self.tables[side][local[here]] = everyones[here]

    def _collective(self, call, *tensors, predicted):
        began = time.perf_counter()
        call(*tensors)
        self.waited += time.perf_counter() - began
        self.predicted += predicted


def _packed(histories):
    """(lengths, items) as arrays: tensors would go through shared memory, one file each."""
    return np.array([len(history) for history in histories], np.int64), torch.cat([*histories, _NONE]).numpy()


def _unpacked(lengths, items):
    return list(torch.split(torch.from_numpy(items), lengths.tolist()))


def _all_gather(processes, size):
    return (processes - 1) * size


def _all_reduce(processes, size):
    return 2 * (processes - 1) * size // processes


def _work(rank, processes, rendezvous, job, histories, pipe):
    """A process's life: meet the others, fit, send a Share, or the traceback as a text."""
    with contextlib.suppress(OSError, AttributeError):  # Linux: die with the one who started it
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo" if sys.platform == "linux" else "lo0"
    torch.set_num_threads(1)
    try:
        wait = datetime.timedelta(seconds=job.timeout_s)
        store = distributed.FileStore(str(rendezvous), processes)
        distributed.init_process_group("gloo", store=store, rank=rank, world_size=processes, timeout=wait)
        shards = _Shards(rank, processes, job)
        sides = [shards.batches(_unpacked(*own)) for own in histories]
        distributed.barrier()
        sent, shards.waited, began = _written(), 0.0, time.perf_counter()
        for _ in range(job.iterations):
            for side in (0, 1):
                shards.solve_side(side, *sides[side])
        seconds = time.perf_counter() - began
        counted = None if sent is None else _written() - sent
        pipe.send(Share(*(table.numpy() for table in shards.tables), shards.predicted, counted, seconds, seconds - shards.waited))
        distributed.barrier()
    except Exception:
        pipe.send(traceback.format_exc())
    finally:
        pipe.close()
        os._exit(0)  # a peer that died would keep the group's end waiting


def _written():
    """The bytes that this process has handed to the system so far; None where the system does not count them."""
    with contextlib.suppress(OSError):
        return int(dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())["wchar"])


def _started(rendezvous, job, slices, limit_s):
    """The Shares of all processes, in order; all are gone afterwards, whatever happened."""
    context = multiprocessing.get_context("forkserver" if sys.platform == "linux" else "spawn")
    if sys.platform == "linux":
        context.set_forkserver_preload(["torch.distributed"])  # imported once, for all
    pipes, workers = [], []
    try:
        for rank, histories in enumerate(slices):
            ours, theirs = context.Pipe(duplex=False)
            worker = context.Process(target=_work, args=(rank, len(slices), rendezvous, job, histories, theirs), daemon=True)
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
            raise RuntimeError(f"{len(waiting)} of {len(pipes)} processes did not answer in time, and were ended")
        for pipe in ready:
            rank = pipes.index(pipe)
            try:
                shares[rank] = pipe.recv()
            except EOFError as error:
                raise RuntimeError(f"process {rank} of {len(pipes)} died without a word; all were ended") from error
            if isinstance(shares[rank], str):
                raise RuntimeError(f"process {rank} of {len(pipes)} failed; all were ended. It says:\n{shares[rank]}")
    return [shares[rank] for rank in range(len(pipes))]
