"""Six verdicts on a card's claim: what was measured beside what was claimed, judged only like for like."""

REPRODUCED, PARTLY, NOT_REPRODUCED = "reproduced", "partly", "not reproduced"
ANALOGUE, NOT_TESTABLE, NOT_MEASURED = "analogue", "not testable here", "not measured"


def verdict(claim, metric, tier):
    """One of the six verdicts on a card's claim, given a receipt's metric (or None) and its tier's name.
    Reproduced: as good as claimed, within `tolerance` (of 1 for a claim of zero); partly: within a factor of two;
    analogue: what was measured is of another kind (see `differences`), so that neither success nor failure follows.
    """
    better, name = claim["better"], claim.get("id")
    if metric and metric["unit"] != claim["unit"]:
        raise ValueError(f"claim {name} has unit {claim['unit']!r}, its metric {metric['unit']!r}; make them equal")
    if better not in ("higher", "lower", "equal"):
        raise ValueError(f"claim {name}: better is {better!r}; allowed are higher, lower and equal")
    if not metric:
        return NOT_MEASURED if tier in claim["tiers"] else NOT_TESTABLE
    if differences(claim, metric, tier):
        return ANALOGUE
    claimed, got = float(claim["value"]), metric["value"]
    if "null" in claim:  # a direction: the interval's end that is nearest the null decides, or lies beyond it
        got = metric.get({"higher": "low", "lower": "high"}.get(better), got)
    slack = claim.get("tolerance", 0) * (abs(claimed) or 1)
    bounds = (claimed - slack, claimed + slack, REPRODUCED), (*sorted((claimed / 2, claimed * 2)), PARTLY)
    for low, high, found in bounds:
        if (better == "lower" or got >= low) and (better == "higher" or got <= high):
            return found
    return NOT_REPRODUCED


def differences(claim, metric, tier):
    """What a metric differs in from the claim, of "product", "hardware", "data" and "size": the card's `differs`,
    the hardware of a claim `runs_on: gpu` unless the metric's device was one, the size at a tier that the claim lacks.
    """
    slower = claim.get("runs_on") == "gpu" and not (metric.get("device") or "").startswith("cuda")
    found = [*claim.get("differs", ()), *["hardware"] * slower, *["size"] * (tier not in claim["tiers"])]
    return [name for name in ("product", "hardware", "data", "size") if name in found]
