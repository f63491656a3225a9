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
LEAST = 3  # repeats of a 95 % interval that decides
TIMING = re.compile(r"(ns|µs|ms|s|min|h|×|times as (long|fast)|× real time)|.*(/s|per second)")  # units that say so


def barred(claim, content, stale=False, disturbed=False, name=""):
    """Why a receipt (a dict) may not decide a claim, in words, or "" where it may; how it came out is not looked at.
    `name`: which race or study it is, "" for the page's run; `stale`: of other code; `disturbed`: beside other work.
    """
    metric = content["metrics"].get(claim["metric"])
    gpu = ((metric or {}).get("device") or "").startswith("cuda")
    asked, hardware = claim.get("run"), claim.get("runs_on", "any").upper()
    why = {
        "not measured": metric is None,
        f"only a run on a {hardware} may decide": {"GPU": not gpu, "CPU": gpu}.get(hardware, False),
        f"only a run at tier {' or '.join(claim['tiers'])} may decide": content["tier"] not in claim["tiers"],
        f"only the recorded run “{asked}” may decide" if asked else "only the page's run may decide": name
        != (asked or ""),
        "the code has changed since": stale,
        "its code was not committed": name and content.get("dirty") is not False,
        "the machine was disturbed": disturbed and bool(metric) and timing(metric),
    }
    return next((words for words, true in why.items() if true), "")


def timing(metric):
    """Whether a metric is of a clock: as it was recorded, by its unit where nobody said."""
    return metric.get("timing", bool(TIMING.fullmatch(metric["unit"])))


def finding(claim, metric):
    """What is found: a word of FINDINGS, MET or MISSED; None for a figure. `metric` is of the run that decides, None
    where none may: not testable where no run on a CPU could, else not measured. ValueError where units differ.
    """
    kind, better, claimed = claim["kind"], claim["better"], float(claim["value"])
    if kind not in KINDS or better not in BETTER:
        raise ValueError(f"claim {claim['id']}: kind {kind!r}, better {better!r}; allowed: {KINDS} and {BETTER}")
    if kind == "figure":
        return None
    if metric is None:
        return NOT_MEASURED if "cpu" in claim["tiers"] and claim.get("runs_on") != "gpu" else NOT_TESTABLE
    if metric["unit"] != claim["unit"]:
        raise ValueError(
            f"claim {claim['id']} is in {claim['unit']!r}, its metric in {metric['unit']!r}; make them equal"
        )
    low, high = metric.get("low", metric["value"]), metric.get("high", metric["value"])
    bottom, top = (claimed, claimed) if kind == "direction" else _slack(claim, claimed)

    def within(least, most):
        return (better == "lower" or least >= bottom) and (better == "higher" or most <= top)

    if kind == "goal":
        return MET if within(low, high) else MISSED
    if kind == "fact":
        return HOLDS if within(metric["value"], metric["value"]) else FAILS
    if undecided(metric):
        return UNDECIDED
    if better == "equal":
        return HOLDS if bottom <= low and high <= top else FAILS if high < bottom or low > top else UNDECIDED
    sign = 1 if better == "higher" else -1
    worse, best = sorted((sign * low, sign * high))
    limit = sign * (float(claim["null"]) if kind == "direction" else bottom if better == "higher" else top)
    beyond = worse > limit if kind == "direction" else worse >= limit
    return HOLDS if beyond else FAILS if best < limit else UNDECIDED


def undecided(metric):
    """Why a metric decides nothing, in words; "" where it does: a 95 % interval of three and more, an exact value."""
    interval, repeats = metric.get("interval"), metric.get("repeats") or 1
    if interval == "exact" or (interval == "95 %" and repeats >= LEAST):
        return ""
    few = f"n = {repeats}" if interval == "95 %" else f"no 95 % interval: {interval or 'ends not named'}"
    return few if "low" in metric else "one run"


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
    return own.get("word") or ("supports" if found == HOLDS else "contradicts"), because


def _slack(claim, value):
    """The least and the most that still count as the value: `slack` in its unit, or a factor such as "1.05×"."""
    slack = claim.get("slack", 0)
    if isinstance(slack, str) and slack.endswith("×"):
        return sorted((value / float(slack[:-1]), value * float(slack[:-1])))
    return value - float(slack), value + float(slack)
