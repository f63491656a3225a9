"""Each row of the rules by which a claim is judged; a changed sign, and 95 % turned to 50 %, change the finding."""

import pytest

from helpers import verdicts
from helpers.verdicts import FAILS, HOLDS, MET, MISSED, NOT_MEASURED, NOT_TESTABLE, UNDECIDED


def claim(kind="size", better="higher", value=10, **more):
    base = {"id": "c", "unit": "×", "metric": "m", "tiers": ["cpu"], "runs_on": "any"}
    return base | {"kind": kind, "better": better, "value": value} | more


def metric(low, high=None, value=None, interval="95 %", repeats=20, **more):
    high = low if high is None else high
    ends = {"low": low, "high": high, "interval": interval, "repeats": repeats}
    return {"value": (low + high) / 2 if value is None else value, "unit": "×"} | ends | more


def receipt(**more):
    return {"metrics": {"m": metric(11, 12)}, "tier": "cpu", "dirty": False} | more


def test_a_direction_is_judged_by_its_interval_against_its_null():
    gain = claim("direction", value=0, null=0)
    assert verdicts.finding(gain, metric(0.1, 3)) == HOLDS
    assert verdicts.finding(gain, metric(-3, -0.1)) == FAILS
    assert verdicts.finding(gain, metric(-1, 3)) == verdicts.finding(gain, metric(0, 3)) == UNDECIDED
    ratio = claim("direction", "lower", value=1, null=1)
    assert [verdicts.finding(ratio, metric(*ends)) for ends in [(0.5, 0.9), (1.1, 2), (0.9, 1.1)]] == [
        HOLDS,
        FAILS,
        UNDECIDED,
    ]


def test_the_number_beside_a_direction_does_not_move_its_null():
    assert verdicts.finding(claim("direction", value=5.3, null=1), metric(1.2, 1.4)) == HOLDS


@pytest.mark.parametrize(
    ("better", "ends", "found"),
    [
        ("higher", (9, 20), HOLDS),
        ("higher", (8, 20), UNDECIDED),
        ("higher", (5, 8.9), FAILS),
        ("lower", (1, 11), HOLDS),
        ("lower", (1, 12), UNDECIDED),
        ("lower", (11.5, 12), FAILS),
        ("equal", (9.5, 10.5), HOLDS),
        ("equal", (8, 10.5), UNDECIDED),
        ("equal", (5, 8.5), FAILS),
        ("equal", (11.5, 12), FAILS),
    ],
)
def test_a_size_is_reached_within_its_slack(better, ends, found):
    assert verdicts.finding(claim(better=better, slack=1), metric(*ends)) == found


def test_slack_may_be_a_factor():
    assert verdicts.finding(claim(slack="2×"), metric(5, 6)) == HOLDS
    assert verdicts.finding(claim(slack="2×"), metric(4.9, 6)) == UNDECIDED
    assert verdicts.finding(claim(better="lower", slack="2×"), metric(19, 20)) == HOLDS


@pytest.mark.parametrize(
    "more", [{"interval": "50 %"}, {"interval": "quartiles"}, {"interval": "range"}, {"repeats": 2}, {"interval": ""}]
)
def test_only_95_percent_intervals_of_three_and_more_decide(more):
    assert verdicts.finding(claim(), metric(11, 12)) == HOLDS
    assert verdicts.finding(claim(), metric(11, 12, **more)) == UNDECIDED
    assert verdicts.undecided(metric(11, 12, **more))


def test_one_run_decides_nothing_and_an_exact_value_does():
    assert verdicts.finding(claim(), {"value": 12, "unit": "×"}) == UNDECIDED
    assert verdicts.undecided({"value": 12, "unit": "×"}) == "one run"
    assert verdicts.finding(claim(), {"value": 12, "unit": "×", "interval": "exact"}) == HOLDS


def test_a_changed_sign_changes_the_finding():
    for kind in ("size", "direction"):
        up, down = (claim(kind, better, value=0, null=0) for better in ("higher", "lower"))
        assert verdicts.finding(up, metric(1, 2)) == verdicts.finding(down, metric(-2, -1)) == HOLDS
        assert verdicts.finding(up, metric(-2, -1)) == verdicts.finding(down, metric(1, 2)) == FAILS


def test_a_fact_is_exact():
    fact = claim("fact", "equal", 421, slack=0.5)
    assert verdicts.finding(fact, {"value": 420.7, "unit": "×"}) == HOLDS
    assert verdicts.finding(fact, {"value": 420.4, "unit": "×"}) == FAILS

    most = claim("fact", "lower", 4)
    found = [verdicts.finding(most, {"value": value, "unit": "×"}) for value in (3, 4, 5)]
    assert found == [HOLDS, HOLDS, FAILS]


def test_a_goal_is_met_by_its_worse_end():
    assert verdicts.finding(claim("goal"), metric(10, 12)) == MET
    assert verdicts.finding(claim("goal"), metric(9, 12)) == MISSED
    assert verdicts.finding(claim("goal", "lower"), metric(9, 10)) == MET
    assert verdicts.finding(claim("goal", "lower"), metric(9, 11)) == MISSED
    assert verdicts.finding(claim("goal"), {"value": 10, "unit": "×", "interval": "exact"}) == MET


@pytest.mark.parametrize("more", [{"interval": "range"}, {"repeats": 2}, {"interval": "quartiles"}])
def test_one_run_or_a_range_decides_no_goal_either(more):
    assert verdicts.finding(claim("goal"), {"value": 12, "unit": "×"}) == UNDECIDED
    assert verdicts.finding(claim("goal"), metric(11, 12, **more)) == UNDECIDED


def test_how_often_is_told_only_where_it_was_recorded():
    unknown = {key: value for key, value in metric(11, 12).items() if key != "repeats"}
    assert verdicts.undecided(unknown) == "n is not recorded"
    assert verdicts.undecided(metric(11, 12, repeats=1)) == "n = 1"


def test_a_figure_has_no_finding():
    assert verdicts.finding(claim("figure"), metric(1, 2)) is None


def test_what_no_run_here_could_measure_is_not_testable():
    assert verdicts.finding(claim(), None) == NOT_MEASURED
    assert verdicts.finding(claim(tiers=["big"]), None) == NOT_TESTABLE
    assert verdicts.finding(claim(runs_on="gpu"), None) == NOT_TESTABLE


def test_other_units_kinds_and_ways_are_refused():
    with pytest.raises(ValueError, match="'×', its metric in 's'"):
        verdicts.finding(claim(), metric(1, 2, unit="s"))
    for wrong in (claim(kind="hope"), claim(better="more")):
        with pytest.raises(ValueError, match="allowed"):
            verdicts.finding(wrong, metric(1, 2))


def test_which_run_may_decide():
    fine = receipt()
    assert verdicts.barred(claim(), fine) == ""
    assert verdicts.barred(claim(run="study"), fine) == "only the recorded run “study” may decide"
    assert verdicts.barred(claim(run="study"), receipt(name="study")) == ""
    assert verdicts.barred(claim(), receipt(name="race")) == "only the page's run may decide"
    assert verdicts.barred(claim(), fine, stale=True) == "the code has changed since"
    for dirty in (True, None):
        told = verdicts.barred(claim(run="study"), receipt(dirty=dirty, name="study"))
        assert told == "its code was not committed"
        assert verdicts.barred(claim(), receipt(dirty=dirty, name="")) == told, "a page's recorded run, too"
        assert verdicts.barred(claim(), receipt(dirty=dirty)) == "", "the page's run at hand"
    assert verdicts.barred(claim(tiers=["big"]), fine) == "only a run at tier big may decide"
    assert verdicts.barred(claim(), receipt(metrics={})) == "not measured"


def test_a_claim_about_a_card_is_decided_on_one():
    on_card = receipt(metrics={"m": metric(11, 12, device="cuda:0")})
    assert verdicts.barred(claim(runs_on="gpu"), receipt()) == "only a run on a GPU may decide"
    assert verdicts.barred(claim(runs_on="gpu"), on_card) == ""
    assert verdicts.barred(claim(runs_on="cpu"), on_card) == "only a run on a CPU may decide"


def test_a_disturbed_run_decides_no_timing():
    assert verdicts.barred(claim(), receipt(), disturbed=True) == "the machine was disturbed"  # "×" of an older receipt
    counted = receipt(metrics={"m": metric(11, 12, timing=False)})
    assert verdicts.barred(claim(), counted, disturbed=True) == ""
    timed = receipt(metrics={"m": metric(11, 12, timing=True, unit="loops")})
    assert verdicts.barred(claim(), timed, disturbed=True) == "the machine was disturbed"


def test_a_card_may_say_that_a_share_is_one_of_times():
    share = receipt(metrics={"m": metric(11, 12, unit="%")})
    assert verdicts.barred(claim(unit="%"), share, disturbed="busy") == ""
    assert verdicts.barred(claim(unit="%", timing=True), share, disturbed="busy") == "the machine was disturbed"


def seen(speed=0.25, busy=0.1, **machine):
    """A receipt whose machine somebody looked at."""
    calibration = {"before_s": speed, "after_s": speed, "unit_s": 0.25}
    return receipt(calibration=calibration, busy_cores={"before": 0.0, "after": busy}, machine={"cpu": "X"} | machine)


def test_a_quiet_run_at_its_machine_s_usual_speed_is_not_disturbed():
    assert verdicts.disturbed(seen(1.0)) == "", "a slow machine is no slow phase"
    assert verdicts.disturbed(seen(0.34), verdicts.usual([seen(0.25)])) == ""
    others = verdicts.usual([seen(0.25, cores=8), seen(0.25, cpu="Y")])
    assert verdicts.disturbed(seen(1.0), others) == "", "of other machines"


def test_other_work_a_slow_phase_or_that_nobody_looked_is_a_disturbance():
    assert "other work took 0.5 of 2 cores" in verdicts.disturbed(seen(busy=0.5, cores=2))
    others = verdicts.usual([seen(0.3), seen(0.25), seen(0.35)])
    assert verdicts.disturbed(seen(0.375), others) == "the machine ran 1.5 times slower than usual"
    for unknown, told in [
        ({"busy_cores": {"before": None}}, "no load recorded"),
        ({"calibration": {"before_s": None, "after_s": None, "unit_s": 0.25}}, "no calibration recorded"),
        ({"calibration": None, "busy_cores": None}, "no calibration and no load recorded"),
    ]:
        assert verdicts.disturbed(seen() | unknown).startswith(told)


@pytest.mark.parametrize("unit", ["s", "ms", "×", "× real time", "links/s", "times as long", "rows per second"])
def test_units_of_a_clock_in_older_receipts(unit):
    assert verdicts.timing({"unit": unit}) and not verdicts.timing({"unit": "recall"})


def test_the_gravest_difference_is_said():
    assert verdicts.likeness(claim()) == "same kind"
    assert verdicts.likeness(claim(differs=["size", "data"])) == "other data"
    assert verdicts.likeness(claim(differs=["size", "hardware", "product"])) == "another product"


def test_signs_travel_and_sizes_do_not():
    why = {"because": "the same two ways"}
    direction = claim("direction", null=0, differs=["product", "size"], says=why)
    assert verdicts.says(direction, HOLDS) == ("supports", "the same two ways")
    assert verdicts.says(direction, FAILS) == ("contradicts", "the same two ways")
    assert verdicts.says(direction, UNDECIDED)[0] == verdicts.says(direction, NOT_MEASURED)[0] == "silent"
    for far in ("product", "hardware", "size"):
        assert verdicts.says(claim(differs=[far]), HOLDS)[0] == "silent"
    assert verdicts.says(claim(differs=["data"]), HOLDS)[0] == "supports"
    assert verdicts.says(claim("figure"), None)[0] == "silent"


def test_a_card_may_be_more_careful_than_the_rules():
    drawn = {"word": "silent", "because": "our data were drawn to this rate"}
    assert verdicts.says(claim(says=drawn), HOLDS) == ("silent", "our data were drawn to this rate")


def test_a_card_is_never_less_careful_than_the_rules():
    for word in ("supports", "contradicts"):
        bold = {"word": word, "because": "we say so"}
        assert (
            verdicts.says(claim(says=bold), HOLDS) == verdicts.says(claim(says=bold), FAILS) == ("silent", "we say so")
        )
        assert verdicts.says(claim(says=bold, differs=["product"]), HOLDS)[0] == "silent"


def test_three_repeats_are_enough_and_an_end_on_the_null_is_not():
    assert verdicts.finding(claim(), metric(11, 12, repeats=3)) == HOLDS
    assert verdicts.finding(claim("direction", value=0, null=0), metric(-3, 0)) == UNDECIDED
    assert verdicts.finding(claim(slack=1), metric(5, 9)) == UNDECIDED


def test_other_hardware_is_graver_than_other_data():
    assert verdicts.likeness(claim(differs=["data", "hardware"])) == "other hardware"


def test_a_goal_of_equality_has_slack_on_both_sides_and_says_what_its_card_says():
    near = claim("goal", "equal", 1, slack=0.3, says={"because": "the limit is ours"})
    assert [verdicts.finding(near, metric(one, one)) for one in (0.6, 0.8, 1.2, 1.4)] == [MISSED, MET, MET, MISSED]
    assert verdicts.says(near, MET) == verdicts.says(near, MISSED) == ("silent", "the limit is ours")


def test_a_fact_is_its_value_whatever_its_ends():
    assert verdicts.finding(claim("fact", "equal", 10), metric(5, 15)) == HOLDS
