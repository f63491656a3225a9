"""The shipped outputs: every verdict, every count, the two references that trip the ruler."""

import pytest
import real_samples
import voting
from answer_judge import equivalent
from helpers import data

EACH = {
    "6b_finetuning": 286,
    "6b_verification": 515,
    "175b_finetuning": 458,
    "175b_verification": 742,
}


@pytest.fixture(scope="module")
def four():
    return real_samples.gsm8k_verdicts(data.fetch("gsm8k") / "example_model_solutions.jsonl")


@pytest.fixture(scope="module")
def problems():
    return real_samples.math_problems(data.fetch("math_samples") / "math_cot_100.jsonl")


def test_each_of_the_5276_verdicts_is_the_shipped_one(four):
    assert four["ours"] == four["shipped"]
    assert {name: sum(own) for name, own in four["ours"].items()} == EACH
    assert sum(map(len, four["ours"].values())) == 5276


def test_any_of_four_and_the_majority_of_four_by_each_rule_for_ties(four):
    columns = list(zip(*four["answers"].values(), strict=True))
    wanted = four["reference"]
    rows = list(zip(columns, wanted, strict=True))
    assert sum(want in row for row, want in rows) == 887
    assert sum(voting.majority(row) == want for row, want in rows) == 584
    assert sum(voting.majority(row[::-1]) == want for row, want in rows) == 744
    shares = [voting.share_right(row, [one == want for one in row]) for row, want in rows]
    assert sum(shares) / 1319 == pytest.approx(0.482, abs=5e-4)


def test_the_parser_decides_a_count(four):
    columns = zip(*four["answers"].values(), strict=True)
    numbers = [[real_samples.as_number(one) for one in row][::-1] for row in columns]
    wanted = map(real_samples.as_number, four["reference"])
    pairs = zip(numbers, wanted, strict=True)
    assert sum(voting.majority(row) == want for row, want in pairs) == 743


def test_a_final_answer_stands_behind_its_mark_in_the_last_line():
    assert real_samples.final_answer("so A: 3\n4 eggs\nA: 1,450,000\n") == "1450000"
    assert real_samples.final_answer("A: 3\nand so on") is None
    assert real_samples.final_answer("A:  ") is None
    assert real_samples.as_number("2.50") == real_samples.as_number("5/2")
    assert real_samples.as_number("10+John's age") == "10+John's age"


def test_a_hundred_problems_of_which_ten_are_mixed(problems):
    assert len(problems) == 100 and all(len(one.answers) == 8 for one in problems)
    assert sum(0 < sum(one.shipped) < 8 for one in problems) == 10


def test_ours_differs_from_the_shipped_verdicts_in_one_answer_of_eight_hundred(problems):
    odd = [
        (one.number, answer)
        for one in problems
        for answer, said in zip(one.answers, one.shipped, strict=True)
        if answer and equivalent(one.reference, answer, 10) is not said
    ]
    assert odd == [(72, "10000")]


def test_the_mended_ruler_changes_two_problems_and_no_other(problems):
    changed = {
        one.number: sum(found)
        for one in problems
        if (found := real_samples.mended(one, lambda a, b: equivalent(a, b, 10))) != one.shipped
    }
    assert changed == {3: 8, 72: 1}
