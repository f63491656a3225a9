"""A process that is killed while it writes to the persistent tier, and what it leaves.

The child rewrites all rows of a table, version after version, and its place in the log with
them: in one batch, or (`batch` false, the naive way) the place first and the vectors in four
writes after it.
"""

import json
import os
import selectors
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from storage_tiers import Rocks, child

from .trainer import STEP, versioned

VERSIONS = int(2**24 / STEP)
TABLE, FOLDER = "dlrm.ads", Path(__file__).parent.parent


def kill_while_writing(folder, after_s, rows=2000, width=8, batch=True, wait_s=60):
    """(rows that contradict the place, acknowledged writes that are gone) after a SIGKILL.

    The child is killed `after_s` seconds after its first write; it says after each write that
    it is done. Raises RuntimeError where it ends by itself, or has not begun within `wait_s`.
    """
    told = {"folder": str(folder), "rows": rows, "width": width, "batch": batch}
    command = [sys.executable, "-c", f"from {__name__} import main; main()", json.dumps(told)]
    writer = child.start(command, cwd=FOLDER, stdout=subprocess.PIPE)
    try:
        if not _begun(writer, wait_s):
            raise RuntimeError(f"the writer did not begin within {wait_s} s")
        time.sleep(after_s)
        if writer.poll() is not None:
            raise RuntimeError(f"the writer ended by itself with {writer.returncode}")
    finally:
        writer.kill()
        written = writer.stdout.read().split(b"\n")[
            :-1
        ]  # what lies in the pipe; the last is whole
        writer.wait()
        writer.stdout.close()
    with Rocks(folder, {TABLE: width}) as tier:
        vectors, found = tier.get(TABLE, np.arange(rows))
        said = tier.place()["writes"]
        right = (vectors == versioned(np.arange(rows), said % VERSIONS, width)).all(1) & found
    return int((~right).sum()), max(0, int(written[-1]) - said if written else 0)


def _begun(writer, wait_s):
    with selectors.DefaultSelector() as waiting:
        waiting.register(writer.stdout, selectors.EVENT_READ)
        return bool(waiting.select(wait_s)) and writer.stdout.readline().strip().isdigit()


def main():
    """Writes until it is killed; prints the number of each write that is done."""
    told = json.loads(sys.argv[1])
    keys = np.arange(told["rows"])
    with Rocks(told["folder"], {TABLE: told["width"]}) as tier:
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
