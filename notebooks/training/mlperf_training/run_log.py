"""The log of a run as the benchmark's committee reads it: one line an event, JSON behind a
mark.

The rules are those of MLPerf Training 2.0 in the *open* division. The closed one names every
tensor of a BERT of 24 layers, and this chapter's network has one. The test holds a log
against the checker of `mlperf_logging`, where that is installed.
"""

import json

MARK = ":::MLLOG "
KINDS = ("POINT_IN_TIME", "INTERVAL_START", "INTERVAL_END")


def lines(events):
    """The text of a log of (milliseconds, kind, key, value, metadata), one line each.

    >>> lines([(7, "POINT_IN_TIME", "seed", 1, {})])[:20]
    ':::MLLOG {"namespace'

    Raises ValueError for another kind, or a time before the one before it.
    """
    told, before = [], 0
    for at, kind, key, value, metadata in events:
        if kind not in KINDS or at < before:
            raise ValueError(
                f"{key} at {at} ms, kind {kind}: times may not fall, kinds are {KINDS}"
            )
        before = at
        event = {"namespace": "", "time_ms": at, "event_type": kind, "key": key, "value": value}
        about = {"file": "run_log.py", "lineno": 1, **metadata}
        told.append(MARK + json.dumps(event | {"metadata": about}))
    return "\n".join(told) + "\n"


def open_bert(began_ms, rows, target, samples, batch, seed):
    """The events of a run to a target in the open division; `rows` as `packed_training.judged`
    gives them: (sequences, steps, seconds, loss). The accuracy that the rules ask for is
    exp(-loss), the geometric mean of a masked word's chance.

    The run is a success where a loss is at most `target`, else aborted; later rows are left
    out. Raises ValueError without rows.
    """
    from math import exp

    if not rows:
        raise ValueError("no rows: a run has at least one evaluation")
    point, start, end = KINDS
    events = [
        (began_ms, point, key, value, {})
        for key, value in (
            ("submission_benchmark", "bert"),
            ("submission_division", "open"),
            ("submission_org", "Accelerated Systems, Rebuilt"),
            ("submission_platform", "two processor cores"),
            ("submission_status", "research"),
            ("cache_clear", True),
            ("seed", seed),
            ("global_batch_size", batch),
            ("train_samples", samples),
            ("eval_samples", samples),
        )
    ]
    events += [
        (began_ms, start, "init_start", None, {}),
        (began_ms, end, "init_stop", None, {}),
    ]
    events.append((began_ms, start, "run_start", None, {}))
    block = {"first_epoch_num": 1, "epoch_count": 1}
    events.append((began_ms, start, "block_start", None, block))
    status, at = "aborted", began_ms
    for seen, _, seconds, lost in rows:
        at, epoch = began_ms + round(1000 * seconds), {"epoch_num": seen}
        events.append((at, start, "eval_start", None, epoch))
        events.append((at, point, "eval_accuracy", exp(-lost), epoch))
        events.append((at, end, "eval_stop", None, epoch))
        if lost <= target:
            status = "success"
            break
    events.append((at, end, "block_stop", None, block))
    return [*events, (at, end, "run_stop", None, {"status": status})]


def minutes(text):
    """Minutes from run_start to run_stop of a log; math.inf where it is no success."""
    events = [json.loads(line.removeprefix(MARK)) for line in text.splitlines()]
    found = {one["key"]: one for one in events}
    if not {"run_start", "run_stop"} <= found.keys():
        raise ValueError("a log has run_start and run_stop; one of them is missing")
    if found["run_stop"]["metadata"]["status"] != "success":
        return float("inf")
    return (found["run_stop"]["time_ms"] - found["run_start"]["time_ms"]) / 60_000
