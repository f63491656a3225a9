"""Connected digits in accented English, composed from recordings that anybody may have.

utterance   recordings joined to utterances with pauses, words placed in time, written as files
room        the reverberation and the noise around them
"""

from .utterance import ACCENTS, WORDS, Style, save, utterances

__all__ = ["ACCENTS", "WORDS", "Style", "save", "utterances"]
