"""What is wrong with own photos: faults planted on purpose, a doctor that finds them, and
their mends.
"""

from . import doctor, faults, looks, opinion, profiles
from .doctor import Finding, examine, heal, mend
from .faults import FAULTS

__all__ = [
    "FAULTS",
    "Finding",
    "doctor",
    "examine",
    "faults",
    "heal",
    "looks",
    "mend",
    "opinion",
    "profiles",
]
