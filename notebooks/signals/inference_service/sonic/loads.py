"""Many clients at once: processes that reconstruct events, and what their server makes of it.

Each client rests for an exponentially drawn time of mean `rest_s`, which stands for the rest of
an event's work on a node of its own, then sends an event of its own patches and checks the
answer. All begin together; what ends in one common window is counted.

A server that is busy for `t_busy` with each event, and clients that take `t_event` for one when
nobody else asks: N of them get at most min(N / t_event, 1 / t_busy) events done (Denning and
Buzen's bounds), which meet at N* = t_event / t_busy. Chance keeps them below both.
"""

import json
import multiprocessing
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np

from .client import Model, Sonic

HERE, LEAD_S = Path(__file__).parent.parent, 0.5
COUNTED = "wrong", "lost", "retries", "bytes"


def save_events(path, model, patches, outputs):
    """The path, written: patches (N, …) and their right outputs, for clients to draw from."""
    arrays = {f"output_{i}": values for i, values in enumerate(outputs)}
    np.savez(path, model=json.dumps(asdict(model)), patches=patches, **arrays)
    return Path(path)


def load(addresses, events, rows, clients, seconds, rest_s=0.0, **options):
    """What `clients` processes got done with events of `rows` patches, as a dict: `events`,
    `ended_s` and `latency_s` (of the service alone), sorted, of those that ended in the
    `seconds` that all shared, `events_per_s`, `patches_per_s`; `wrong` and `lost` events,
    `retries`, `bytes` and `answered` of the whole run. `options` are those of `Sonic`. Raises
    RuntimeError with a client's last words if one ends badly."""
    patient = {"deadline_s": 30.0, "tries": 8, "wait_s": 0.2}  # a balancer needs a while
    told = {"addresses": list(addresses), "events": str(events), "rows": rows, "rest_s": rest_s}
    told |= {"seconds": LEAD_S + seconds, "sonic": patient | options, "clients": clients}
    command, limit_s = [sys.executable, "-m", "sonic.loads", json.dumps(told)], 60 + 3 * seconds
    ran = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=limit_s)
    if ran.returncode:
        raise RuntimeError(f"clients ended with {ran.returncode}: {ran.stderr.strip()[-500:]}")
    found = json.loads(ran.stdout)
    done = [pair for one in found for pair in one["ended"]]
    inside = [(at - LEAD_S, took) for at, took in done if 0 <= at - LEAD_S < seconds]
    ended, latency = (sorted(pair[i] for pair in inside) for i in (0, 1))
    rate = len(inside) / seconds
    rates = {"events": len(inside), "events_per_s": rate, "patches_per_s": rate * rows}
    sums = {key: sum(one[key] for one in found) for key in COUNTED} | {"answered": len(done)}
    return rates | sums | {"ended_s": ended, "latency_s": latency}


def knee(clients, rates, alone, part=0.8):
    """The number of clients at which each gets `part` of the rate that one has `alone`, between
    the numbers that were tried; infinite where all get more.

    >>> knee([1, 2, 4], [10, 20, 24], alone=10)
    3.0
    """
    share = np.minimum.accumulate(np.divide(rates, clients) / alone)
    return float(np.interp(-part, -share, clients, right=np.inf))


def mean_value(clients, rest_s, busy_s):
    """Events in each second for 1 to `clients` clients whose rests and service times vary
    exponentially: exact mean value analysis of one queue with a delay, (clients,)."""
    waiting, rates = 0.0, []
    for count in range(1, clients + 1):
        stay_s = busy_s * (1 + waiting)  # an arrival sees the queue that one client less makes
        rates.append(count / (rest_s + stay_s))
        waiting = rates[-1] * stay_s
    return np.array(rates)


def one_client(number, addresses, events, rows, rest_s, seconds, sonic, clients):
    """What this process got done: COUNTED, and when each event ended with its latency."""
    with np.load(events) as file:
        model, patches = Model(**json.loads(str(file["model"]))), file["patches"]
        outputs = [file[f"output_{i}"] for i in range(len(model.outputs))]
    found, rests = dict.fromkeys(COUNTED, 0) | {"ended": []}, np.random.default_rng()
    at = number * len(patches) // clients  # clients begin at different patches
    with Sonic(addresses, model, **sonic) as client:
        client(patches[:rows])
        MEET.wait(60)
        start = time.monotonic()
        while time.monotonic() < start + seconds:
            time.sleep(rests.exponential(rest_s))
            own = np.arange(at, at + rows) % len(patches)
            at, asked = at + rows, time.monotonic()
            try:
                got = client(patches[own])
            except (RuntimeError, ValueError):
                found["lost"] += 1
                continue
            ended, wanted = time.monotonic(), [values[own] for values in outputs]
            same = all(np.allclose(a, b, atol=1e-4) for a, b in zip(got, wanted, strict=True))
            found["ended"] += [(ended - start, ended - asked)] * same
            found["wrong"] += not same
            found["retries"] += client.report.retries
            found["bytes"] += client.report.sent_bytes + client.report.received_bytes
    return found


if __name__ == "__main__":
    TOLD = json.loads(sys.argv[1])
    FORK = multiprocessing.get_context("fork")  # all that is imported is there
    MEET = FORK.Barrier(TOLD["clients"])
    with ProcessPoolExecutor(TOLD["clients"], FORK) as pool:
        print(json.dumps(list(pool.map(partial(one_client, **TOLD), range(TOLD["clients"])))))
