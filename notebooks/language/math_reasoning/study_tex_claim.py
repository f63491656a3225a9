r"""The study: does a small model learn more from text that keeps its TeX?

    make study CHAPTERS=language/math_reasoning STUDY=tex_claim

Two kinds of the same text, kept and stripped, are learned from scratch and on top of prose
(questions and answers of GSM8K in words, without a calculator's marks), equally many tokens
each. An arm is asked in its own kind of text and answers greedily, all questions of the test
side. `right` counts the templates that look alike once they are stripped: fractions, powers,
roots, and the plain sums that they turn into. A reader of stripped text gives both of two equal
questions one answer, so half is the most that any training can reach. `control` counts the
products and linear equations, which lose nothing. Two baselines stand on the same questions:
`prose`, the start of the continued arms, asked with TeX, and `calculator`, which learns nothing
and takes stripped text as it stands.

Stripped lines are shorter, so equal tokens hold more of them: that favours the stripped arms.
Numbers are smaller than the shipped solver's, so that every arm learns to compute: the control
says whether it did. How long they learn was set on seed 0 of the kept arm alone, before another
arm was trained; seed 0 is not among those that count.
"""

import re

import torch
from helpers import data
from helpers.study import Arm, Job, Metric, Outcome, Part, Study
from real_samples import rows
from small_solver import Recipe, Shape, Solver, fit, sample, stream
from step_checker import value
from templated_maths import (
    ALIKE,
    END,
    all_tests,
    answer_of,
    asked,
    decode,
    encode,
    items,
    stripped,
    written,
)

LONGEST, ADDED = 60, 9  # tokens of an answer; the largest number that is added


def prose_lines(count: int) -> list[str]:
    """Questions and answers of GSM8K's training side, one a line, in words and plain digits."""
    found = rows(data.fetch("gsm8k", ["train.jsonl"]) / "train.jsonl")[:count]
    texts = [re.sub(r"<<.*?>>|####", "", f"{row['question']} {row['answer']}") for row in found]
    return [" ".join(one.split()) + "\n" for one in texts]


def parts(seed: int, sizes: dict) -> dict[str, Part]:
    """Lines to learn from, and problems to be asked; a unit is a question without its TeX."""
    learned = items(sizes["lines"], seed, test=False, most=ADDED)
    found = all_tests(ADDED)[:: sizes["every"]]
    units = [stripped(one.question) for one in learned]
    prose = prose_lines(sizes["prose"])
    tests = [stripped(one.question) for one in found]
    return {
        "kept": Part([written(one) for one in learned], units),
        "stripped": Part([written(one, False) for one in learned], units),
        "prose": Part(prose, prose),
        "asked_kept": Part([(one, "\n" + asked(one)) for one in found], tests),
        "asked_stripped": Part([(one, "\n" + asked(one, False)) for one in found], tests),
    }


def begin(word: str, job: Job):
    """An untrained model of the seed; or what takes a stripped question as it stands."""
    torch.manual_seed(job.seed)
    return {"new": lambda: Solver(Shape()), "plain_reading": lambda: as_it_stands}[word]()


def as_it_stands(prompt: str) -> str:
    """The value of a question without TeX, as a sentence; \"\" of what is no sum of numbers."""
    found = value(prompt.strip().removeprefix("Q: ").removesuffix(" A:"))
    return "" if found is None else f"The answer is {found}."


def learn(job: Job) -> Solver:
    """The start, after equally many tokens of the arm's text."""
    sizes = job.sizes
    recipe = Recipe(sizes["steps"], sizes["batch"], sizes["window"], sizes["rate"])
    return fit(job.start, stream(job.train, sizes["tokens"], job.seed), recipe, job.seed)


def judge(made, asked_of, job: Job) -> dict:
    """The shares of right answers, of the questions that look alike and of the control."""
    hits = {True: [], False: []}
    for item, prompt in asked_of:
        if isinstance(made, Solver):
            (got,) = sample(made, encode(prompt), 1, LONGEST, END, temperature=0)
            said = decode(got)
        else:
            said = made(prompt)
        hits[item.kind in ALIKE].append(answer_of(said) == str(item.answer))
    return {"right": mean(hits[True]), "control": mean(hits[False])}


def mean(values) -> float:
    """The mean; 0.0 of none."""
    return sum(values) / len(values) if values else 0.0


def arm(kind: str, start: str = "new") -> Arm:
    """An arm that learns from one kind of text and is asked in it."""
    return Arm(train=kind, test=(f"asked_{kind}",), start=start)


ARMS = {
    "calculator": Arm(test=("asked_stripped",), start="plain_reading"),
    "prose": Arm(train="prose", test=("asked_kept",)),
    "kept": arm("kept"),
    "stripped": arm("stripped"),
    "kept_on": arm("kept", "prose"),
    "stripped_on": arm("stripped", "prose"),
}


def less(one: str, other: str, metric: str = "right", differs=("train", "test")) -> Outcome:
    """The difference of two arms."""
    return Outcome(metric, one, other, list(differs))


STUDY = Study(
    notebook="math_reasoning",
    name="tex_claim",
    arms=ARMS,
    seeds=range(1, 4),  # 0 set the length
    sizes={
        "lines": 80_000,
        "tokens": 4_800_000,
        "steps": 3200,
        "batch": 16,
        "window": 96,
        "rate": 4e-3,
        "every": 1,
        "prose": 7_000,
    },
    trial={"lines": 60, "tokens": 5_000, "steps": 3, "every": 20, "prose": 20},
    metrics={"right": Metric("%", 100.0), "control": Metric("%", 100.0)},
    parts=parts,
    begin=begin,
    fit=learn,
    judge=judge,
    outcomes={
        "study_kept_less_stripped": less("kept", "stripped"),
        "study_kept_on_less_stripped_on": less("kept_on", "stripped_on"),
        "study_kept_on_less_kept": less("kept_on", "kept", differs=("start",)),
        "study_control_less_stripped": less("kept", "stripped", "control"),
        "study_control_on_less_stripped_on": less("kept_on", "stripped_on", "control"),
    },
)
