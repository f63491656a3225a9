"""A harness for questions of choice: what is asked of a model, and what it may not know.

By **likelihood** each choice's text is a continuation of the question, and the likeliest is the
answer: in all, or a character (the first favours short texts). By **letter** the choices stand
in the prompt and the likeliest letter is the answer; a model that loves a letter gets what that
letter is worth, so the letters are **rotated**: each choice stands once at each letter, and its
log likelihoods are added. Hendrycks and others 2021 (MMLU) ask by letter.

`likelihood(prompt, continuations)` is anything that gives a log likelihood for each.
"""

import torch
from templated_maths import encode

LETTERS = "ABCD"


def by_likelihood(likelihood, question: str, choices: list[str], per_character: bool = False):
    """The place of the likeliest text."""
    found = likelihood(f"Q: {question} A:", [f" {one}" for one in choices])
    lengths = [len(one) + 1 if per_character else 1 for one in choices]
    return best([one / length for one, length in zip(found, lengths, strict=True)])


def listed(question: str, choices: list[str]) -> str:
    """The prompt that shows the choices with their letters."""
    lines = [f"{letter}. {one}" for letter, one in zip(LETTERS, choices, strict=False)]
    return " ".join([f"Q: {question}", *lines, "A:"])


def by_letter(likelihood, question: str, choices: list[str], rotated: bool = False):
    """The place of the likeliest letter; rotated, of the choice whose letters are likeliest."""
    total = [0.0] * len(choices)
    for turn in range(len(choices) if rotated else 1):
        order = [(at + turn) % len(choices) for at in range(len(choices))]
        shown = listed(question, [choices[at] for at in order])
        found = likelihood(shown, [f" {one}" for one in LETTERS[: len(choices)]])
        for at, one in zip(order, found, strict=True):
            total[at] += one
    return best(total)


def best(values) -> int:
    """The place of the largest value, the first of several."""
    return max(range(len(values)), key=lambda at: (values[at], -at))


def always_d(question: str, choices: list[str]) -> int:
    """The last choice, whatever is asked."""
    return len(choices) - 1


def longest(question: str, choices: list[str]) -> int:
    """The choice with the most characters, the first of several."""
    return best([len(one) for one in choices])


def interval(right: int, of: int) -> tuple:
    """Wilson's 95 % interval of a share: (low, high)."""
    share, z = right / of, 1.959964
    middle, half = (
        share + z * z / 2 / of,
        z * (share * (1 - share) / of + z * z / 4 / of**2) ** 0.5,
    )
    return (middle - half) / (1 + z * z / of), (middle + half) / (1 + z * z / of)


class OfModel:
    """`likelihood` of a small model; of a prompt that is too long the beginning is left out,
    of a continuation the end.
    """

    def __init__(self, model):
        self.model = model

    @torch.inference_mode()
    def __call__(self, prompt: str, continuations: list[str]) -> list[float]:
        room = self.model.shape.context
        tails = [encode(one)[: room // 2] for one in continuations]
        head = encode(prompt)[-(room - max(map(len, tails))) :]
        if len({tuple(one[:-1]) for one in tails}) == 1:  # letters: one row tells all of them
            known = torch.log_softmax(self._logits([head + tails[0][:-1]])[0], -1)
            before = len(head) - 1
            common = sum(known[before + at, one] for at, one in enumerate(tails[0][:-1]))
            return [(common + known[-1, one[-1]]).item() for one in tails]
        longest = len(head) + max(map(len, tails))
        rows = [head + tail + [0] * (longest - len(head) - len(tail)) for tail in tails]
        known = torch.log_softmax(self._logits([one[:-1] for one in rows]), -1)[
            :, len(head) - 1 :
        ]
        places = [torch.arange(len(tail)) for tail in tails]
        return [
            row[at, tail].sum().item()
            for row, at, tail in zip(known.cpu(), places, tails, strict=True)
        ]

    def _logits(self, rows):
        return self.model(torch.tensor(rows, device=self.model.embed.weight.device))
