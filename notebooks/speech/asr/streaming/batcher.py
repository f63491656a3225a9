"""Windows of many streams, gathered into batches for one network.

By Triton's two numbers: a batch leaves when it holds `max_batch` windows, or when its oldest
has waited `max_delay_ms`. While the network is busy the queue fills by itself, so that batches
grow with load and a lone stream hardly waits. The names of the metrics follow Triton's, with
`asr_` in place of `nv_inference_`.

Legend: B batch, F mel bands, T frames."""

import asyncio
import contextlib
import time
from collections import namedtuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from .windows import as_batch

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
SIZES = (1, 2, 4, 8, 16, 32, 64)


class QueueFull(RuntimeError):
    """The queue holds as many windows as it may: load has to be shed."""


class DeadlineMissed(RuntimeError):
    """A window has no answer within its deadline: a later one would be of no use."""


class WorkerFailed(RuntimeError):
    """The network did not answer for this batch; the message says why."""


# log-probabilities (S, V) of one window, and where its time went
Answer = namedtuple("Answer", "log_probs_SV queue_s compute_s batch")
# features (F, T), when they came in the loop's time (time.monotonic()), who waits
_Item = namedtuple("_Item", "features_FT came future")


class Metrics:
    """The series of one server, in a registry of their own."""

    def __init__(self):
        self.registry = CollectorRegistry()

        def made(kind, name, words, *labels, **more):
            return kind(f"asr_{name}", words, labels, registry=self.registry, **more)

        self.success = made(Counter, "request_success", "Windows answered")
        self.failure = made(Counter, "request_failure", "Windows failed", "reason")
        self.count = made(Counter, "count", "Windows computed")
        self.exec_count = made(Counter, "exec_count", "Batches computed")
        self.queue_us = made(Counter, "queue_duration_us", "Time in the queue")
        self.compute_us = made(Counter, "compute_infer_duration_us", "Network's time")
        self.pending = made(Gauge, "pending_request_count", "Windows that wait")
        self.response_s = made(Histogram, "response_seconds", "To the text", buckets=SECONDS)
        self.batch_size = made(Histogram, "batch_size", "Batch size", buckets=SIZES)
        self.streams = made(Gauge, "streams", "Streams open")
        self.refused = made(Counter, "streams_refused", "Not served, or cut off", "reason")
        self.throttled = made(Counter, "streams_throttled", "Sound came too fast")
        self.audio_s = made(Counter, "audio_seconds", "Sound received")
        self.restarts = made(Gauge, "worker_restarts", "Workers that died or hung")
        self.ready = made(Gauge, "workers_ready", "Workers that can answer")


class Batcher:
    """The queue and the loop: `answer = await batcher.submit(features_FT)`. `infer(batch_BFT,
    frames_B)` is a blocking function of NumPy arrays; it runs in a thread. `submit` raises
    QueueFull beyond `max_queue`, DeadlineMissed for a window without an answer within
    `deadline_ms`, wherever it hangs, and WorkerFailed where the network failed on this window;
    those beside it are computed again one by one."""

    def __init__(
        self, infer, max_batch=16, max_delay_ms=2.0, max_queue=256, deadline_ms=2000, pad_to=0
    ):
        if max_batch < 1 or max_queue < 1 or max_delay_ms < 0 or deadline_ms <= 0:
            came = f"{max_batch=}, {max_queue=}, {max_delay_ms=}, {deadline_ms=}"
            raise ValueError(f"{came}: at least 1, 1, 0 and above 0 are allowed")
        self.infer, self.pad_to, self.metrics = infer, pad_to, Metrics()
        self.max_batch, self.max_delay_s = max_batch, max_delay_ms / 1e3
        self.deadline_s, self.queue = deadline_ms / 1e3, asyncio.Queue(max_queue)

    def start(self):
        """The batcher, its loop running."""
        self.task = asyncio.get_running_loop().create_task(self._run())
        return self

    async def stop(self):
        """None; the loop ends; windows still waiting fail."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        while not self.queue.empty():
            self._fail(self.queue.get_nowait(), WorkerFailed("the server stops"), "stopped")

    async def submit(self, features_FT):
        """The Answer to one window of features (F, T), a NumPy array."""
        loop = asyncio.get_running_loop()
        item = _Item(features_FT, loop.time(), loop.create_future())
        try:
            self.queue.put_nowait(item)
        except asyncio.QueueFull:
            self.metrics.failure.labels("queue_full").inc()
            limit = self.queue.maxsize
            raise QueueFull(f"{limit} windows wait already: the server is overloaded") from None
        self.metrics.pending.set(self.queue.qsize())
        try:
            return await asyncio.wait_for(item.future, self.deadline_s)
        except TimeoutError:
            self.metrics.failure.labels("deadline").inc()
            raise DeadlineMissed(f"no answer within {self.deadline_s * 1e3:.0f} ms") from None

    async def _run(self):
        while True:
            gathered = await self._gather()
            self.metrics.pending.set(self.queue.qsize())
            if items := [one for one in gathered if not one.future.done()]:  # still wanted
                await self._compute(items)

    async def _gather(self):
        """The next batch: the oldest window, and those that come before it must leave."""
        items = [await self.queue.get()]
        leaves = items[0].came + self.max_delay_s
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(leaves):  # late or not: whoever is here comes along
                while len(items) < self.max_batch:
                    items.append(await self.queue.get())
        return items

    async def _compute(self, items):
        began = time.monotonic()
        batch_BFT, frames_B = as_batch([item.features_FT for item in items], self.pad_to)
        try:
            found_BSV = await asyncio.to_thread(self.infer, batch_BFT, frames_B)
        except Exception as error:  # whatever the engine raises is these windows' failure
            if len(items) == 1:
                return self._fail(items[0], WorkerFailed(str(error)), "inference")
            for item in (one for one in items if not one.future.done()):
                await self._compute([item])
            return None
        took = time.monotonic() - began
        m = self.metrics
        m.success.inc(len(items)), m.count.inc(len(items)), m.exec_count.inc()
        m.compute_us.inc(took * 1e6), m.batch_size.observe(len(items))
        m.queue_us.inc(sum(began - item.came for item in items) * 1e6)
        for item, found_SV in zip(items, found_BSV, strict=True):
            steps = -(-item.features_FT.shape[1] // 2)
            if not item.future.done():
                answer = Answer(found_SV[:steps], began - item.came, took, len(items))
                item.future.set_result(answer)
        return None

    def _fail(self, item, error, reason):
        self.metrics.failure.labels(reason).inc()
        if not item.future.done():
            item.future.set_exception(error)
