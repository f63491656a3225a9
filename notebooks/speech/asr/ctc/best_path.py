"""The text of the most probable alignment: best-path decoding, one letter or blank per step.

Repeats are dropped, then blanks (Graves et al. 2006): "ss-iix" is "six". Legend: B batch, T
steps, V letters and blank (last)."""

import itertools

import torch
from quartznet import VOCABULARY


def greedy(log_probs, lengths=None, vocabulary=VOCABULARY):
    """The text of the most probable alignment of each utterance, a list of B strings.

    >>> frames = torch.eye(3).log_softmax(1)[None, [0, 0, 2, 0, 1]]
    >>> greedy(frames, vocabulary=("a", "b"))
    ['aab']

    log_probs (B, T, V), or (T, V) for one utterance, float; lengths (B,) valid steps, default
    all. Blank is the last id. Spaces stay as they were heard, at the ends too. Raises
    ValueError for another shape, NaN, or lengths beyond T."""
    log_probs_BTV, lengths_B = checked(log_probs, lengths, vocabulary)
    ids_BT = log_probs_BTV.argmax(2)
    fresh_BT = ids_BT != len(vocabulary)
    fresh_BT[:, 1:] &= ids_BT[:, 1:] != ids_BT[:, :-1]
    inside_BT = torch.arange(ids_BT.shape[1], device=ids_BT.device) < lengths_B[:, None]
    kept_BT = (fresh_BT & inside_BT).cpu()
    return [
        "".join(vocabulary[letter] for letter in row[kept].tolist())
        for row, kept in zip(ids_BT.cpu(), kept_BT, strict=True)
    ]


def collapse(ids, blank, last=None):
    """The letters of an alignment: repeats dropped, then blanks; `last` is the id before it.

    >>> collapse([0, 0, 2, 0, 1], blank=2), collapse([0, 1], blank=2, last=0)
    ([0, 0, 1], [1])"""
    before = itertools.chain([last], ids)
    return [i for i, j in zip(ids, before, strict=False) if i not in (j, blank)]


def checked(log_probs, lengths, vocabulary):
    """Log-probabilities (B, T, V) and lengths (B,); ValueError where a decoder takes none."""
    shape = getattr(log_probs, "shape", None)
    if shape is None or len(shape) not in (2, 3) or shape[-1] != len(vocabulary) + 1:
        need = f"(B, T, {len(vocabulary) + 1}), or (T, ...) of one, letters, then the blank"
        raise ValueError(f"log_probs must be {need}, got {shape and tuple(shape)}")
    log_probs = torch.as_tensor(log_probs)
    log_probs_BTV = log_probs if log_probs.ndim == 3 else log_probs[None]
    if log_probs_BTV.isnan().any():
        raise ValueError("log_probs hold NaN: look for a silent or broken signal before")
    batch, steps = log_probs_BTV.shape[:2]
    if lengths is None:
        return log_probs_BTV, torch.full((batch,), steps, device=log_probs_BTV.device)
    lengths_B = torch.as_tensor(lengths, device=log_probs_BTV.device).reshape(-1)
    if lengths_B.shape != (batch,) or not ((lengths_B >= 0) & (lengths_B <= steps)).all():
        came = f"got {lengths_B.tolist()}"
        raise ValueError(f"lengths must be {batch} numbers in 0...{steps}, {came}")
    return log_probs_BTV, lengths_B
