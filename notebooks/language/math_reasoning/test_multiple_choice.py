"""The harness asks the right thing, the baselines are known, and nothing leaks."""

import pytest
import torch
from helpers import data
from multiple_choice import (
    OfModel,
    always_d,
    best,
    by_letter,
    by_likelihood,
    interval,
    listed,
    longest,
)
from real_samples import rows
from small_solver import Shape, Solver
from templated_maths import encode


def loves(letter):
    """A likelihood that sees nothing but a letter."""
    return lambda prompt, tails: [1.0 if one.strip() == letter else 0.0 for one in tails]


def knows(choice):
    """A likelihood that finds the letter of a choice in the prompt."""

    def likelihood(prompt, tails):
        return [float(f"{one.strip()}. {choice}" in prompt) for one in tails]

    return likelihood


CHOICES = ["red", "green", "blue", "grey"]


def test_who_loves_a_letter_gets_what_it_is_worth_and_rotated_nothing():
    assert [by_letter(loves(one), "?", CHOICES) for one in "ABCD"] == [0, 1, 2, 3]
    for one in "ABCD":  # each choice stood there once: all are equal, the first is taken
        assert by_letter(loves(one), "?", CHOICES, rotated=True) == 0


@pytest.mark.parametrize("rotated", [False, True])
def test_who_knows_the_choice_is_right_wherever_it_stands(rotated):
    for at, choice in enumerate(CHOICES):
        assert by_letter(knows(choice), "?", CHOICES, rotated) == at


def test_by_likelihood_a_short_text_is_favoured_unless_it_is_per_character():
    def each(prompt, tails):
        assert prompt == "Q: ? A:" and all(one[0] == " " for one in tails)
        return [-1.0 * len(one) - (one.strip() != "longest") for one in tails]

    assert by_likelihood(each, "?", ["longest", "s"]) == 1
    assert by_likelihood(each, "?", ["longest", "s"], per_character=True) == 0


def test_baselines():
    assert always_d("?", CHOICES) == 3 and longest("?", CHOICES) == 1
    assert best([1.0, 2.0, 2.0]) == 1
    assert listed("Which?", ["x", "y"]) == "Q: Which? A. x B. y A:"


def test_wilsons_interval():
    low, high = interval(50, 100)
    assert low == pytest.approx(0.4038, abs=1e-4) and high == pytest.approx(0.5962, abs=1e-4)
    assert interval(0, 10)[0] == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("tails", [(" 2", " three"), (" A", " B", " C", " D"), (" 2",)])
def test_a_models_likelihood_is_the_sum_of_its_tokens_padding_left_out(tails):
    torch.manual_seed(0)
    model = Solver(Shape(context=40, width=16, layers=1, heads=2)).eval()
    with torch.no_grad():
        for one in model.parameters():
            one.add_(0.2 * torch.randn_like(one))
    found = OfModel(model)("Q: 1+1? A:", list(tails))
    for tail, want in zip(tails, found, strict=True):
        tokens = encode("Q: 1+1? A:" + tail)
        told = model(torch.tensor([tokens])).log_softmax(-1)[0]
        by_hand = sum(
            told[at - 1, tokens[at]] for at in range(len(tokens) - len(tail), len(tokens))
        )
        assert want == pytest.approx(by_hand.item(), abs=1e-4)


def test_a_prompt_that_is_too_long_keeps_its_end():
    torch.manual_seed(0)
    likelihood = OfModel(Solver(Shape(context=40, width=16, layers=1, heads=2)).eval())
    long, tails = "x" * 500 + "Q: 1? A:", [" 2", " 3"]
    assert likelihood(long, tails) == likelihood("y" * 9 + long, tails)
    assert all(one == one for one in likelihood(long, ["z" * 400, " 2"]))


def test_the_shipped_questions_and_both_baselines_on_them():
    questions = rows(data.fetch("math_samples") / "mmlu_stem_test.jsonl")
    assert len(questions) == 3018 and all(len(one["choices"]) == 4 for one in questions)
    hits = {
        pick.__name__: sum(
            pick(one["question"], one["choices"]) == one["answer"] for one in questions
        )
        for pick in (always_d, longest)
    }
    print(hits)
    assert 700 < hits["always_d"] < 1000 and 700 < hits["longest"] < 1000
