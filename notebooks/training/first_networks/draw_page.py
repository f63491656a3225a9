"""The field to draw a digit in, as HTML that holds a network and the script that runs it."""

import base64
from pathlib import Path

import numpy as np
from digit_network import NAMES

SCRIPT = Path(__file__).with_name("draw_digit.js")


def field(net, words):
    """HTML: an element with a network of `digit_network` and the script; `words` stand there
    where no script runs. Weights travel as float32, in the order of `NAMES`.

    The network reads counts divided by 16. Raises ValueError unless it has 64 inputs and 10
    classes, which is what a drawing has and what the field shows.
    """
    inputs, hidden, classes = len(net["w1_DH"]), len(net["b1_H"]), len(net["b2_C"])
    if (inputs, classes) != (64, 10):
        raise ValueError(f"{inputs} inputs and {classes} classes; the field has 64 and 10")
    flat = np.concatenate([net[name].ravel() for name in NAMES]).astype("<f4")
    weights = base64.b64encode(flat.tobytes()).decode()
    script = SCRIPT.read_text(encoding="utf-8")
    about = f'class="draw-digit" data-weights="{weights}" data-hidden="{hidden}"'
    return f"<div {about}><p>{words}</p></div><script>{script}</script>"
