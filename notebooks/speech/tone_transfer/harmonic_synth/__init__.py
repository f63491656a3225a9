"""Oscillators and filtered noise, and the running sums of their phases: `oscillators`,
`phase_sums`.
"""

from .oscillators import synthesise, synthesise_reference

__all__ = ["synthesise", "synthesise_reference"]
