"""A data set of storage sites and what happens in each: drawn at random, simulated,
checked, kept.

    python storage_cases.py _build/co2_cases --cases 600 --seed 1

Every case has its own random generator, seeded with (seed, number), so the data set does
not depend on how it is split or resumed. An interrupted run goes on where it stopped; one
with other code, grid or seed is refused. A case that loses more than a millionth of the
injected mass stops the run. `case_shards` keeps the files.

Legend: N cases, T report times, Z rows, R rings.
"""

import argparse
import json
import sys
from dataclasses import dataclass, fields
from pathlib import Path

import case_shards
import numpy as np
import rock_fields
import two_phase
from case_shards import load
from two_phase import Case, Grid

__all__ = ["OUTSIDE", "TRAINING", "Ranges", "draw", "generate", "grid_of", "load", "reproduce"]
__all__ += ["to_arrays", "to_case"]

BALANCE_LIMIT = 1e-6
SHARD_CASES = 50
BATCH = 25
BUILD_UP_SHARE = 0.5  # of the resting pressure: what a drawn well may reach, by the estimate
PARTS = ("", "_aquifer", "_equations", "_fluids", "_grid", "_linear", "_newton")
CODE = ("rock_fields", "storage_cases", *(f"two_phase{part}" for part in PARTS))
SCALARS = ("kv_kh", "thickness", "depth", "rate", "swi", "lam")


@dataclass(frozen=True)
class Ranges:
    """What is drawn, uniformly from (low, high) each; exponents of ten where it says
    `log10`."""

    log10_mean_md: tuple = (1.3, 2.7)
    sigma: tuple = (0.2, 1.2)
    vertical_m: tuple = (10.0, 60.0)
    log10_radial_m: tuple = (2.5, 4.0)
    log10_kv_kh: tuple = (-2.0, 0.0)
    thickness_m: tuple = (25.0, 200.0)
    depth_m: tuple = (1000.0, 2500.0)
    rate_mt: tuple = (0.2, 2.0)
    irreducible: tuple = (0.1, 0.3)
    lam: tuple = (0.3, 0.7)
    kinds: tuple = rock_fields.KINDS


TRAINING = Ranges()
# rock that no training case has: stronger contrasts over shorter distances
OUTSIDE = Ranges(
    sigma=(1.5, 2.2),
    vertical_m=(5.0, 10.0),
    log10_radial_m=(1.8, 2.3),
    kinds=("continuous", "facies"),
)
RANGES = {"training": TRAINING, "outside": OUTSIDE}


def draw(seed, number, grid, ranges=TRAINING):
    """Case `number` of the data set with this seed: `draw(1, 0, Grid.reduced())`.

    A well that would raise the pressure too far (`two_phase.estimated_buildup_bar` over
    half of what rests there) is drawn again with its rock, as an operator would not drill
    it.
    """
    rng = np.random.default_rng([seed, number])
    while True:
        case = _draw_once(rng, grid, ranges)
        allowed = BUILD_UP_SHARE * two_phase.hydrostatic_bar(case.depth_m)
        if two_phase.estimated_buildup_bar(case, grid) < allowed:
            return case


def _draw_once(rng, grid, ranges):
    names = [field.name for field in fields(ranges) if field.name != "kinds"]
    drawn = {name: rng.uniform(*getattr(ranges, name)) for name in names}
    kind = ranges.kinds[rng.integers(len(ranges.kinds))]
    lengths = (drawn["vertical_m"], 10 ** drawn["log10_radial_m"], kind)
    mean_md, sigma = 10 ** drawn["log10_mean_md"], drawn["sigma"]
    k = rock_fields.permeability(grid, rng, mean_md, sigma, *lengths)
    porosity = rock_fields.porosity(grid, rng, k, *lengths)
    rows = grid.active_rows(drawn["thickness_m"])
    length = rng.integers(min(2, rows), rows + 1)
    top = rng.integers(0, rows - length + 1)
    perforation = float(top * grid.row_m), float((top + length) * grid.row_m)
    return Case(
        k, porosity, rows * grid.row_m, drawn["depth_m"], drawn["rate_mt"], perforation,
        10 ** drawn["log10_kv_kh"], drawn["irreducible"], drawn["lam"],
    )  # fmt: skip


def generate(
    folder, cases, seed=0, grid=None, ranges="training", shard=SHARD_CASES, device="cpu",
    progress=True,
):  # fmt: skip
    """The folder's index (a dict) once it holds at least `cases` cases, in whole shards;
    goes on where it stopped.

    Raises ValueError where the folder holds another seed, grid, range or code or a broken
    shard, and for a case whose mass balance is off; the message says which.
    """
    from tqdm.auto import tqdm

    if ranges not in RANGES or shard < 1:
        raise ValueError(
            f"ranges {ranges!r}, shard {shard}: {sorted(RANGES)} and from 1 case on"
        )
    folder, grid = Path(folder), grid or Grid.reduced()
    folder.mkdir(parents=True, exist_ok=True)
    made = {"seed": seed, "ranges": ranges, "shard": shard, "grid": _grid_fields(grid)}
    code = case_shards.code_hash(Path(__file__).with_name(f"{name}.py") for name in CODE)
    index = case_shards.open_index(folder, made | {"code": code})
    done, wanted = len(index["shards"]), -(-cases // shard)
    with tqdm(
        total=max(done, wanted) * shard, initial=done * shard, unit="case", disable=not progress
    ) as bar:
        for part in range(done, wanted):
            numbers = range(part * shard, (part + 1) * shard)
            arrays = simulate_shard(numbers, seed, grid, RANGES[ranges], device, bar.update)
            index = case_shards.add_shard(folder, index, arrays)
    return index


def simulate_shard(numbers, seed, grid, ranges=TRAINING, device="cpu", update=lambda: None):
    """The arrays of these cases of a data set, by the names that `load` uses.

    Cases of about equal thickness run together, because the thickest sets the cost.
    `update` is called once a case. ValueError for a case whose mass balance is off.
    """
    drawn = [draw(seed, number, grid, ranges) for number in numbers]
    order = sorted(range(len(drawn)), key=lambda i: drawn[i].thickness_m)
    results = [None] * len(drawn)
    for first in range(0, len(order), BATCH):
        chosen = order[first : first + BATCH]
        found = two_phase.simulate_batch([drawn[i] for i in chosen], grid, device)
        for i, result in zip(chosen, found, strict=True):
            if not result.mass_balance_error < BALANCE_LIMIT:
                raise ValueError(
                    f"case {numbers[i]} of seed {seed}: mass is off by "
                    f"{result.mass_balance_error:.1e} of the injected CO₂; "
                    f"{BALANCE_LIMIT:g} is allowed"
                )
            results[i] = result
            update()
    return to_arrays(drawn, grid) | _outputs(results) | {"number": np.array(numbers)}


def _outputs(results):
    stacked = {
        "saturation": [r.saturation_TZR.cpu().numpy() for r in results],
        "pressure": [r.pressure_buildup_TZR.cpu().numpy() for r in results],
        "bottom_hole": [r.bottom_hole_bar.cpu().numpy() for r in results],
    }
    return {name: np.stack(parts).astype(np.float32) for name, parts in stacked.items()} | {
        "balance": np.array([r.mass_balance_error for r in results]),
        "seconds": np.array([r.seconds for r in results]),
        "steps": np.array([r.steps for r in results]),
    }


def to_arrays(cases, grid):
    """The cases' inputs as arrays, by the names that `load` uses: fields float32, zero
    below the aquifer."""
    rows = np.array([grid.active_rows(case.thickness_m) for case in cases])
    mask = np.arange(grid.rows)[None, :, None] < rows[:, None, None]
    mask = np.broadcast_to(mask, (len(cases), *grid.shape))
    table = [
        (c.kv_kh, c.thickness_m, c.depth_m, c.rate_mt, c.irreducible, c.lam) for c in cases
    ]
    perforated = [grid.perforated_rows(c.perforation_m, c.thickness_m) for c in cases]
    return {
        "permeability": np.where(mask, [c.permeability_ZR for c in cases], 0).astype(
            np.float32
        ),
        "porosity": np.where(mask, [c.porosity_ZR for c in cases], 0).astype(np.float32),
        "perforation_mask": np.array(perforated),
        "perforation": np.array([c.perforation_m for c in cases]),
        "mask": mask,
        **dict(zip(SCALARS, np.array(table).T, strict=True)),
    }


def to_case(data, i):
    """Case i of what `load` or `to_arrays` gave, ready to be simulated again."""
    names = (*SCALARS, "permeability", "porosity", "perforation")
    one = {name: np.asarray(data[name][i], float) for name in names}
    kv_kh, thickness, depth, rate, irreducible, lam = (float(one[name]) for name in SCALARS)
    perforation = tuple(one["perforation"].tolist())
    return Case(
        one["permeability"], one["porosity"], thickness, depth, rate, perforation,
        kv_kh, irreducible, lam,
    )  # fmt: skip


def reproduce(folder, numbers):
    """(saturation, bar): the largest differences between these cases in a data set and the
    same cases drawn and simulated now."""
    kept = load(folder)
    index = json.loads((Path(folder) / "index.json").read_text())
    places = [kept["number"].tolist().index(number) for number in numbers]
    again = simulate_shard(numbers, index["seed"], grid_of(folder), RANGES[index["ranges"]])
    names = ("saturation", "pressure")
    return tuple(float(abs(kept[name][places].numpy() - again[name]).max()) for name in names)


def grid_of(folder):
    """The `Grid` that a data set was made on."""
    kept = json.loads((Path(folder) / "index.json").read_text())["grid"]
    return Grid(tuple(kept["edges_m"]), kept["rows"], kept["row_m"], tuple(kept["times_days"]))


def _grid_fields(grid):
    return {field.name: getattr(grid, field.name) for field in fields(grid)}


def main(argv=None):
    """Generate a data set from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cases", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ranges", choices=sorted(RANGES), default="training")
    parser.add_argument("--grid", choices=("reduced", "published"), default="reduced")
    parser.add_argument("--shard", type=int, default=SHARD_CASES)
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args(argv)
    grid = getattr(Grid, args.grid)()
    index = generate(
        args.folder, args.cases, args.seed, grid, args.ranges, args.shard, args.device
    )
    print(f"{sum(s['cases'] for s in index['shards'].values())} cases in {args.folder}")


if __name__ == "__main__":
    sys.exit(main())
