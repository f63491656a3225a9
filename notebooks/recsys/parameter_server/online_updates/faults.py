"""Faults, made on purpose, and what came of them: each function breaks one thing and counts.

A node here is a table of versioned vectors (`trainer.versioned`) behind all tiers: each tells
its key and its version in every component. Wrong is another key's, a mixture of two versions
(torn), or one older than was seen before.
"""

import contextlib
import signal
import threading
import time

import numpy as np
import torch
from embedding_hierarchy import ParameterServer
from storage_tiers import InProcess, RedisTier, Rocks

from .killed_writer import TABLE, killed
from .reader import UpdateReader
from .trainer import STEP, versioned


class LiveReaders:
    """Instances that look up meanwhile: `with LiveReaders(table, law) as readers: …`.

    `table`: an `EmbeddingTable`; `law`: draws the keys. `timeline`: for each lookup (seconds,
    the least and the largest version in it, the hit rate, how long it took). `pause_s`: between
    two lookups of an instance.
    """

    def __init__(self, table, law, instances=3, keys=512, pause_s=0.0):
        self.table, self.law, self.keys, self.pause_s = table, law, keys, pause_s
        self.served, self.wrong, self.timeline, self.errors = 0, 0, [], []
        self.done, self.lock = threading.Event(), threading.Lock()
        make, seeds = threading.Thread, range(instances)
        self.threads = [make(target=self._read, args=(n,), daemon=True) for n in seeds]

    def _read(self, seed):
        rng, newest = np.random.default_rng(seed), np.zeros(len(self.law.ranks))
        try:
            while not self.done.is_set():
                asked, began = self.law.draw(self.keys, rng), time.perf_counter()
                got, rate = self.table.answer(asked)
                got, now = got.cpu().numpy(), time.perf_counter()
                version = (got[:, 0].astype(np.float64) - asked) / STEP
                bad = (got != got[:, :1]).any(1) | (version % 1 != 0)
                bad |= version < newest[asked]
                with self.lock:
                    self.served += self.keys
                    self.wrong += int(bad.sum())
                np.maximum.at(newest, asked, version)
                least, most = version.min(), version.max()
                self.timeline.append((now - self.began, least, most, rate, now - began))
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


@contextlib.contextmanager
def node(folder, rows, width, volatile=None, **how):
    """A ParameterServer with one table of version 0, loaded unless the folder has it."""
    volatile = InProcess(max(1, rows // 4)) if volatile is None else volatile
    with Rocks(folder, {TABLE: width}) as tier, ParameterServer(tier, volatile) as server:
        if not tier.get(TABLE, np.arange(1))[1].any():
            tier.load(TABLE, np.arange(rows), versioned(np.arange(rows), 0, width))
        server.deploy(TABLE, **({"cache_rows": rows // 10} | how))
        yield server


def redis_outage(server, law, redis, before_s=0.5, down_s=0.7, after_s=1.5):
    """(readers, seconds at which Redis died and came back, keys from each tier over time)."""
    table, counts, moments, seen = server.tables[TABLE], server.counts, [], []
    with LiveReaders(table, law, instances=2, pause_s=0.002) as readers:

        def watch(seconds):
            ends = time.perf_counter() + seconds
            while time.perf_counter() < ends:
                now = time.perf_counter() - readers.began
                seen.append((now, counts["from volatile"], counts["from persistent"]))
                time.sleep(0.05)

        watch(before_s)
        redis.kill()
        moments.append(time.perf_counter() - readers.began)
        # while it is away, vectors change: what it held must not be believed afterwards
        keys = np.arange(len(law.ranks) // 4)
        server.apply([(TABLE, keys, versioned(keys, 1, server.persistent.widths[TABLE]))])
        watch(down_s)
        redis.start()
        moments.append(time.perf_counter() - readers.began)
        watch(after_s)
    return readers, moments, np.array(seen)


def hangs_through_an_update(folder, redis, rows, width):
    """(wrong rows, rows that Redis held) of a node that starts again after Redis hung."""
    tier, keys = RedisTier(redis.address, 2 * rows, timeout_s=0.1), np.arange(rows)
    with node(folder, rows, width, tier) as server:
        server.fetch(TABLE, keys)
        held = tier.count(TABLE)
        redis.process.send_signal(signal.SIGSTOP)
        try:
            server.apply([(TABLE, keys, versioned(keys, 1, width))])
        finally:
            redis.process.send_signal(signal.SIGCONT)
    with node(folder, rows, width, tier) as server, contextlib.closing(tier):
        return wrong_rows(server, rows, 1), held


def killed_between_tiers(folder, redis, rows, width):
    """(wrong rows, rows that Redis held) of a node whose last life ended in an update."""
    told = {"folder": str(folder), "rows": rows, "width": width, "redis": redis.address}
    with killed(**told) as writer:
        pass  # it stands between the two writes
    tier = RedisTier(redis.address, 2 * rows)
    with node(folder, rows, width, tier) as server, contextlib.closing(tier):
        return wrong_rows(server, rows, 1), int(writer.lines[0])


def wrong_rows(server, rows, version):
    """How many of the rows are served with another vector than this version's."""
    keys = np.arange(rows)
    got = server.tables[TABLE].lookup(torch.from_numpy(keys)).cpu().numpy()
    return int((got != versioned(keys, version, got.shape[1])).any(1).sum())


def broker_outage(server, broker, trainer, read=6, unread=4, later=8):
    """(counts of the reader, steps (number sent, read), wrong rows) of a broker that dies.

    `read` messages arrive; then the node is away while `unread` more come, and with these the
    broker dies; `later` come after both are back, and before them what nobody should send: for
    a table that is unknown, for another node's, with NaN, and garbage.
    """
    width, keys, steps = server.persistent.widths[TABLE], np.arange(100), []
    reader = UpdateReader(broker.address, broker.topic, server, ["dlrm[.].*"])

    def send(count):
        for _ in range(count):
            trainer.send(TABLE, keys, versioned(keys, trainer.sequence % 16, width))
        if trainer.flush(20):
            raise RuntimeError("the broker did not take the messages")
        steps.append((trainer.sequence - 1, last()))

    def last():
        return reader.last.get(str(trainer.identity), -1)

    def poll():
        ends = time.monotonic() + 20
        while last() < trainer.sequence - 1 and time.monotonic() < ends:
            reader.poll(0.1)
            steps.append((trainer.sequence - 1, last()))
        reader.close()

    send(read)
    poll()
    send(unread)
    broker.kill()
    broker.start()
    before = reader.counts
    reader = UpdateReader(broker.address, broker.topic, server, ["dlrm[.].*"])
    spoiled = np.full((100, width), np.nan)
    for name in ("dlrm.nobody", "other.ads", TABLE):
        trainer.send(name, keys, spoiled)
    trainer.garbage(TABLE)
    send(later)
    poll()
    wrong = wrong_rows(server, 100, (trainer.sequence - 1) % 16)
    return before + reader.counts, steps, wrong


def lost_node(folder, rows, width):
    """How many rows, and place, differ between a node and one recovered from it by a copy."""
    keys = np.arange(rows)
    with Rocks(folder / "survivor", {TABLE: width}) as alive:
        alive.load(TABLE, keys, versioned(keys, 0, width))
        new = (TABLE, keys[::3], versioned(keys[::3], 5, width))
        alive.write([new], {"offset": 42, "last": {"7": 41}})
        alive.copy_to(folder / "recovered")
        with node(folder / "recovered", rows, width) as server:
            got = server.tables[TABLE].lookup(torch.from_numpy(keys)).cpu().numpy()
            same = server.persistent.place() == alive.place()
        wanted = alive.get(TABLE, keys)[0]
    return int((got != wanted).any(1).sum()) + (not same)
