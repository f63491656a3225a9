"""Processes that work as one group, and end: started, told what to do, waited for, and gone
when their starter is.

    with Crew(2) as crew:
        outputs = crew.run("some_module:function", argument)   # of both, in their order

Each process belongs to one `torch.distributed` group: gloo on CPUs, NCCL where each process has
a GPU of its own. A function gets (state, *arguments); `state` is a dict of its process that
lives as long as the crew. Nothing waits for ever: the group's exchanges and each `run` have
time limits, and a process whose starter dies, however it dies, ends at once.
"""

import contextlib
import importlib
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import tempfile
import threading
import time
import traceback
from datetime import timedelta
from pathlib import Path

# torch._dynamo comes with an optimiser's first step: seconds, once instead of in each process
PRELOADED = ["torch", "torch.distributed", "torch._dynamo", "crew"]


class CrewError(RuntimeError):
    """A process that raised, died or was too slow; the crew is ended."""


class Crew:
    """`size` processes in one group, each with so many `threads`; `gpus`: with a GPU each.
    CrewError where they do not start within `start_s` seconds.
    """

    def __init__(self, size, timeout_s=60.0, start_s=90.0, gpus=False, threads=1):
        if not isinstance(size, int) or size < 1:
            raise ValueError(
                f"a crew of {size!r}: a whole number of processes from 1 up is needed"
            )
        context = multiprocessing.get_context(
            "forkserver"
        )  # torch is imported once, and never forked while it works
        context.set_forkserver_preload(PRELOADED)
        self.size, self.timeout_s = size, timeout_s
        self._folder = tempfile.TemporaryDirectory(prefix="crew-")
        self._lines, self._workers, theirs = [], [], []
        for rank in range(size):
            mine, other = context.Pipe()
            life, held = (
                context.Pipe()
            )  # read by a thread of the worker: it ends when our end is gone
            store = str(Path(self._folder.name, "store"))
            about = rank, size, store, timeout_s, gpus, threads, list(sys.path)
            worker = context.Process(target=_work, args=(other, held, *about), daemon=True)
            worker.start()
            self._lines.append((mine, life))
            self._workers.append(worker)
            theirs += [other, held]
        for end in theirs:
            end.close()
        self._collect(start_s)

    def run(self, function, *arguments, timeout_s=None):
        """The results of `function` ("module:name") by rank; CrewError once one fails."""
        if not self._workers:
            raise CrewError("this crew has ended; start another one")
        for mine, _ in self._lines:
            with contextlib.suppress(OSError):  # a dead one is told of below
                mine.send((function, arguments))
        return self._collect(timeout_s or self.timeout_s)

    def _collect(self, seconds):
        deadline, found = time.monotonic() + seconds, {}
        while len(found) < self.size:
            waiting = {self._lines[r][0]: r for r in range(self.size) if r not in found}
            left = deadline - time.monotonic()
            ready = multiprocessing.connection.wait(list(waiting), max(0, left))
            if not ready:
                self._fail(
                    f"no answer from processes {sorted(waiting.values())} within {seconds:g} s"
                )
            for line in ready:
                try:
                    good, told = line.recv()
                except (EOFError, OSError):
                    self._fail(f"process {waiting[line]} died")
                if not good:
                    self._fail(f"process {waiting[line]} failed:\n{told}", line)
                found[waiting[line]] = told
        return [found[rank] for rank in range(self.size)]

    def _fail(self, text, first=None):
        """Raises CrewError, with errors that others send in a moment: one may be the cause."""
        others = [line for line, _ in self._lines if line is not first]
        for line in multiprocessing.connection.wait(others, 0.2) if first else ():
            with contextlib.suppress(EOFError, OSError):
                good, told = line.recv()
                text += "" if good else f"\nand another:\n{told}"
        self.close()
        raise CrewError(text)

    @property
    def pids(self):
        """The numbers of the processes."""
        return [worker.pid for worker in self._workers]

    def close(self):
        """None; all processes are gone afterwards."""
        for ends in self._lines:
            for end in ends:
                end.close()
        for worker in self._workers:
            worker.join(0.5)
            if worker.is_alive():
                worker.kill()
                worker.join(5)
        self._lines, self._workers = [], []
        self._folder.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _work(line, life, rank, size, store, timeout_s, gpus, threads, path):
    """What a process of the crew does until its starter closes the line, or is gone."""
    threading.Thread(target=_until_gone, args=(life,), daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the starter's to handle
    sys.path[:] = path
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    import torch
    import torch.distributed as dist

    torch.set_num_threads(threads)
    torch.sparse.check_sparse_tensor_invariants.disable()  # else it warns
    if gpus:
        torch.cuda.set_device(rank)
    kind, limit = "nccl" if gpus else "gloo", timedelta(seconds=timeout_s)
    dist.init_process_group(kind, f"file://{store}", rank=rank, world_size=size, timeout=limit)
    state, told = {}, (True, None)
    while True:
        try:
            _tell(line, told)
            function, arguments = line.recv()
        except (EOFError, OSError):
            os._exit(0)
        try:
            module, _, name = function.partition(":")
            told = True, getattr(importlib.import_module(module), name)(state, *arguments)
        except Exception:
            told = False, traceback.format_exc(limit=-3)


def _tell(line, told):
    try:
        line.send(told)
    except (TypeError, ValueError, RuntimeError, AttributeError):  # what cannot be pickled
        line.send((False, traceback.format_exc(limit=-3)))


def _until_gone(life):
    with contextlib.suppress(EOFError, OSError):
        life.recv()
    os._exit(1)


def _one_thread(job, *arguments):
    """A fork has none of its parent's threads, and OpenMP would wait for them for ever."""
    import torch

    torch.set_num_threads(1)
    job(*arguments)


def killed(job, arguments, after_s=None, limit_s=5.0):
    """What `job(tell, *arguments)` told, in a list, before its process, a fork of this one, was
    killed (SIGKILL): `after_s` seconds after it first told something, or after `limit_s`.
    """
    here, there = multiprocessing.Pipe()
    context, told = multiprocessing.get_context("fork"), []
    worker = context.Process(
        target=_one_thread, args=(job, there.send, *arguments), daemon=True
    )
    worker.start()
    there.close()
    if here.poll(20):
        worker.join(limit_s if after_s is None else after_s)
    worker.kill()
    worker.join(10)
    with contextlib.suppress(EOFError, OSError):
        while True:
            told.append(here.recv())
    here.close()
    return told


class Deadly(dict):
    """A dict whose process is killed (SIGKILL) when the second of its items is asked for."""

    def items(self):
        """The first pair, and no second one."""
        for at, pair in enumerate(super().items()):
            if at == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            yield pair
