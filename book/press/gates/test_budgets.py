"""The gate on time: too slow in units of the calibration is a problem, what was not measured is told."""

import json

import pytest

from press.gates.house import budgets

TESTS = "_build/tests/signals-moving_mean.json"


def problems(small):
    """What the gate says of the small repository."""
    return [str(problem) for problem in budgets.budgets(small.repository)]


def took(seconds, slow=1.0, **more):
    """The part of a receipt that the gate reads."""
    calibration = {"before_s": 0.2 * slow, "after_s": 0.3 * slow, "unit_s": 0.25}
    return {"tier": "cpu", "seconds": seconds, "date": "2026-01-02", "calibration": calibration, **more}


def ran(small, *receipts):
    """Note these receipts as the notebook's run."""
    path = small.repository.chapters[0].run_record
    small.write(path.relative_to(small.root).as_posix(), json.dumps({"receipts": dict(enumerate(receipts))}))


def test_what_never_ran_is_told_and_no_problem(small, capsys):
    assert problems(small) == []
    assert "no calibrated run on this machine of signals/moving_mean, tests of signals" in capsys.readouterr().out


@pytest.mark.parametrize(("seconds", "slow", "fine"), [(68, 1, True), (70, 1, False), (130, 2, True), (30, 0.4, False)])
def test_a_notebook_has_sixty_seconds_of_the_unit_s_machine(small, capsys, seconds, slow, fine):
    ran(small, took(seconds, slow))
    found = problems(small)
    assert bool(found) != fine
    assert fine or f"{seconds} s where the calibration took {slow:.2f} of its unit" in found[0]
    assert "of tests of signals/moving_mean\n" in capsys.readouterr().out


@pytest.mark.parametrize(("seconds", "slow", "fine"), [(22.9, 1, True), (23.1, 1, False), (45, 2, True)])
def test_a_slice_s_tests_have_twenty(small, seconds, slow, fine):
    small.write(TESTS, json.dumps(took(seconds, slow)))
    assert bool(problems(small)) != fine


def test_the_newest_run_at_tier_cpu_counts(small):
    old, new = took(500, date="2026-01-01"), took(50, date="2026-01-03")
    ran(small, old, new, took(900, tier="gpu", date="2026-02-02"))
    assert problems(small) == []


@pytest.mark.parametrize("calibration", [None, {}, {"unit_s": 0.25}, {"before_s": 1.0}])
def test_a_run_without_a_calibration_is_told(small, capsys, calibration):
    ran(small, took(500, calibration=calibration))
    assert problems(small) == [] and "signals/moving_mean" in capsys.readouterr().out


def test_a_calibration_on_one_side_will_do(small):
    ran(small, took(65, calibration={"before_s": 0.25, "unit_s": 0.25}))
    assert problems(small) == []
