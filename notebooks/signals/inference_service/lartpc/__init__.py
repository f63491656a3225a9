"""A simulated time projection chamber of liquid argon: what particles deposit, what wires read.

particles    steps through argon: losses, scattering, showers, Michel electrons
detector     drift, diffusion, wires, pulses, noise; an Event with its truth
"""

from .detector import (
    COLLECTION,
    TICKS_PER_PIXEL,
    Detector,
    Event,
    draw_primaries,
    pulse,
    simulate,
)
from .particles import EM, MASS_MEV, MICHEL, TRACK, Deposits, bethe, csda_range, propagate

__all__ = ["COLLECTION", "EM", "MASS_MEV", "MICHEL", "TICKS_PER_PIXEL", "TRACK"]
__all__ += ["Deposits", "Detector", "Event", "bethe", "csda_range", "draw_primaries"]
__all__ += ["propagate", "pulse", "simulate"]
