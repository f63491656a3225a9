"""Oscillators and filtered noise, and the running sums of their phases: `oscillators`,
`phase_sums`.
"""

from . import phase_sums
from .oscillators import (
    bank,
    below_nyquist,
    fade,
    filtered_noise,
    filtered_noise_reference,
    impulse_matrix,
    phases,
    synthesise,
    synthesise_plain,
    synthesise_reference,
    white_noise,
    whole_noise,
)

__all__ = [
    "bank",
    "below_nyquist",
    "fade",
    "filtered_noise",
    "filtered_noise_reference",
    "impulse_matrix",
    "phase_sums",
    "phases",
    "synthesise",
    "synthesise_plain",
    "synthesise_reference",
    "white_noise",
    "whole_noise",
]
