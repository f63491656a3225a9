"""Two answers on a card's claim: what the run that may decide it found, and how like the article's case that run is.

A claim's `kind` is fixed before the run: `size` (a number is reached within `slack`), `direction` (which way: `null` is
no difference), `fact` (exact), `goal` (a limit of our own), `figure` (stands beside ours, nothing is found).
"""

import re

HOLDS, FAILS, UNDECIDED = "holds here", "does not hold here", "undecided"
NOT_TESTABLE, NOT_MEASURED = "not testable here", "not measured"
MET, MISSED, FIGURE = "goal met", "goal missed", "stands beside"
FINDINGS = (HOLDS, FAILS, UNDECIDED, NOT_TESTABLE, NOT_MEASURED)
KINDS, BETTER = ("size", "direction", "fact", "goal", "figure"), ("higher", "lower", "equal")
LIKENESS = {"product": "another product", "hardware": "other hardware", "data": "other data", "size": "smaller"}
SAME = "same kind"
MACHINE = ("cpu", "cores", "memory_bytes", "os")  # processors share a name
LEAST = 3  # repeats of a 95 % interval that decides
BUSY_CORES, SLOW = 0.5, 1.4  # from here on a timing is one of other work, or of a slow phase of the machine
TIMING = re.compile(r"(ns|µs|ms|s|min|h|×|times as (long|fast)|× real time)|.*(/s|per second)")  # units that say so


def slownesses(calibration):
    """How many times as long as its unit a receipt's calibration took, before and after, as far as they are known."""
    unit = (calibration or {}).get("unit_s")
    return [calibration[side] / unit for side in ("before_s", "after_s") if unit and calibration.get(side)]


def busiest(content):
    """The most cores that others were seen to use beside a run; None where nobody looked."""
    return max((cores for cores in (content.get("busy_cores") or {}).values() if cores is not None), default=None)


def unseen(content):
    """What a receipt does not say of the machine beside its run: "no calibration", "no load"."""
    return ["no calibration"] * (not slownesses(content.get("calibration"))) + ["no load"] * (busiest(content) is None)


def usual(book):
    """How fast each machine is in a quick phase: {its facts, as MACHINE names them: the least of its slownesses}."""
    known = {}
    for one in book:
        known.setdefault(tuple(map(one["machine"].get, MACHINE)), []).extend(slownesses(one.get("calibration")))
    return {facts: min(times) for facts, times in known.items() if times}


def disturbed(content, usual=None):
    """Why a receipt's timings decide nothing, or "": other work, nobody looked, a slow phase against the `usual`."""
    machine = content["machine"]
    if (busy := busiest(content) or 0) >= BUSY_CORES:
        return f"timed while other work took {busy:.1f} of {machine.get('cores')} cores: do not trust the timings"
    if unknown := " and ".join(unseen(content)):
        return f"{unknown} recorded beside it: do not trust the timings"
    own = slownesses(content["calibration"])
    phase = sum(own) / len(own) / min(*own, (usual or {}).get(tuple(map(machine.get, MACHINE)), own[0]))
    return f"the machine ran {phase:.1f} times slower than usual" if phase >= SLOW else ""


def barred(claim, content, stale=False, disturbed=""):
    """Why a receipt, named as its race or study, may not decide a claim, or ""; how it came out is not looked at."""
    metric = content["metrics"].get(claim["metric"])
    gpu = ((metric or {}).get("device") or "").startswith("cuda")
    asked = f"recorded run “{claim['run']}”" if claim.get("run") else "page's run"
    hardware = claim.get("runs_on", "any").upper()
    why = {
        "not measured": metric is None,
        f"only a run on a {hardware} may decide": {"GPU": not gpu, "CPU": gpu}.get(hardware, False),
        f"only a run at tier {' or '.join(claim['tiers'])} may decide": content["tier"] not in claim["tiers"],
        f"only the {asked} may decide": content.get("name", "") != claim.get("run", ""),
        "the code has changed since": stale,
        "its code was not committed": "name" in content and content.get("dirty") is not False,
        "the machine was disturbed": disturbed and metric and (claim.get("timing") or timing(metric)),
    }
    return next((words for words, true in why.items() if true), "")


def timing(metric):
    """Whether a metric is of a clock: as it was recorded, by its unit where nobody said."""
    return metric.get("timing", bool(TIMING.fullmatch(metric["unit"])))


def finding(claim, metric):
    """What is found: a word of FINDINGS, MET or MISSED; None for a figure. `metric` is of the run that decides, None
    where none may: not testable where no run on a CPU could, else not measured. ValueError where units differ.
    """
    kind, better, value = claim["kind"], claim["better"], float(claim["value"])
    if kind not in KINDS or better not in BETTER:
        raise ValueError(f"claim {claim['id']}: kind {kind!r}, better {better!r}; allowed: {KINDS} and {BETTER}")
    if kind == "figure":
        return None
    if metric is None:
        return NOT_MEASURED if "cpu" in claim["tiers"] and claim.get("runs_on") != "gpu" else NOT_TESTABLE
    if metric["unit"] != claim["unit"]:
        raise ValueError(f"claim {claim['id']} is in {claim['unit']!r}, its metric in {metric['unit']!r}")
    low, high = (metric["value"] if kind == "fact" else metric.get(end, metric["value"]) for end in ("low", "high"))
    if kind == "direction":
        bottom = top = float(claim["null"])
        within = low > top if better == "higher" else high < bottom
    else:  # the least and the most that still count as the value
        slack = str(claim.get("slack", 0))
        by = float(slack.rstrip("×"))
        bottom, top = sorted((value / by, value * by)) if slack.endswith("×") else (value - by, value + by)
        within = (better == "lower" or low >= bottom) and (better == "higher" or high <= top)
    if kind != "fact" and undecided(metric):
        return UNDECIDED
    if kind in ("fact", "goal"):
        return {"fact": (FAILS, HOLDS), "goal": (MISSED, MET)}[kind][within]
    beyond = better != "lower" and high < bottom or better != "higher" and low > top
    return HOLDS if within else FAILS if beyond else UNDECIDED


def undecided(metric):
    """Why a metric decides nothing, in words; "" where it does: a 95 % interval of three and more, an exact value."""
    interval, repeats = metric.get("interval"), metric.get("repeats") or 0
    if interval == "exact" or (interval == "95 %" and repeats >= LEAST):
        return ""
    few = {"95 %": f"n = {repeats}" if repeats else "n is not recorded"}
    return few.get(interval, f"no 95 % interval: {interval or 'ends not named'}") if "low" in metric else "one run"


def likeness(claim):
    """How like the article's case ours is: SAME, or the gravest word of LIKENESS, of the card's `differs`."""
    differs = claim.get("differs", ())
    return next((words for name, words in LIKENESS.items() if name in differs), SAME)


def says(claim, found):
    """("supports", "contradicts" or "silent", because): what a finding says about the article's claim itself. Silent
    unless decided, silent for a size at another product, hardware or size; the card may be more careful, never less.
    """
    own = claim.get("says") or {}
    because = own.get("because", "")
    if found not in (HOLDS, FAILS):
        return "silent", because if found in (None, MET, MISSED) else found
    if claim["kind"] == "size" and {"product", "hardware", "size"} & {*claim.get("differs", ())}:
        return "silent", because or f"a size does not travel to {likeness(claim)}"
    return "silent" if own.get("word") else "supports" if found == HOLDS else "contradicts", because
