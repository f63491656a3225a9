"""What the well has brought is what lies in the pores: the constraint that answers are held to.

A loss of relative errors knows nothing of mass. Outer rings are huge: a saturation of 0.001 out
there, invisible in any picture, is more gas than a well brings in thirty years. So a network's
saturation S is replaced by the nearest S' that a storage site can have,

    Σ_i m_i (S'_i − S_i)² smallest,  where  Σ_i m_i S'_i = Q t,  0 ≤ S'_i ≤ 1 − S_wi,
    m_i = φ_i V_i (1 + c Δp_i) ρ(p_i, T_i): the mass of gas that would fill cell i.

The multiplier of the sum is one number λ for each time, and S' = S − λ, cut to its range. Gas
comes from the well, ring by ring; so nothing is left, or added, from the first ring on in which
no cell has a saturation of `GAS`. λ is found by Newton's method: over λ, the mass is a falling
line of straight pieces.

Density comes from a table over depth and build-up, within 0.3 % of the equation of state; the
resting pressure is taken as hydrostatic.

Legend: B batch, Z rows, R rings, T times; D, U nodes of the table.
"""

import numpy as np
import torch
from storage_sites import to_case
from torch import nn
from two_phase import co2_in_place_mt, fluids, hydrostatic_bar
from two_phase.equations import look_up

BAR_PA, KG_PER_MT = 1e5, 1e9
GAS = 0.01  # saturation from which on a cell belongs to the plume
SHALLOWEST_M, DEEPEST_M, STEP_M = 1000, 2700, 50
HIGHEST_BAR, STEP_BAR = 300, 5
PASSES = 6


class MassBalance(nn.Module):
    """Saturations that hold what the well has brought: `MassBalance(grid)(cases, saturation,
    pressure)`."""

    def __init__(self, grid):
        super().__init__()
        depths = np.arange(SHALLOWEST_M, DEEPEST_M + 1, STEP_M)
        built_up = np.arange(0, HIGHEST_BAR + 1, STEP_BAR)[:, None]
        pascal = (hydrostatic_bar(depths) + built_up) * BAR_PA
        numbers = {
            "density_UD": fluids.co2_density(pascal, fluids.temperature_c(depths) + 273.15),
            "volumes_R": grid.areas_m2 * grid.row_m,
            "depths_Z": grid.depths_m,
            "years_T": np.array(grid.times_days) / 365,
        }
        for name, value in numbers.items():
            self.register_buffer(name, torch.tensor(value, dtype=torch.float32))

    def capacity(self, cases, pressure_BTZR):
        """(B, T, Z, R): Mt of CO₂ that would fill each cell at a build-up in bar."""
        B, T, Z, R = pressure_BTZR.shape
        depths = (cases["depth"].float()[:, None] + self.depths_Z).flatten()
        depths = depths.expand(len(self.density_UD), -1)
        table, _ = look_up(self.density_UD, SHALLOWEST_M, STEP_M, depths)
        built_up = pressure_BTZR.transpose(1, 2).reshape(B, Z, T * R)
        table = table.view(-1, B, Z).permute(1, 2, 0)
        density = look_up(table, 0.0, STEP_BAR, built_up)[0].view(B, Z, T, R).transpose(1, 2)
        pores = cases["porosity"].float() * cases["mask"] * self.volumes_R / KG_PER_MT
        swollen = 1 + fluids.ROCK_PER_PA * BAR_PA * pressure_BTZR
        return pores[:, None] * swollen * density

    def forward(self, cases, saturation_BTZR, pressure_BTZR):
        """(B, T, Z, R): the nearest possible saturation, to one that is nowhere negative and
        zero outside of the rock."""
        full = self.capacity(cases, pressure_BTZR)
        brought = (cases["rate"].float()[:, None] * self.years_T)[..., None, None]
        most = (1 - cases["swi"].float()).view(-1, 1, 1, 1)
        s = torch.minimum(saturation_BTZR, most)
        dry = (s.amax(2, keepdim=True) < GAS).float()
        plume = (s > 0) & (dry.cumsum(3) == 0)
        shift = torch.zeros_like(brought)
        for _ in range(PASSES):
            kept = torch.minimum((s - shift).clamp(min=0), most) * plume
            excess = (full * kept).sum((2, 3), keepdim=True) - brought
            slope = (full * ((kept > 0) & (kept < most))).sum((2, 3), keepdim=True)
            shift = (shift + excess / slope.clamp(min=1e-9)).clamp(-1, 1)
        return torch.minimum((s - shift).clamp(min=0), most) * plume


def reach_m(saturation_NTZR, grid, threshold=GAS):
    """(N, T): how far gas reaches, the outer edge of the last ring with a cell above the
    threshold; 0 where there is none."""
    wet_NTR = (saturation_NTZR > threshold).any(2)
    edges = torch.tensor(grid.edges_m[1:], dtype=torch.float32)
    return (wet_NTR * edges).amax(2)


def gas_ratios(cases, grid, saturation_NTZR, pressure_NTZR):
    """A list of N: gas in place at the end over gas injected, summed as the simulator does."""
    made = [to_case(cases, i) for i in range(len(cases["mask"]))]
    held = map(co2_in_place_mt, made, [grid] * len(made), saturation_NTZR, pressure_NTZR)
    brought = grid.times_days[-1] / 365
    return [mt[-1] / (case.rate_mt * brought) for mt, case in zip(held, made, strict=True)]
