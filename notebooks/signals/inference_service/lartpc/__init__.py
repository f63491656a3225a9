"""A simulated time projection chamber of liquid argon: what particles deposit, what wires read.

particles    steps through argon: losses, scattering, showers, Michel electrons
detector     drift, diffusion, wires, pulses, noise; an Event with its truth
"""

from .detector import COLLECTION, PROTODUNE, Detector, draw_primaries, pulse, simulate
from .particles import EM, MASS_MEV, MICHEL, RADIATION_LENGTH, TRACK, bethe

__all__ = ["COLLECTION", "EM", "MASS_MEV", "MICHEL", "PROTODUNE", "RADIATION_LENGTH", "TRACK"]
__all__ += ["Detector", "bethe", "draw_primaries", "pulse", "simulate"]
