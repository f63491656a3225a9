"""The equations: equal to the plain loop, derivatives equal to automatic differentiation,
nothing lost at faces, still where nothing is injected; and the linear solver solves."""

import numpy as np
import pytest
import torch

from . import equations, linear
from .aquifer import Fluids, aquifer_of
from .grid import Grid
from .simulator import Case
from .validation import plain_case

GRID = Grid.reduced(6, 7)


def rough_case(seed, thickness=200.0, opening=(30.0, 180.0), rate=0.5):
    rng = np.random.default_rng(seed)
    k = 100 * np.exp(rng.standard_normal(GRID.shape))
    porosity = rng.uniform(0.1, 0.3, GRID.shape)
    return Case(k, porosity, thickness, 1500.0, rate, opening, 0.2, 0.15, 0.4)


def rough_state(aquifer, seed=0):
    """Pressures and saturations with flow in every direction, nothing on a table's node."""
    rng = np.random.default_rng(seed)
    shape = aquifer.pore_volume.shape
    pressure = aquifer.start[..., None] + torch.from_numpy(rng.normal(3e5, 5e5, shape))
    return pressure, torch.from_numpy(rng.uniform(0.01, 0.8, shape))


def rough_system(slopes=True):
    cases = [rough_case(1), rough_case(2, thickness=135.0, opening=(10.0, 60.0))]
    aquifer = aquifer_of(cases, GRID, 6)
    pressure, saturation = rough_state(aquifer)
    state = equations.phases(aquifer, pressure, saturation * 0.9)
    before = equations.masses(aquifer, state, pressure, saturation * 0.9)[0]
    dt = torch.tensor([1e5, 3e6]).double()
    system = equations.assemble(aquifer, pressure, saturation, before, dt, slopes)
    return aquifer, pressure, saturation, before, dt, system


def resting(gravity=1.0):
    aquifer = aquifer_of([rough_case(3)], GRID, 6)._replace(rate=torch.tensor([1e-9]).double())
    pressure = aquifer.start[..., None].expand(-1, -1, 7).clone()
    saturation = torch.zeros_like(pressure)
    state = equations.phases(aquifer, pressure, saturation)
    return (
        aquifer,
        pressure,
        saturation,
        equations.masses(aquifer, state, pressure, saturation)[0],
    )


def test_the_residual_equals_the_plain_loop():
    aquifer, pressure, saturation, before, dt, system = rough_system()
    for b in range(2):
        wanted = residual_reference(
            aquifer, b, pressure[b], saturation[b], before[:, b], float(dt[b])
        )
        # sums of terms up to a million times larger than the smallest residual
        np.testing.assert_allclose(
            system.residual[b], wanted, rtol=1e-9, atol=1e-9 * abs(wanted).max()
        )


def test_the_derivatives_equal_automatic_differentiation():
    aquifer, pressure, saturation, before, dt, system = rough_system()

    def residual(p, s):
        return equations.assemble(aquifer, p, s, before, dt, slopes=False).residual

    by_p, by_s = torch.autograd.functional.jacobian(residual, (pressure, saturation))
    for b in range(2):
        wanted = torch.stack([by_p[b][..., b, :, :], by_s[b][..., b, :, :]], 3)
        wanted = wanted.permute(2, 0, 1, 5, 3, 4).reshape(7 * 12, 7 * 12).numpy()
        found = dense(system.matrix, b)
        # each entry on its own: pressure and saturation slopes differ by ten orders
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-13 * abs(wanted).max())


def test_the_well_s_derivatives_equal_automatic_differentiation():
    aquifer, pressure, saturation, *_ = rough_system(slopes=False)

    def flows(p, s):
        return equations.well(aquifer, equations.phases(aquifer, p, s), p)[0]

    slope = equations.well(aquifer, equations.phases(aquifer, pressure, saturation), pressure)[
        1
    ]
    for unknown, found in enumerate(
        torch.autograd.functional.jacobian(flows, (pressure, saturation))
    ):
        for b in range(2):
            wanted = found[b, :, b, :, 0]
            torch.testing.assert_close(
                slope[b, :, unknown], wanted, rtol=1e-9, atol=1e-12 * wanted.abs().max().item()
            )


def test_what_leaves_one_cell_enters_its_neighbour():
    aquifer, _, _, before, dt, system = rough_system()
    total = system.residual.sum((2, 3))
    injected = torch.stack([torch.zeros(2).double(), aquifer.rate * dt], 1)
    wanted = (system.held - before).sum((2, 3)).T + system.left - injected
    torch.testing.assert_close(total, wanted, rtol=1e-9, atol=1e-3)


def test_an_aquifer_without_a_well_stays_still():
    aquifer, pressure, saturation, before = resting()
    system = equations.assemble(
        aquifer, pressure, saturation, before, torch.tensor([1e9]).double()
    )
    # thirty years: what is left is the rounding of pressures, of up to 1e14 kg in a cell
    assert (system.residual / system.held[0][None].amax()).abs().max() < 1e-11


def test_rows_below_the_aquifer_take_no_part():
    *_, system = rough_system()
    aquifer, pressure, saturation, before, dt, _ = rough_system(slopes=False)
    other = pressure.clone()
    other[1, 4:] += 1e5  # the second case has four rows
    again = equations.assemble(aquifer, other, saturation, before, dt).residual
    torch.testing.assert_close(again[1, :, :4], system.residual[1, :, :4])


def test_the_well_gives_its_rate_and_no_row_flows_backwards():
    aquifer, pressure, saturation, *_ = rough_system()
    pressure = pressure.clone()
    pressure[0, 1, 0] += 5e7  # far above any pressure in the well
    state = equations.phases(aquifer, pressure, saturation)
    given, _, _ = equations.well(aquifer, state, pressure)
    torch.testing.assert_close(given.sum(1), aquifer.rate)
    assert (given >= 0).all() and given[0, 1] == 0
    assert (given[1, 2:] == 0).all()  # not perforated there


def test_the_well_equals_the_loop_that_shuts_row_after_row():
    aquifer, pressure, saturation, *_ = rough_system()
    state = equations.phases(aquifer, pressure, saturation)
    given = equations.well(aquifer, state, pressure)[0]
    one = aquifer.take(torch.tensor([0]))
    ring = [
        cell_reference(one, z, 0, float(pressure[0, z, 0]), float(saturation[0, z, 0]))
        for z in range(6)
    ]
    np.testing.assert_allclose(given[0], well_reference(one, ring), rtol=1e-12)


def test_brine_alone_flows_by_darcys_law():
    plain = Fluids(brine_per_pa=0.0)
    aquifer = aquifer_of([rough_case(4)], GRID, 6, fluid=plain)
    pressure = aquifer.start[..., None].expand(-1, -1, 7).clone()
    pressure[0, 0, 0] += 1e5
    state = equations.phases(aquifer, pressure, torch.zeros_like(pressure))
    flux = equations.flux_between(
        aquifer.radial[..., :-1],
        state.at(slice(None), slice(-1)), state.at(slice(None), slice(1, None)),
        pressure[..., :-1], pressure[..., 1:],
    ).flux  # fmt: skip
    wanted = float(aquifer.radial[0, 0, 0]) * 1e5 * 1020.0 / 6e-4
    assert flux[0, 0, 0, 0].item() == pytest.approx(wanted)
    assert flux[1].abs().max() == 0  # CO₂ that is not there does not move


@pytest.mark.parametrize("drop", [1e-3, 1.0, -1.0, -1e-3])
def test_a_phase_brings_the_mobility_of_the_side_it_comes_from(drop):
    aquifer = aquifer_of([plain_case(GRID)], GRID, 6, fluid=Fluids())
    pressure = aquifer.start[..., None].expand(-1, -1, 7).clone()
    pressure[..., 0] += drop
    saturation = torch.zeros_like(pressure)
    saturation[..., 0] = 0.4
    state = equations.phases(aquifer, pressure, saturation)
    first, second = state.at(slice(None), slice(0, 1)), state.at(slice(None), slice(1, 2))
    ends = pressure[..., :1], pressure[..., 1:2]
    flux = equations.flux_between(torch.tensor(1.0), first, second, *ends).flux
    source = first if drop > 0 else second
    torch.testing.assert_close(flux, source.mobility * (ends[0] - ends[1]))


def test_tables_are_lines_between_nodes_and_go_on_beyond_the_ends():
    table = torch.tensor([[1.0, 3.0, 4.0]])
    value, slope = equations.look_up(table, 0.0, 1.0, torch.tensor([[0.5, 1.5, 3.0, -1.0]]))
    torch.testing.assert_close(value, torch.tensor([[2.0, 3.5, 5.0, -1.0]]))
    torch.testing.assert_close(slope, torch.tensor([[2.0, 1.0, 1.0, 2.0]]))


def dense(matrix, case):
    """One case's whole matrix; unknowns ordered by ring, quantity, row."""
    diagonal, lower, upper = (part[case].numpy() for part in matrix)
    rings, _, rows = diagonal.shape[:3]
    whole = np.zeros((rings, 2, rows, rings, 2, rows))
    for i in range(rings):
        whole[i, :, :, i] = diagonal[i]
        for z in range(rows):
            if i:
                whole[i, :, z, i - 1, :, z] = lower[i, z]
            if i + 1 < rings:
                whole[i, :, z, i + 1, :, z] = upper[i, z]
    return whole.reshape(rings * 2 * rows, -1)


def test_a_system_without_a_solution_gives_no_numbers():
    matrix, right = rough_system()[-1].matrix, rough_system()[-1].residual
    broken = linear.BlockTridiagonal(*(torch.zeros_like(part) for part in matrix))
    assert (
        linear.solve_banded(broken, right).isnan().all()
    )  # Newton's method then cuts the step


def test_the_solver_solves_the_dense_system():
    matrix, right = rough_system()[-1].matrix, rough_system()[-1].residual
    banded = linear.solve_banded(matrix, right)
    for b in range(2):
        x = np.linalg.solve(dense(matrix, b), right[b].permute(2, 0, 1).reshape(-1).numpy())
        wanted = torch.from_numpy(x).view(7, 2, 6).permute(1, 2, 0)
        scale = wanted.abs().amax((1, 2), keepdim=True)  # pascals and shares
        assert ((banded[b] - wanted) / scale).abs().max() < 1e-8


def test_a_part_of_the_batch_has_its_own_matrix():
    matrix = rough_system()[-1].matrix
    second = matrix.take(torch.tensor([1]))
    assert np.array_equal(dense(second, 0), dense(matrix, 1))


# The same equations one cell and one face at a time, in Python floats: slow and plain.


def residual_reference(aquifer, case, pressure_ZR, saturation_ZR, before_PZR, dt):
    """(P, Z, R) kg that each cell holds too much after a step of dt seconds, for one case of a
    batch; what `equations.assemble` returns as `residual`."""
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
                    fall = equations.GRAVITY * a.row_m * (a.gravity > 0)
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
