"""The same site in OPM Flow, an established simulator: the deck that it reads, a run, and how
far its answer lies from ours.

Flow (Debian's `libopm-simulators-bin`) takes pore volumes, conductances and well indices as
they are. So the deck hands over our finite volumes: the same rings and rows, rock, curves,
capillary pressure (JFUNC is Leverett's rule), temperatures and resting pressure. Its own are
the properties of CO₂ and brine (CO2STORE; without DISGAS they do not dissolve in each other),
the time steps, the solvers, and the flow from well to rock. The open boundary is one column
more, too large to ever fill.

What may lie between the two was said before the first run. Our density of CO₂ is off by up to
6 % (`fluids`): so much in volume, half of it in a radius. A front stands in a ring, and rings
widen by 15 %: a half of that. Together 10 % of the plume's radius, and, with the other time
steps, 10 % of the build-up. Legend: Z rows, R rings, T report times.
"""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

from .aquifer import MD_M2, MT_PER_YEAR, aquifer_of
from .fluids import ROCK_M2, ROCK_PER_PA, ROCK_POROSITY, SALT, temperature_c
from .grid import BAR, DAY_S, YEAR_DAYS
from .validation import co2_in_place_mt

ALLOWED = {"radius_off": 10.0, "build_up_off": 10.0}  # in %, see above
HELD = 0.95  # of the gas, within what is called the plume's radius
SURFACE_KG_M3 = 1.86843  # CO₂ at 15.56 °C and one atmosphere, in which Flow counts gas
SALT_KG_PER_MOL = 0.05844
CONDUCTANCE = 1e3 * BAR * DAY_S  # from m³ to Flow's cP m³/day/bar
TENSION = 0.318316  # bar √mD in J's unit, at one dyn/cm: what JFUNC multiplies by
BOUNDARY_M3 = 1e15


def installed():
    """Whether there is a `flow`."""
    return shutil.which("flow") is not None


def simulate_in_flow(case, grid, threads=1):
    """Saturation and build-up in bar of one case of real fluids, (T, Z, R) each. Raises
    FileNotFoundError where Flow is not installed, RuntimeError with its last words where it
    fails or stops before the last report time."""
    if not installed():
        raise FileNotFoundError("there is no `flow`: Debian has it in libopm-simulators-bin")
    rows, reports = grid.active_rows(case.thickness_m), len(grid.times_days)
    command = ["flow", "SITE.DATA", f"--threads-per-process={threads}"]
    how = {"env": os.environ | {"OMP_NUM_THREADS": str(threads)}, "timeout": 900}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "SITE.DATA").write_text(deck(case, grid), encoding="utf-8")
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, **how)
        written = Path(folder, "SITE.FUNRST")
        text = written.read_text(encoding="utf-8") if written.exists() else ""
    fields = [blocks(text, name) for name in ("SGAS", "PRESSURE")]
    if done.returncode or any(len(field) != reports for field in fields):
        told = f"{len(fields[0])} of {reports} report times"
        raise RuntimeError(f"flow ended with {done.returncode}, {told}: {done.stdout[-1000:]}")
    gas, pressure = (x.reshape(reports, rows, -1)[..., :-1] for x in fields)
    start = aquifer_of([case], grid, rows).start[0, :, None].numpy() / BAR
    below = (0, 0), (0, grid.rows - rows), (0, 0)
    return np.pad(gas, below), np.pad(pressure - start, below)


def radius_m(case, saturation_ZR, grid):
    """The radius of the circle around the well that holds 95 % of the gas, by volume."""
    gas_R = (np.asarray(saturation_ZR) * np.asarray(case.porosity_ZR)).sum(0) * grid.areas_m2
    within = np.cumsum([0.0, *gas_R]) / gas_R.sum()
    return np.sqrt(np.interp(HELD, within, np.square(grid.edges_m)))


def apart(case, ours, peer, grid):
    """In %, of two pairs of saturation and build-up: by how much the peer's plume is wider at
    the end, how far its build-up is off at all times, and how much gas its fields hold at the
    end, by our density, over what was injected."""
    (own, built_up), (other, its) = (map(np.asarray, fields) for fields in (ours, peer))
    wider = radius_m(case, other[-1], grid) / radius_m(case, own[-1], grid) - 1
    gap = np.abs(its - built_up).sum() / built_up.sum()
    injected = case.rate_mt * grid.times_days[-1] / YEAR_DAYS
    held = co2_in_place_mt(case, grid, other, its)[-1] / injected
    return {"radius_off": 100 * wider, "build_up_off": 100 * gap, "held": 100 * held}


def blocks(text, name):
    """(reports, cells): every array of a name in a formatted restart file."""
    found = re.findall(rf"'{name:<8}' +\d+ 'REAL'\n([^']+)", text)
    return np.array([numbers.split() for numbers in found], float)


def deck(case, grid):
    """The text that Flow reads, of one case."""
    site = aquifer_of([case], grid, grid.active_rows(case.thickness_m))
    fields, index = _fields(case, grid, site), site.well_index[0].numpy()
    brine, gas, capillary_pa = site.curves[:, 0].numpy()
    j = capillary_pa / BAR / TENSION * np.sqrt(ROCK_M2 / MD_M2 / ROCK_POROSITY)
    shares = np.linspace(0, site.largest.item(), len(gas))
    opened = np.flatnonzero(index)
    wells = (
        f"'I' 1 1 {z + 1} {z + 1} 'OPEN' 1* {CONDUCTANCE * index[z]:.9g} 0.2 /" for z in opened
    )
    return DECK.format(
        rows=len(index), columns=grid.shape[1] + 1, opened="\n".join(wells),
        curves=_numbers(np.stack([shares, gas, brine, j], 1)), per_bar=ROCK_PER_PA * BAR,
        molal=SALT / (1 - SALT) / SALT_KG_PER_MOL, at_bar=site.start.mean().item() / BAR,
        top=case.depth_m + grid.depths_m[opened[0]],
        rate=case.rate_mt * MT_PER_YEAR * DAY_S / SURFACE_KG_M3,
        steps=_numbers(np.diff(grid.times_days, prepend=0.0)[:, None]),
        **{name: f"{name}\n{_numbers(x.reshape(-1, 1))} /\n" for name, x in fields.items()},
    )  # fmt: skip


def _fields(case, grid, site):
    """What each cell is told, by Flow's words for it, (Z, R + 1); of TOPS the first row."""
    rows, beyond = len(site.start[0]), ((0, 0), (0, 1))
    names = ("pore_volume", "radial", "vertical")
    pores, radial, vertical = (getattr(site, name)[0].numpy() for name in names)
    rock = case.permeability_ZR, case.porosity_ZR
    k, porosity = (np.pad(np.asarray(x, float)[:rows], beyond, "edge") for x in rock)
    flat, celsius = np.ones(k.shape), temperature_c(case.depth_m + grid.depths_m[:rows])
    return {
        "DX": flat * np.append(np.diff(grid.edges_m), 1.0), "DY": flat, "DZ": flat * grid.row_m,
        "TOPS": flat[:1] * case.depth_m, "PORO": porosity,
        "PERMX": k, "PERMY": k, "PERMZ": k * case.kv_kh,
        "PORV": np.pad(pores, beyond, constant_values=BOUNDARY_M3),
        "TRANX": CONDUCTANCE * np.pad(radial, beyond),
        "TRANZ": CONDUCTANCE * np.pad(vertical, ((0, 1), (0, 1))),
        "PRESSURE": flat * site.start[0, :, None].numpy() / BAR, "SGAS": 0 * flat,
        "TEMPI": flat * celsius[:, None],
    }  # fmt: skip


def _numbers(table):
    """A line for each row of numbers; no line of a deck may be longer than 128 characters."""
    return "\n".join(" ".join(f"{number:.9g}" for number in row) for row in table)


DECK = """RUNSPEC
DIMENS| {columns} 1 {rows} /
OIL
GAS
CO2STORE
METRIC
START| 1 'JAN' 2020 /
TABDIMS| 1* 1* 100 /
ENDSCALE| /
WELLDIMS| 1 {rows} 1 1 /
FMTOUT
UNIFOUT
GRID
{DX}{DY}{DZ}{TOPS}{PERMX}{PERMY}{PERMZ}{PORO}JFUNC| 'GAS' 1* 1.0 0.5 0.5 'XY' /
EDIT
{PORV}{TRANX}{TRANZ}PROPS
SGOF| {curves} /
SALINITY| {molal:.6g} /
ROCK| {at_bar:.6g} {per_bar:.6g} /
SOLUTION
{PRESSURE}{SGAS}{TEMPI}SCHEDULE
RPTRST| 'BASIC=2' /
WELSPECS| 'I' 'G' 1 1 {top:.9g} 'GAS' /|/
COMPDAT| {opened}|/
WCONINJE| 'I' 'GAS' 'OPEN' 'RATE' {rate:.9g} 1* 900 /|/
TSTEP| {steps} /
END
""".replace("|", "\n")
