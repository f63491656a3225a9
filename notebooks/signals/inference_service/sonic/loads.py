"""Many clients at once: processes that reconstruct events, and what their server makes of it.

Each client is a process of its own, so that Python's lock in one slows no other. It waits
`rest_s`, which stands for the rest of an event's reconstruction on a node of its own, then
sends the event's patches and checks every answer against what is known to be right.

    python -m sonic.loads --address 127.0.0.1:8000 --events FILE.npz …    # one client; `load`
    starts them

A server that is busy for `t_busy` with each event, and clients that take `t_event` for one when
nobody else asks, meet at N* = t_event / t_busy clients: below, the server waits; above, the
clients do.
"""

import argparse
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


def load(
    addresses, events, clients, seconds, rest_s=0.0, batch=256, in_flight=2, deadline_s=30.0
):
    """What `clients` processes got done in `seconds`, as a dict: `events_per_s`,
    `patches_per_s`, `latency_s` (a sorted list, of the service alone), `wrong` and `lost`
    events, `retries`.

    Raises RuntimeError with a client's last words if one ends badly.
    """
    start = time.time() + 0.6 + 0.15 * clients
    flags = {"events": events, "seconds": seconds, "rest-s": rest_s, "batch": batch}
    flags |= {"in-flight": in_flight, "deadline-s": deadline_s, "start": start}
    command = [sys.executable, "-m", "sonic.loads", *(f"--{k}={v}" for k, v in flags.items())]
    command += [f"--address={address}" for address in addresses]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    running = [subprocess.Popen(command, cwd=HERE, **pipes) for _ in range(clients)]
    told = []
    try:
        for one in running:
            out, wrong = one.communicate(timeout=60 + 3 * seconds + deadline_s)
            if one.returncode:
                raise RuntimeError(
                    f"a client ended with {one.returncode}: {wrong.strip()[-500:]}"
                )
            told.append(json.loads(out))
    finally:
        for one in running:
            one.kill()
            one.wait()
    done = sum(one["events"] for one in told)
    rate = sum(one["events"] / one["seconds"] for one in told)
    sums = {key: sum(one[key] for one in told) for key in ("wrong", "lost", "retries", "bytes")}
    latency = sorted(x for one in told for x in one["latency_s"])
    patches = told[0]["patches"]
    rates = {"events_per_s": rate, "patches_per_s": rate * patches, "patches": patches}
    return {"clients": clients, "events": done, "latency_s": latency} | rates | sums


def knee(clients, rates, share=0.9):
    """The fewest clients that reach a `share` of the highest rate.

    >>> knee([1, 2, 4, 8], [10, 20, 38, 40])
    4
    """
    most = max(rates)
    return next(n for n, rate in zip(clients, rates, strict=True) if rate >= share * most)


def main(argv=None):
    """One client; prints its dict."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--address", action="append", required=True)
    parser.add_argument("--events", required=True)
    for name in ("seconds", "rest-s", "deadline-s", "start"):
        parser.add_argument(f"--{name}", type=float, required=True)
    for name in ("batch", "in-flight"):
        parser.add_argument(f"--{name}", type=int, required=True)
    o = parser.parse_args(argv)
    with np.load(o.events) as file:
        name, entry, row, outputs = json.loads(str(file["model"]))
        patches = file["patches"]
        wanted = [file[f"output_{i}"] for i in range(len(outputs))]
    model = Model(
        name, entry, tuple(row), {key: tuple(shape) for key, shape in outputs.items()}
    )
    found = {"events": 0, "wrong": 0, "lost": 0, "retries": 0, "bytes": 0, "latency_s": []}
    time.sleep(max(0, o.start - time.time()))
    began = time.monotonic()
    # spread over seconds: a balancer needs some until it knows that a server died
    patient = {"tries": 8, "wait_s": 0.1}
    with Sonic(o.address, model, o.batch, o.in_flight, o.deadline_s, **patient) as sonic:
        while time.monotonic() - began < o.seconds:
            time.sleep(o.rest_s)
            asked = time.monotonic()
            try:
                got = sonic(patches)
            except RuntimeError:
                found["lost"] += 1
                continue
            found["latency_s"].append(time.monotonic() - asked)
            right = all(np.allclose(a, b, atol=1e-4) for a, b in zip(got, wanted, strict=True))
            found["events"] += right
            found["wrong"] += not right
            found["retries"] += sonic.report.retries
            found["bytes"] += sonic.report.sent_bytes + sonic.report.received_bytes
    print(json.dumps(found | {"seconds": time.monotonic() - began, "patches": len(patches)}))


if __name__ == "__main__":
    main()
