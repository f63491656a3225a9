"""Dynamic batching by Triton's rules: requests that wait are computed together.

The oldest request starts a batch; those behind it join while rows fit into `max_batch`. The
largest batch of a preferred size leaves at once, as does one without room for the next request;
any other waits until its oldest request is `delay_us` old. Requests are never split. So if the
rows of one request are the only preferred size, nothing is joined: each request alone is
preferred already.

Larger than `max_batch` is refused; more waiting rows than `max_rows` are refused, too: a queue
without end hides that a server is too slow, and answers come when nobody wants them any more.
"""

import threading
import time
from collections import deque
from concurrent.futures import Future

import numpy as np

__all__ = ["Batcher", "Overloaded"]


class Overloaded(RuntimeError):
    """More rows wait than may."""


class Batcher:
    """`future = Batcher(model).submit({"patches": rows})`; its result is {name: array}.

    `model` is a function of {name: array}; `instances` threads call it. `counts` are sums since
    the start: requests, rows, batches, and µs in the queue and in the model. With `batching`
    False each request is computed alone, in order. Raises ValueError for options out of range.
    """

    def __init__(
        self,
        model,
        max_batch=512,
        delay_us=2000,
        preferred=(),
        instances=1,
        batching=True,
        max_rows=20_000,
    ):
        if (
            min(max_batch, instances, max_rows) < 1
            or delay_us < 0
            or not all(0 < p <= max_batch for p in preferred)
        ):
            came = f"{max_batch=}, {delay_us=}, {preferred=}, {instances=}, {max_rows=}"
            raise ValueError(
                f"{came}: counts from 1, a delay from 0, preferred sizes up to max_batch"
            )
        self.model, self.max_batch, self.delay_s = model, max_batch, delay_us / 1e6
        self.preferred, self.batching, self.max_rows = frozenset(preferred), batching, max_rows
        self.queue, self.rows, self.changed = deque(), 0, threading.Condition()
        names = "success", "failure", "count", "exec_count", "queue_us", "infer_us"
        self.counts, self.stopping = dict.fromkeys(names, 0), False
        self.threads = [
            threading.Thread(target=self._serve, daemon=True) for _ in range(instances)
        ]
        for thread in self.threads:
            thread.start()

    def submit(self, arrays):
        """A Future; raises ValueError for too many rows or none, Overloaded when the queue is
        full.
        """
        rows = len(next(iter(arrays.values())))
        if not 0 < rows <= self.max_batch:
            raise ValueError(
                f"{rows} rows came; 1 to {self.max_batch} are allowed in a request"
            )
        future = Future()
        with self.changed:
            if self.rows + rows > self.max_rows or self.stopping:
                raise Overloaded(f"{self.rows} rows wait already; {self.max_rows} may")
            self.queue.append((arrays, rows, time.monotonic(), future))
            self.rows += rows
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
            self._compute([one for one in batch if one[3].set_running_or_notify_cancel()])

    def _gathered(self):
        """The next batch, a list of requests; empty when all is done and stopping."""
        with self.changed:
            while True:
                if not self.queue:
                    if self.stopping:
                        return []
                    self.changed.wait()
                    continue
                count, rows, full = self._fitting()
                left = self.queue[0][2] + self.delay_s - time.monotonic()
                if full or left <= 0 or self.stopping:
                    self.rows -= rows
                    return [self.queue.popleft() for _ in range(count)]
                self.changed.wait(left)

    def _fitting(self):
        """(requests, rows, whether to leave at once) of the batch that the queue begins
        with.
        """
        if not self.batching:
            return 1, self.queue[0][1], True
        count = rows = 0
        best = None
        for _, size, _, _ in self.queue:
            if rows + size > self.max_batch:
                return best or (count, rows, True)
            count, rows = count + 1, rows + size
            if rows in self.preferred:
                best = count, rows, True
        return best or (count, rows, rows == self.max_batch)

    def _compute(self, batch):
        if not batch:
            return
        began, ends = time.monotonic(), np.cumsum([rows for _, rows, _, _ in batch])
        try:
            names = batch[0][0]
            joined = {name: np.concatenate([one[0][name] for one in batch]) for name in names}
            outputs = self.model(joined)
        except Exception as error:
            for *_, future in batch:
                future.set_exception(RuntimeError(f"{type(error).__name__}: {error}"))
            self._count(failure=len(batch))
            return
        took = time.monotonic() - began
        waited = sum(began - came for _, _, came, _ in batch)
        sums = {"queue_us": waited * 1e6, "infer_us": took * 1e6}
        self._count(success=len(batch), count=int(ends[-1]), exec_count=1, **sums)
        for (_, rows, _, future), end in zip(batch, ends, strict=True):
            future.set_result(
                {name: value[end - rows : end] for name, value in outputs.items()}
            )

    def _count(self, **more):
        with self.changed:
            for name, value in more.items():
                self.counts[name] += value
