"""Faults, made on purpose, and what came of them: each function breaks one thing and counts.

A node here is a table of versioned vectors (`trainer.versioned`) behind all tiers.
"""

import contextlib
import signal
import time

import numpy as np
import torch
from embedding_hierarchy import ParameterServer
from storage_tiers import InProcess, Rocks

from .live_readers import LiveReaders
from .reader import UpdateReader
from .trainer import versioned

TABLE = "dlrm.ads"


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


def redis_hang(server, law, redis, seconds=0.6):
    """The readers, while Redis is stopped by a signal and answers nothing, then goes on."""
    with LiveReaders(server.tables[TABLE], law, instances=2, pause_s=0.002) as readers:
        redis.process.send_signal(signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            redis.process.send_signal(signal.SIGCONT)
        time.sleep(seconds / 2)
    return readers


def broker_outage(server, broker, trainer, read=6, unread=4, later=8):
    """(counts of the reader, steps (number sent, read), wrong rows) of a broker that dies.

    `read` messages arrive; then the node is away while `unread` more come, and with these the
    broker dies; `later` come after both are back. All that was read or lost is in the counts.
    """
    width = server.persistent.widths[TABLE]
    reader, keys, steps = UpdateReader(broker.address, broker.topic, server), np.arange(100), []

    def send(count):
        for _ in range(count):
            trainer.send(TABLE, keys, versioned(keys, trainer.sequence % 16, width))
        if trainer.flush(20):
            raise RuntimeError("the broker did not take the messages")
        steps.append((trainer.sequence - 1, last()))

    def last():
        return reader.last.get(str(trainer.identity), -1)

    def poll(until, wait_s=20):
        ends = time.monotonic() + wait_s
        while last() < until and time.monotonic() < ends:
            reader.poll(0.1)
            steps.append((trainer.sequence - 1, last()))

    send(read)
    poll(trainer.sequence - 1)
    reader.close()
    send(unread)
    broker.kill()
    broker.start()
    before, reader = reader.counts, UpdateReader(broker.address, broker.topic, server)
    send(later)
    poll(trainer.sequence - 1)
    reader.close()
    got = server.tables[TABLE].lookup(keys).cpu().numpy()
    wanted = versioned(keys, (trainer.sequence - 1) % 16, width)
    return before + reader.counts, steps, int((got != wanted).any(1).sum())


def strange_messages(server, broker, trainer):
    """(counts of the reader, whether any vector changed) after messages nobody should send."""
    width = server.persistent.widths[TABLE]
    keys = np.arange(50)
    spoiled = versioned(keys, 9, width)
    spoiled[7] = np.nan
    reader = UpdateReader(broker.address, broker.topic, server, ["dlrm[.].*"])
    table = server.tables[TABLE]
    before = table.lookup(torch.from_numpy(keys)).clone()
    trainer.send("dlrm.nobody", keys, versioned(keys, 9, width))
    trainer.send("other.ads", keys, versioned(keys, 9, width))
    trainer.send(TABLE, keys, spoiled)
    trainer.send(TABLE, keys, spoiled, raw=b"no message at all")
    trainer.flush()
    ends = time.monotonic() + 20
    while sum(reader.counts[why] for why in ("unknown table", "filtered", "bad")) < 4:
        reader.poll(0.1)
        if time.monotonic() > ends:
            raise RuntimeError(f"messages did not arrive: {dict(reader.counts)}")
    reader.close()
    after = table.lookup(torch.from_numpy(keys))
    return reader.counts, not torch.equal(before, after)


def strange_keys(table, rows):
    """How many lookups of keys that no tier has gave another vector than the default."""
    keys = torch.arange(rows, rows + 200)
    vectors = table.lookup(keys)
    return int((vectors != table.default).any(1).sum())


def lost_node(folder, rows, width):
    """(rows that differ, seconds) between a node and one recovered from it by a copy."""
    keys = np.arange(rows)
    with Rocks(folder / "survivor", {TABLE: width}) as alive:
        alive.load(TABLE, keys, versioned(keys, 0, width))
        alive.write(
            [(TABLE, keys[::3], versioned(keys[::3], 5, width))],
            {"offset": 42, "last": {"7": 41}},
        )
        began = time.perf_counter()
        alive.copy_to(folder / "recovered")
        with node(folder / "recovered", rows, width) as server:
            got = server.tables[TABLE].lookup(torch.from_numpy(keys)).cpu().numpy()
            seconds = time.perf_counter() - began
            same = server.persistent.place() == alive.place()
        wanted = alive.get(TABLE, keys)[0]
    return int((got != wanted).any(1).sum()) + (not same), seconds
