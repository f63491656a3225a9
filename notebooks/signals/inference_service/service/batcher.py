"""Dynamic batching by Triton's rules: requests that wait are computed together.

The oldest request starts a batch; those behind it join while rows fit into `max_batch`. The
largest batch of a preferred size leaves at once, as does one without room for the next request;
any other waits until its oldest request is `delay_us` old. Requests are never split. So if the
rows of one request are the only preferred size, nothing is joined: each request alone is
preferred already (Triton's issue 3116; the study says what its Triton does).

Larger than `max_batch` is refused.
"""

import threading
import time
from collections import deque
from concurrent.futures import Future
from typing import NamedTuple

import numpy as np

__all__ = ["Batcher"]


class Request(NamedTuple):
    """What waits: its arrays, how many rows they have, when they came, who wants the answer."""

    arrays: dict
    rows: int
    came: float
    future: Future


class Batcher:
    """`future = Batcher(model).submit({"patches": rows})`; its result is {name: array}.

    `model` is a function of {name: array}; `instances` threads call it. `counts` are sums since
    the start: requests, rows, batches, and µs in the queue and in the model. With `no_batching`
    each request is computed alone, in order. Raises ValueError for options out of range.
    """

    def __init__(
        self,
        model,
        max_batch=512,
        delay_us=2000,
        preferred=(),
        instances=1,
        no_batching=False,
    ):
        sizes = any(not 0 < p <= max_batch for p in preferred)
        if min(max_batch, instances) < 1 or delay_us < 0 or sizes:
            came = f"{max_batch=}, {delay_us=}, {preferred=}, {instances=}"
            allowed = "counts from 1, a delay from 0, preferred sizes up to max_batch"
            raise ValueError(f"{came}: {allowed}")
        self.model, self.max_batch, self.delay_s = model, max_batch, delay_us / 1e6
        self.preferred, self.no_batching = frozenset(preferred), no_batching
        self.queue, self.changed, self.stopping = deque(), threading.Condition(), False
        names = "success", "failure", "count", "exec_count", "queue_us", "infer_us"
        self.counts = dict.fromkeys(names, 0)
        serving = {"target": self._serve, "daemon": True}
        self.threads = [threading.Thread(**serving) for _ in range(instances)]
        for thread in self.threads:
            thread.start()

    def submit(self, arrays):
        """A Future; ValueError for too many rows or none, RuntimeError once it stops."""
        rows, future = len(next(iter(arrays.values()))), Future()
        if not 0 < rows <= self.max_batch:
            words = f"{rows} rows came; 1 to {self.max_batch} are allowed in a request"
            raise ValueError(words)
        with self.changed:
            if self.stopping:
                raise RuntimeError("the server stops; nothing more is taken")
            self.queue.append(Request(arrays, rows, time.monotonic(), future))
            self.changed.notify_all()
        return future

    def stop(self):
        """None; what waits is computed, nothing more is taken."""
        with self.changed:
            self.stopping = True
            self.changed.notify_all()
        for thread in self.threads:
            thread.join()

    def _serve(self):
        while batch := self._gathered():
            batch = [one for one in batch if one.future.set_running_or_notify_cancel()]
            if batch:
                self._compute(batch)

    def _gathered(self):
        """The next batch, a list of requests; empty when all is done and stopping."""
        with self.changed:
            while self.queue or not self.stopping:
                if not self.queue:
                    self.changed.wait()
                    continue
                count, full = self._fitting()
                left_s = self.queue[0].came + self.delay_s - time.monotonic()
                if full or left_s <= 0 or self.stopping:
                    return [self.queue.popleft() for _ in range(count)]
                self.changed.wait(left_s)
        return []

    def _fitting(self):
        """(requests, whether to leave at once) of the batch that the queue begins with."""
        if self.no_batching:
            return 1, True
        count = rows = best = 0
        for one in self.queue:
            if rows + one.rows > self.max_batch:
                return best or count, True
            count, rows = count + 1, rows + one.rows
            best = count if rows in self.preferred else best
        return best or count, best > 0 or rows == self.max_batch

    def _compute(self, batch):
        began, ends = time.monotonic(), np.cumsum([one.rows for one in batch])
        try:
            names = batch[0].arrays
            joined = {n: np.concatenate([one.arrays[n] for one in batch]) for n in names}
            outputs = self.model(joined)
        except Exception as error:
            for one in batch:
                one.future.set_exception(RuntimeError(f"{type(error).__name__}: {error}"))
            self._count(failure=len(batch))
            return
        sums = {"queue_us": sum(began - one.came for one in batch) * 1e6}
        sums |= {"infer_us": (time.monotonic() - began) * 1e6}
        self._count(success=len(batch), count=int(ends[-1]), exec_count=1, **sums)
        for one, end in zip(batch, ends, strict=True):
            rows = slice(end - one.rows, end)
            one.future.set_result({name: values[rows] for name, values in outputs.items()})

    def _count(self, **more):
        with self.changed:
            for name, value in more.items():
                self.counts[name] += value
