"""What the well has brought is what lies in the pores: the constraint that answers are held to.

Outer rings are huge: a saturation of 0.001 out there, invisible in any picture, is more gas
than a well brings in thirty years. So a network's saturation S is replaced by the nearest S'
that a storage site can have,

    Σ_i m_i (S'_i − S_i)² smallest,  where  Σ_i m_i S'_i = Q t,  0 ≤ S'_i ≤ 1 − S_wi,
    m_i = φ_i V_i (1 + c Δp_i) ρ(p_i, T_i): the mass of gas that would fill cell i.

The multiplier of the sum is one number λ for each time, and S' = S − λ, cut to its range. Gas
comes from the well, ring by ring; so nothing is left, or added, from the first ring on in which
no cell has a saturation of `GAS`. Over λ the mass only falls, so λ is found by halving, which
always ends. Where even a full plume is too small for what was injected there is no such S':
`forward` gives the share that its answer holds, and `check_held` refuses it.

Density comes from a table over depth and build-up up to 300 bar, within 0.3 % of the equation
of state; the resting pressure is taken as hydrostatic.

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
PASSES = 24  # halvings of λ, which lies between −1 and 1: to 6e-8, as close as float32 tells
LEAK = 1e-3  # of the injected gas that an answer may lack or have too much


class MassBalance(nn.Module):
    """Saturations that hold what the well has brought, and the share that they hold:
    `MassBalance(grid)(cases, saturation, pressure)`."""

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
        built_up = pressure_BTZR.transpose(1, 2).reshape(B, Z, T * R).clamp(max=HIGHEST_BAR)
        table = table.view(-1, B, Z).permute(1, 2, 0)
        density = look_up(table, 0.0, STEP_BAR, built_up)[0].view(B, Z, T, R).transpose(1, 2)
        pores = cases["porosity"].float() * cases["mask"] * self.volumes_R / KG_PER_MT
        swollen = 1 + fluids.ROCK_PER_PA * BAR_PA * pressure_BTZR
        return pores[:, None] * swollen * density

    def forward(self, cases, saturation_BTZR, pressure_BTZR):
        """(B, T, Z, R): the nearest possible saturation, to one that is nowhere negative and
        zero outside of the rock; (B, T): the gas in it, as a share of what was injected."""
        brought = (cases["rate"].float()[:, None] * self.years_T)[..., None, None]
        most = (1 - cases["swi"].float()).view(-1, 1, 1, 1)
        s = torch.minimum(saturation_BTZR, most)
        dry = (s.amax(2, keepdim=True) < GAS).float()
        plume = ((s > 0) & (dry.cumsum(3) == 0)).float()
        full = self.capacity(cases, pressure_BTZR) * plume
        shift = torch.zeros_like(brought)
        for halving in range(PASSES + 1):
            kept = torch.minimum((s - shift).clamp(min=0), most)
            held = (full * kept).sum((2, 3), keepdim=True)
            shift = shift + 0.5 ** (halving + 1) * (held - brought).sign()
        return kept * plume, (held / brought).flatten(1)


def check_held(held_NT):
    """None where answers hold the injected gas at each time, by these shares of it; else
    ArithmeticError, also for a share that is no number."""
    off = (held_NT - 1).abs()
    if not (off <= LEAK).all():
        n, t = divmod(int(off.nan_to_num(torch.inf).argmax()), off.shape[1])
        raise ArithmeticError(
            f"answer {n} holds {held_NT[n, t]:.3g} times the injected gas at report time {t}, "
            "and no saturation near it holds it all: this network has no answer for that site"
        )


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
