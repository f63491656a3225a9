"""Storage sites: drawn at random, laid out as arrays, simulated and checked.

Every site has its own random generator, seeded with (seed, number), so that a data set does not
depend on how it is split or resumed.

Legend: N cases, T report times, Z rows, R rings.
"""

from dataclasses import dataclass, fields

import numpy as np
from two_phase import Case, estimated_buildup_bar, hydrostatic_bar, simulate_batch

from . import rock

BALANCE_LIMIT = 1e-6
BATCH = 25
BUILD_UP_SHARE = 0.5  # of the resting pressure: what a drawn well may reach, by the estimate
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
    kinds: tuple = rock.KINDS


TRAINING = Ranges()
# rock that no training case has: stronger contrasts over shorter distances
OUTSIDE = Ranges(
    sigma=(1.5, 2.2), vertical_m=(5.0, 10.0), log10_radial_m=(1.8, 2.3),
    kinds=("continuous", "facies"),
)  # fmt: skip
RANGES = {"training": TRAINING, "outside": OUTSIDE}


def draw(seed, number, grid, ranges=TRAINING):
    """Case `number` of the data set with this seed. A well that would raise the pressure too
    far (`BUILD_UP_SHARE`) is drawn again with its rock, as an operator would not drill it."""
    rng = np.random.default_rng([seed, number])
    while True:
        case = _draw_once(rng, grid, ranges)
        allowed = BUILD_UP_SHARE * hydrostatic_bar(case.depth_m)
        if estimated_buildup_bar(case, grid) < allowed:
            return case


def _draw_once(rng, grid, ranges):
    names = [field.name for field in fields(ranges) if field.name != "kinds"]
    drawn = {name: rng.uniform(*getattr(ranges, name)) for name in names}
    kind = ranges.kinds[rng.integers(len(ranges.kinds))]
    lengths = (drawn["vertical_m"], 10 ** drawn["log10_radial_m"], kind)
    mean_md, sigma = 10 ** drawn["log10_mean_md"], drawn["sigma"]
    k = rock.permeability(grid, rng, mean_md, sigma, *lengths)
    porosity = rock.porosity(grid, rng, k, *lengths)
    rows = grid.active_rows(drawn["thickness_m"])
    length = rng.integers(min(2, rows), rows + 1)
    top = rng.integers(0, rows - length + 1)
    perforation = float(top * grid.row_m), float((top + length) * grid.row_m)
    return Case(
        k, porosity, rows * grid.row_m, drawn["depth_m"], drawn["rate_mt"], perforation,
        10 ** drawn["log10_kv_kh"], drawn["irreducible"], drawn["lam"],
    )  # fmt: skip


def simulate_shard(numbers, seed, grid, ranges=TRAINING, update=lambda: None):
    """The arrays of these cases of a data set, by the names that `shards.load` uses. Cases of
    about equal thickness run together, because the thickest sets the cost; `update` is called
    once a case. ValueError for one that loses more than a millionth of the injected mass."""
    drawn = [draw(seed, number, grid, ranges) for number in numbers]
    order = sorted(range(len(drawn)), key=lambda i: drawn[i].thickness_m)
    results = [None] * len(drawn)
    for first in range(0, len(order), BATCH):
        chosen = order[first : first + BATCH]
        found = simulate_batch([drawn[i] for i in chosen], grid)
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
    """The cases' inputs as arrays, as `load` names them: float32 fields, zero below the
    rock."""
    rows = np.array([grid.active_rows(case.thickness_m) for case in cases])
    mask = np.arange(grid.rows)[None, :, None] < rows[:, None, None]
    mask = np.broadcast_to(mask, (len(cases), *grid.shape))
    table = [
        (c.kv_kh, c.thickness_m, c.depth_m, c.rate_mt, c.irreducible, c.lam) for c in cases
    ]
    perforated = [grid.perforated_rows(c.perforation_m, c.thickness_m) for c in cases]
    return {
        "permeability":
            np.where(mask, [c.permeability_ZR for c in cases], 0).astype(np.float32),
        "porosity": np.where(mask, [c.porosity_ZR for c in cases], 0).astype(np.float32),
        "perforation_mask": np.array(perforated),
        "perforation": np.array([c.perforation_m for c in cases]), "mask": mask,
        **dict(zip(SCALARS, np.array(table).T, strict=True)),
    }  # fmt: skip


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
