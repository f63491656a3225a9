"""A declared study run: each arm is handed what it declares, nothing is measured twice, outcomes have their sign."""

import copy
import random
from dataclasses import replace

import numpy
import pytest

from helpers import receipts
from helpers.study import Arm, Metric, Outcome, Part, Study, StudyError
from press.study import hold, record, run

torch = pytest.importorskip("torch")
METRICS = {"score": Metric("%", 100), "loss": Metric("nat")}


def parts(seed, sizes):
    return {
        "train": Part(["learn", seed], range(10)),
        "choice": Part(["choose", seed], range(10, 15)),
        "test": Part(["judge", seed], range(15, 20)),
    }


def study(**changes):
    """Two arms of one start, a third that goes on from the first, a fourth that only reads the second."""
    arms = {
        "plain": Arm(train="train", loss=1),
        "tuned": Arm(train="train", choice="choice", loss=2),
        "longer": Arm(train="train", start="plain", loss=3),
        "both": Arm(start=("plain", "tuned")),
    }
    about = {"notebook": "rolling_distance", "name": "toy", "arms": arms, "seeds": (7, 8, 9), "metrics": METRICS}
    about |= {"parts": parts, "begin": lambda word, job: [word], "fit": fit, "judge": judge}
    about |= {"sizes": {"images": 6}, "trial": {"images": 2}}
    return Study(**(about | changes))


def fit(job):
    job.start.append((job.name, job.train, job.choice))
    return job.start


def judge(made, data, job):
    return {"score": len(str(made)) / 1000, "made": [str(made), data, job.test]}


def test_each_arm_gets_its_parts_and_a_copy_of_what_it_goes_on_from():
    found = run(study())
    made, data, test = found["longer"][8]["test"]["made"]
    assert made == str(["new", ("plain", ["learn", 8], None), ("longer", ["learn", 8], None)])
    assert data == ["judge", 8] and test == "test"
    assert found["tuned"][7]["test"]["made"][0] == str(["new", ("tuned", ["learn", 7], ["choose", 7])])
    assert found["plain"][8]["test"]["made"][0] == str(["new", ("plain", ["learn", 8], None)]), "its end was not copied"
    assert "longer" not in found["both"][9]["test"]["made"][0] and "tuned" in found["both"][9]["test"]["made"][0]


def test_what_an_arm_makes_does_not_depend_on_what_ran_before_it():
    def drawn(job):
        return random.random()

    arms = {"a": Arm(train="train", loss=1), "b": Arm(train="train", loss=2)}
    both = study(arms=arms, fit=drawn, judge=lambda made, data, job: {"score": made})
    alone = study(arms={"b": arms["b"]}, fit=drawn, judge=lambda made, data, job: {"score": made})
    assert run(both)["b"] == run(alone)["b"]
    assert run(both)["b"][7] != run(both)["b"][8]


def test_an_arm_that_goes_on_from_what_was_kept_makes_what_it_made_in_one_go():
    kept = {}

    def drawn(job):
        return [job.start, random.random()]

    def keep(kind, name, seed, compute):
        if (kind, name, seed) not in kept:
            kept[kind, name, seed] = compute()
        return kept[kind, name, seed]

    arms = {"a": Arm(train="train", loss=1), "b": Arm(train="train", start="a", loss=2)}
    both = study(arms=arms, fit=drawn, judge=lambda made, data, job: {"score": made[1], "luck": [random.random()]})
    whole = run(both, keep)
    for one in [one for one in kept if one[1] == "b"]:
        del kept[one]
    assert run(both, keep) == whole


def test_the_judge_cannot_change_what_others_go_on_from():
    def harsh(made, data, job):
        made.append("judged")
        return {"score": 1.0, "made": str(made)}

    arms = {name: arm for name, arm in study().arms.items() if name != "both"}
    assert run(study(arms=arms, judge=harsh))["longer"][7]["test"]["made"].count("judged") == 1


def test_parts_and_judges_draw_by_the_seed_alone():
    def drawn(seed, sizes):
        return parts(seed, sizes) | {"test": Part(random.random(), range(15, 20))}

    def lucky(made, data, job):
        return {"score": data, "luck": random.random()}

    arms = {"a": Arm(train="train", loss=1), "b": Arm(train="train", loss=2)}
    random.seed(1)
    once = run(study(arms=arms, parts=drawn, judge=lucky))
    random.seed(2)
    assert run(study(arms=dict(reversed(arms.items())), parts=drawn, judge=lucky)) == once
    assert once["a"][7]["test"]["luck"] == once["b"][7]["test"]["luck"] != once["a"][8]["test"]["luck"]


@pytest.mark.parametrize("kind", ["tensor", "array", "inside"])
def test_no_arm_writes_into_what_others_are_handed(kind):
    def drawn(seed, sizes):
        made = {"tensor": torch.ones(3), "array": numpy.ones(3), "inside": ({"x": [torch.ones(2, 3).T]}, lambda: None)}
        return {name: Part(copy.deepcopy(made[kind]), part.units) for name, part in parts(seed, sizes).items()}

    def written(data):
        data = data[0]["x"][0] if kind == "inside" else data
        data[0] += 1
        return float(data.sum())

    own = {"fit": lambda job: written(job.train), "judge": lambda made, data, job: {"score": made + written(data)}}
    arms = {name: Arm(train="train", loss=loss, test=("test",)) for loss, name in enumerate("ab")}
    found = run(study(arms=arms, parts=drawn, **own))
    assert found["a"] == found["b"]


def test_a_judge_draws_the_same_whether_its_arm_was_made_now_or_before():
    def drawn(seed, sizes):
        return {name: Part(random.random(), part.units) for name, part in parts(seed, sizes).items()}

    def keep(kind, name, seed, compute):
        return "kept" if kind == "made" else compute()

    only = study(arms={"a": Arm(train="train", loss=1)}, parts=drawn, fit=lambda job: "kept")
    lucky = replace(only, judge=lambda made, data, job: {"score": data, "luck": random.random()})
    assert run(lucky, keep) == run(lucky)


def test_an_arm_may_have_fewer_seeds():
    arms = {**study().arms, "costly": Arm(train="train", loss=9, seeds=2)}
    found = run(study(arms=arms))
    assert list(found["costly"]) == [7, 8] and list(found["plain"]) == [7, 8, 9]


def test_parts_that_share_units_stop_the_run():
    def shared(seed, sizes):
        return parts(seed, sizes) | {"test": Part("judge", range(9, 20))}

    with pytest.raises(StudyError, match="share 1 units, such as 9"):
        run(study(parts=shared))


def test_keep_answers_for_what_it_has():
    kept, asked = {}, []

    def keep(kind, name, seed, compute):
        if (kind, name, seed) not in kept:
            asked.append((kind, name, seed))
            kept[kind, name, seed] = compute()
        return kept[kind, name, seed]

    whole = run(study(), keep)
    assert ("made", "plain", 7) in asked and ("scored", "both", 9) in asked and ("counted", "", 7) in asked
    count = len(asked)
    assert run(study(), keep) == whole and len(asked) == count
    assert kept["counted", "", 7] == {"train": 10, "choice": 5, "test": 5}


def recorded(declared, scores):
    """The receipt of these scores: {arm: [a number for each seed]}."""
    receipt = receipts.start("rolling_distance", "cpu")
    found = {
        arm: {seed: {"test": told if isinstance(told, dict) else {"score": told}} for seed, told in enumerate(values)}
        for arm, values in scores.items()
    }
    record(declared, receipt, found)
    return receipt


def test_outcomes_have_their_sign_their_pairing_and_a_95_per_cent_interval():
    outcomes = {"gain": Outcome("score", "long", "short", differs=("loss",))}
    outcomes |= {"times": Outcome("score", "long", "short", differs=("loss",), ratio=True)}
    arms = {"short": Arm(train="train", loss=1), "long": Arm(train="train", loss=2)}
    receipt = recorded(study(arms=arms, outcomes=outcomes), {"short": [0.1, 0.3, 0.2], "long": [0.2, 0.5, 0.3]})
    gain, times = receipt.metrics["gain"], receipt.metrics["times"]
    assert gain["value"] == pytest.approx(100 * 0.4 / 3) and gain["unit"] == "%" and gain["repeats"] == 3
    half = 4.302653 * 5.773503 / 3**0.5  # of 10, 20 and 10: Student's t and their deviation
    assert (gain["low"], gain["high"]) == pytest.approx((gain["value"] - half, gain["value"] + half), rel=1e-5)
    assert times["value"] == pytest.approx((2 * 5 / 3 * 1.5) ** (1 / 3)) and times["unit"] == "×"
    assert times["low"] < times["value"] < times["high"] and "95 %" in gain["note"]
    turned = {"gain": Outcome("score", "short", "long", differs=("loss",))}
    again = recorded(study(arms=arms, outcomes=turned), {"short": [0.1, 0.3, 0.2], "long": [0.2, 0.5, 0.3]})
    assert again.metrics["gain"]["value"] == pytest.approx(-gain["value"])


def test_arms_are_recorded_by_the_key_and_lists_only_by_extra():
    extra = lambda receipt, found: receipt.curve("path", y=found["only"][0]["test"]["path"])  # noqa: E731
    declared = study(arms={"only": Arm(train="train", loss=1)}, key="{part}_{arm}_{metric}", extra=extra)
    receipt = recorded(declared, {"only": [{"score": 0.5, "path": [1, 2]}, {"score": 0.7, "path": [3, 4]}]})
    assert list(receipt.metrics) == ["test_only_score"] and receipt.curves == {"path": {"y": [1, 2]}}
    assert receipt.metrics["test_only_score"]["value"] == pytest.approx(60)


def test_two_tests_under_one_key_are_refused():
    receipt = receipts.start("rolling_distance", "cpu")
    found = {"only": {7: {"near": {"score": 0.5}, "far": {"score": 0.1}}}}
    with pytest.raises(StudyError, match="study_only_score is recorded twice: the key"):
        record(study(arms={"only": Arm(train="train", test=("near", "far"), loss=1)}), receipt, found)


def test_a_score_that_some_seed_lacks_is_not_recorded():
    receipt = recorded(study(arms={"only": Arm(train="train", loss=1)}), {"only": [0.5, float("nan")]})
    assert receipt.metrics == {}


def test_arms_with_tests_of_their_own_are_each_judged_by_theirs():
    arms = {"near": Arm(train="train", test=("test",)), "far": Arm(train="train", test=("choice",), shares="a test")}
    declared = study(arms=arms, outcomes={"gain": Outcome("score", "near", "far", differs=("shares", "test"))})
    declared.check()
    found = {"near": {7: {"test": {"score": 0.5}}}, "far": {7: {"choice": {"score": 0.2}}}}
    record(declared, receipt := receipts.start("rolling_distance", "cpu"), found)
    assert receipt.metrics["gain"]["value"] == pytest.approx(30)


def test_outcomes_pair_the_same_seeds():
    arms = {"short": Arm(train="train", loss=1), "long": Arm(train="train", loss=2)}
    declared = study(arms=arms, outcomes={"gain": Outcome("score", "long", "short", differs=("loss",))})
    with pytest.raises(StudyError, match=r"long has seeds \[0, 1, 2\], short \[0, 1\]"):
        recorded(declared, {"short": [0.1, 0.3], "long": [0.2, 0.5, 0.3]})


def test_hold_shows_what_every_arm_was_handed():
    seen = hold(study())
    assert set(seen) == {(arm, seed) for arm in study().arms for seed in (7, 8)}
    longer, both = seen["longer", 8], seen["both", 7]
    assert longer.job.start == ("made", "plain", 8) and longer.made == ("made", "longer", 8)
    assert longer.job.train == ["learn", 8] and longer.job.choice is None and longer.tests == {"test": ["judge", 8]}
    assert seen["plain", 7].job.start == "new" and seen["plain", 7].job.sizes == {"images": 2}
    assert both.made == (("made", "plain", 7), ("made", "tuned", 7))
    assert seen["tuned", 8].job.choice == ["choose", 8]


def test_hold_refuses_what_a_recording_refuses():
    same = {"a": Arm(train="train", loss=1), "b": Arm(train="train", loss=1)}
    with pytest.raises(StudyError, match="a and b declare the same"):
        hold(study(arms=same))
    with pytest.raises(StudyError, match="'test' and 'test' share"):
        hold(study(arms={"a": Arm(train="train", choice="test")}))
