"""Sounds to learn from: real clips, and phrases drawn and rendered: `rendering`."""

from .rendering import (
    HELD_OUT,
    KEPT_SECONDS,
    LOWEST,
    PROGRAMS,
    can_render,
    clip,
    kept,
    midi_file,
    phrase,
    rendered,
    tensor,
)

__all__ = [
    "HELD_OUT",
    "KEPT_SECONDS",
    "LOWEST",
    "PROGRAMS",
    "can_render",
    "clip",
    "kept",
    "midi_file",
    "phrase",
    "rendered",
    "tensor",
]
