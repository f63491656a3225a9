"""Clips of known articulation: eSpeak NG's voices, and a rendered face that their phonemes
move.

espeak   words, with the time of each phoneme
face     mouths from phonemes, and the face drawn
clips    scripts, pauses, loudness, speakers; real digits with the same face
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
    real_clip,
)
from .espeak import Voice, say
from .face import FPS, Face, mouth_track, render
from .probe import loudness_db, probe_r2

__all__ = [
    "DIGITS",
    "FPS",
    "SPEAKERS",
    "WORDS",
    "Clip",
    "Face",
    "Script",
    "Voice",
    "draw_script",
    "loudness_db",
]
__all__ += ["make_clip", "make_clips", "mouth_track", "probe_r2", "real_clip", "render", "say"]
