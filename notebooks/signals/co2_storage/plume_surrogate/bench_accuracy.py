"""The race of accuracy against time: what a site costs the network and a simulator, coarsened.

    python -m plume_surrogate.bench_accuracy --threads 1     # each number has its own receipt

A network is off, so a simulator need not be better. The truth for both is the simulator on a
grid twice as fine each way with steps half as long, averaged back, on eight sites that no
network has seen; it takes minutes, and is kept in `_build`. The simulator runs with the data
set's settings, with longer steps, and on rings twice as wide. The clock runs for one site of
middling thickness.
"""

import argparse
import functools
from dataclasses import replace

import numpy as np
import storage_sites
import torch
from helpers import bench, device, receipts
from storage_sites import generate
from two_phase import Grid, simulate

from .mass import MassBalance
from .runtime import Compiled
from .shipped import BUILD, load_shipped
from .surrogate import case_errors, pick

GRID, FINE, WIDE = Grid.reduced(), Grid.reduced(48, 96), Grid.reduced(24, 24)
SEED, SITES, FIELDS = 1, range(500, 508), ("saturation", "pressure")
WAYS = {  # of the simulator: grid, step as a share of the time passed
    "fine": (FINE, 0.05),
    "simulator": (GRID, 0.1),
    "steps_3": (GRID, 0.3),
    "steps_10": (GRID, 1.0),
    "wide_10": (WIDE, 1.0),
}


def regridded(case, grid):
    """The same site on one of the three grids, whose rings are halves or pairs of `GRID`'s."""
    fields = np.log(case.permeability_ZR), np.asarray(case.porosity_ZR)
    if grid == FINE:
        fields = (np.repeat(np.repeat(field, 2, 0), 2, 1) for field in fields)
    elif grid == WIDE:
        fields = (field.reshape(len(field), -1, 2).mean(2) for field in fields)
    log_k, porosity = fields
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
    one, lone = pick(sites, [middle]), [cases[middle]]
    wanted = truth(cases)
    member = load_shipped(GRID)[0]
    compiled = Compiled(member, sites)
    receipt.sizes(sites=len(cases), rounds=args.rounds, rows=int(one["mask"][0, :, 0].sum()))
    coarse = [way for way in WAYS if way != "fine"]
    found = {way: simulated(cases, way) for way in coarse} | {"network": member.predict(sites)}
    for way, fields in found.items():
        for name, value in accuracy(fields, wanted, sites).items():
            receipt.record(f"{way}_{name}_{args.threads}_threads", value, "%")
            print(f"{way} {name} {value:.2f} %")
    ways = {way: functools.partial(simulated, lone, way) for way in coarse}
    ways |= {"network": lambda: member.predict(one), "compiled": lambda: compiled.predict(one)}
    race = bench.race(ways, repeats=args.rounds, warmup=1, reference="steps_10")
    print(race)
    for way, timed in race.results.items():
        receipt.record(f"{way}_s_{args.threads}_threads", timed)
    print(receipt.write(f"accuracy-{args.threads}"))


if __name__ == "__main__":
    main()
