"""Real outputs of real models: problems, sampled answers, the verdicts that came with them.

`math_samples`: 100 problems of MATH (Hendrycks and others 2021), eight solutions each, with a
verdict and a reward model's score, as shipped with Qwen2.5-Math. `gsm8k`: the 1,319 test
problems of GSM8K (Cobbe and others, arXiv:2110.14168), one solution each by four models.

The ruler of `math_samples` trips over two references. One is damaged, `4:30p..`, and no answer
equals it. The other, `10{,}000`, is whole, and the shipped verdict calls 10000 wrong.
"""

import json
import re
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

MODELS = ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification")
MENDED = {3: "4:30"}  # by the problem's number: the reference without the damage
JUDGES = Path(__file__).with_name("judges.tsv")
SPELT = {True: "same", False: "other", None: "not judged"}
FINAL = re.compile(r"A:[ \t]*(.*?)[ \t]*\Z")


class Problem(NamedTuple):
    """A problem with its samples: answers, shipped verdicts, reward scores, whole solutions."""

    number: int
    question: str
    reference: str
    answers: list
    shipped: list
    scores: list
    solutions: list


def rows(path) -> list[dict]:
    """The objects of a file with one JSON object a line."""
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def judges(path=JUDGES) -> tuple:
    """(head, rows) of the shared list: pairs of answers, and what each judge said of them once.
    Ours is held to it by a test; the others' verdicts were taken in environments of their own.
    """
    head, *found = [
        line.split("\t") for line in Path(path).read_text(encoding="utf-8").splitlines()
    ]
    return head, found


def math_problems(path) -> list[Problem]:
    """The problems of `math_cot_100.jsonl`; an empty answer becomes None."""
    return [
        Problem(
            number=int(row["idx"]),
            question=row["question"],
            reference=row["gt"],
            answers=[one.strip() or None for one in row["pred"]],
            shipped=list(row["score"]),
            scores=[one[0] for one in row["pred_score"]],
            solutions=list(row["code"]),
        )
        for row in rows(path)
    ]


def mended(problem: Problem, same) -> list[bool]:
    """Verdicts by the mended ruler: the reference without damage, judged by `same(a, b)`."""
    wanted = MENDED.get(problem.number, problem.reference)
    return [one is not None and same(wanted, one) is True for one in problem.answers]


def final_answer(solution: str) -> str | None:
    """What stands behind `A:` in the last line, without the commas of thousands; None without.

    The parser decides: it compares spellings, so 1.0 is another answer than 1 in a vote.
    """
    found = FINAL.search(solution.rstrip("\n").rpartition("\n")[2])
    return found[1].replace(",", "") or None if found else None


def as_number(answer: str | None):
    """The answer's exact value, itself where it is no number: this parser merges 1.0 and 1."""
    try:
        return Fraction(answer)
    except (TypeError, ValueError, ZeroDivisionError):
        return answer


def gsm8k_verdicts(path) -> dict:
    """{"question", "reference": texts; "answers", "shipped", "ours", "solutions":
    {model: list}} of `example_model_solutions.jsonl`; ours says whether the answer is spelt as
    the reference.
    """
    found = rows(path)
    reference = [final_answer(row["ground_truth"]) for row in found]
    solutions = {model: [row[model]["solution"] for row in found] for model in MODELS}
    answers = {
        model: [final_answer(one) for one in texts] for model, texts in solutions.items()
    }
    return {
        "question": [row["question"] for row in found],
        "reference": reference,
        "answers": answers,
        "shipped": {model: [row[model]["is_correct"] for row in found] for model in MODELS},
        "ours": {
            model: [a is not None and a == b for a, b in zip(own, reference, strict=True)]
            for model, own in answers.items()
        },
        "solutions": solutions,
    }
