"""Many clients at once: processes that reconstruct events, and what their server makes of it.

Each client is a process of its own, so that Python's lock in one slows no other. It waits
`rest_s`, which stands for the rest of an event's reconstruction on a node of its own, then
sends the event's patches and checks every answer against what is known to be right.

A server that is busy for `t_busy` with each event, and clients that take `t_event` for one when
nobody else asks, meet at N* = t_event / t_busy clients: below, the server waits; above, the
clients do.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from .client import Model, Sonic

__all__ = ["knee", "load", "save_events"]

HERE = Path(__file__).parent.parent


def save_events(path, model, patches, outputs):
    """The path, written: an event's patches (N, …) and its right outputs, for clients to send
    and check.
    """
    told = json.dumps([model.name, model.input, model.row, model.outputs])
    arrays = {f"output_{i}": values for i, values in enumerate(outputs)}
    np.savez(path, model=told, patches=patches, **arrays)
    return Path(path)


def load(addresses, events, clients, seconds, rest_s=0.0, **options):
    """What `clients` processes got done in `seconds`, as a dict: `events_per_s`,
    `patches_per_s`, `latency_s` (a sorted list, of the service alone), `wrong` and `lost`
    events, `retries`, `bytes`. `options` are those of `Sonic`.

    Raises RuntimeError with a client's last words if one ends badly.
    """
    patient = {"deadline_s": 30.0, "tries": 8, "wait_s": 0.1}  # a balancer needs a while
    told = {"addresses": list(addresses), "events": str(events), "seconds": seconds}
    told |= {"rest_s": rest_s, "start": time.time() + 0.6 + 0.15 * clients}
    command = [
        sys.executable,
        "-m",
        "sonic.loads",
        json.dumps(told | {"sonic": patient | options}),
    ]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    running = [subprocess.Popen(command, cwd=HERE, **pipes) for _ in range(clients)]
    found = []
    try:
        for one in running:
            out, wrong = one.communicate(timeout=90 + 3 * seconds)
            if one.returncode:
                words = wrong.strip()[-500:]
                raise RuntimeError(f"a client ended with {one.returncode}: {words}")
            found.append(json.loads(out))
    finally:
        for one in running:
            one.kill()
            one.wait()
    sums = {key: sum(one[key] for one in found) for key in COUNTED}
    rate = sum(one["events"] / one["seconds"] for one in found)
    rates = {"events_per_s": rate, "patches_per_s": rate * found[0]["patches"]}
    return {"latency_s": sorted(x for one in found for x in one["latency_s"])} | rates | sums


COUNTED = "events", "wrong", "lost", "retries", "bytes"


def knee(clients, rates, share=0.9):
    """The fewest clients that reach a `share` of the highest rate.

    >>> knee([1, 2, 4, 8], [10, 20, 38, 40])
    4
    """
    most = max(rates)
    return next(n for n, rate in zip(clients, rates, strict=True) if rate >= share * most)


def one_client(addresses, events, seconds, rest_s, start, sonic):
    """What this process got done as a client: COUNTED, `latency_s`, `seconds`, `patches`."""
    with np.load(events) as file:
        name, entry, row, outputs = json.loads(str(file["model"]))
        patches, wanted = file["patches"], [file[f"output_{i}"] for i in range(len(outputs))]
    model = Model(name, entry, tuple(row), {key: tuple(s) for key, s in outputs.items()})
    found = dict.fromkeys(COUNTED, 0) | {"latency_s": [], "patches": len(patches)}
    time.sleep(max(0, start - time.time()))
    began = time.monotonic()
    with Sonic(addresses, model, **sonic) as client:
        while time.monotonic() - began < seconds:
            time.sleep(rest_s)
            asked = time.monotonic()
            try:
                got = client(patches)
            except RuntimeError:
                found["lost"] += 1
                continue
            found["latency_s"].append(time.monotonic() - asked)
            right = all(np.allclose(a, b, atol=1e-4) for a, b in zip(got, wanted, strict=True))
            found["events" if right else "wrong"] += 1
            found["retries"] += client.report.retries
            found["bytes"] += client.report.sent_bytes + client.report.received_bytes
    return found | {"seconds": time.monotonic() - began}


if __name__ == "__main__":
    print(json.dumps(one_client(**json.loads(sys.argv[1]))))
