"""The network in a process of its own, which may die without taking a stream along.

It holds nothing: a window goes in, log-probabilities come out. A worker that dies, or hangs and
is killed for it, is replaced by a spare that has the network in memory already, the batch under
way is computed again, and a new spare is started behind.

    python -m streaming.worker 17 plain    # started by `WorkerPool`; 17 is the pipe's number"""

import contextlib
import multiprocessing.connection
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import torch
from quartznet import DIGITS_BASE, load_model, variant

from .batcher import WorkerFailed
from .windows import computed

START_S, ANSWER_S = 100.0, 1.0  # a worker that takes longer counts as dead


def environment(**more):
    """The environment of a child process that finds the slice's packages."""
    path = [str(Path(__file__).resolve().parents[1]), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, path))} | more


class WorkerPool:
    """One worker at a time, and `spares` that wait: `pool.infer(batch_BFT, frames_B)`. Ready
    once entered: `with WorkerPool() as pool`. `infer` blocks, so call it from a thread; one
    call at a time is served. A batch whose worker dies is tried once more on the next one; then
    WorkerFailed is raised, so that a poisonous batch cannot kill for ever. `restarts` counts
    the dead. `name` is one of `quartznet.VARIANTS`; what follows `spares` is what `main` takes
    after it."""

    def __init__(self, name="plain", spares=1, *of_worker, answer_s=ANSWER_S):
        self.arguments = [name, *map(str, of_worker)]  # of `main`, behind the pipe
        self.spares, self.answer_s, self.restarts = spares, answer_s, 0
        self._lock, self._workers, self._closed = threading.Lock(), [], False

    def __enter__(self):
        self._fill()
        self._workers[0].ready()
        return self

    def __exit__(self, *_):
        self._closed = True
        for worker in self._workers:
            worker.stop()
        self._workers = []

    @property
    def ready(self):
        """How many workers could answer at once: the one that does, and spares."""
        return sum(
            one.process.poll() is None and (one.is_ready or one.pipe.poll())
            for one in list(self._workers)
        )

    def infer(self, batch_BFT, frames_B=None):
        """Log-probabilities (B, S, V), float32; `frames_B` as in `QuartzNet.forward`."""
        with self._lock:
            for _ in range(2):
                if self._closed:
                    break
                try:
                    return self._workers[0].ask((batch_BFT, frames_B), self.answer_s)
                except (EOFError, OSError) as error:  # TimeoutError is one
                    reason = error
                    self._workers.pop(0).stop()
                    self.restarts += 1
                    self._fill()
            if self._closed:
                raise WorkerFailed("the pool is closed")
            raise WorkerFailed(str(reason) or "two workers died on this batch") from reason

    def _fill(self):
        while not self._closed and len(self._workers) < 1 + self.spares:
            self._workers.append(_Worker(self.arguments))


class _Worker:
    """A process and our end of the pipe to it."""

    def __init__(self, arguments):
        self.pipe, theirs = multiprocessing.connection.Pipe()
        self.is_ready = False
        command = [sys.executable, "-m", "streaming.worker", str(theirs.fileno())]
        self.process = subprocess.Popen(
            [*command, *arguments],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env=environment(OMP_NUM_THREADS="1"),
            start_new_session=True,  # Ctrl-C goes to the server, which drains first
        )
        theirs.close()

    def ready(self):
        if not self.is_ready:
            if not self.pipe.poll(START_S):
                raise TimeoutError(f"no worker was ready within {START_S:g} s")
            self._received()
            self.is_ready = True

    def ask(self, question, seconds):
        """The answer; OSError or EOFError where the worker dies, or hangs and is killed by a
        watch, since a pipe that nobody empties blocks whoever fills it."""
        self.ready()
        watch = threading.Timer(seconds, self.process.kill)
        watch.start()
        try:
            self.pipe.send(question)
            return self._received()
        finally:
            watch.cancel()

    def _received(self):
        found = self.pipe.recv()
        if isinstance(found, str):
            raise WorkerFailed(found)
        return found

    def stop(self):
        with contextlib.suppress(OSError):
            self.process.kill()
        self.process.wait(5)
        self.pipe.close()


def main(pipe, name="plain", checkpoint="", device="cpu", largest=1, frames=90):
    """None; answers batches from a pipe until its other end closes: an array, or the words of
    an error, which is no reason to die. `largest` batch and `frames` are those to be met, for a
    library chooses its kernels when it first sees a shape, which takes longer than many
    windows."""
    torch.set_num_threads(1)  # a second thread would wait for the front's core, and spin
    model = warmed(name, checkpoint, device, int(largest), int(frames))
    pipe.send(np.zeros(0))
    while True:
        try:
            question = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            pipe.send(computed(model, *question))
        except (ValueError, RuntimeError, TypeError) as error:
            pipe.send(f"{type(error).__name__}: {error}")


def warmed(name, checkpoint, device, largest, frames):
    """One of `quartznet.VARIANTS` of the network, which has met every batch size."""
    model = variant(load_model(checkpoint or DIGITS_BASE, device), name)
    bands = getattr(model, "_orig_mod", model).n_mels  # a compiled copy keeps the original
    for size in range(1, largest + 1):
        sound_BFT = np.zeros((size, bands, frames), np.float32)
        computed(model, sound_BFT), computed(model, sound_BFT, np.full(size, frames))
    return model


if __name__ == "__main__":
    number, *rest = sys.argv[1:]
    main(multiprocessing.connection.Connection(int(number)), *rest)
