"""Arms differ in their text or in their start, learn equally many tokens, and are asked of
questions that nobody learned."""

from dataclasses import replace

import pytest
import study_tex_claim as study
import templated_maths as text
import torch
from press.study import hold
from small_solver import Recipe, Shape, Solver

ARMS = {
    "calculator": (None, "asked_stripped", "plain_reading"),
    "prose": ("prose", "asked_kept", "new"),
    "kept": ("kept", "asked_kept", "new"),
    "stripped": ("stripped", "asked_stripped", "new"),
    "kept_on": ("kept", "asked_kept", "prose"),
    "stripped_on": ("stripped", "asked_stripped", "prose"),
}
SIZES = {"lines": 400, "every": 2, "prose": 30}


@pytest.fixture(scope="module")
def held():
    return hold(study.STUDY)


def test_each_arm_is_handed_what_it_names(held):
    assert {name for name, _ in held} == set(ARMS)
    for (name, seed), one in held.items():
        train, test, start = ARMS[name]
        made = study.parts(seed, study.STUDY.small().sizes)
        assert one.job.train == (made[train].data if train else None) and list(one.tests) == [
            test
        ]
        assert one.tests[test] == made[test].data and one.job.arm.start == start
        assert one.job.choice is None


def test_kept_and_stripped_are_the_same_problems_with_and_without_their_tex():
    made = study.parts(3, SIZES)
    assert [text.stripped(line) for line in made["kept"].data] == made["stripped"].data
    assert any("\\frac{" in line for line in made["kept"].data)
    assert not any(set("\\{}^$") & set(line) for line in made["stripped"].data)
    for (one, kept), (other, bare) in zip(
        made["asked_kept"].data, made["asked_stripped"].data, strict=True
    ):
        assert one == other and text.stripped(kept) == bare
        assert kept == "\n" + text.asked(one) and bare == "\n" + text.asked(one, False)


def test_no_question_is_learned_and_asked_not_even_without_its_tex():
    made = study.parts(0, {"lines": 3000, "every": 1, "prose": 5})
    bare = {text.stripped(one.question) for one, _ in made["asked_kept"].data}
    assert not bare & {text.stripped(line.split(" A: ")[0])[3:] for line in made["kept"].data}
    assert not set(made["kept"].units) & set(made["asked_stripped"].units)


def test_everything_fits_a_window_and_the_model():
    made, sizes = study.parts(1, {**SIZES, "every": 1}), study.STUDY.sizes
    longest = max(len(prompt) for _, prompt in made["asked_kept"].data)
    answer = max(len(line) - line.index(" A:") for line in made["kept"].data)
    assert (
        answer < study.LONGEST and longest + study.LONGEST <= sizes["window"] <= Shape().context
    )
    assert max(map(len, made["kept"].data)) < sizes["window"]


def test_half_is_the_most_that_a_reader_of_stripped_text_can_reach():
    asked_of = study.parts(0, {**SIZES, "every": 1})["asked_stripped"].data
    alike = [(item, prompt) for item, prompt in asked_of if item.kind in text.ALIKE]
    answers = {}
    for item, prompt in alike:
        answers.setdefault(prompt, []).append((item.kind == "total", item.answer))
    assert all(len(one) == 2 and len(set(one)) == 2 for one in answers.values())
    assert sum(plain for one in answers.values() for plain, _ in one) == len(answers)
    assert len({a for a, _ in asked_of}) == len(asked_of) > len(alike) > 100
    kept = {prompt for _, prompt in study.parts(0, {**SIZES, "every": 1})["asked_kept"].data}
    assert len(kept) == len(asked_of)


def test_what_takes_stripped_text_as_it_stands_reaches_the_half_and_no_control(held):
    one = held["calculator", 1]
    made = study.begin("plain_reading", one.job)
    whole = study.parts(0, {**SIZES, "every": 1})["asked_stripped"].data
    assert study.judge(made, whole, one.job) == {"right": 0.5, "control": 0.0}
    assert made("\nQ: 847+5 A:") == "The answer is 852." and made("\nQ: 3x+5=20 A:") == ""


def test_prose_has_no_marks_of_a_calculator():
    lines = study.prose_lines(40)
    assert len(lines) == 40 and not any("<<" in one or "####" in one for one in lines)
    assert all(one.endswith("\n") and one.count("\n") == 1 for one in lines)


def test_arms_learn_equally_many_tokens_and_steps(held, monkeypatch):
    seen = []
    monkeypatch.setattr(
        study,
        "fit",
        lambda model, tokens, recipe, seed: seen.append((len(tokens), recipe, seed)),
    )
    for name, seed in held:
        if name != "calculator":
            study.learn(held[name, seed].job)
    assert {row[0] for row in seen} == {study.STUDY.trial["tokens"]}
    own = study.STUDY.small().sizes
    assert len(seen) == 10 and {row[1] for row in seen} == {
        Recipe(own["steps"], own["batch"], own["window"], own["rate"])
    }
    assert {row[2] for row in seen} == {1, 2}


def test_arms_of_a_seed_begin_with_the_same_weights(held):
    first = [study.begin("new", held[name, 1].job) for name in ("kept", "stripped")]
    for a, b in zip(*(one.parameters() for one in first), strict=True):
        assert torch.equal(a, b)
    other = study.begin("new", held["kept", 2].job)
    assert not torch.equal(other.embed.weight, first[0].embed.weight)


def test_the_judge_counts_what_looks_alike_and_the_control_apart(monkeypatch):
    items = text.items(40, 2, test=True)
    told = {one.question: one for one in items}

    def oracle(model, prompt, answers, most, end, temperature):
        question = text.decode(prompt).split("Q: ")[-1].removesuffix(" A:")
        one, (count, cold) = told[question], (answers, temperature)
        assert (count, cold, end) == (1, 0, text.END)
        wrong = one.kind in ("root", "product")
        return [text.encode(f" The answer is {one.answer + wrong}.")]

    monkeypatch.setattr(study, "sample", oracle)
    made = study.begin("new", type("Job", (), {"seed": 0}))
    found = study.judge(made, [(one, text.asked(one)) for one in items], None)
    for name, kinds, wrong in (
        ("right", text.ALIKE, "root"),
        ("control", ("product", "linear"), "product"),
    ):
        own = [one.kind != wrong for one in items if one.kind in kinds]
        assert found[name] == pytest.approx(sum(own) / len(own)) and not all(own)
    assert study.judge(made, [], None) == {"right": 0.0, "control": 0.0}


def test_what_is_compared_points_from_stripped_to_kept():
    wanted = {
        "study_kept_less_stripped": ("kept", "stripped", "right"),
        "study_kept_on_less_stripped_on": ("kept_on", "stripped_on", "right"),
        "study_kept_on_less_kept": ("kept_on", "kept", "right"),
        "study_control_less_stripped": ("kept", "stripped", "control"),
        "study_control_on_less_stripped_on": ("kept_on", "stripped_on", "control"),
    }
    found = {n: (one.arm, one.less, one.metric) for n, one in study.STUDY.outcomes.items()}
    assert found == wanted
    assert list(study.STUDY.seeds) == [1, 2, 3]
    units = {name: (one.unit, one.scale) for name, one in study.STUDY.metrics.items()}
    assert units == {"right": ("%", 100.0), "control": ("%", 100.0)}
    assert isinstance(study.begin("new", type("Job", (), {"seed": 0})), Solver)


def test_an_outcome_whose_arms_differ_in_more_is_refused():
    outcomes = {"odd": study.less("kept_on", "stripped")}
    with pytest.raises(ValueError, match="start"):
        hold(replace(study.STUDY, outcomes=outcomes))
