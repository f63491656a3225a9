"""The same equations as `two_phase_equations`, one cell and one face at a time, in Python
floats.

Slow and plain: what the batched code is held against. Masses in kg, pressures in Pa.
"""

import numpy as np
import torch
from two_phase_equations import GRAVITY


def residual_reference(aquifer, case, pressure_ZR, saturation_ZR, before_PZR, dt):
    """(P, Z, R) kg that each cell holds too much after a step of dt seconds, for one case of a
    batch; what `two_phase_equations.assemble` returns as `residual`."""
    rows, rings = pressure_ZR.shape
    rest, a = -before_PZR.numpy(), aquifer.take(torch.tensor([case]))
    cells = {
        (z, r): cell_reference(a, z, r, float(pressure_ZR[z, r]), float(saturation_ZR[z, r]))
        for z in range(rows)
        for r in range(rings)
    }
    for z in range(rows):
        cells[z, rings] = cell_reference(a, z, rings - 1, float(a.start[0, z]), 0.0)  # outside
        for r in range(rings):
            for phase in range(2):
                rest[phase, z, r] += cells[z, r]["mass"][phase]
                sides = [((z, r + 1), float(a.radial[0, z, r]), 0.0)]
                if z + 1 < rows:
                    fall = GRAVITY * a.row_m * (a.gravity > 0)
                    sides.append(((z + 1, r), float(a.vertical[0, z, r]), fall))
                for other, conductance, fall in sides:
                    flux = (
                        dt
                        * conductance
                        * face_reference(cells[z, r], cells[other], phase, fall)
                    )
                    rest[phase, z, r] += flux
                    if other[1] < rings:
                        rest[phase][other] -= flux
    rest[1, :, 0] -= dt * well_reference(a, [cells[z, 0] for z in range(rows)])
    return rest


def face_reference(first, second, phase, fall):
    """Mobility × potential drop from the first cell to the second, per unit of conductance."""
    drop = first["potential"][phase] - second["potential"][phase]
    drop += fall * (first["density"][phase] + second["density"][phase]) / 2
    return (first if drop >= 0 else second)["mobility"][phase] * drop


def cell_reference(a, z, r, pressure, saturation):
    """Masses, densities, mobilities × density and potentials of (brine, CO₂) in one cell."""
    nodes, share = a.pressures.numpy(), saturation / float(a.largest[0])
    places = np.linspace(0, 1, a.curves.shape[-1])
    k_brine, k_co2, capillary = (
        np.interp(share, places, a.curves[i, 0].numpy()) for i in range(3)
    )
    above = pressure - float(a.start[0, z])
    brine = float(a.brine_density[0, z]) * (1 + float(a.brine_per_pa[0, z]) * above)
    co2 = np.interp(pressure, nodes, a.co2_density[0, z].numpy())
    thick = np.interp(pressure, nodes, a.co2_viscosity[0, z].numpy())
    pores = float(a.pore_volume[0, z, r]) * (1 + float(a.rock_per_pa[0]) * above)
    return {
        "pressure": pressure,
        "mass": (pores * brine * (1 - saturation), pores * co2 * saturation),
        "density": (brine, co2),
        "mobility": (brine * k_brine / float(a.brine_viscosity[0, z]), co2 * k_co2 / thick),
        "potential": (pressure, pressure + capillary * float(a.entry[0, z, r])),
    }


def well_reference(a, ring):
    """(Z,) kg/s into each row: rows that would flow backwards are shut one after another."""
    open_rows = [z for z in range(len(ring)) if a.well_index[0, z] > 0]
    ease = [
        cell["density"][1] * (cell["mobility"][0] / cell["density"][0]) + cell["mobility"][1]
        for cell in ring
    ]
    weight = [float(a.well_index[0, z]) * ease[z] for z in range(len(ring))]
    level = [cell["pressure"] - float(a.well_head[0, z]) for z, cell in enumerate(ring)]
    while True:
        total = sum(weight[z] for z in open_rows)
        bottom = (float(a.rate[0]) + sum(weight[z] * level[z] for z in open_rows)) / total
        shut = [z for z in open_rows if level[z] > bottom]
        if not shut:
            break
        open_rows = [z for z in open_rows if z not in shut]
    into = np.zeros(len(ring))
    for z in open_rows:
        into[z] = weight[z] * (bottom - level[z])
    return into
