"""Many answers of one prompt as a GPU would write them, the naive way, and a broken one.

`make predict` counts them without a GPU, at the sizes of each tier. The model is of the shipped
one's shape with random weights: what is counted does not depend on them.
"""

import torch
from small_solver import Answers, Shape, Solver, choose

METRICS = {}  # no claim of the article is a rate or a time
PROMPT, LENGTH = 112, 8


def ours(sizes, device):
    """Answers of one prompt, eight tokens each, its keys and values read once a step for all"""
    model, prompt, answers = _asked(sizes, device)

    @torch.inference_mode()
    def write():
        state = Answers(model, prompt, answers, LENGTH)
        tokens = [choose(state.first, 0)]
        for _ in range(LENGTH - 1):
            tokens.append(choose(state.step(tokens[-1]), 0))
        return torch.stack(tokens, 1).cpu()

    return write


def naive(sizes, device):
    """The same without a cache: for each token the model reads prompt and answers anew"""
    model, prompt, answers = _asked(sizes, device)

    @torch.inference_mode()
    def write():
        rows = torch.tensor([prompt], device=device).expand(answers, -1)
        for _ in range(LENGTH):
            rows = torch.cat([rows, choose(model(rows)[:, -1], 0)[:, None]], 1)
        return rows[:, len(prompt) :].cpu()

    return write


def broken(sizes, device):
    """As ours, but after each token the host reads each answer's, one by one"""
    model, prompt, answers = _asked(sizes, device)

    @torch.inference_mode()
    def write():
        state = Answers(model, prompt, answers, LENGTH)
        tokens = [choose(state.first, 0)]
        for _ in range(LENGTH - 1):
            if [int(one) for one in tokens[-1]]:
                tokens.append(choose(state.step(tokens[-1]), 0))
        return torch.stack(tokens, 1).cpu()

    return write


def _asked(sizes, device):
    """(model, prompt, how many answers)."""
    torch.manual_seed(0)
    return (
        Solver(Shape()).to(device).eval(),
        [1 + at % 90 for at in range(PROMPT)],
        sizes["samples"],
    )
