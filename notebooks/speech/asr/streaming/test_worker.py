"""The pool of workers: who dies or hangs is replaced, and a batch that kills is given up."""

import multiprocessing.connection
import subprocess
import time

import numpy as np
import pytest

from . import worker
from .batcher import WorkerFailed
from .worker import WorkerPool


def stuck(ready):
    """A _Worker whose process never takes a byte from its pipe."""
    made = worker._Worker.__new__(worker._Worker)
    made.pipe, theirs = multiprocessing.connection.Pipe()
    made.process = subprocess.Popen(["sleep", "60"], pass_fds=[theirs.fileno()])
    theirs.close()
    made.is_ready = ready
    return made


@pytest.mark.parametrize("size", [1, 1_000_000])
def test_a_worker_that_hangs_is_dead_after_answer_s_though_its_pipe_is_full(size):
    hung, began = stuck(ready=True), time.monotonic()
    with pytest.raises((OSError, EOFError)):
        hung.ask(np.zeros(size), 0.2)
    assert time.monotonic() - began < 10
    hung.stop()


def test_a_worker_that_never_is_ready_is_given_up(monkeypatch):
    monkeypatch.setattr(worker, "START_S", 0.1)
    slow = stuck(ready=False)
    with pytest.raises(TimeoutError, match="ready"):
        slow.ready()
    slow.stop()


class Mortal:
    """A worker in this process that dies of the batch 13."""

    def __init__(self, arguments):
        self.stopped, self.process, self.is_ready = False, self, True
        self.pid = id(self)

    def poll(self):
        return 1 if self.stopped else None

    def ready(self):
        pass

    def ask(self, question, seconds):
        if (question[0] == 13).any():
            raise EOFError
        return question[0]

    def stop(self):
        self.stopped = True


def test_a_batch_that_kills_is_tried_twice_and_the_pool_goes_on(monkeypatch):
    monkeypatch.setattr(worker, "_Worker", Mortal)
    with WorkerPool(spares=1) as pool:
        assert pool.infer(np.ones(1)) == 1
        with pytest.raises(WorkerFailed, match="two workers"):
            pool.infer(np.full(1, 13))
        assert pool.restarts == 2 and pool.ready == 2 and pool.infer(np.ones(1)) == 1
    with pytest.raises(WorkerFailed, match="closed"):
        pool.infer(np.ones(1))
