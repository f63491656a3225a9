"""The race of accuracy against time: what a site costs the network and a simulator, coarsened.

    python -m plume_surrogate.bench_accuracy --threads 1     # each number has its own receipt

A network is off, so a simulator need not be better. The truth for both is the simulator on a
grid twice as fine each way with steps half as long, averaged back, on eight sites that no
network has seen; it takes minutes, and is kept in `_build`. The simulator runs with the data
set's settings, with longer steps, and with those on fewer and wider rings: points of a curve
of error over time. The speed-up at equal accuracy is read off that curve, between two points,
where its plume error is the network's, and where its pressure error is; the smaller counts.
The clock runs for one site of middling thickness. OPM Flow runs beside them where it is
installed; its time has the start of a process and its files in it.
"""

import argparse
import functools
from dataclasses import replace

import numpy as np
import storage_sites
import torch
from helpers import bench, device, receipts
from storage_sites import generate
from two_phase import Grid, opm_flow, simulate

from .mass import MassBalance
from .runtime import Compiled
from .shipped import BUILD, load_shipped
from .surrogate import case_errors, pick

GRID = Grid.reduced()
SEED, SITES, FIELDS = 1, range(500, 508), ("saturation", "pressure")
WAYS = {  # of the simulator: grid, step as a share of the time passed
    "fine": (Grid.reduced(48, 96), 0.05),
    "simulator": (GRID, 0.1), "steps_3": (GRID, 0.3), "steps_10": (GRID, 1.0),
} | {f"rings_{n}": (Grid.reduced(24, n), 1.0) for n in (24, 16, 12, 8, 6)}  # fmt: skip


def regridded(case, grid):
    """The same site on a grid whose rings are halves of `GRID`'s, or some of them joined: they
    hold as many pores as before, and have their rings' geometric mean of permeability."""
    rows, rings = (max(1, new // own) for new, own in zip(grid.shape, GRID.shape, strict=True))
    areas = GRID.areas_m2.reshape(min(grid.shape[1], GRID.shape[1]), -1)
    fields = np.log(case.permeability_ZR), np.asarray(case.porosity_ZR)
    joined = (
        (field.reshape(-1, *areas.shape) * weights).sum(2) / weights.sum(1)
        for field, weights in zip(fields, (np.ones_like(areas), areas), strict=True)
    )
    log_k, porosity = (np.repeat(np.repeat(field, rows, 0), rings, 1) for field in joined)
    return replace(case, permeability_ZR=np.exp(log_k), porosity_ZR=porosity)


def onto(field_NTZR, grid):
    """A field's mean over the cells of `GRID`, from a finer or a wider one."""
    if grid.shape[1] < GRID.shape[1]:
        return field_NTZR.repeat_interleave(GRID.shape[1] // grid.shape[1], 3)
    areas, (Z, R) = torch.as_tensor(grid.areas_m2), GRID.shape
    held = (field_NTZR * areas).unflatten(3, (R, -1)).sum(4).unflatten(2, (Z, -1)).mean(3)
    return held / areas.view(R, -1).sum(1)


def simulated(cases, way):
    """(saturation, pressure) of cases by one of `WAYS`, float32 on `GRID`."""
    grid, step = WAYS[way]
    results = [simulate(regridded(case, grid), grid, step_fraction=step) for case in cases]
    fields = (torch.stack([result[at] for result in results]) for at in (0, 1))
    return tuple(onto(field, grid).float() for field in fields)


def truth(cases):
    """What `simulated(cases, "fine")` gives, kept in `_build` under the simulator's hash."""
    code = storage_sites.code_hash(generate.CODE)[:12]
    path = BUILD / f"co2_fine_{SEED}_{SITES[0]}_{len(SITES)}_{code}.npz"
    make = functools.partial(simulated, cases, "fine")
    fields = storage_sites.kept(path, lambda: dict(zip(FIELDS, make(), strict=True)))
    return tuple(fields[name] for name in FIELDS)


def accuracy(found, wanted, sites):
    """A dict: mean plume and pressure error, gas misplaced at the end, in %."""
    errors = case_errors(*found, sites | dict(zip(FIELDS, wanted, strict=True)))
    full = MassBalance(GRID).capacity(sites, wanted[1])[:, -1]
    held, best = (full * fields[0][:, -1] for fields in (found, wanted))
    misplaced = (held - best).abs().sum((1, 2)) / 2 / best.sum((1, 2))
    parts = {"plume": errors.plume, "pressure": errors.pressure, "misplaced": misplaced}
    return {name: 100 * values.mean().item() for name, values in parts.items()}


def between(wanted, errors, seconds):
    """(way, way, share): between which two of the simulator's ways an error of `wanted` lies,
    and how far from the first to the second, in logarithms. Of the ways count those than which
    no faster one is as exact; where their curve ends before, its end is taken."""
    curve = []
    for way in sorted(errors, key=lambda way: (seconds[way], errors[way])):
        if not curve or errors[way] < errors[curve[-1]]:
            curve.append(way)
    falling = -np.log([errors[way] for way in curve])
    place = float(np.interp(-np.log(wanted), falling, range(len(curve))))
    left = max(0, min(int(place), len(curve) - 2))
    return curve[left], curve[min(left + 1, len(curve) - 1)], place - left


def equal(results, errors, wanted):
    """(`bench.Ratio`, note): the compiled network's speed over that of a simulator which is as
    far off, `wanted`, taken round by round between two of the ways in `errors`."""
    seconds = {way: results[way].median_s for way in errors}
    fast, slow, share = between(wanted, errors, seconds)
    times = zip(*(results[way].times_s for way in (fast, slow, "compiled")), strict=True)
    ratios = (one ** (1 - share) * two**share / own for one, two, own in times)
    inside = errors[slow] <= wanted <= errors[fast]
    told = f"{fast} to {slow}" if inside else "the simulator's curve ends before"
    return bench.Ratio(*bench.spread(ratios)), told


def beside_flow(receipt, cases, lone, threads):
    """OPM Flow's call for the clock, in a dict, once it is recorded how far its answers are
    from ours (`opm_flow.apart`): mean and range over the cases. Where it is absent, nothing."""
    if not opm_flow.installed():
        print("OPM Flow is not installed here: it is left out")
        return {}
    found = []
    for case in cases:
        peer = opm_flow.simulate_in_flow(case, GRID, threads)
        found.append(opm_flow.apart(case, simulate(case, GRID)[:2], peer, GRID))
    for name in found[0]:
        values = [one[name] for one in found]
        ends = min(values), max(values), len(values)
        receipt.record(f"flow_{name}", np.mean(values), "%", *ends, interval="range")
    return {"flow": functools.partial(opm_flow.simulate_in_flow, lone, GRID, threads)}


def main(argv=None):
    """Measure accuracy, race, write the receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=device.cores())
    args = parser.parse_args(argv)
    torch.set_num_threads(args.threads)
    receipt = receipts.start("co2_storage", device.tier(), args.threads)
    cases = [storage_sites.draw(SEED, number, GRID) for number in SITES]
    arrays = storage_sites.to_arrays(cases, GRID)
    sites = {name: torch.tensor(values) for name, values in arrays.items()}
    middle = int(sites["thickness"].argsort()[len(cases) // 2])
    one, lone, wanted = pick(sites, [middle]), [cases[middle]], truth(cases)
    member = load_shipped(GRID)[0]
    compiled = Compiled(member, sites)
    receipt.sizes(sites=len(cases), rounds=args.rounds, rows=int(one["mask"][0, :, 0].sum()))
    coarse = [way for way in WAYS if way != "fine"]
    found = {way: simulated(cases, way) for way in coarse} | {"network": member.predict(sites)}
    off = {way: accuracy(fields, wanted, sites) for way, fields in found.items()}
    for way, errors in off.items():
        for name, value in errors.items():
            receipt.record(f"{way}_{name}", value, "%")
            print(f"{way} {name} {value:.2f} %")
    ways = {way: functools.partial(simulated, lone, way) for way in coarse}
    ways |= {"network": lambda: member.predict(one), "compiled": lambda: compiled.predict(one)}
    ways |= beside_flow(receipt, cases, lone[0], args.threads)
    race = bench.race(ways, repeats=args.rounds, warmup=1, reference="steps_10")
    print(race)
    for way, timed in race.results.items():
        receipt.record(f"{way}_s", timed)
    both = {}
    for field in ("plume", "pressure"):
        own = {way: off[way][field] for way in coarse}
        both[field] = equal(race.results, own, off["network"][field])
    both["accuracy"] = min(both.values())
    for name, (ratio, told) in both.items():
        receipt.record(f"speedup_equal_{name}", ratio, note=told)
    print(receipt.write(f"accuracy-{args.threads}"))


if __name__ == "__main__":
    main()
