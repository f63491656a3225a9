"""The benchmark's arithmetic: waste of an epoch's last batch, graphs for packed batches, and
the score of runs.

Article: "The Full Stack Optimization Powering NVIDIA MLPerf Training v2.0 Performance"
(NVIDIA, 2022). The score follows the training rules of MLPerf: of the runs the fastest and
the slowest are dropped, a run that did not reach the target counts as the slowest, and the
rest are averaged; 'per accelerator' is that time by the chips.

`run_times.tsv` holds start and stop of each published log of round 2.0 that the article's
table rests on.
"""

import csv
import math
from pathlib import Path
from statistics import NormalDist

RUN_TIMES = Path(__file__).with_name("run_times.tsv")


def last_batch_waste(samples, batch):
    """(steps, wasted samples, share) of an epoch whose last batch is filled up; share of all
    that is computed.

    >>> last_batch_waste(10, 4)
    (3, 2, 0.16666666666666666)
    """
    if samples < 1 or batch < 1:
        raise ValueError(f"samples {samples} and batch {batch} must both be 1 or more")
    steps = -(-samples // batch)
    wasted = steps * batch - samples
    return steps, wasted, wasted / (steps * batch)


def graph_counts(batch, max_sequences=3):
    """The sequence counts of a batch of packs that each need a graph: from one a pack to
    `max_sequences` a pack.

    >>> graph_counts(2)
    [2, 3, 4, 5, 6]
    """
    if batch < 1 or max_sequences < 1:
        raise ValueError(
            f"batch {batch} and max_sequences {max_sequences} must both be 1 or more"
        )
    return list(range(batch, batch * max_sequences + 1))


def score(minutes, chips, drop=1):
    """Chip-minutes: the mean without the `drop` fastest and slowest runs, by the chips;
    infinite minutes: aborted.

    >>> score([9, 10, 12, math.inf], chips=8)
    88.0

    Raises ValueError for fewer than 2 drop + 1 runs, no chip, a time that is not positive, or
    more aborted runs than are dropped as slowest, as then there is no score.
    """
    if drop < 0 or chips < 1 or len(minutes) <= 2 * drop:
        raise ValueError(
            f"{len(minutes)} runs, {chips} chips, drop {drop}: needs a chip or more, "
            "and more than twice as many runs as are dropped at each end"
        )
    if any(math.isnan(time) or time <= 0 for time in minutes):
        raise ValueError("minutes must be positive; an aborted run is math.inf")
    counted = sorted(minutes)[drop : len(minutes) - drop]
    if math.isinf(counted[-1]):
        raise ValueError(
            f"more than {drop} runs were aborted: only {drop} may be dropped as slowest"
        )
    return sum(counted) / len(counted) * chips


def published_minutes(path=RUN_TIMES):
    """{entry: minutes of its runs}; a run whose status is not 'success' is math.inf. Lines
    with # are the source."""
    with open(path, newline="") as table:
        rows = csv.DictReader(
            (line for line in table if not line.startswith("#")), delimiter="\t"
        )
        runs = {}
        for row in rows:
            minutes = (int(row["run_stop_ms"]) - int(row["run_start_ms"])) / 60_000
            runs.setdefault(row["entry"], []).append(
                minutes if row["status"] == "success" else math.inf
            )
    return runs


def small_waste(samples, per_node, nodes, steps_below=math.inf):
    """[(share, nodes, steps)] of the node counts in `nodes`, the smallest waste first; of
    those that need fewer steps than `steps_below`.

    >>> small_waste(1_281_167, 128, range(500, 550))[0][1]
    527

    Raises ValueError where no count is left.
    """
    found = []
    for count in nodes:
        steps, _, share = last_batch_waste(samples, count * per_node)
        if steps < steps_below:
            found.append((share, count, steps))
    if not found:
        raise ValueError(f"no node count of {nodes} needs fewer than {steps_below} steps")
    return sorted(found)


def runs_to_tell(apart, spread, power=0.8):
    """Runs of each of two systems until a difference of `apart` of their time is seen with
    chance `power`, at 5 % two-sided; `spread` is the standard deviation, of the time, too.

    >>> runs_to_tell(0.03, 0.03)
    16

    By the normal approximation, which asks for few runs too little. Raises ValueError unless
    all are positive and the chance is below 1.
    """
    if not (apart > 0 and spread > 0 and 0.5 < power < 1):
        raise ValueError(
            f"apart {apart}, spread {spread}, power {power}: the first two must be positive, "
            "the power between 0.5 and 1"
        )
    normal = NormalDist()
    both = normal.inv_cdf(0.975) + normal.inv_cdf(power)
    return math.ceil(2 * (both * spread / apart) ** 2)
