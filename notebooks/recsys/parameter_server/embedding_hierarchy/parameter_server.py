"""A lookup: device cache, volatile tier, persistent tier, default vector.

After the article and HugeCTR's Hierarchical Parameter Server. Where the hit rate of a request
is at least the table's threshold, missing vectors are the default for now and a background
worker brings them in; where it is lower, the request waits for them. A threshold above 1 always
waits. A key that no tier has gets the default and takes no slot.

Three things keep a stale vector out. Whoever moves a vector up (fetch, then insert) or writes a
new one (`apply`) holds the table's lock, so that neither comes between the other's two steps.
What lies above the persistent tier is believed only with the stamp that this tier has now, so a
volatile tier that outlived its node, or that an update could not reach, starts empty. And an
update is looked at whole before its first row is written. Hits take the cache's own lock alone:
they wait for no tier, no other table, and of an update for a few rows.

Shapes: `K` keys of a request, `M` distinct missing ones, `W` width.
"""

import contextlib
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, wait

import numpy as np
import torch
from device_cache import DeviceCache
from storage_tiers import TierDown


class ParameterServer(contextlib.AbstractContextManager):
    """The tiers of a node, and its tables.

        server = ParameterServer(Rocks(folder, {"dlrm.ads": 64}), InProcess(100_000))
        table = server.deploy("dlrm.ads", cache_rows=20_000, threshold=0.8, device="cuda")
        vectors = table.lookup(keys)

    A table's name carries its model, `model.table`: each has a cache of its own, shared by all
    instances of the model. `retry_s`: how long a volatile tier that failed is left alone.
    """

    def __init__(self, persistent, volatile=None, promote=True, retry_s=0.5):
        self.persistent, self.volatile, self.promote = persistent, volatile, promote
        self.retry_s, self.down_until = retry_s, 0.0
        self.locks = {name: threading.RLock() for name in persistent.widths}
        self.tables, self.counts, self.counting = {}, Counter(), threading.Lock()

    def deploy(self, name, **options):
        """The `EmbeddingTable` of this name; ValueError where it is there already."""
        if name in self.tables:
            raise ValueError(f"table {name!r} is deployed; instances of a model share one")
        self.tables[name] = EmbeddingTable(self, name, **options)
        return self.tables[name]

    def fetch(self, name, keys):
        """(vectors (K, W), found (K,), NumPy) from the tiers below; under the table's lock."""
        width, stamp = self.persistent.widths[name], self.persistent.stamps[name]
        held = self._volatile("get", name, keys, stamp, width)
        if held is None:
            held = np.zeros((len(keys), width), np.float32), np.zeros(len(keys), bool)
        vectors, found = held
        below = np.flatnonzero(~found)
        if len(below):
            vectors[below], found[below] = self.persistent.get(name, keys[below])
            up = below[found[below]]
            if self.promote and len(up):
                self._volatile("put", name, keys[up], vectors[up], stamp)
            self.count("from persistent", len(up))
        self.count("from volatile", len(keys) - len(below))
        self.count("nowhere", int((~found).sum()))
        return vectors, found

    def checked(self, parts):
        """(parts, one a table; {table: keys and vectors as its cache takes them}); ValueError
        where a tier could not take them. Nothing is written."""
        parts = self.persistent.checked(parts)
        deployed = [part for part in parts if part[0] in self.tables]
        return parts, {
            name: self.tables[name].cache.checked_pair(*map(torch.from_numpy, pair))
            for name, *pair in deployed
        }

    def apply(self, parts, place=None):
        """None; new vectors [(table, keys, vectors)] and the reader's place, in all tiers.

        The persistent tier comes first, in one batch; above it, present keys alone are touched.
        """
        with contextlib.ExitStack() as locks:
            for name in sorted({name for name, *_ in parts} & self.locks.keys()):
                locks.enter_context(self.locks[name])
            parts, cached = self.checked(parts)
            old = dict(self.persistent.stamps)
            try:
                self.persistent.write(parts, place)
                for name, pair in cached.items():  # what serves first, then what may fail
                    self.tables[name].cache.update(*pair)
            except BaseException:  # nobody knows how far it came
                for name in cached:
                    self.tables[name].cache.clear()
                raise
            for name, *new in parts:
                stamps = old[name], self.persistent.stamps[name]
                self._volatile("refresh", name, *new, *stamps)

    def count(self, what, many=1):
        """None; adds to a counter that tables share."""
        with self.counting:
            self.counts[what] += many

    def _volatile(self, call, *arguments):
        """What the volatile tier says; None while there is none, or it is down."""
        if self.volatile is None or time.monotonic() < self.down_until:
            return None
        try:
            return getattr(self.volatile, call)(*arguments)
        except TierDown:
            self.count("volatile failed")
            self.down_until = time.monotonic() + self.retry_s
            return None

    def close(self):
        """None; ends the workers of all tables."""
        for table in self.tables.values():
            table.close()

    def __exit__(self, *_):
        self.close()


class EmbeddingTable:
    """One table of one model behind its cache; made by `ParameterServer.deploy`.

    `cache_rows`: slots on the device; `default`: the vector of what is not (yet) there, a
    number or a row; `waiting`: requests that the worker may have at a time, more are dropped.
    """

    def __init__(
        self,
        server,
        name,
        cache_rows,
        threshold=1.0,
        default=0.0,
        waiting=64,
        device="cpu",
        dtype=torch.float32,
    ):
        if name not in server.persistent.widths:
            known = sorted(server.persistent.widths)
            raise ValueError(f"there is no table {name!r} to deploy; there are {known}")
        if not threshold >= 0:
            raise ValueError(f"a threshold of {threshold} came; 0 or more is allowed")
        width = server.persistent.widths[name]
        self.server, self.name, self.threshold = server, name, threshold
        self.cache = DeviceCache(cache_rows, width, device, dtype)
        row = torch.as_tensor(default, dtype=dtype).expand(width)
        self.default, self.counts = row.to(self.cache.device), Counter()
        self.worker, self.room = ThreadPoolExecutor(1), threading.Semaphore(waiting)

    def lookup(self, keys):
        """Vectors (K, W) on the device, one for each key, whatever its tier."""
        return self.answer(keys)[0]

    def answer(self, keys):
        """(vectors (K, W), the hit rate of this request: of its distinct keys)."""
        keys = self.cache.checked(keys)
        vectors, missing, hits = self.cache.query(keys)
        absent, places = torch.unique(keys[missing], return_inverse=True)
        rate = 1 - len(absent) / max(1, hits + len(absent))
        waits = rate < self.threshold
        told = {"requests": 1, "keys": hits + len(absent), "hits": hits}
        told["waited" if waits else "deferred"] = len(absent) > 0
        with self.cache.lock:
            self.counts.update(told)
        if len(absent):
            rows = self._now(absent) if waits else self._later(absent)
            vectors[missing] = rows[places]
        return vectors, rate

    def _now(self, keys):
        """Vectors (M, W) from below, put into the cache before anybody goes on."""
        with self.server.locks[self.name]:
            host, found = self.server.fetch(self.name, keys.cpu().numpy())
            rows = torch.from_numpy(host).to(self.cache.device, self.default.dtype)
            there = torch.from_numpy(found).to(self.cache.device)
            self.cache.replace(keys[there], rows[there])
            self.counts["bytes"] += rows.nbytes  # across the link
        return torch.where(there[:, None], rows, self.default)

    def _later(self, keys):
        """The default vector for each key; the worker gets the keys."""
        if self.room.acquire(blocking=False):
            self.worker.submit(self._bring, keys)
        else:
            self.counts["dropped"] += 1  # the key comes again, or was not worth a slot
        return self.default.expand(len(keys), -1)

    def _bring(self, keys):
        try:
            self._now(keys)
        except Exception as error:  # a broken tier must not end the worker
            self.counts["failed"] += 1
            self.error = error
        finally:
            self.room.release()

    def drain(self, wait_s=10):
        """Whether the worker was done with all that it was given, within the time."""
        return bool(wait([self.worker.submit(int)], wait_s).done)  # it comes after all others

    def close(self):
        """None; ends the worker once it has done what it was given."""
        self.worker.shutdown()
