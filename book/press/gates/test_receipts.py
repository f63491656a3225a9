"""The gates on what was recorded: nothing dirty or stale but what is named, and nothing that no page shows."""

import json

import pytest
import yaml

from press import gates
from press.gates.house.recorded import WAITING
from press.print.conftest import executed, receipt
from press.repository import HOME, Repository

CPU, GPU = "moving_mean/cpu-test-cpu-race.json", "moving_mean/gpu-test-gpu.json"
ENTRY = {"why": "no calibration", "again": "signals/moving_mean, its race"}
LACKING = {
    "older code": {"code": "0" * 64},
    "uncommitted code": {"dirty": True},
    "no calibration": {"calibration": None},
    "no load": {"busy_cores": {"before": None}},
    "beside other work": {"busy_cores": {"before": 0.0, "after": 0.1, "during": 0.6}},
}


def keep(small, name=CPU, **changes):
    """A receipt in its place."""
    small.write(f"data/receipts/{name}", json.dumps(receipt(small, **changes)))


def found(small, gate):
    """The problems of one gate, as texts."""
    return [str(problem) for problem in gates.load()[gate].problems(small.repository)]


def wait(small, entries):
    """The list of receipts that wait."""
    small.write(WAITING.as_posix(), yaml.safe_dump(entries))


@pytest.mark.parametrize("what", LACKING)
def test_a_receipt_that_lacks_something_is_a_problem_unless_it_is_named(small, capsys, what):
    keep(small)
    assert found(small, "stale") == []
    keep(small, **LACKING[what])
    assert found(small, "stale") == [f"data/receipts/{CPU}: {what}"]
    wait(small, {CPU: ENTRY})
    assert (
        found(small, "stale") == [] and "1 receipts wait to be recorded again: moving_mean 1" in capsys.readouterr().out
    )


def test_a_receipt_that_does_not_say_whether_it_was_committed_lacks_that(small):
    keep(small, dirty=None)
    assert found(small, "stale") == [f"data/receipts/{CPU}: uncommitted code"]


def test_all_that_a_receipt_lacks_is_told_at_once(small):
    some = [one for one in LACKING if one != "beside other work"]  # who saw no load saw no other work
    keep(small, **{key: value for one in some for key, value in LACKING[one].items()})
    assert found(small, "stale") == [f"data/receipts/{CPU}: {', '.join(some)}"]


@pytest.mark.parametrize("what", LACKING)
def test_a_gpu_s_receipt_needs_no_entry_and_may_have_none(small, what):
    keep(small, GPU, tier="gpu", **LACKING[what])
    assert found(small, "stale") == []
    wait(small, {GPU: ENTRY})
    assert found(small, "stale") == [f"{WAITING}: {GPU}: lacks nothing any more; remove the entry"]


def test_an_entry_goes_with_its_need_and_with_its_receipt(small):
    keep(small)
    wait(small, {CPU: ENTRY, "moving_mean/cpu-gone.json": ENTRY})
    wanted = ["no such receipt; remove the entry", "lacks nothing any more; remove the entry"]
    assert [one.rpartition(": ")[2] for one in found(small, "stale")] == wanted


@pytest.mark.parametrize(
    "entry", [{}, None, "later", {"why": "x"}, {"why": " ", "again": "y"}, {"why": 1, "again": "y"}, ENTRY | {"n": "z"}]
)
def test_an_entry_says_why_and_with_which_work_it_is_recorded_again(small, entry):
    keep(small, dirty=True)
    wait(small, {CPU: entry})
    assert [one for one in found(small, "stale") if "it needs the texts again and why" in one]


@pytest.mark.parametrize(("entries", "says"), [([CPU], "no mapping"), (None, "")])
def test_a_list_that_is_empty_or_none_at_all(small, entries, says):
    wait(small, entries)
    assert [says in one for one in found(small, "stale")] == [True] * bool(says)


def test_our_own_receipts_lack_nothing_but_what_is_named():
    assert gates.load()["stale"].problems(Repository(HOME)) == []


TWO = {"a_rate": {"value": 1.0, "unit": "s"}, "mean_rate": {"value": 1.0, "unit": "points/s"}}
CURVES = {"a_rate": {"x": [1]}, "days": {"x": [1]}}
ALL = {CPU: {"metrics": ["a_rate"], "curves": ["a_rate", "days"]}}


def ran(small, read, **changes):
    """A page that has run and read so much, beside a race with two metrics, one of them a claim's, and two curves."""
    executed(small, **({"read": read} if read is not None else {}) | {"date": "2026-05-01T00:00:00Z"})
    keep(small, metrics=TWO, curves=CURVES, **changes)
    return found(small, "shown")


def test_what_is_recorded_has_to_be_read_by_the_page(small):
    assert ran(small, ALL) == []
    assert ran(small, {CPU: {"metrics": [], "curves": ["days"]}}) == [
        f"data/receipts/{CPU}: read by no page (1): a_rate"
    ]
    assert ran(small, {}) == [f"data/receipts/{CPU}: read by no page (2): a_rate, days"]


def test_a_curve_is_not_shown_by_a_metric_of_its_name_nor_by_another_receipt_s(small):
    assert ran(small, {CPU: {"metrics": ["a_rate"], "curves": ["days"]}})[0].endswith("(1): a_rate")
    assert ran(small, {CPU.replace("race", "other"): ALL[CPU]})[0].endswith("(2): a_rate, days")


@pytest.mark.parametrize(
    "changes", [{"date": "2026-06-01T00:00:00Z"}, {"tier": "gpu"}], ids=["newer than the page", "a gpu's"]
)
def test_what_the_page_could_not_have_read_is_no_problem(small, changes):
    assert ran(small, {}, **changes) == []


def test_nothing_is_said_of_a_page_that_has_not_run_or_did_not_note_what_it_read(small):
    keep(small, metrics=TWO, curves=CURVES)
    assert found(small, "shown") == []
    assert ran(small, None) == []


def test_the_card_says_why_something_is_kept_by_name_or_pattern(small):
    small.write_card(kept={"a_*": "what the race is checked by", "days": "for the next chapter"})
    assert found(small, "card") == []
    assert ran(small, {}) == []
    small.write_card(kept={"a_*": "what the race is checked by", "days": "for the next chapter", "b_*": "nobody knows"})
    assert [one.rpartition(": ")[2] for one in ran(small, {})] == ["no receipt holds b_*"]
    small.write_card(kept={"a_*": ""})
    assert found(small, "card")


def test_what_is_kept_waits_for_the_first_recording(small):
    small.write_card(kept={"b_*": "what the next study tells"})
    assert found(small, "shown") == []
    assert any("no receipt holds b_*" in one for one in ran(small, {}))


def test_the_card_may_keep_what_one_recorded_run_holds_and_no_other(small):
    why = "an older recording of the same"
    small.write_card(kept={"race/*": why})
    assert found(small, "card") == [] and ran(small, {}) == []
    small.write_card(kept={"other/*": why})
    assert [one.rpartition(": ")[2] for one in ran(small, {})] == ["a_rate, days", "no receipt holds other/*"]
