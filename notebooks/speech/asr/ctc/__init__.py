"""CTC decoding: from the probabilities of letters to text.

In reading order: best_path, beam, word_model, phrases, letter_paths."""

from .beam import PrefixBeam, beam_search, beam_search_reference
from .best_path import collapse, greedy
from .letter_paths import LetterPaths
from .phrases import PhraseBoost, boosted_counts
from .word_model import WordNGram

__all__ = ["LetterPaths", "PhraseBoost", "PrefixBeam", "WordNGram", "beam_search"]
__all__ += ["beam_search_reference", "boosted_counts", "collapse", "greedy"]
