"""Dynamic batching by the rules of Triton's `dynamic_batch_scheduler.cc`: what waits is
computed together.

The oldest request starts a batch; those behind it join while rows fit into `max_batch`. Until
the oldest is `delay_us` old, the largest batch of a preferred size leaves at once, as does one
that the next request would lift above the largest preferred size; without such a size the batch
waits. Once the delay is over, all that fits leaves, of whatever size. Preferred is `max_batch`
where nothing else is named; without a delay nobody waits. Requests are never split.

So if one request alone has a preferred size, requests go alone as long as they wait for less
than the delay (Triton's issue 3116), and are joined once they wait for longer.
"""

import threading
import time
from collections import deque, namedtuple
from concurrent.futures import Future

import numpy as np

# What waits: its arrays, how many rows they have, when they came, who wants the answer
Request = namedtuple("Request", "arrays rows came future")


class Batcher:
    """`future = Batcher(model).submit({"patches": rows})`; its result is {name: array}, as that
    of `model`, which `instances` threads call. `counts` are sums since the start, under
    Triton's names. With `no_batching` each request is computed
    alone, in order. Raises ValueError for options out of range."""

    def __init__(self, model, max_batch=512, delay_us=2000, preferred=(), **options):
        more = {"instances": 1, "no_batching": False} | options
        sizes = any(not 0 < p <= max_batch for p in preferred)
        if min(max_batch, more["instances"]) < 1 or delay_us < 0 or sizes or len(more) > 2:
            allowed = "counts from 1, a delay from 0, preferred sizes up to max_batch"
            raise ValueError(f"{max_batch=}, {delay_us=}, {preferred=}, {options}: {allowed}")
        self.model, self.max_batch, self.delay_s = model, max_batch, delay_us / 1e6
        self.preferred, self.no_batching = {*preferred} or {max_batch}, more["no_batching"]
        self.queue, self.changed, self.stopping = deque(), threading.Condition(), False
        names = "request_success request_failure count exec_count queue_duration_us"
        self.counts = dict.fromkeys([*names.split(), "compute_infer_duration_us"], 0)
        self.threads = []
        for _ in range(more["instances"]):
            self.threads.append(threading.Thread(target=self._serve, daemon=True))
            self.threads[-1].start()

    def submit(self, arrays):
        """A Future; ValueError for too many rows or none, RuntimeError once it stops."""
        rows, future = len(next(iter(arrays.values()))), Future()
        if not 0 < rows <= self.max_batch:
            raise ValueError(
                f"{rows} rows came; allowed are 1 to {self.max_batch} in a request"
            )
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

    def fitting(self, waited_s):
        """(requests, whether to leave at once) of the batch that the queue begins with; its
        oldest request has waited so long."""
        if self.no_batching:
            return 1, True
        late = 0 < self.delay_s <= waited_s
        count = rows = marked = 0
        for one in self.queue:
            if count and not marked and rows + one.rows > max(self.preferred):
                marked = count
            if rows + one.rows > self.max_batch:
                break
            count, rows = count + 1, rows + one.rows
            marked = count if rows in self.preferred else marked
        if marked and not late:
            return marked, True
        full = count < len(self.queue) or rows >= max(self.preferred)
        return count, full or late or not self.delay_s

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
                waited_s = time.monotonic() - self.queue[0].came
                count, leaves = self.fitting(waited_s)
                if leaves or self.stopping:
                    return [self.queue.popleft() for _ in range(count)]
                self.changed.wait(self.delay_s - waited_s)
        return []

    def _compute(self, batch):
        began, ends = time.monotonic(), np.cumsum([one.rows for one in batch])
        try:
            names = batch[0].arrays
            joined = {n: np.concatenate([one.arrays[n] for one in batch]) for n in names}
            outputs = self.model(joined)
        except Exception as error:
            for one in batch:
                one.future.set_exception(RuntimeError(f"{type(error).__name__}: {error}"))
            self._count(request_failure=len(batch))
            return
        sums = {"queue_duration_us": sum(began - one.came for one in batch) * 1e6}
        took_us = (time.monotonic() - began) * 1e6  # which Triton counts for each request
        sums |= {"compute_infer_duration_us": len(batch) * took_us}
        self._count(request_success=len(batch), count=int(ends[-1]), exec_count=1, **sums)
        for one, end in zip(batch, ends, strict=True):
            rows = slice(end - one.rows, end)
            one.future.set_result({name: values[rows] for name, values in outputs.items()})

    def _count(self, **more):
        with self.changed:
            for name, value in more.items():
                self.counts[name] += value
