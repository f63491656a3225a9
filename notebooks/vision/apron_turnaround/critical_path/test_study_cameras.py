"""Arms of the study differ in who looks, and in nothing else; its numbers have their signs."""

from dataclasses import replace

import numpy as np
import pytest
from press.study import hold

from . import draw, kind_of, observed
from . import study_cameras as study
from .prediction import calibrate

ARMS = {  # cameras, kinds left out, the schedule alone, judged on
    "both": ("AB", (), False, "test"),
    "a": ("A", (), False, "test"),
    "b": ("B", (), False, "test"),
    "nobody": ("", (), False, "test"),
    "schedule": ("", (), True, "test"),
    "slower": ("AB", (), False, "slower"),
    "no_people": ("AB", ("people",), False, "test"),
    "no_fuel": ("AB", ("fuel truck",), False, "test"),
    "no_catering": ("AB", ("catering truck",), False, "test"),
    "no_bags": ("AB", ("belt loader",), False, "test"),
    "no_cleaning": ("AB", ("cleaning van",), False, "test"),
    "no_restocking": ("AB", ("supply cart",), False, "test"),
    "no_stairs": ("AB", ("stairs",), False, "test"),
    "no_tug": ("AB", ("tug",), False, "test"),
}
SIZES = {"learned": 30, "calibrated": 29, "test": 12, "slower": 12}


def test_each_arm_is_handed_what_it_is_named_for():
    seen = hold(study.STUDY)
    assert {name for name, _ in seen} == set(ARMS)
    for (name, seed), one in seen.items():
        cameras, without, schedule, test = ARMS[name]
        wanted = {"cameras": cameras, "without": without, "schedule": schedule}
        assert one.job.arm.setting == wanted and list(one.tests) == [test]
        parts = study.parts(seed, study.STUDY.trial)
        for handed, part in ((one.job.train, "learned"), (one.job.choice, "calibrated")):
            assert handed == parts[part].data
        assert one.tests[test] == parts[test].data


def test_parts_share_no_turnaround_and_only_one_is_slower():
    parts = study.parts(3, SIZES)
    offs = {name: {one.off_block for one, _ in part.data} for name, part in parts.items()}
    assert sum(map(len, offs.values())) == len(set().union(*offs.values())) == 83
    fuel = {
        name: np.mean([one.durations["fuel"] for one, _ in part.data if one.hit != "fuel"])
        for name, part in study.parts(0, dict.fromkeys(SIZES, 150)).items()
    }
    assert 1.25 < fuel["slower"] / fuel["test"] < 1.41
    assert all(abs(fuel[name] / fuel["test"] - 1) < 0.06 for name in ("learned", "calibrated"))


def test_margins_come_from_the_calibrated_part_at_nine_tenths(monkeypatch):
    shares = []
    monkeypatch.setattr(
        study,
        "calibrate",
        lambda *a, **k: shares.append((len(a[1]), a[2:], k)) or calibrate(*a, **k),
    )
    parts = study.parts(0, SIZES)
    study.Forecaster(study.ARMS["a"].setting, parts["learned"].data, parts["calibrated"].data)
    assert shares == [(29, (), {})] * len(study.MOMENTS)
    assert calibrate.__defaults__ == (0.9,)


class Fixed:
    """A forecaster whose every interval is the truth and so much around it."""

    def __init__(self, off, wide, chance=0.0, margin=0.0):
        self.off, self.wide, self.chance = off, wide, chance
        self.margins, self.who = dict.fromkeys(study.MOMENTS, margin), observed.kinds("AB")

    def raw(self, one, told, now):
        middle = one.off_block + self.off
        return study.Interval(middle, middle - self.wide, middle + self.wide), self.chance


def test_scores_have_their_sign():
    data = study.parts(0, SIZES)["test"].data
    good, bad = study.judge(Fixed(0, 1), data, None), study.judge(Fixed(3, 1), data, None)
    assert (good["error"], good["coverage"], good["width"]) == (0, 1, 2)
    assert (bad["error"], bad["coverage"], bad["error_at_30"]) == (
        pytest.approx(3),
        0,
        pytest.approx(3),
    )
    wide = study.judge(Fixed(3, 1, margin=2.5), data, None)
    assert wide["coverage"] == 1 and wide["raw_coverage"] == 0 and wide["width"] == 7
    hit = [one for one, _ in data if one.hit]
    assert 0 < len(hit) < len(data) and good["coverage_hit"] == 1 and bad["coverage_hit"] == 0
    narrow = study.judge(Fixed(3, 1, margin=1.5), data, None)
    assert narrow["coverage"] == 0 and narrow["width"] == 5
    late = np.mean([one.off_block > one.tobt + 5 for one, _ in data])
    alarm = study.judge(Fixed(0, 1, chance=1.0), data, None)
    assert alarm["precision"] == pytest.approx(late) and alarm["recall"] == 1
    assert good["precision"] == good["recall"] == 0
    half = study.judge(Fixed(0, 1, chance=0.5), data, None)
    below = study.judge(Fixed(0, 1, chance=0.49), data, None)
    assert half["recall"] == 1 and below["recall"] == 0


def test_coverage_of_the_hit_counts_the_hit_alone():
    data = study.parts(0, SIZES)["test"].data

    class MissesTheHit(Fixed):
        def raw(self, one, told, now):
            return Fixed(9 * bool(one.hit), 1).raw(one, told, now)

    found = study.judge(MissesTheHit(0, 1), data, None)
    assert found["coverage_hit"] == 0 < found["coverage"] < 1


def test_a_forecast_is_of_what_was_learned_of_who_looks_and_of_now():
    parts = study.parts(2, SIZES)
    learned, calibrated = parts["learned"].data, parts["calibrated"].data
    made = study.Forecaster(study.ARMS["no_fuel"].setting, learned, calibrated)
    who = observed.kinds("AB", ("fuel truck",))
    draws = study.Draws([one for one, _ in learned])
    for one, told in parts["test"].data[:6]:
        late_start = one._replace(tsat=70.0)
        for each, now in ((one, 20.0), (late_start, 30.0)):
            left = draws.left(observed.seen(told, now, who), each.tsat)
            wanted = study.interval(left), study.late(left, each.tobt)
            assert made.raw(each, told, now) == wanted


def test_the_baseline_is_the_target_or_the_approved_time_if_that_is_later():
    made = study.Forecaster(study.ARMS["schedule"].setting, [], [])
    one = draw(np.random.default_rng(0))._replace(tobt=41, tsat=36.0)
    assert made.raw(one, {}, 10) == ((41, 41, 41), 0.0)
    assert made.raw(one._replace(tsat=47.0), {}, 10) == ((47, 47, 47), 1.0)
    assert made.raw(one, {}, 60)[0].median == 60  # it has not left yet


def test_nobody_knows_what_will_be_missed():
    rng = np.random.default_rng(3)
    one = draw(rng, hit=0)
    whole = observed.tell(one, rng, observed.LIKE_FILMS._replace(missed=0))
    lost = {name: told for name, told in whole.items() if name != "fuel end"}
    before, after = whole["fuel end"][1] - 0.1, whole["fuel end"][1]
    who = observed.kinds("AB")
    assert observed.seen(lost, before, who) == observed.seen(whole, before, who)
    assert set(observed.seen(whole, after, who).known) - set(
        observed.seen(lost, after, who).known
    ) == {"fuel end"}


def test_told_minutes_are_off_as_in_films():
    rng = np.random.default_rng(4)
    rows = [(one, observed.tell(one, rng)) for one in (draw(rng) for _ in range(200))]
    off, delay = {}, {}
    for one, told in rows:
        for name, (minute, known_at) in told.items():
            kind = "walk" if name in ("deboarding end", "boarding end") else name[-3:]
            off.setdefault(kind, []).append(minute - one.events[name])
            delay.setdefault(kind, []).append(known_at - one.events[name])
    films = observed.LIKE_FILMS
    assert np.mean(off["end"]) == pytest.approx(films.late, abs=0.02)
    assert np.mean(off["walk"]) == pytest.approx(0, abs=0.02)
    assert np.std(off["end"]) == pytest.approx(films.spread, abs=0.01)
    for kind, wanted in (("art", films.start), ("end", films.end), ("walk", films.walk)):
        assert np.mean(delay[kind]) == pytest.approx(wanted, abs=0.02)
    told = np.mean([len(told) for _, told in rows]) / 21
    assert 1 - told == pytest.approx(films.missed, abs=0.005)


def test_who_sees_nothing_knows_nothing_and_who_is_left_out_is_not_seen():
    rng = np.random.default_rng(0)
    told = observed.tell(draw(rng), rng)
    assert observed.seen(told, 99, observed.kinds("")).known == {}
    known = observed.seen(told, 99, observed.kinds("AB", ("people",)))
    assert {kind_of(name) for name in known.known} == observed.kinds("AB") - {"people"}
    assert "people" not in known.watched
    early = observed.seen(told, 10, observed.kinds("AB")).known
    assert early and all(told[name][1] <= 10 for name in early)


def test_the_cameras_see_what_they_see_in_the_scene():
    from apron_cameras import sight

    assert sight() == observed.SIGHT


def test_the_cause_is_named_by_who_saw_it():
    rng = np.random.default_rng(1)
    data = []
    while len(data) < 30:
        one = draw(rng, hit=1.0)
        if one.hit == "fuel" and one.durations["fuel"] > 16:
            data.append((one, observed.tell(one, rng, observed.LIKE_FILMS._replace(missed=0))))
    assert study.named(observed.kinds("AB"), data) > 0.7
    assert study.named(observed.kinds("A"), data) == 0


def test_the_outcomes_point_the_right_way():
    wanted = {
        "study_both_over_schedule": ("error", "both", "schedule", True),
        "study_both_over_nobody": ("error", "both", "nobody", True),
        "study_worth_of_a": ("error", "b", "both", False),
        "study_worth_of_b": ("error", "a", "both", False),
    }
    wanted |= {
        f"study_worth_of_{one}": ("error", f"no_{one}", "both", False) for one in study.WORTH
    }
    told = {
        label: (one.metric, one.arm, one.less, one.ratio)
        for label, one in study.STUDY.outcomes.items()
    }
    assert told == wanted


def test_arms_that_are_compared_are_judged_on_the_same_part():
    for one in study.STUDY.outcomes.values():
        assert study.ARMS[one.arm].test == study.ARMS[one.less].test == ("test",)


def test_an_outcome_that_differs_in_more_is_refused():
    arms = {**study.ARMS, "no_fuel": study.arm("A", ("fuel truck",))}
    with pytest.raises(ValueError, match=r"setting\.cameras"):
        hold(replace(study.STUDY, arms=arms))


def test_units_scales_and_sizes():
    told = {name: (one.unit, one.scale) for name, one in study.STUDY.metrics.items()}
    minutes, shares = (
        ("error", "error_at_30", "width"),
        ("coverage", "coverage_hit", "raw_coverage", "precision"),
    )
    assert all(told[name] == ("min", 1) for name in minutes)
    assert all(told[name] == ("%", 100) for name in (*shares, "recall", "cause"))
    assert (study.LATE, study.ALERT, study.ALERT_AT) == (5.0, 0.5, 20.0)
    assert list(study.STUDY.seeds) == list(range(30))
    assert study.STUDY.sizes == {"learned": 200, "calibrated": 199, "test": 200, "slower": 100}


def test_an_arm_learns_lengths_and_calibrates_margins_on_parts_of_their_own(monkeypatch):
    handed = []
    monkeypatch.setattr(study, "Forecaster", lambda *given: handed.append(given))

    class Handed:
        arm, train, choice = study.ARMS["a"], "learned", "calibrated"

    study.fit(Handed)
    assert handed == [(study.ARMS["a"].setting, "learned", "calibrated")]
