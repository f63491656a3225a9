"""Clips of known articulation: eSpeak NG's voices, and a rendered face that their phonemes
move.

espeak   words, with the time of each phoneme
face     mouths from phonemes, and the face drawn
clips    scripts, pauses, loudness, groups of speakers; real digits with the same face
probe    what the frames tell of loudness
"""

from .clips import (
    DIGITS,
    SPEAKERS,
    WORDS,
    Clip,
    Script,
    draw_script,
    make_clip,
    make_clips,
    read_again,
    real_clip,
    split,
    spoken_words,
)
from .espeak import Voice, say
from .face import FPS, Face, mouth_track, render
from .probe import loudness_db, probe_r2

__all__ = ["Clip", "DIGITS", "FPS", "Face", "SPEAKERS", "Script", "Voice", "WORDS"]
__all__ += ["draw_script", "loudness_db", "make_clip", "make_clips", "mouth_track", "probe_r2"]
__all__ += ["read_again", "real_clip", "render", "say", "split", "spoken_words"]
