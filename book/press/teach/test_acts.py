"""Acts: what is read from a cell, what is not well-formed, and what a page gets."""

import random
from types import SimpleNamespace

import pytest

from press.conftest import CHOOSE, ORDER, PREDICT, act
from press.errors import PressError
from press.teach import acts
from press.teach.answering import Acts

GOOD = CHOOSE.format(2, " ", "x")


def test_a_choice_has_its_options_replies_and_the_letter_that_is_right():
    found = acts.read(act(GOOD, "how_many", "choose"))
    assert found.question == "How many means have four values of width 2?" and found.right == "b"
    assert found.items == {"a": "four", "b": "three", "c": "two, since $4 / 2$ is two"}
    assert found.replies["a"] == "A window needs both its values, and the last value begins none."


def test_an_order_is_shuffled_always_alike_and_never_left_in_order():
    steps = ["cut a window", "add its values", "divide by the width"]
    for name in ("one", "two", "three", "four"):
        found = acts.read(act(ORDER, name, "order"))
        random.seed(name)
        assert found == acts.read(act(ORDER, name, "order"))
        assert list(found.items.values()) != steps
        assert [found.items[letter] for letter in found.right] == steps
        assert found.replies == {"": "A sum needs its values first."}


def test_a_quote_inside_a_question_stays_there():
    found = acts.read(act(f"They claim:\n\n> a rate\n\n{PREDICT}", "rate", "predict", metric="rate"))
    assert found.question.startswith("They claim:\n\n> a rate") and found.replies == {
        "": "A rate belongs to its machine."
    }


@pytest.mark.parametrize(
    ("cell", "what"),
    [
        (act(GOOD, "howMany", "choose"), "id 'howMany': snake_case is allowed"),
        (act(GOOD, "a", "guess"), "kind 'guess': choose, order and predict are allowed"),
        (act(GOOD, "a", "choose", minutes=4), "minutes 4: 1 to 3 are allowed"),
        (act(GOOD, "a", "choose", format="sing"), "format 'sing': explain a plot, find the bug and write are allowed"),
        (act(GOOD, "a", "choose", metric="m"), "metric 'm': only a prediction has one"),
        (act(PREDICT, "a", "predict"), "its metadata: 'metric' is a required property"),
        (act(PREDICT, "a", "predict", metric="m", within=1), "within 1: a factor above 1 is allowed"),
        (
            act(GOOD, "a", "choose", level=1),
            "not allowed ('level' was unexpected)",
        ),
        (act(GOOD[GOOD.index("- [") :], "a", "choose"), "needs a question"),
        (act("Which?\n\n- [x] this\n  > yes", "a", "choose"), "needs 2 to 6 items, none twice"),
        (act(GOOD.replace("four\n", "three\n"), "a", "choose"), "needs 2 to 6 items, none twice"),
        (act(GOOD.replace("[x]", "[ ]"), "a", "choose"), "needs one option marked [x]"),
        (act(GOOD.replace("  > A window", "  A window"), "a", "choose"), "needs a reply, `> …`, below each option"),
        (act(ORDER.replace("> A", "A"), "a", "order"), "needs a reply, `> …`, below each option, or else at its end"),
        (act("Put:\n\n1. a\n2. b\n\n> so", "a", "order"), "needs 3 to 8 items, none twice"),
        (act(PREDICT.replace("> ", ""), "a", "predict", metric="m"), "needs a reply"),
    ],
)
def test_what_is_not_well_formed_is_said(cell, what):
    with pytest.raises(PressError) as error:
        acts.read(cell)
    assert what in str(error.value)


@pytest.mark.parametrize(
    ("value", "guess", "said"),
    [
        (2100, 100, "off by a factor of 21"),
        (100, 2100, "off by a factor of 21"),
        (1, 1234, "off by a factor of 1230"),
        (2100, 4200, "close, within a factor of 2"),
        (2100, -2100, "not close"),
        (0, 3, "not close"),
        (0, 0, "exact"),
    ],
)
def test_a_class_notebook_says_how_near_a_guess_is_in_the_page_s_words(value, guess, said):
    own = Acts({"rate": {"metric": "rate", "within": None}})
    own.guess("rate", guess)
    receipt = SimpleNamespace(metrics={"rate": {"value": value, "unit": "points/s"}})
    assert own.beside("rate", receipt).endswith(f" That is {said}.")
