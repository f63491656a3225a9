"""A word to touch: a reader chooses a letter for each step, and sees CTC collapse the path.

The script beside this module adds up all paths of a text by the forward recursion of Graves et
al. (2006); a path is made of its text's letters and blanks, so that the few shown are
enough."""

import json
from pathlib import Path

import torch
from helpers.show import Markup, tag
from quartznet import VOCABULARY

ROWS = 7  # letters shown, the blank included
SHOWN = {" ": "␣"}


class LetterPaths:
    """What a cell displays to let its reader choose a path through steps of a network's output.

    >>> LetterPaths(log_probs_SV[20:32], "nine")

    log_probs (T, V), the blank last; `said` is what the speaker says there. Shown are the
    blank, the letters said, and the most probable others; ValueError for more letters than
    fit."""

    def __init__(self, log_probs_TV, said):
        probs_TV = torch.as_tensor(log_probs_TV).double().exp()
        own = [VOCABULARY.index(letter) for letter in dict.fromkeys(said)]
        if not len(own) < ROWS:
            raise ValueError(f"{said!r} has {len(own)} letters; allowed are {ROWS - 1} at most")
        likely = probs_TV[:, :-1].amax(0).argsort(descending=True).tolist()
        rows = [*own, *(letter for letter in likely if letter not in own)][: ROWS - 1]
        letters = [SHOWN.get(VOCABULARY[row], VOCABULARY[row]) for row in rows]
        probs_RT = probs_TV[:, [*rows, -1]].T
        self.grid = {"said": said, "letters": letters, "probs": probs_RT.tolist()}

    def _repr_html_(self):
        words = "With JavaScript you choose a letter for each step here, and see what remains."
        own = Path(__file__).with_suffix
        root = tag("div", tag("p", words), class_="ctc-paths", data_grid=json.dumps(self.grid))
        style, script = (own(kind).read_text(encoding="utf-8") for kind in (".css", ".js"))
        return f"{root}<style>{Markup(style)}</style><script>{Markup(script)}</script>"
