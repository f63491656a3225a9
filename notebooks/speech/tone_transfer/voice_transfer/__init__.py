"""A voice becomes an instrument, whole or in chunks: `transfer`; how the shipped ones were
made: `study_tone_transfer`.
"""

from .transfer import (
    INSTRUMENTS,
    KIND,
    Instrument,
    Player,
    Shift,
    cross_faded,
    has,
    load,
    moved,
    place,
    save,
    shift_of,
    trained_instrument,
    transfer,
)

__all__ = [
    "INSTRUMENTS",
    "KIND",
    "Instrument",
    "Player",
    "Shift",
    "cross_faded",
    "has",
    "load",
    "moved",
    "place",
    "save",
    "shift_of",
    "trained_instrument",
    "transfer",
]
