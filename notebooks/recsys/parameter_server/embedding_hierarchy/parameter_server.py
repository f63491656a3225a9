"""A lookup: distinct keys, device cache, volatile tier, persistent tier, default vector.

After the article and HugeCTR's Hierarchical Parameter Server. Where the hit rate of a request
is at least the table's threshold, missing vectors are the default for now and a background
worker brings them in; where it is lower, the request waits for them. A threshold above 1 always
waits. A key that no tier has gets the default and takes no slot.

What keeps a stale vector out of the cache: whoever moves a vector up (fetch, then insert) and
whoever writes a new one (`apply`) take the same lock, so neither comes between the other's two
steps. Hits take the cache's own lock alone, and do not wait for either.

Shapes: `K` keys of a request, `U` distinct ones, `M` missing ones, `W` width.
"""

import contextlib
import queue
import threading
import time
from collections import Counter

import numpy as np
import torch
from device_cache import DeviceCache
from storage_tiers import TierDown


class ParameterServer:
    """The tiers of a node, and its tables.

        server = ParameterServer(Rocks(folder, {"dlrm.ads": 64}), InProcess(100_000))
        table = server.deploy("dlrm.ads", cache_rows=20_000, threshold=0.8, device="cuda")
        vectors = table.lookup(keys)

    A table's name carries its model, `model.table`: each has a cache of its own, shared by all
    instances of the model. `retry_s`: how long a volatile tier that failed is left alone.
    """

    def __init__(self, persistent, volatile=None, promote=True, retry_s=0.5):
        self.persistent, self.volatile, self.promote = persistent, volatile, promote
        self.retry_s, self.down_until, self.stale = retry_s, 0.0, False
        self.refresh = threading.RLock()
        self.tables, self.counts = {}, Counter()

    def deploy(self, name, **options):
        """The table of this name, ready for lookups; ValueError where it is there already."""
        if name in self.tables:
            raise ValueError(f"table {name!r} is deployed; instances of a model share one")
        self.tables[name] = EmbeddingTable(self, name, **options)
        return self.tables[name]

    def fetch(self, name, keys):
        """(vectors (K, W), found (K,), NumPy) from the tiers below the cache."""
        vectors = np.zeros((len(keys), self.persistent.widths[name]), np.float32)
        found = np.zeros(len(keys), bool)
        held = self._volatile("get", name, keys)
        if held is not None and held[1].any():
            vectors, found = np.array(held[0]), held[1].copy()
        below = np.flatnonzero(~found)
        if len(below):
            vectors[below], found[below] = self.persistent.get(name, keys[below])
            up = below[found[below]]
            if self.promote and len(up):
                self._volatile("put", name, keys[up], vectors[up])
            self.counts["from persistent"] += len(up)
        self.counts["from volatile"] += len(keys) - len(below)
        self.counts["nowhere"] += int((~found).sum())
        return vectors, found

    def apply(self, parts, place=None):
        """None; new vectors [(table, keys, vectors)] and the reader's place, in all tiers.

        The persistent tier comes first, in one batch; above it, present keys alone are touched.
        """
        with self.refresh:
            self.persistent.write(parts, place)
            for name, keys, vectors in parts:  # what serves first, then what may fail
                if name in self.tables:
                    self.tables[name].cache.update(torch.tensor(keys), torch.tensor(vectors))
            for part in parts:
                self._volatile("refresh", *part)

    def _volatile(self, call, *arguments):
        """What the volatile tier says; None while there is none, or it is down.

        What it missed while it was down would be stale, so it forgets all before it serves
        again.
        """
        if self.volatile is None or time.monotonic() < self.down_until:
            self.stale |= self.volatile is not None
            return None
        try:
            if self.stale:
                self.volatile.clear()
                self.stale = False
            return getattr(self.volatile, call)(*arguments)
        except TierDown:
            self.counts["volatile failed"] += 1
            self.down_until, self.stale = time.monotonic() + self.retry_s, True
            return None

    def close(self):
        """None; ends the workers of all tables."""
        for table in self.tables.values():
            table.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class EmbeddingTable:
    """One table of one model behind its cache; made by `ParameterServer.deploy`.

    `cache_rows`: slots on the device; `default`: the vector of what is not (yet) there, a
    number or a row; `waiting`: requests that the worker may have before it, more are dropped.
    """

    def __init__(
        self, server, name, cache_rows, threshold=1.0, default=0.0, waiting=64, **where
    ):
        if name not in server.persistent.widths:
            known = sorted(server.persistent.widths)
            raise ValueError(f"there is no table {name!r} to deploy; there are {known}")
        if not threshold >= 0:
            raise ValueError(f"a threshold of {threshold} came; 0 or more is allowed")
        width = server.persistent.widths[name]
        self.server, self.name, self.threshold = server, name, threshold
        self.cache = DeviceCache(cache_rows, width, **where)
        row = torch.as_tensor(default, dtype=self.cache.vectors_SW.dtype).expand(width)
        self.default = row.to(self.cache.device)
        self.counts = Counter()
        self.queue, self.worker = queue.Queue(waiting), None

    def lookup(self, keys):
        """Vectors (K, W) on the device, one for each key, whatever its tier."""
        return self.answer(keys)[0]

    def answer(self, keys):
        """(vectors (K, W), the hit rate of this request)."""
        keys = self.cache.checked(keys)
        distinct, places = torch.unique(keys, return_inverse=True)
        with self.cache.lock:
            slots = self.cache.touch(distinct)
            vectors = self.cache.vectors_SW.index_select(0, slots[places])
        missing = self.cache.absent(slots)
        rate = 1 - len(missing) / max(1, len(distinct))
        waits = rate < self.threshold
        with self.cache.lock:
            told = "waited" if waits else "deferred"
            hits = len(distinct) - len(missing)
            self.counts.update({"requests": 1, "keys": len(distinct), "hits": hits})
            self.counts[told] += bool(len(missing))
        if len(missing):
            rows = self._now(distinct[missing]) if waits else self._later(distinct[missing])
            lacking = self.cache.absent(slots[places])
            row = torch.searchsorted(missing, places[lacking])
            vectors[lacking] = rows[row]
        return vectors, rate

    def _now(self, keys):
        """Vectors (M, W) from below, put into the cache before anybody goes on."""
        with self.server.refresh:
            host, found = self.server.fetch(self.name, keys.cpu().numpy())
            rows = torch.from_numpy(host).to(self.cache.device, self.default.dtype)
            there = torch.from_numpy(np.flatnonzero(found)).to(self.cache.device)
            self.cache.replace(keys[there], rows[there])
            self.counts["bytes"] += rows.nbytes  # across the link
        rows[torch.from_numpy(np.flatnonzero(~found)).to(rows.device)] = self.default
        return rows

    def _later(self, keys):
        """The default vector for each key; the worker gets the keys."""
        with self.cache.lock:
            if self.worker is None:
                self.worker = threading.Thread(target=self._work, daemon=True)
                self.worker.start()
        try:
            self.queue.put_nowait(keys)
        except queue.Full:
            self.counts["dropped"] += 1  # the key comes again, or was not worth a slot
        return self.default.expand(len(keys), -1)

    def _work(self):
        while (keys := self.queue.get()) is not None:
            try:
                self._now(keys)
            except Exception as error:  # a broken tier must not end the worker
                self.counts["failed"] += 1
                self.error = error
            finally:
                self.queue.task_done()

    def drain(self, wait_s=10):
        """Whether the worker was done with all that it was given, within the time."""
        ends = time.monotonic() + wait_s
        while self.queue.unfinished_tasks and time.monotonic() < ends:
            time.sleep(0.001)
        return not self.queue.unfinished_tasks

    def close(self, wait_s=10):
        """None; ends the worker once it has done what it was given."""
        if self.worker is not None:
            with contextlib.suppress(queue.Full):
                self.queue.put(None, timeout=wait_s)
            self.worker.join(wait_s)
            self.worker = None
