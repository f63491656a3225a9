r"""The study: does a small model learn more from text that keeps its TeX?

    make study CHAPTERS=language/math_reasoning STUDY=tex_claim

Two kinds of the same text, kept and stripped, are learned from scratch and on top of prose
(questions and answers of GSM8K in words, without a calculator's marks), equally many tokens
each. An arm is asked in its own kind of text, with two solved problems before the question, and
answers greedily. `right` counts the four templates that use TeX, `control` the linear equation,
which loses nothing. `prose` is the start of the continued arms, asked with TeX: the baseline.

Stripped lines are shorter, so equal tokens hold more of them: that favours the stripped arms.
"""

import re

import torch
from helpers import data
from helpers.study import Arm, Job, Metric, Outcome, Part, Study
from real_samples import rows
from small_solver import Recipe, Shape, Solver, fit, sample, stream
from templated_maths import (
    END,
    NEEDS_TEX,
    answer_of,
    decode,
    encode,
    few_shot,
    items,
    stripped,
    written,
)

SHOTS, MOST = 2, 60


def prose_lines(count: int) -> list[str]:
    """Questions and answers of GSM8K's training side, one a line, in words and plain digits."""
    found = rows(data.fetch("gsm8k", ["train.jsonl"]) / "train.jsonl")[:count]
    texts = [re.sub(r"<<.*?>>|####", "", f"{row['question']} {row['answer']}") for row in found]
    return [" ".join(one.split()) + "\n" for one in texts]


def parts(seed: int, sizes: dict) -> dict[str, Part]:
    """Lines to learn from, and problems to be asked; a unit is a question without its TeX."""
    learned = items(sizes["lines"], seed, test=False)
    found = items(sizes["asked"], seed, test=True)
    shots = learned[:SHOTS]
    units = [stripped(one.question) for one in learned]
    prose = prose_lines(sizes["prose"])
    tests = [stripped(one.question) for one in found]
    return {
        "kept": Part([written(one) for one in learned], units),
        "stripped": Part([written(one, False) for one in learned], units),
        "prose": Part(prose, prose),
        "asked_kept": Part([(one, few_shot(shots, one)) for one in found], tests),
        "asked_stripped": Part([(one, few_shot(shots, one, False)) for one in found], tests),
    }


def begin(word: str, job: Job) -> Solver:
    """An untrained model of the seed."""
    torch.manual_seed(job.seed)
    return {"new": Solver}[word](Shape())


def learn(job: Job) -> Solver:
    """The start, after equally many tokens of the arm's text."""
    recipe = Recipe(steps=job.sizes["steps"])
    tokens = stream(job.train, job.sizes["tokens"], job.seed)
    return fit(job.start, tokens, recipe, job.seed)


def judge(made: Solver, asked_of, job: Job) -> dict:
    """The shares of right answers, of the templates that use TeX and of the control."""
    hits = {True: [], False: []}
    for item, prompt in asked_of:
        if item.kind in NEEDS_TEX or item.kind == "linear":
            (got,) = sample(made, encode(prompt), 1, MOST, END, temperature=0)
            hits[item.kind in NEEDS_TEX].append(answer_of(decode(got)) == str(item.answer))
    return {"right": mean(hits[True]), "control": mean(hits[False])}


def mean(values) -> float:
    """The mean; 0.0 of none."""
    return sum(values) / len(values) if values else 0.0


def arm(kind: str, start: str = "new") -> Arm:
    """An arm that learns from one kind of text and is asked in it."""
    return Arm(train=kind, test=(f"asked_{kind}",), start=start)


ARMS = {
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
    seeds=range(5),
    sizes={"lines": 20_000, "tokens": 1_200_000, "steps": 1500, "asked": 180, "prose": 3_000},
    trial={"lines": 60, "tokens": 5_000, "steps": 3, "asked": 12, "prose": 20},
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
