"""How many servers a day of calls needs: a rule that watches the time in the queue.

Calls arrive as a Poisson process whose rate follows the hour (thinning: Lewis and Shedler 1979)
and last an exponential time; the numbers, and a sudden crowd, are ours, not measured:

    rate(h) = base + peak1 e^(-(h - 10.5)^2 / 2 s1^2) + peak2 e^(-(h - 15.5)^2 / 2 s2^2)

A replica of load u queues for c u / (2 (1 - u)), with service time c of a batch (M/D/1:
Pollaczek and Khinchine); beyond 1 the backlog grows with the excess. The rule is that of
Kubernetes' horizontal autoscaler: wanted = ceil(replicas * queue time / target), at most twice
as many at once; until new ones serve, `starts_s` later, nothing more is asked for. Queue time
falls much faster than load: down, it goes by one, after `calm_s` below the target. Legend: T
ticks."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Day:
    """A day's traffic: calls per hour at night and at the peaks, and a crowd."""

    base: float = 60.0
    peaks: tuple = ((10.5, 1.5, 1500.0), (15.5, 1.8, 1200.0))  # hour, spread in hours, calls
    crowd: tuple = (19.0, 0.25, 3000.0)  # from this hour, so long, so many more calls per hour
    call_s: float = 180.0

    def rate(self, hour):
        """Calls per hour at an hour of the day; arrays too."""
        hour = np.asarray(hour, float)
        bumps = (c * np.exp(-((hour - h) ** 2) / (2 * s * s)) for h, s, c in self.peaks)
        start, length, more = self.crowd
        return self.base + sum(bumps) + more * ((hour >= start) & (hour < start + length))


@dataclass(frozen=True)
class Rule:
    """When to add and remove replicas; `fixed` switches the rule off."""

    target_s: float = 0.010  # of queue time
    least: int = 1
    most: int = 40
    starts_s: float = 30.0
    calm_s: float = 120.0
    deadline_s: float = 2.0  # older windows are dropped, so that no backlog is longer
    fixed: int | None = None


def calls_of_a_day(day, seed=0):
    """(start times in s, lengths in s) of one day's calls, sorted: float64 (N,)."""
    rng = np.random.default_rng(seed)
    largest = day.rate(np.arange(0, 24, 1 / 240)).max() * 1.01
    count = rng.poisson(largest * 24)  # each is kept with probability rate / largest
    start_s = np.sort(rng.uniform(0, 86_400, count))
    kept = rng.uniform(0, largest, count) < day.rate(start_s / 3600)
    return start_s[kept], rng.exponential(day.call_s, kept.sum())


def open_streams(start_s, length_s, tick_s=5.0):
    """How many streams are open at each tick of the day: int64 (T,)."""
    ticks = np.arange(0, 86_400, tick_s)
    begun = np.searchsorted(start_s, ticks, "right")
    return begun - np.searchsorted(np.sort(start_s + length_s), ticks, "right")


def queue_time_s(load, service_s):
    """Mean wait at a load below 1, by Pollaczek and Khinchine for constant service."""
    return service_s * (load := min(load, 0.999)) / (2 * (1 - load))


def simulate(streams, capacity, service_s, rule=None, tick_s=5.0):
    """Arrays (T,) by name: `replicas` that serve, `queue_s` that a window waits, `load`.
    streams (T,); `capacity` streams fill one replica (load 1), `service_s` is what a batch
    takes: ValueError unless both are positive."""
    if capacity <= 0 or service_s <= 0:
        raise ValueError(f"capacity={capacity}, service_s={service_s}: both must be positive")
    rule = rule or Rule()
    serving, coming, ready_at, calm_from, backlog_s = rule.fixed or rule.least, 0, 0.0, 0.0, 0.0
    rows = []
    for now, count in zip(np.arange(len(streams)) * tick_s, streams, strict=True):
        if coming and now >= ready_at:
            serving, coming = serving + coming, 0
        load = count / (capacity * serving)
        backlog_s = min(rule.deadline_s, max(0.0, backlog_s + (load - 1) * tick_s))
        queue_s = min(rule.deadline_s, backlog_s + queue_time_s(load, service_s))
        rows.append((serving, queue_s, load))
        if rule.fixed is not None or coming:
            continue
        if queue_s > rule.target_s:
            wanted = int(np.ceil(serving * min(queue_s / rule.target_s, 2.0)))
            coming, ready_at = min(wanted, rule.most) - serving, now + rule.starts_s
            calm_from = now
        elif now - calm_from >= rule.calm_s:
            serving, calm_from = max(rule.least, serving - 1), now
    columns = map(np.array, zip(*rows, strict=True))
    return dict(zip(("replicas", "queue_s", "load"), columns, strict=True))
