"""The declaration of a study: what differs is named, and what judges was not learned from."""

from functools import partial
from typing import NamedTuple

import pytest

from helpers.study import Arm, Metric, Outcome, Part, Study, StudyError, differences, student


class Recipe(NamedTuple):
    """What an arm optimises."""

    epochs: int = 1
    rate: float = 0.1


def declared(**changes):
    """A study of two recipes."""
    arms = {"short": Arm(train="train", loss=Recipe(1)), "long": Arm(train="train", loss=Recipe(3))}
    outcomes = {"gain": Outcome("score", "long", "short", differs=("loss.epochs",))}
    about = {"arms": arms, "outcomes": outcomes, "seeds": range(3), "metrics": {"score": Metric("%", 100)}}
    about |= {"parts": None, "judge": None, "notebook": "some", "name": "lengths"}
    return Study(**(about | changes))


def parts(train=(1, 2), test=(3,), choice=(4,)):
    return {"train": Part("a", train), "test": Part("b", test), "choice": Part("c", choice)}


@pytest.mark.parametrize(
    ("one", "other", "names"),
    [
        (Arm(), Arm(), []),
        (Arm(train="a"), Arm(train="b"), ["train"]),
        (Arm(loss=Recipe(1)), Arm(loss=Recipe(2, 0.2)), ["loss.epochs", "loss.rate"]),
        (Arm(), Arm(setting={"norm": True}), ["setting.norm"]),
        (Arm(setting={"norm": {"kind": "batch"}}), Arm(setting={"norm": {"kind": "layer"}}), ["setting.norm.kind"]),
        (Arm(loss=partial(pow, exp=2)), Arm(loss=partial(pow, exp=3)), ["loss.exp"]),
        (Arm(loss=partial(pow, 2)), Arm(loss=partial(max, 2)), ["loss.function"]),
        (Arm(test=("a",)), Arm(test=("a", "b")), ["test"]),
        (Arm(), Arm(seeds=2), ["seeds"]),
    ],
)
def test_differences_are_named(one, other, names):
    assert differences(one, other) == names == differences(other, one)


def test_arms_that_are_compared_differ_in_what_is_said_and_in_no_more():
    declared().check()
    other = {"short": Arm(train="train", loss=Recipe(1)), "long": Arm(train="other", loss=Recipe(3))}
    with pytest.raises(StudyError, match=r"gain: long and short differ in \['loss.epochs', 'train'\]"):
        declared(arms=other).check()
    more = {"gain": Outcome("score", "long", "short", differs=("loss.epochs", "loss.rate"))}
    with pytest.raises(StudyError, match="differ in"):
        declared(outcomes=more).check()


def test_two_names_for_one_arm_are_refused():
    with pytest.raises(StudyError, match="short and again declare the same"):
        declared(arms={**declared().arms, "again": Arm(train="train", loss=Recipe(1))}).check()


def test_an_outcome_of_an_arm_that_is_not_there_is_refused():
    with pytest.raises(StudyError, match=r"gain compares \['longer'\]"):
        declared(outcomes={"gain": Outcome("score", "longer", "short", differs=())}).check()


def test_arms_come_after_those_that_they_go_on_from():
    arms = {"c": Arm(start=("b", "a"), test=("c",)), "b": Arm(start="a", test=("b",)), "a": Arm()}
    assert declared(arms=arms, outcomes={}).order() == ["a", "b", "c"]
    with pytest.raises(StudyError, match="begin with themselves or one another"):
        declared(arms={"a": Arm(start="b"), "b": Arm(start="a")}).order()


def test_an_arm_that_begins_with_itself_is_refused():
    for start in ("only", ("new", "only")):
        with pytest.raises(StudyError, match="begin with themselves or one another"):
            declared(arms={"only": Arm(start=start)}, outcomes={}).check()


@pytest.mark.parametrize("arm", [Arm(train="To learn"), Arm(choice="2nd"), Arm(test=("held-out",)), Arm(train="")])
def test_names_of_parts_that_are_no_snake_case_are_refused(arm):
    with pytest.raises(StudyError, match=r"arm only names the parts \['.*'\]: allowed are snake_case names"):
        declared(arms={"only": arm}, outcomes={}).check()


def test_seeds_that_repeat_are_refused():
    with pytest.raises(StudyError, match=r"seeds \[0, 1, 0\]: some repeat"):
        declared(seeds=(0, 1, 0)).check()


@pytest.mark.parametrize(
    ("arm", "given", "why"),
    [
        (Arm(train="train"), parts(test=(2, 3)), "'train' and 'test' share 1 units, such as 2"),
        (Arm(train="train", choice="choice"), parts(choice=(3,)), "'choice' and 'test' share 1 units, such as 3"),
        (Arm(train="train", choice="choice"), parts(choice=(1,)), "'train' and 'choice' share 1 units"),
        (Arm(train="train", choice="test"), parts(), "'test' and 'test' share"),
        (Arm(train="train", test=("train",)), parts(), "'train' and 'train' share 2 units"),
        (Arm(train="more"), parts(), r"asks for \['more'\]: missing or without units"),
        (Arm(train="train"), parts(train=()), r"asks for \['train'\]: missing or without units"),
    ],
)
def test_parts_that_share_what_they_may_not_are_refused(arm, given, why):
    study = declared(arms={"only": arm}, outcomes={})
    with pytest.raises(StudyError, match=why):
        study.apart(given)


def test_parts_apart_are_accepted_and_a_stated_reason_lets_an_arm_be_judged_on_what_it_learned():
    given = declared(arms={"only": Arm(train="train", choice="choice")}, outcomes={})
    assert given.apart(parts()) is None
    memory = Arm(train="train", test=("train",), shares="what is asked is how much it has learned by heart")
    assert declared(arms={"only": memory}, outcomes={}).apart(parts()) is None
    chosen = Arm(train="train", choice="late", test=("train",), shares=memory.shares)
    with pytest.raises(StudyError, match="'train' and 'late' share"):  # the reason is for the test alone
        declared(arms={"only": chosen}, outcomes={}).apart(parts() | {"late": parts()["train"]})
    with pytest.raises(StudyError, match="arm other: the parts 'train' and 'train' share"):
        declared(arms={"only": memory, "other": Arm(train="train", test=("train",))}, outcomes={}).apart(parts())


def test_what_an_arm_goes_on_from_counts_as_learned():
    arms = {"first": Arm(train="choice"), "second": Arm(train="train", start="first", test=("late",))}
    study = declared(arms=arms, outcomes={})
    assert study.learned("second") == {"train", "choice"}
    with pytest.raises(StudyError, match="arm second: the parts 'choice' and 'late' share"):
        study.apart(parts() | {"late": Part("d", (4,))})


def test_students_interval():
    assert student([2.0]) == (2.0, None, None)
    mean, low, high = student([1.0, 2.0, 3.0])
    assert mean == 2 and low == pytest.approx(2 - 4.302653 / 3**0.5) and high == pytest.approx(2 + 4.302653 / 3**0.5)


def test_a_small_study_takes_the_sizes_of_a_trial_and_two_seeds():
    study = declared(sizes={"images": 6000, "width": 8}, trial={"images": 60}).small()
    assert study.sizes == {"images": 60, "width": 8} and study.seeds == (0, 1)
