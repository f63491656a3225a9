"""How long callers wait: the formulas of a queue, with and without patience, and its
simulation.

Calls come at random (Poisson), are answered by any free one of several servers, and last an
exponential time. Load is in erlangs: arrivals a mean call, so 8 erlangs keep eight servers
busy. All times are in mean calls.
"""

import heapq
from typing import NamedTuple

import numpy as np


class Queue(NamedTuple):
    """What callers meet: the share that waits, the share that hangs up, and the mean wait of
    all callers, those included who hang up, in mean calls.
    """

    waits: float
    leaves: float
    wait: float


def erlang_c(servers: int, load: float) -> float:
    """The probability that a call waits where nobody hangs up (Erlang 1917); 1 from a load of
    `servers` erlangs on, where the queue grows for ever. ValueError for no server or a load
    below 0.
    """
    _check(servers, load)
    if load >= servers:
        return 1.0
    blocked = 1.0  # the share turned away where nobody may wait, server by server
    for server in range(1, servers + 1):
        blocked = load * blocked / (server + load * blocked)
    return blocked / (1 - load / servers * (1 - blocked))


def endless(servers: int, load: float) -> Queue:
    """The queue where nobody hangs up; its mean wait is infinite from `servers` erlangs on."""
    waits = erlang_c(servers, load)
    return Queue(waits, 0.0, waits / (servers - load) if load < servers else float("inf"))


def erlang_a(servers: int, load: float, patience: float) -> Queue:
    """The queue whose callers hang up after an exponential time of mean `patience` (Palm 1957):
    every load has its balance; as `endless` for an infinite patience. ValueError unless
    patience is above 0.
    """
    _check(servers, load)
    if not patience > 0:
        raise ValueError(f"patience={patience}; a time above 0 is wanted, in mean calls")
    if patience == float("inf"):
        return endless(servers, load)
    weights, total = [1.0], 1.0  # of having so many callers; those who wait leave one by one
    while len(weights) <= servers or weights[-1] > 1e-16 * total:
        many = len(weights)
        ends = min(many, servers) + max(many - servers, 0) / patience
        weights.append(weights[-1] * load / ends)
        total += weights[-1]
        if total > 1e200:
            weights, total = [one / total for one in weights], 1.0
    share = np.array(weights) / sum(weights)
    queue = (np.arange(len(share)) - servers).clip(0) @ share
    if load == 0:
        return Queue(0.0, 0.0, 0.0)
    return Queue(
        float(share[servers:].sum()), float(queue / patience / load), float(queue / load)
    )


def simulate(servers: int, load: float, patience: float, calls: int, seed: int) -> Queue:
    """The same queue, call by call, first come first served, of `calls` calls after as many
    tenths to warm up; `patience` may be infinite.
    """
    _check(servers, load)
    if not (load > 0 and patience > 0 and calls >= 1):
        raise ValueError(
            f"load={load}, patience={patience}, calls={calls}; all above 0 are wanted"
        )
    random = np.random.default_rng(seed)
    warm = calls // 10
    comes = random.exponential(1 / load, calls + warm).cumsum()
    lasts = random.exponential(1, calls + warm)
    bears = random.exponential(1, calls + warm) * patience
    free, waited, left = [0.0] * servers, np.zeros(calls + warm), np.zeros(calls + warm, bool)
    for call, at in enumerate(comes):
        wait = max(free[0] - at, 0)
        left[call], waited[call] = wait > bears[call], min(wait, bears[call])
        if not left[call]:
            heapq.heapreplace(free, at + wait + lasts[call])
    waited, left = waited[warm:], left[warm:]
    return Queue(float((waited > 0).mean()), float(left.mean()), float(waited.mean()))


def after_answers(load: float, answered: float, wrong: float = 0.0) -> float:
    """The load that is left where a machine answers the share `answered` of the questions, of
    which the share `wrong` calls after all. ValueError for a share outside 0 to 1.
    """
    for name, share in (("answered", answered), ("wrong", wrong)):
        if not 0 <= share <= 1:
            raise ValueError(f"{name}={share}; a share from 0 to 1 is wanted")
    return load * (1 - answered * (1 - wrong))


def _check(servers: int, load: float) -> None:
    if not servers >= 1 or servers % 1 != 0:  # NaN and infinity, too
        raise ValueError(f"servers={servers}; a whole number from 1 on is wanted")
    if not 0 <= load < float("inf"):
        raise ValueError(f"load={load}; erlangs from 0 on are wanted")
