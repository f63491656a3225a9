"""Two-phase flow around a well: CO₂ pushed into brine, in finite volumes on rings.

The map in `../README.md` says which file answers which question.
"""

from .aquifer import Fluids, aquifer_of, hydrostatic_bar
from .estimate import Depth, at_depth, buildup_bar, estimated_buildup_bar
from .grid import Grid
from .simulator import Case, Result, check, simulate, simulate_batch
from .validation import buckley_leverett, co2_in_place_mt, theis

__all__ = [
    "Case", "Depth", "Fluids", "Grid", "Result", "aquifer_of", "at_depth", "buckley_leverett",
    "buildup_bar", "check", "co2_in_place_mt", "estimated_buildup_bar",
    "hydrostatic_bar", "simulate", "simulate_batch", "theis",
]  # fmt: skip
