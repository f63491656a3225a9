"""CTC decoding: from the probabilities of letters to text.

best_path      the best letter of each step: greedy decoding, and what an alignment spells
beam           prefix-beam search, which sums over alignments and goes on from chunk to chunk
word_model     a word n-gram model for the beam
phrases        a bonus for phrases that are expected
letter_paths   a word whose letters a reader of the page chooses
"""

from .beam import PrefixBeam, beam_search, beam_search_reference
from .best_path import collapse, greedy
from .letter_paths import LetterPaths
from .phrases import PhraseBoost, boosted_counts
from .word_model import WordNGram

__all__ = ["LetterPaths", "PhraseBoost", "PrefixBeam", "WordNGram", "beam_search"]
__all__ += ["beam_search_reference", "boosted_counts", "collapse", "greedy"]
