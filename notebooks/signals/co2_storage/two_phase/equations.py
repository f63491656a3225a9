"""Two-phase flow in the cells: what each holds, what passes each face, what the well gives, and
how all of it changes with the unknowns.

In each cell two masses are conserved (α is brine or CO₂; the unknowns are brine pressure p and
CO₂ saturation S, z is depth):

    V ∂(φ ρ_α S_α)/∂t = Σ_faces F_α + q_α,
    F_α = T (ρ k_r/μ)_α,upstream (Φ_α,neighbour − Φ_α),
    Φ_brine = p − ρ_brine g z,   Φ_CO₂ = p + p_c(S) − ρ_CO₂ g z,

fully implicit in time, mobility from the side the phase comes from, density between two cells
their mean (Aziz and Settari, Petroleum Reservoir Simulation, 1979, ch. 5). The well has one
bottom-hole pressure p_b over its open rows j: q_j = w_j (p_b + ρ g h_j − p_j) with Σ q_j = Q,
where w_j is the well index times the cell's total mobility times CO₂ density; rows that would
flow backwards are shut. All derivatives are written out; a test holds them against automatic
differentiation.

Legend: P phases (0 brine, 1 CO₂), B cases, Z rows, R rings; R+1 with the open boundary's ghost.
"""

from typing import NamedTuple

import torch

from .linear import BlockTridiagonal

GRAVITY = 9.80665


class Aquifer(NamedTuple):
    """Everything constant of a batch of cases, float64.

    Conductances in m³, pressures in Pa, `entry` scales the capillary table, `brine_*` and
    `start` are per row, `co2_*` tables have the shape (B, Z, pressures), curve tables (B,
    nodes)."""

    pore_volume: torch.Tensor  # (B, Z, R)
    radial: torch.Tensor  # (B, Z, R), the last face is the open boundary
    vertical: torch.Tensor  # (B, Z-1, R)
    well_index: torch.Tensor  # (B, Z), 0 where not perforated
    well_head: torch.Tensor  # (B, Z), weight of the CO₂ column from the well's top open row
    rate: torch.Tensor  # (B,) kg/s
    start: torch.Tensor  # (B, Z) hydrostatic brine pressure
    brine_density: torch.Tensor  # (B, Z) at `start`
    brine_viscosity: torch.Tensor  # (B, Z)
    brine_per_pa: torch.Tensor  # (B, Z)
    rock_per_pa: torch.Tensor  # (B,)
    co2_density: torch.Tensor
    co2_viscosity: torch.Tensor
    pressures: torch.Tensor  # (pressures,) nodes of the two tables above
    curves: torch.Tensor  # (3, B, nodes): brine, CO2, capillary pressure in Pa
    largest: torch.Tensor  # (B,) largest saturation, the last node
    entry: torch.Tensor  # (B, Z, R+1) factor on the capillary table, the ghost's too
    row_m: float
    gravity: float

    def take(self, cases):
        """The aquifers of some of the cases, by index."""
        shared = {"pressures": self.pressures, "row_m": self.row_m, "gravity": self.gravity}
        picked = {
            name: value.index_select(1 if name == "curves" else 0, cases)
            for name, value in self._asdict().items()
            if name not in shared
        }
        return Aquifer(**picked, **shared)


class Phases(NamedTuple):
    """Each phase in each cell, (P, B, Z, R): density, mobility × density, extra potential
    (p_c); `_p`, `_s` slopes."""

    density: torch.Tensor
    density_p: torch.Tensor
    mobility: torch.Tensor
    mobility_p: torch.Tensor
    mobility_s: torch.Tensor
    potential: torch.Tensor
    potential_s: torch.Tensor

    def at(self, *index):
        """The same for a part of the cells: an index or slice for rows and rings."""
        return Phases(*(part[(slice(None), slice(None), *index)] for part in self))


class Fluxes(NamedTuple):
    """kg/s out of the first cell of each face into the second, (P, B, …), and its slopes by
    p and S of both cells."""

    flux: torch.Tensor
    first_p: torch.Tensor
    first_s: torch.Tensor
    second_p: torch.Tensor
    second_s: torch.Tensor


def look_up(table, first, step, at):
    """(value, slope) of tables (..., nodes), evenly spaced, at `at` (..., n): straight lines
    between nodes and beyond the ends."""
    place = (at - first) / step
    left = place.detach().floor().clamp_(0, table.shape[-1] - 2).long()
    low, high = table.gather(-1, left), table.gather(-1, left + 1)
    return low + (high - low) * (place - left), (high - low) / step


def phases(aquifer, pressure, saturation):
    """`Phases` for pressure and saturation (B, Z, R), with any number of rings."""
    nodes, steps = aquifer.pressures, aquifer.curves.shape[-1] - 1
    span = nodes[1] - nodes[0]
    co2, co2_p = look_up(aquifer.co2_density, nodes[0], span, pressure)
    thick, thick_p = look_up(aquifer.co2_viscosity, nodes[0], span, pressure)
    share = (saturation / aquifer.largest.view(-1, 1, 1)).flatten(1).expand(3, -1, -1)
    value, slope = (
        x.view(3, *saturation.shape) for x in look_up(aquifer.curves, 0.0, 1 / steps, share)
    )
    slope = slope / aquifer.largest.view(-1, 1, 1)
    at_rest, thin = aquifer.brine_density[..., None], 1 / aquifer.brine_viscosity[..., None]
    brine_p = (at_rest * aquifer.brine_per_pa[..., None]).expand_as(co2)
    brine = at_rest + brine_p * (pressure - aquifer.start[..., None])
    entry = aquifer.entry[..., : pressure.shape[-1]]
    return Phases(
        torch.stack([brine, co2]), torch.stack([brine_p, co2_p]),
        torch.stack([brine * value[0] * thin, co2 / thick * value[1]]),
        torch.stack([brine_p * value[0] * thin,
                     (co2_p - co2 * thick_p / thick) / thick * value[1]]),
        torch.stack([brine * slope[0] * thin, co2 / thick * slope[1]]),
        torch.stack([torch.zeros_like(co2), value[2] * entry]),
        torch.stack([torch.zeros_like(co2), slope[2] * entry]),
    )  # fmt: skip


def flux_between(conductance, first, second, pressure_first, pressure_second, fall=0.0):
    """`Fluxes` over faces; `fall` is gravity times how much deeper the second cell lies, in
    Pa per kg/m³."""
    drop = pressure_first - pressure_second + first.potential - second.potential
    drop = drop + (first.density + second.density) * (fall / 2)
    out = drop >= 0
    mobility = conductance * torch.where(out, first.mobility, second.mobility)
    push = conductance * drop
    ahead, back = torch.where(out, push, 0.0), torch.where(out, 0.0, push)
    return Fluxes(
        mobility * drop,
        ahead * first.mobility_p + mobility * (1 + first.density_p * (fall / 2)),
        ahead * first.mobility_s + mobility * first.potential_s,
        back * second.mobility_p + mobility * (second.density_p * (fall / 2) - 1),
        back * second.mobility_s - mobility * second.potential_s,
    )


def masses(aquifer, state, pressure, saturation):
    """(held, by p, by S), each (P, B, Z, R): kg in the cells."""
    spring = aquifer.rock_per_pa.view(-1, 1, 1)
    pores = aquifer.pore_volume * (1 + spring * (pressure - aquifer.start[..., None]))
    shares = torch.stack([1 - saturation, saturation])
    signs = pressure.new_tensor([-1.0, 1.0]).view(2, 1, 1, 1)
    by_p = (aquifer.pore_volume * spring * state.density + pores * state.density_p) * shares
    return pores * state.density * shares, by_p, signs * pores * state.density


def well(aquifer, state, pressure):
    """(q, slope, p_b): CO₂ into each row (B, Z) in kg/s, its slopes (B, Z, 2, Z) by the
    first ring's p and S, and the bottom-hole pressure (B,) at the well's top row."""
    ring = state.at(slice(None), 0)
    p = pressure[:, :, 0] - aquifer.well_head
    # ρ_co2 × total mobility: the phase mobilities carry their own densities
    ratio = ring.density[1] / ring.density[0]
    ratio_p = (ring.density_p[1] - ratio * ring.density_p[0]) / ring.density[0]
    ease = ring.mobility[0] * ratio + ring.mobility[1]
    ease_p = ring.mobility_p[0] * ratio + ring.mobility[0] * ratio_p + ring.mobility_p[1]
    ease_s = ring.mobility_s[0] * ratio + ring.mobility_s[1]
    index = aquifer.well_index
    for _ in range(3):  # shut rows that would flow backwards; each pass can only shut more
        bottom = _bottom_hole(aquifer.rate, index * ease, p)
        index = torch.where(bottom >= p, index, 0.0)
    weight = index * ease
    total, bottom = weight.sum(1, keepdim=True), _bottom_hole(aquifer.rate, weight, p)
    drive = torch.where(index > 0, bottom - p, 0.0)
    by_p = weight / total - index * ease_p * drive / total  # how p_b follows
    by_s = -index * ease_s * drive / total
    slope = weight[:, :, None, None] * torch.stack([by_p, by_s], 1)[:, None]
    own = torch.stack([index * ease_p * drive - weight, index * ease_s * drive], 1)
    slope = slope + torch.diag_embed(own).transpose(1, 2)
    return weight * drive, slope, bottom[:, 0]


def _bottom_hole(rate, weight, pressure):
    """(B, 1) the pressure at which the weights' flows add up to the rate."""
    pushed = rate[:, None] + (weight * pressure).sum(1, keepdim=True)
    return pushed / weight.sum(1, keepdim=True)


class System(NamedTuple):
    """A Newton step: residual (B, P, Z, R) in kg over the time step, its matrix (or None),
    and what left through the open boundary in kg, (B, P), with the masses held (P, B, Z, R)
    and the bottom-hole pressure (B,)."""

    residual: torch.Tensor
    matrix: BlockTridiagonal | None
    left: torch.Tensor
    held: torch.Tensor
    bottom: torch.Tensor


def assemble(aquifer, pressure, saturation, before, dt, slopes=True):
    """The `System` at pressure and saturation (B, Z, R) for steps dt (B,) seconds from
    masses `before` (P, B, Z, R)."""
    ghost = aquifer.start[..., None]
    padded = torch.cat([pressure, ghost], 2)
    everywhere = phases(aquifer, padded, torch.cat([saturation, torch.zeros_like(ghost)], 2))
    inside, outward = (everywhere.at(slice(None), part) for part in (slice(-1), slice(1, None)))
    held, held_p, held_s = masses(aquifer, inside, pressure, saturation)
    radial = flux_between(aquifer.radial, inside, outward, pressure, padded[:, :, 1:])
    vertical = flux_between(
        aquifer.vertical, inside.at(slice(-1)), inside.at(slice(1, None)),
        pressure[:, :-1], pressure[:, 1:],
        aquifer.gravity * aquifer.row_m,
    )  # fmt: skip
    injected, well_slope, bottom = well(aquifer, everywhere, pressure)
    step = dt.view(-1, 1, 1)
    residual = held - before + step * radial.flux
    residual[..., 1:] -= (step * radial.flux)[..., :-1]
    residual[:, :, :-1] += step * vertical.flux
    residual[:, :, 1:] -= step * vertical.flux
    residual[1, :, :, 0] -= dt[:, None] * injected
    left = (step * radial.flux)[..., -1].sum(-1).T
    matrix = _matrix(step, (held_p, held_s), radial, vertical, well_slope) if slopes else None
    return System(residual.transpose(0, 1), matrix, left, held, bottom)


def _matrix(step, held, radial, vertical, well_slope):
    """The residual's slopes as a `BlockTridiagonal`."""
    own = torch.stack(held, 1)  # (P, unknown, B, Z, R)
    first = torch.stack([radial.first_p, radial.first_s], 1) * step
    second = torch.stack([radial.second_p, radial.second_s], 1) * step
    above = torch.stack([vertical.first_p, vertical.first_s], 1) * step
    below = torch.stack([vertical.second_p, vertical.second_s], 1) * step
    own = own + first
    own[..., 1:] -= second[..., :-1]
    own[..., :-1, :] += above
    own[..., 1:, :] -= below
    _, _, batch, rows, rings = own.shape
    diagonal = own.new_zeros(batch, rings, 2, rows, 2, rows)
    view = diagonal.permute(2, 4, 0, 3, 5, 1)  # (P, unknown, B, Z, Z, R)
    view.diagonal(0, 3, 4).copy_(own.transpose(3, 4))
    view.diagonal(1, 3, 4).copy_(below.transpose(3, 4))
    view.diagonal(-1, 3, 4).copy_(-above.transpose(3, 4))
    diagonal[:, 0, 1] -= step.view(-1, 1, 1, 1) * well_slope
    lower = torch.nn.functional.pad(-first[..., :-1], (1, 0))
    lower, upper = (part.permute(2, 4, 3, 0, 1).contiguous() for part in (lower, second))
    return BlockTridiagonal(diagonal, lower, upper)
