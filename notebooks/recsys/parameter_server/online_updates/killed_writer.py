"""A process that is killed while it writes, and what it leaves.

The child rewrites all rows of a table, version after version, and its place in the log with
them: in one batch, or (`batch` false, the naive way) the place first and the vectors in four
writes after it. Or, with the address of a Redis, it stands still in an update when the full
copy is written and Redis is not.
"""

import contextlib
import os
import selectors
import subprocess
import time
from pathlib import Path

import numpy as np
from storage_tiers import RedisTier, Rocks, child

from .trainer import STEP, versioned

VERSIONS = int(2**24 / STEP)
TABLE, FOLDER = "dlrm.ads", Path(__file__).parent.parent


def kill_while_writing(folder, after_s, rows=2000, width=8, batch=True):
    """(rows that contradict the place, acknowledged writes that are gone) after a SIGKILL.

    The child is killed `after_s` seconds after its first write; it says after each write that
    it is done.
    """
    with killed(folder=str(folder), rows=rows, width=width, batch=batch) as writer:
        time.sleep(after_s)
    with Rocks(folder, {TABLE: width}) as tier:
        vectors, found = tier.get(TABLE, np.arange(rows))
        said = tier.place()["writes"]
        right = (vectors == versioned(np.arange(rows), said % VERSIONS, width)).all(1) & found
    return int((~right).sum()), max(0, int(writer.lines[-1]) - said)


@contextlib.contextmanager
def killed(wait_s=60, **told):
    """The child that was told this, from its first line on; the block's end is its SIGKILL.

    Then it has the `lines` that it wrote. Raises RuntimeError where it ends by itself, or has
    not begun within `wait_s`.
    """
    writer = child.python(__name__, FOLDER, told, stdout=subprocess.PIPE)
    try:
        with selectors.DefaultSelector() as waiting:
            waiting.register(writer.stdout, selectors.EVENT_READ)
            first = waiting.select(wait_s) and writer.stdout.readline()
        if not first or not first.strip().isdigit():
            raise RuntimeError(f"the writer did not begin within {wait_s} s")
        yield writer
        if writer.poll() is not None:
            raise RuntimeError(f"the writer ended by itself with {writer.returncode}")
    finally:
        writer.kill()
        writer.lines = [first or b"", *writer.stdout.read().split(b"\n")[:-1]]  # whole ones
        writer.wait()
        writer.stdout.close()


def main(told):
    """Writes until it is killed; prints a number when it may be."""
    with Rocks(told["folder"], {TABLE: told["width"]}, packed=False) as tier:
        (stand_between if "redis" in told else write)(tier, np.arange(told["rows"]), told)


def write(tier, keys, told):
    """None; version after version, and the number of each write that is done."""
    writes = (tier.place() or {"writes": 0})["writes"]
    while True:
        writes += 1
        vectors = versioned(keys, writes % VERSIONS, told["width"])
        if told["batch"]:
            tier.write([(TABLE, keys, vectors)], {"writes": writes})
        else:
            tier.write([], {"writes": writes})
            for part in np.array_split(keys, 4):
                tier.write([(TABLE, part, vectors[part])])
        os.write(1, b"%d\n" % writes)  # at once, past any buffer


def stand_between(tier, keys, told):
    """None; Redis holds version 0, an update to version 1 stops before it. Says how many."""
    from embedding_hierarchy import ParameterServer  # torch takes seconds

    redis = RedisTier(told["redis"], 2 * len(keys))
    tier.load(TABLE, keys, versioned(keys, 0, told["width"]))
    with ParameterServer(tier, redis) as server:
        server.fetch(TABLE, keys)
        redis.refresh = lambda *_: os.write(1, b"%d\n" % redis.count(TABLE)) and time.sleep(600)
        server.apply([(TABLE, keys, versioned(keys, 1, told["width"]))], {"writes": 1})
