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
    "prose": ("prose", "asked_kept", "new"),
    "kept": ("kept", "asked_kept", "new"),
    "stripped": ("stripped", "asked_stripped", "new"),
    "kept_on": ("kept", "asked_kept", "prose"),
    "stripped_on": ("stripped", "asked_stripped", "prose"),
}
SIZES = {"lines": 400, "asked": 60, "prose": 30}


@pytest.fixture(scope="module")
def held():
    return hold(study.STUDY)


def test_each_arm_is_handed_what_it_names(held):
    assert {name for name, _ in held} == set(ARMS)
    for (name, seed), one in held.items():
        train, test, start = ARMS[name]
        made = study.parts(seed, study.STUDY.small().sizes)
        assert one.job.train == made[train].data and list(one.tests) == [test]
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
        assert kept.count("The answer is") == bare.count("The answer is") == 2
        assert kept.endswith(text.asked(one)) and bare.endswith(text.asked(one, False))


def test_no_question_is_learned_and_asked_not_even_without_its_tex():
    made = study.parts(0, {"lines": 5000, "asked": 180, "prose": 5})
    bare = {text.stripped(one.question) for one, _ in made["asked_kept"].data}
    assert not bare & {text.stripped(line.split(" A: ")[0])[3:] for line in made["kept"].data}
    assert not set(made["kept"].units) & set(made["asked_stripped"].units)


def test_every_prompt_fits_the_model():
    made = study.parts(1, {"lines": 50, "asked": 180, "prose": 5})
    longest = max(len(prompt) for _, prompt in made["asked_kept"].data)
    assert longest + study.MOST <= Shape().context


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
    for one in held.values():
        study.learn(one.job)
    assert {row[0] for row in seen} == {study.STUDY.trial["tokens"]}
    assert {row[1] for row in seen} == {Recipe(steps=study.STUDY.trial["steps"])}
    assert {row[2] for row in seen} == {0, 1}


def test_arms_of_a_seed_begin_with_the_same_weights(held):
    first = [study.begin("new", held[name, 1].job) for name in ("kept", "stripped")]
    for a, b in zip(*(one.parameters() for one in first), strict=True):
        assert torch.equal(a, b)
    other = study.begin("new", held["kept", 0].job)
    assert not torch.equal(other.embed.weight, first[0].embed.weight)


def test_the_judge_counts_tex_and_control_apart(monkeypatch):
    items = text.items(40, 2, test=True)
    told = {one.question: one for one in items}

    def oracle(model, prompt, answers, most, end, temperature):
        question = text.decode(prompt).split("Q: ")[-1].removesuffix(" A:")
        one, (count, cold) = told[question], (answers, temperature)
        assert (count, cold, end) == (1, 0, text.END)
        wrong = one.kind == "root"
        return [text.encode(f" The answer is {one.answer + wrong}.")]

    monkeypatch.setattr(study, "sample", oracle)
    found = study.judge(None, [(one, text.asked(one)) for one in items], None)
    tex = [one for one in items if one.kind in text.NEEDS_TEX]
    assert found["control"] == 1.0
    assert found["right"] == pytest.approx(sum(one.kind != "root" for one in tex) / len(tex))
    assert study.judge(None, [], None) == {"right": 0.0, "control": 0.0}


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
    assert list(study.STUDY.seeds) == [0, 1, 2, 3, 4]
    units = {name: (one.unit, one.scale) for name, one in study.STUDY.metrics.items()}
    assert units == {"right": ("%", 100.0), "control": ("%", 100.0)}
    assert isinstance(study.begin("new", type("Job", (), {"seed": 0})), Solver)


def test_an_outcome_whose_arms_differ_in_more_is_refused():
    outcomes = {"odd": study.less("kept_on", "stripped")}
    with pytest.raises(ValueError, match="start"):
        hold(replace(study.STUDY, outcomes=outcomes))
