"""Two-phase flow around a well: CO₂ pushed into brine, in finite volumes on rings.

What do I ask, and of which file?

    simulator   a site (`Case`) in, its thirty years (`Result`) out: begin here
    grid        the rings, the rows, the report times
    fluids      what CO₂, brine and rock are like at depth
    aquifer     from a site to the arrays that the equations need
    equations   mass in cells, flow through faces, the well, and every derivative
    newton      time steps and Newton's method, each case at its own time
    linear      the linear system of one iteration, two ways
    estimate    how hard a well would press, before any simulation
    validation  exact answers and sums that the simulator is held against
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
