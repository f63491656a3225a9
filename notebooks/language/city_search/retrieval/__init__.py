"""From passages to an answer: who finds it, how sure it is, and where it may come from."""

from .answers import Answer, Search, as_text
from .confidence import Confidence, calibrated, tally
from .encoder import Encoder, Recipe, train
from .passages import Passage, Passages, pieces
from .rankers import auc, dense, find, hybrid, lexical, overlap

__all__ = [
    "Answer", "Confidence", "Encoder", "Passage", "Passages", "Recipe", "Search", "as_text",
    "auc", "calibrated", "dense", "find", "hybrid", "lexical", "overlap", "pieces", "tally",
    "train",
]  # fmt: skip
