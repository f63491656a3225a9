"""Instances that look up while tables change under them, and judge what they get.

Vectors are those of `trainer.versioned`: each tells its key and its version in every component.
Wrong is another key's, a mixture of two versions (torn), or one older than this instance saw
before.
"""

import threading
import time

import numpy as np

from .trainer import STEP


class LiveReaders:
    """`with LiveReaders(table, law, instances=3) as readers: …`; then `.served`, `.wrong`.

    `table`: an `EmbeddingTable`; `law`: draws the keys. `timeline`: for each lookup (seconds,
    the least and the largest version in it, the hit rate, how long it took). `pause_s`: between
    two lookups of an instance.
    """

    def __init__(self, table, law, instances=3, keys=512, pause_s=0.0):
        self.table, self.law, self.keys, self.pause_s = table, law, keys, pause_s
        self.served, self.wrong, self.timeline, self.errors = 0, 0, [], []
        self.done, self.lock = threading.Event(), threading.Lock()
        self.threads = [
            threading.Thread(target=self._read, args=(seed,), daemon=True)
            for seed in range(instances)
        ]

    def _read(self, seed):
        rng, newest = np.random.default_rng(seed), np.zeros(len(self.law.ranks))
        try:
            while not self.done.is_set():
                asked = self.law.draw(self.keys, rng)
                began = time.perf_counter()
                got, rate = self.table.answer(asked)
                got, took = got.cpu().numpy(), time.perf_counter() - began
                version = (got[:, 0].astype(np.float64) - asked) / STEP
                bad = (
                    (got != got[:, :1]).any(1) | (version % 1 != 0) | (version < newest[asked])
                )
                np.maximum.at(newest, asked, version)
                with self.lock:
                    self.served, self.wrong = (
                        self.served + len(asked),
                        self.wrong + int(bad.sum()),
                    )
                    now = time.perf_counter() - self.began
                    self.timeline.append((now, version.min(), version.max(), rate, took))
                time.sleep(self.pause_s)
        except Exception as error:
            self.errors.append(error)

    def until(self, done, wait_s=20):
        """Whether `done()` came true within the time."""
        ends = time.monotonic() + wait_s
        while not done() and time.monotonic() < ends:
            time.sleep(0.005)
        return done()

    def __enter__(self):
        self.began = time.perf_counter()
        for one in self.threads:
            one.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        for one in self.threads:
            one.join(30)
        if self.errors:
            raise self.errors[0]
