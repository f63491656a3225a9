"""Many clients at once: processes that reconstruct events, and what their server makes of it.

Each client is a process of its own, so that Python's lock in one slows no other. It waits
`rest_s`, which stands for the rest of an event's reconstruction on a node of its own, then
sends an event of its own patches and checks the answer against what is known to be right. All
begin together once all are ready, and what ends in one common window is counted.

A server that is busy for `t_busy` with each event, and clients that take `t_event` for one when
nobody else asks: N of them get at most min(N / t_event, 1 / t_busy) events done (Denning and
Buzen's bounds), which meet at N* = t_event / t_busy.
"""

import json
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np

from .client import Model, Sonic

__all__ = ["crossing", "load", "mean_value", "save_events"]

HERE, LEAD_S = Path(__file__).parent.parent, 0.5
COUNTED = "wrong", "lost", "retries", "bytes"


def save_events(path, model, patches, outputs):
    """The path, written: patches (N, …) and their right outputs, for clients to draw from."""
    arrays = {f"output_{i}": values for i, values in enumerate(outputs)}
    np.savez(path, model=json.dumps(asdict(model)), patches=patches, **arrays)
    return Path(path)


def load(addresses, events, rows, clients, seconds, rest_s=0.0, **options):
    """What `clients` processes got done with events of `rows` patches, as a dict: `events` and
    `latency_s` (of the service alone, sorted) of those that ended in the `seconds` that all
    shared, `events_per_s`, `patches_per_s`; `wrong` and `lost` events, `retries`, `bytes` and
    `answered` of the whole run. `options` are those of `Sonic`.

    Raises RuntimeError with a client's last words if one ends badly.
    """
    patient = {"deadline_s": 30.0, "tries": 8, "wait_s": 0.2}  # a balancer needs a while
    told = {"addresses": list(addresses), "events": str(events), "rows": rows, "rest_s": rest_s}
    told |= {"seconds": LEAD_S + seconds, "sonic": patient | options, "clients": clients}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    running, found = [], []
    try:
        for number in range(clients):
            command = [
                sys.executable,
                "-m",
                "sonic.loads",
                json.dumps(told | {"number": number}),
            ]
            running.append(subprocess.Popen(command, cwd=HERE, text=True, **pipes))
        ready = [one.stdout.readline() for one in running]
        start = time.monotonic() + 0.1  # one clock for all processes of a machine
        for one, word in zip(running, ready, strict=True):
            if word:
                one.stdin.write(f"{start}\n")
                one.stdin.flush()
        for one in running:
            out, wrong = one.communicate(timeout=60 + 3 * seconds)
            if one.returncode:
                words = wrong.strip()[-500:]
                raise RuntimeError(f"a client ended with {one.returncode}: {words}")
            found.append(json.loads(out))
    finally:
        for one in running:
            one.kill()
            one.communicate()
    done = [pair for one in found for pair in one["ended"]]
    begin = start + LEAD_S
    latency = sorted(took for at, took in done if begin <= at < begin + seconds)
    rate = len(latency) / seconds
    rates = {"events_per_s": rate, "patches_per_s": rate * rows, "answered": len(done)}
    sums = {key: sum(one[key] for one in found) for key in COUNTED}
    return {"events": len(latency), "latency_s": latency} | rates | sums


def crossing(clients, rates):
    """Where two lines meet: the rate of one client, times N, and the highest rate.

    >>> crossing([1, 2, 4, 8], [10, 20, 38, 40])
    4.0
    """
    return max(rates) / (rates[0] / clients[0])


def mean_value(clients, rest_s, busy_s):
    """Events in each second for 1 to `clients` clients whose waits and service times vary
    (exponentially): exact mean value analysis of one queue with a delay, (clients,)."""
    waiting, rates = 0.0, []
    for count in range(1, clients + 1):
        stay_s = busy_s * (1 + waiting)  # an arrival sees the queue that one client less makes
        rates.append(count / (rest_s + stay_s))
        waiting = rates[-1] * stay_s
    return np.array(rates)


def one_client(addresses, events, rows, rest_s, seconds, sonic, clients, number):
    """What this process got done: COUNTED, and when each event ended with its latency."""
    with np.load(events) as file:
        model = Model(**json.loads(str(file["model"])))
        patches, outputs = (
            file["patches"],
            [file[f"output_{i}"] for i in range(len(model.outputs))],
        )
    found = dict.fromkeys(COUNTED, 0) | {"ended": []}
    at = number * len(patches) // clients  # clients begin at different patches
    with Sonic(addresses, model, **sonic) as client:
        client(patches[:rows])
        print("ready", flush=True)
        start = float(sys.stdin.readline())
        time.sleep(max(0, start - time.monotonic()))
        while time.monotonic() < start + seconds:
            time.sleep(rest_s)
            some = np.arange(at, at + rows) % len(patches)
            at, asked = at + rows, time.monotonic()
            try:
                got = client(patches[some])
            except (RuntimeError, ValueError):
                found["lost"] += 1
                continue
            ended, wanted = time.monotonic(), [values[some] for values in outputs]
            same = (
                a.shape == b.shape and np.allclose(a, b, atol=1e-4)
                for a, b in zip(got, wanted, strict=True)
            )
            if all(same):
                found["ended"].append((ended, ended - asked))
            else:
                found["wrong"] += 1
            found["retries"] += client.report.retries
            found["bytes"] += client.report.sent_bytes + client.report.received_bytes
    return found


if __name__ == "__main__":
    print(json.dumps(one_client(**json.loads(sys.argv[1]))))
