"""Connected digits in accented English, composed from recordings that anybody may have."""

from .utterance import ACCENTS, WORDS, Style, save, utterances

__all__ = ["ACCENTS", "WORDS", "Style", "save", "utterances"]
