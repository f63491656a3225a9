"""The loader that keeps a device busy: a thread reads batches ahead while the device computes.

Ours is one thread that works ahead, since a batch is one slice of a file. It says how long its
consumer waited. To a GPU, batches travel from pinned memory on a stream of their own.
"""

import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch


@dataclass(frozen=True)
class LoaderReport:
    """One epoch: what was read, and how long the consumer waited for it.

    `utilisation` is the share of the time in which the consumer had a batch to work on.
    """

    batches: int
    rows: int
    seconds: float
    waited_s: float

    @property
    def utilisation(self):
        return 1 - self.waited_s / self.seconds if self.seconds else 0.0


class Loader:
    """Batches as tensors on a device: a thread reads ahead while the device computes.

    >>> loader = Loader(Batches("train"), device="cuda", seed=0)
    >>> for batch in loader:
    ...     model(batch["categories"], batch["multi_hot"], batch["numbers"])
    >>> loader.report.utilisation

    categories, multi_hot, display_id and ad_id come as int64, numbers and clicked as float32.
    `prefetch` batches at most wait ready; 0 reads each when it is asked for. `seed` shuffles
    the batches anew each epoch, which may be left early; `report` tells of the last one. Of
    `ranks` processes each takes its own part of every batch. Buckets travel to a GPU as int32.
    """

    def __init__(self, batches, device="cpu", prefetch=2, seed=None, rank=0, ranks=1):
        if prefetch < 0 or not 0 <= rank < ranks:
            raise ValueError(
                f"prefetch={prefetch}, rank={rank} of {ranks}: a prefetch of 0 or more and a "
                "rank below ranks are needed"
            )
        self.source, self.device, self.prefetch = batches, torch.device(device), prefetch
        self.seed, self.rank, self.ranks, self.epoch = seed, rank, ranks, 0
        self.report = LoaderReport(0, 0, 0.0, 0.0)
        self._stream = torch.cuda.Stream(self.device) if self.device.type == "cuda" else None

    def __len__(self):
        return len(self.source)

    def __iter__(self):
        order = np.arange(len(self.source))
        if self.seed is not None:
            order = np.random.default_rng([self.seed, self.epoch]).permutation(order)
        self.epoch += 1
        source = map(self._read, order.tolist())
        if self.prefetch:
            source = _ahead(source, self.prefetch)
        start, waited, batches, rows = time.perf_counter(), 0.0, 0, 0
        try:
            while True:
                asked = time.perf_counter()
                found = next(source, None)
                if found is None:
                    return
                batch = self._finish(*found)
                waited += time.perf_counter() - asked
                batches, rows = batches + 1, rows + len(batch["clicked"])
                yield batch
        finally:
            self.report = LoaderReport(batches, rows, time.perf_counter() - start, waited)
            if self.prefetch:
                source.close()

    def _read(self, index):
        """(a batch on its way to the device, the event of its arrival), on the reading side."""
        arrays = self.source[index]
        count = len(arrays["clicked"])
        own = slice(count * self.rank // self.ranks, count * (self.rank + 1) // self.ranks)
        arrays = {name: array[own] for name, array in arrays.items()}
        arrays["clicked"] = arrays["clicked"].astype(np.float32)
        if self._stream is None:
            wide = dict.fromkeys(("categories", "multi_hot"), np.int64)
            copies = {n: a.astype(wide.get(n, a.dtype)) for n, a in arrays.items()}
            return {name: torch.from_numpy(array) for name, array in copies.items()}, None
        with torch.cuda.stream(self._stream):
            pinned = {n: torch.from_numpy(a.copy()).pin_memory() for n, a in arrays.items()}
            batch = {n: t.to(self.device, non_blocking=True) for n, t in pinned.items()}
            for name in ("categories", "multi_hot"):
                batch[name] = batch[name].long()
            return batch | {"_pinned": pinned}, self._stream.record_event()

    def _finish(self, batch, event):
        if event is not None:
            current = torch.cuda.current_stream(self.device)
            current.wait_event(event)
            batch.pop("_pinned")  # torch keeps pinned memory until its copy is done
            for tensor in batch.values():
                tensor.record_stream(current)
        return batch


def _ahead(source, depth):
    """The items of an iterator up to its end, of which a thread keeps up to `depth` ready."""
    thread = ThreadPoolExecutor(1, "batches")
    try:
        ready = deque(thread.submit(next, source, None) for _ in range(depth))
        while (item := ready.popleft().result()) is not None:
            ready.append(thread.submit(next, source, None))
            yield item
    finally:
        thread.shutdown(cancel_futures=True)
