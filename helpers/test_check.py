import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from helpers import check

WHY = {"why": "the test says so"}


def test_that_passes_and_stops():
    assert check.that(True, "fine") is None
    with pytest.raises(check.Failed, match="ten hits"):
        check.that(False, "ten hits")
    assert issubclass(check.NotYet, check.Failed) and issubclass(check.Failed, AssertionError)


@given(hnp.arrays(np.float64, hnp.array_shapes(min_dims=0), elements=st.floats()))
def test_everything_is_close_to_itself(values):
    assert check.close(values, values.copy()) == 0


def test_close_gives_the_largest_difference():
    assert check.close([1.0, 2.5], [1.0, 2.0], atol=1, **WHY) == 0.5


@pytest.mark.parametrize(
    ("got", "want"),
    [
        (1.0, np.float32(1.0)),
        ([1, 2], torch.tensor([1.0, 2.0])),
        (torch.ones(3, requires_grad=True), np.ones(3)),
        (torch.ones(3, dtype=torch.bfloat16), np.ones(3)),
        (np.array([np.nan, np.inf, -np.inf]), torch.tensor([np.nan, np.inf, -np.inf])),
        (np.zeros((0, 3)), np.zeros((0, 3))),
        (np.arange(6).reshape(2, 3).T, torch.arange(6).reshape(2, 3).T),
        (["a", "b"], ["a", "b"]),
        ([True, False], np.array([True, False])),
        (1 + 2j, np.complex64(1 + 2j)),
        (torch.tensor([1 + 2j]).conj(), np.array([1 - 2j])),
    ],
)
def test_equal_values_pass_whatever_holds_them(got, want):
    assert check.close(got, want) == 0


@pytest.mark.parametrize(
    ("got", "want", "says"),
    [
        (
            [1.0, 2.0, 4.5],
            [1.0, 2.5, 3.0],
            r"2 of 3 values differ; worst at \[2\]: got 4.5, wanted 3.0; difference 1.5",
        ),
        (np.ones((2, 2)), np.eye(2), r"2 of 4 values differ; worst at \[0, 1\]"),
        (2.0, 1.0, "^got 2.0, wanted 1.0; difference 1, they must be equal$"),
        (np.ones(3), np.ones((3, 1)), r"shape \(3,\) came, \(3, 1\) was wanted"),
        (1.0, [1.0], "shape"),
        ([np.nan, 1.0], [0.0, 1.0], "got nan, wanted 0.0; 1 are NaN and should not be"),
        ([0.0], [np.nan], "got 0.0, wanted nan"),
        ([np.inf], [-np.inf], "got inf, wanted -inf"),
        ([1.0], [np.inf], "wanted inf"),
        ([2**62 + 1], [2**62], "1 of 1 values differ"),
        (["a"], ["b"], "was wanted"),
        ([True], [False], "was wanted"),
        ([True], [1], "was wanted"),
        (["1"], [1], "was wanted"),
        ([1 + 2j], [1 + 3j], "difference 1"),
    ],
)
def test_a_difference_says_how_many_and_where(got, want, says):
    with pytest.raises(check.Failed, match=says):
        check.close(got, want)


def test_the_tolerance_counts_and_is_told_with_its_reason():
    assert check.close([100.9], [100.0], rtol=0.01, **WHY) == pytest.approx(0.9)
    with pytest.raises(check.Failed, match=r"allowed 1 \(rtol 0.01, atol 0: the test says so\)"):
        check.close([101.1], [100.0], rtol=0.01, **WHY)
    with pytest.raises(check.Failed):
        check.close([5.0], [np.inf], rtol=0.5, **WHY)


@pytest.mark.parametrize("got", [np.nan, np.inf, -np.inf])
def test_no_tolerance_lets_nan_or_infinity_pass(got):
    with pytest.raises(check.Failed):
        check.close([got], [1.0], rtol=0.5, atol=9e9, **WHY)


def test_a_nan_is_the_worst_place():
    with pytest.raises(check.Failed, match=r"worst at \[1\]: got nan, wanted 1.0"):
        check.close([1.0, np.nan, 7.0], [1.0, 1.0, 1.0])


def test_a_tolerance_without_a_reason_is_refused():
    with pytest.raises(ValueError, match="rtol=0.1, atol=0: say with why="):
        check.close(1.0, 1.0, rtol=0.1)


def mean(values):
    return sum(values) / len(values)


CASES = [(([1.0, 3.0],), 2.0), (([5.0],), 5.0, "one value is its own mean")]


def test_a_right_answer_says_so(capsys):
    check.attempt(mean, CASES)
    assert capsys.readouterr().out == "mean: right in all 2 cases.\n"


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (lambda values: None, r"\]\) returned None: does it end with `return`\?$"),
        (lambda values: ..., "is not written yet.$"),
        (
            lambda values: max(values),
            r"\(\[1.0, 3.0\]\) returned 3.0, which is not right: got 3.0, wanted 2.0;.* Hint: add them$",
        ),
        (lambda values: values[1] - 1, r"\(\[5.0\]\) stopped with IndexError in its line 1: list index out of range.$"),
        (
            lambda values: "2.0",
            r"returned '2.0', which is not right: '2.0' \(<U3\) came, 2.0 \(float64\) was wanted. Hint: add them$",
        ),
        (lambda values: [2.0], r"returned \[2.0\]: shape \(1,\) came, \(\) was wanted: .* broadcast.$"),
        (3, "a function is needed here, and 3 came"),
    ],
)
def test_a_wrong_answer_is_told_what_to_look_at(answer, says):
    cases = [(([1.0, 3.0],), 2.0, "add them"), *CASES[1:]] if answer != 3 else CASES
    with pytest.raises(check.NotYet, match=says):
        check.attempt(answer, cases)


def test_a_stub_is_not_yet():
    def stub(values):
        raise NotImplementedError

    with pytest.raises(check.NotYet, match=r"stub\(\[1.0, 3.0\]\) is not written yet. Hint: start with sum"):
        check.attempt(stub, CASES, hint="start with sum")


def test_the_learners_own_error_is_the_cause():
    with pytest.raises(check.NotYet) as caught:
        check.attempt(lambda values: 1 / 0, CASES)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_an_answer_that_changes_its_argument_spoils_no_later_case():
    values = [3.0, 1.0]

    def sneaky(v):
        v.append(8.0)
        return 2.0

    check.attempt(sneaky, [((values,), 2.0), ((values,), 2.0)])
    assert values == [3.0, 1.0]


def test_an_error_is_told_with_its_line():
    def picky(values):
        raise ValueError("no values")

    with pytest.raises(check.NotYet, match=r"stopped with ValueError in its line 2: no values\."):
        check.attempt(picky, [(([],), 1.0)])


@pytest.mark.parametrize("fine", [True, None, np.True_])
def test_a_wanted_property_holds(fine):
    check.attempt(mean, [(([1.0],), lambda got: fine)])


@pytest.mark.parametrize(
    ("found", "says"), [(False, r"returned 1.0, which is not right\."), ("too small", "is not right: too small")]
)
def test_a_wanted_property_that_fails(found, says):
    with pytest.raises(check.NotYet, match=says):
        check.attempt(mean, [(([1.0],), lambda got: found)])


def test_arrays_are_told_by_their_shape():
    with pytest.raises(check.NotYet, match=r"array of shape \(1000,\)"):
        check.attempt(mean, [((np.ones(1000),), 2.0)])


@pytest.mark.parametrize(
    "value",
    [
        np.array([[1.5, 0.1, 3.0]]),
        np.array([1, 2], dtype=np.uint8),
        np.array([True, False]),
        np.array(["a", "b"]),
        np.float32([0.1]),
        torch.tensor([1.5, 2.0]),
        torch.tensor([[1, 2]], dtype=torch.int32),
    ],
    ids=str,
)
def test_small_inputs_are_told_as_code_that_makes_them_again(value):
    with pytest.raises(check.NotYet) as caught:
        check.attempt(lambda *inputs: 0, [(([value, 2.0], {"a": value}), 1)])
    call = str(caught.value).partition(" returned ")[0].removeprefix("<lambda>")
    (first, two), named = eval(call)
    for again in (first, named["a"]):
        assert type(again) is type(value) and again.dtype == value.dtype and (again == value).all()
    assert two == 2.0


def test_a_verdict_that_cannot_judge_what_came_does_not_blame_the_learner_s_code():
    with pytest.raises(
        check.NotYet, match=r"returned 7, which is not of the kind that is wanted: .*not subscriptable\.$"
    ):
        check.attempt(lambda values: 7, [(([],), lambda got: got[0] > 1, "look at the first")])


def test_a_list_of_texts_that_is_too_short_is_a_wrong_value_and_brings_the_hint():
    with pytest.raises(check.NotYet, match=r"shape \(1,\) came, \(2,\) was wanted.* Hint: filter first$"):
        check.attempt(lambda: ["a"], [((), ["a", "b"], "filter first")])


PLAIN = st.lists(st.integers(-3, 3) | st.floats(-2, 2) | st.sampled_from([0.1, np.nan, np.inf, True]), max_size=4)
PLAIN |= st.lists(st.booleans(), max_size=3) | st.lists(st.text("ab", max_size=2), max_size=3)
PLAIN |= st.lists(st.lists(st.integers(0, 2), min_size=2, max_size=2), max_size=3)


@given(PLAIN, PLAIN, st.sampled_from([0.0, 0.5]))
def test_plain_values_are_told_in_the_words_of_arrays(got, want, tolerance):
    def said(*values):
        try:
            return check.close(*values, rtol=tolerance, why="the test says so")
        except check.Failed as problem:
            return type(problem), str(problem)

    assume(not tolerance or not {"inf", "nan"} & set(map(str, want)))  # their limit is infinite, or none
    assume(got and want)  # an empty list has no kind
    numbers = all(type(value) in (int, float) for value in (*got, *want))
    assume(numbers or all(len(set(map(type, one))) == 1 for one in (got, want)))  # arrays write [0, 0.5] as [0.0, 0.5]
    assert said(got, want) == said(np.asarray(got), np.asarray(want))


PLAINLY = """
import sys
sys.modules["numpy"] = None
from helpers import check
assert check.close([[1, 2], [3, 4.5]], ((1.0, 2), (3, 4.5))) == 0 and check.close(range(3), [0, 1, 2]) == 0
assert check.close([10**400], [10**400]) == 0
assert check.close([0.5], [1], atol=1, why="a test") == 0.5 and check.close({"a": [1]}, {"a": [1]}) == 0
for got, want in ([1.0, 2.0], [1.0, 3.0]), (["a"], ["b"]), ([[1], [2, 3]], [[1], [2, 4]]), (None, 1):
    try:
        check.close(got, want)
    except check.Failed as problem:
        print(problem)
"""


def test_plain_values_need_no_numpy():
    done = subprocess.run([sys.executable, "-c", PLAINLY], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "1 of 2 values differ; worst at [1]: got 2.0, wanted 3.0; difference 1, they must be equal",
        "['a'] (<U1) came, ['b'] (<U1) was wanted",
        "[[1], [2, 3]] (object) came, [[1], [2, 4]] (object) was wanted",
        "None (object) came, 1 (int64) was wanted",
    ]
