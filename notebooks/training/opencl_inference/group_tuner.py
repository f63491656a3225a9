"""The best work-group size by trying: each candidate is timed, and the choice kept on disk.

The delegate starts each candidate once and takes the smallest time. One time is noisy, so
`choose` also takes the median over rounds; a round times every candidate once, so that a slow
moment of the machine meets them all. A cache file that is torn, or of another device, counts
as absent.
"""

import json
import os
import statistics
import tempfile
from pathlib import Path


def times(run, candidates, rounds):
    """Seconds by candidate, {group: [one a round]}. `run(group)` returns the kernel's seconds.

    A candidate whose run raises RuntimeError, as a driver's refusal does, is left out. Raises
    ValueError where none is left, or rounds is below 1.
    """
    if rounds < 1:
        raise ValueError(f"{rounds} rounds; 1 or more are allowed")
    kept = {tuple(group): [] for group in candidates}
    for _ in range(rounds):
        for group in list(kept):
            try:
                kept[group].append(run(group))
            except RuntimeError:
                del kept[group]
    if not kept:
        raise ValueError("every candidate was refused; one that runs is needed")
    return kept


def choose(seconds, first=None):
    """The group with the smallest median; `first=1`: the smallest single time."""
    return min(seconds, key=lambda group: statistics.median(seconds[group][:first]))


def tune(path, device, tasks, rounds):
    """The choices {key: group}, kept after each task: a killed tuner goes on from there.

    A choice from the file that is no candidate counts as absent. `tasks` is {key: (run,
    candidates)}, as `times` takes them. Raises ValueError as `times`.
    """
    groups = load(path, device)
    for key, (run, candidates) in tasks.items():
        if groups.get(key) not in map(tuple, candidates):  # absent, or whole and of other work
            groups[key] = choose(times(run, candidates, rounds))
            save(path, device, groups)
    return {key: groups[key] for key in tasks}


def spread(seconds):
    """Medians in seconds, best, mean and worst; near is the share within 10 % of the best."""
    medians = [statistics.median(all_rounds) for all_rounds in seconds.values()]
    best = min(medians)
    near = sum(median <= 1.1 * best for median in medians) / len(medians)
    return {
        "best": best,
        "mean": statistics.fmean(medians),
        "worst": max(medians),
        "near": near,
    }


def load(path, device):
    """The choices {key: group} of that device; {} where the file is absent, torn or foreign."""
    try:
        held = json.loads(Path(path).read_text(encoding="utf-8"))
        if held["device"] != device:
            return {}
        return {key: tuple(map(int, group)) for key, group in held["groups"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def save(path, device, groups):
    """Keep the choices of that device: a tuner killed meanwhile leaves the old file whole."""
    path = Path(path)
    text = json.dumps({"device": device, "groups": groups})
    with tempfile.NamedTemporaryFile(
        "w", dir=path.parent, delete=False, encoding="utf-8"
    ) as new:
        new.write(text)
        new.flush()
        os.fsync(new.fileno())
    os.replace(new.name, path)
