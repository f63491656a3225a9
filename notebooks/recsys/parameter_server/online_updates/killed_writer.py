"""A process that is killed while it writes to the persistent tier, and what it leaves.

The child rewrites all rows of a table, version after version, and its place in the log with
them: in one batch, or (`batch` false, the naive way) the place first and the vectors in four
writes after it.
"""

import json
import selectors
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from storage_tiers import Rocks, child

from .trainer import STEP, versioned

TABLE, FOLDER = "dlrm.ads", Path(__file__).parent.parent


def kill_while_writing(folder, after_s, rows=2000, width=8, batch=True, wait_s=60):
    """(version that the place says, how many rows have another one) after a SIGKILL.

    The child is killed `after_s` seconds after its first write. Raises RuntimeError where it
    ends by itself, or has not begun within `wait_s`.
    """
    told = {"folder": str(folder), "rows": rows, "width": width, "batch": batch}
    command = [sys.executable, "-c", f"from {__name__} import main; main()", json.dumps(told)]
    writer = child.start(command, cwd=FOLDER, stdout=subprocess.PIPE, text=True)
    try:
        if not _begun(writer, wait_s):
            raise RuntimeError(f"the writer did not begin within {wait_s} s")
        time.sleep(after_s)
        if writer.poll() is not None:
            raise RuntimeError(f"the writer ended by itself with {writer.returncode}")
    finally:
        writer.kill()
        writer.wait()
        writer.stdout.close()
    with Rocks(folder, {TABLE: width}) as tier:
        vectors, found = tier.get(TABLE, np.arange(rows))
        said = tier.place()["version"]
        right = (vectors == versioned(np.arange(rows), said, width)).all(1) & found
    return said, int((~right).sum())


def _begun(writer, wait_s):
    with selectors.DefaultSelector() as waiting:
        waiting.register(writer.stdout, selectors.EVENT_READ)
        return bool(waiting.select(wait_s)) and writer.stdout.readline().startswith("writing")


def main():
    """Writes until it is killed."""
    told = json.loads(sys.argv[1])
    keys, rows = np.arange(told["rows"]), told["rows"]
    with Rocks(told["folder"], {TABLE: told["width"]}) as tier:
        versions, begun = int(2**24 / STEP), False
        place = tier.place() or {"version": 0}
        while True:
            place = {"version": (place["version"] + 1) % versions}
            vectors = versioned(keys, place["version"], told["width"])
            if told["batch"]:
                tier.write([(TABLE, keys, vectors)], place)
            else:
                tier.write([], place)
                for part in np.array_split(keys, min(4, rows)):
                    tier.write([(TABLE, part, vectors[part])])
            if not begun:
                print("writing", flush=True)
            begun = True
