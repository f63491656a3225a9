"""The grid of a radial aquifer: rings around a well that widen geometrically, rows of equal
height, report times that lengthen geometrically.

The published data set of the article's network has 200 rings, 96 rows and 24 report times:
ring widths 3.5938 · 1.035012^i m add up to 100 km, time steps 1.421245^k days to 30 years
of 365 days, rows to 200 m. `Grid.reduced` keeps extent and laws with fewer of each.

In steady flow pressure goes with ln r. So a ring's pressure stands at the radius where that
profile takes its mean over the ring (Aziz and Settari, Petroleum Reservoir Simulation, 1979,
ch. 3): for the ring a < r < b, ln r_i = (b² ln b − a² ln a)/(b² − a²) − 1/2.

Legend: Z rows from the top of the aquifer down, R rings from the well outwards, T report times.
"""

import functools
from dataclasses import dataclass

import numpy as np

BAR = 1e5  # in Pa
DAY_S = 86_400.0
YEAR_DAYS = 365.0
WELL_RADIUS_M = 0.1
THICKEST_M = 200.0


@dataclass(frozen=True)
class Grid:
    """Edges of the rings (R+1,) in m from the well's axis, `rows` and their height in m, report
    times (T,) in days. Raises ValueError for edges or times that do not increase, a first edge
    that is not 0 and fewer than one row."""

    edges_m: tuple
    rows: int
    row_m: float
    times_days: tuple

    def __post_init__(self):
        times = (0.0, *self.times_days)
        for name, values in (("edges_m", self.edges_m), ("times_days", times)):
            sound = np.isfinite(values).all() and (np.diff(values) > 0).all()
            if len(values) < 2 or not sound:
                raise ValueError(f"{name} = {values}: finite and increasing, from 0 on")
        if self.edges_m[0] != 0 or self.edges_m[1] <= WELL_RADIUS_M:
            raise ValueError(
                f"the first ring reaches from {self.edges_m[0]} to {self.edges_m[1]} m: it "
                f"begins at the axis (0) and must hold the well of {WELL_RADIUS_M} m"
            )
        if self.rows < 1 or not self.row_m > 0:
            raise ValueError(
                f"rows={self.rows} of {self.row_m} m: at least one of positive height is needed"
            )

    @classmethod
    def published(cls):
        """The grid of the published data set: 96 × 200 cells, 24 report times."""
        return cls.reduced(96, 200, 24)

    @classmethod
    def reduced(cls, rows=24, rings=48, reports=12):
        """The same aquifer under the same laws, by default coarser: 24 × 48 cells and every
        second published time; `reports` divides 24."""
        if reports < 1 or 24 % reports:
            raise ValueError(
                f"reports={reports}: a divisor of 24, to thin the published times evenly"
            )
        ratio = 1.035012 ** (200 / rings)
        total = 3.5938 * (1.035012**200 - 1) / 0.035012
        edges = total * (ratio ** np.arange(rings + 1) - 1) / (ratio**rings - 1)
        times = np.cumsum(1.421245 ** np.arange(24))[24 // reports - 1 :: 24 // reports]
        return cls(tuple(edges.tolist()), rows, THICKEST_M / rows, tuple(times.tolist()))

    @property
    def shape(self):
        """Rows and rings."""
        return self.rows, len(self.edges_m) - 1

    @functools.cached_property
    def centres_m(self):
        """(R,) the radius where each ring's pressure stands (see the top of the module)."""
        a, b = np.array(self.edges_m[:-1]), np.array(self.edges_m[1:])
        inner = np.where(a > 0, a * a * np.log(np.maximum(a, 1e-300)), 0.0)
        return np.exp((b * b * np.log(b) - inner) / (b * b - a * a) - 0.5)

    @functools.cached_property
    def areas_m2(self):
        """(R,) the ground area of each ring."""
        return np.pi * np.diff(np.square(self.edges_m))

    @functools.cached_property
    def depths_m(self):
        """(Z,) the depth of each row's centre below the top of the aquifer."""
        return (np.arange(self.rows) + 0.5) * self.row_m

    def active_rows(self, thickness_m):
        """How many rows an aquifer of this thickness fills, to the nearest row; ValueError
        if none or too many."""
        rows = round(float(thickness_m) / self.row_m) if np.isfinite(thickness_m) else 0
        if not 1 <= rows <= self.rows:
            raise ValueError(
                f"thickness {thickness_m} m is {rows} rows of {self.row_m:g} m; "
                f"1 to {self.rows} are allowed on this grid"
            )
        return rows

    def perforated_rows(self, perforation_m, thickness_m):
        """(Z,) bool: the rows whose centre lies between the perforation's top and bottom, at
        least the one nearest to its middle; ValueError for an interval outside the aquifer."""
        top, bottom = (float(x) for x in perforation_m)
        active = self.active_rows(thickness_m)
        if not 0 <= top < bottom <= active * self.row_m + 1e-6:
            raise ValueError(
                f"perforation {top:g} to {bottom:g} m: it must lie within the aquifer, "
                f"0 <= top < bottom <= {active * self.row_m:g} m below its top"
            )
        open_Z = (self.depths_m > top) & (self.depths_m < bottom)
        open_Z[np.abs(self.depths_m[:active] - (top + bottom) / 2).argmin()] = True
        return open_Z

    def radial_conductance(self, permeability_ZR):
        """(Z, R) in m³ between each ring and the next, the last one to the open edge: two half
        rings in series, 2π Δz / (ln(edge/r_i)/k_i + ln(r_i+1/edge)/k_i+1)."""
        edge, centre = np.array(self.edges_m[1:]), self.centres_m
        outer = np.log(edge / centre) / np.maximum(permeability_ZR, 1e-300)
        inner = np.zeros_like(outer)
        inner[:, :-1] = (
            np.log(centre[1:] / edge[:-1]) / np.maximum(permeability_ZR, 1e-300)[:, 1:]
        )
        return 2 * np.pi * self.row_m / (outer + inner)

    def vertical_conductance(self, permeability_ZR):
        """(Z-1, R) in m³ between each row and the one below, by the harmonic mean."""
        upper, lower = (
            np.maximum(permeability_ZR[:-1], 1e-300),
            np.maximum(permeability_ZR[1:], 1e-300),
        )
        return self.areas_m2 / self.row_m * 2 / (1 / upper + 1 / lower)

    def well_index(self, permeability_Z):
        """(Z,) in m³: conductance between the well's wall and the first ring's centre."""
        return (
            2 * np.pi * self.row_m * permeability_Z / np.log(self.centres_m[0] / WELL_RADIUS_M)
        )
