"""The gate on time: too slow in units of the calibration is a problem, what was not measured is told."""

import json

import pytest

from press import gates

TESTS = "_build/tests/signals-moving_mean.json"


def problems(small):
    """What the gate says of the small repository."""
    return [str(problem) for problem in gates.load()["budgets"].problems(small.repository)]


def took(seconds, slow=1.0, **more):
    """The part of a receipt that the gate reads."""
    calibration = {"before_s": 0.22 * slow, "after_s": 0.28 * slow, "unit_s": 0.25}
    return {"tier": "cpu", "seconds": seconds, "date": "2026-01-02", "calibration": calibration, **more}


def ran(small, *receipts):
    """Note these receipts as the notebook's run."""
    path = small.repository.chapters[0].run_record
    small.write(path.relative_to(small.root).as_posix(), json.dumps({"receipts": dict(enumerate(receipts))}))


def test_what_never_ran_is_told_and_no_problem(small, capsys):
    assert problems(small) == []
    assert "no calibrated run on this machine of 2 notebooks and chapters" in capsys.readouterr().out


def test_where_all_has_just_run_what_never_ran_is_a_problem(small, monkeypatch):
    monkeypatch.setenv("REBUILT_CALIBRATED", "1")
    (found,) = problems(small)
    assert "no calibrated run on this machine of signals/moving_mean, tests of signals/moving_mean" in found
    ran(small, took(50))
    assert "of tests of signals/moving_mean" in problems(small)[0]
    small.write(TESTS, json.dumps(took(10)))
    assert problems(small) == []


@pytest.mark.parametrize(("seconds", "slow", "fine"), [(68, 1, True), (70, 1, False), (130, 2, True), (30, 0.4, False)])
def test_a_notebook_has_sixty_seconds_of_the_unit_s_machine(small, capsys, seconds, slow, fine):
    ran(small, took(seconds, slow))
    found = problems(small)
    assert bool(found) != fine
    assert fine or f"{seconds} s where the calibration took {slow:.2f} of its unit" in found[0]
    assert "of 1 notebooks and chapters\n" in capsys.readouterr().out


@pytest.mark.parametrize(("seconds", "slow", "fine"), [(22.9, 1, True), (23.1, 1, False), (45, 2, True)])
def test_a_chapter_s_tests_have_twenty(small, seconds, slow, fine):
    small.write(TESTS, json.dumps(took(seconds, slow)))
    assert bool(problems(small)) != fine


def test_the_newest_run_at_tier_cpu_counts(small):
    old, new = took(500, date="2026-01-01"), took(50, date="2026-01-03")
    ran(small, old, new, took(900, tier="gpu", date="2026-02-02"))
    assert problems(small) == []


def test_what_is_too_slow_is_told_only_where_somebody_asks_for_that(small, monkeypatch, capsys):
    ran(small, took(70))
    assert len(problems(small)) == 1
    monkeypatch.setenv("REBUILT_BUDGETS", "told")
    assert problems(small) == [] and "budgets: too slow: signals/moving_mean: 70 s" in capsys.readouterr().out


@pytest.mark.parametrize("calibration", [None, {}, {"unit_s": 0.25}, {"before_s": 1.0}])
def test_a_run_without_a_calibration_is_told(small, capsys, calibration):
    ran(small, took(500, calibration=calibration))
    assert problems(small) == [] and "of 2 notebooks and chapters" in capsys.readouterr().out


DISTURBED = {
    "busy": ({"busy_cores": {"before": 0.0, "after": None, "during": 0.8}}, "others took 0.8 cores"),
    "uneven": ({"calibration": {"before_s": 0.25, "after_s": 2.0, "unit_s": 0.25}}, "1.00 of its unit before and 8.00"),
}


@pytest.mark.parametrize("how", DISTURBED)
@pytest.mark.parametrize(("processor", "fine"), [(115, True), (150, False)])
def test_a_disturbed_run_is_judged_by_its_processor_time_in_the_faster_unit(small, capsys, how, processor, fine):
    more, told = DISTURBED[how]
    for seconds in (20, 300):
        ran(small, took(seconds, processor_seconds=processor, threads=2, **more))
        found = problems(small)
        assert bool(found) != fine and told in capsys.readouterr().out
        assert fine or "75 s of processor on each thread" in found[0]


def test_a_disturbed_run_without_processor_time_is_told_and_not_judged(small, capsys):
    ran(small, took(300, **DISTURBED["busy"][0]))
    assert problems(small) == [] and "no processor time is known: not judged" in capsys.readouterr().out


def test_a_calibration_on_one_side_will_do(small):
    ran(small, took(65, calibration={"before_s": 0.25, "unit_s": 0.25}))
    assert problems(small) == []
