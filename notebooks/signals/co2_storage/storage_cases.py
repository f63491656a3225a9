"""A data set of storage sites and what happens in each: drawn at random, simulated, checked, and kept on disk.

    python storage_cases.py _build/co2_cases --cases 600 --seed 1

Every case has its own random generator, seeded with (seed, number), so the data set does not depend on how it is split
or resumed. Shards of a few dozen cases are written whole or not at all; `index.json` keeps each one's SHA-256, the seed,
the grid and a hash of the code. An interrupted run goes on where it stopped; a run with other code or another seed is
refused. A case that loses more than a millionth of the injected mass stops the run.

Legend: N cases, T report times, Z rows, R rings.
"""

import argparse
import ast
import hashlib
import json
import os
import sys
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import rock_fields
import torch
import two_phase
from two_phase import Case, Grid

BALANCE_LIMIT = 1e-6
SHARD_CASES = 50
BATCH = 25
BUILD_UP_SHARE = (
    0.5  # drawn wells stay below this share of the starting pressure, by the estimate
)
CODE = ("rock_fields", "storage_cases", "two_phase", "two_phase_equations", "two_phase_fluids", "two_phase_grid", "two_phase_linear")  # fmt: skip
SCALARS = ("kv_kh", "thickness", "depth", "rate", "swi", "lam")


@dataclass(frozen=True)
class Ranges:
    """What is drawn, each uniformly from (low, high); powers of ten where it says `log10`."""

    log10_mean_md: tuple = (1.3, 2.7)
    sigma: tuple = (0.2, 1.2)
    vertical_m: tuple = (10.0, 60.0)
    log10_radial_m: tuple = (2.5, 4.0)
    log10_kv_kh: tuple = (-2.0, 0.0)
    thickness_m: tuple = (25.0, 200.0)
    depth_m: tuple = (900.0, 2500.0)
    rate_mt: tuple = (0.2, 2.0)
    irreducible: tuple = (0.1, 0.3)
    lam: tuple = (0.3, 0.7)
    kinds: tuple = rock_fields.KINDS


TRAINING = Ranges()
OUTSIDE = Ranges(
    sigma=(1.5, 2.2),
    vertical_m=(5.0, 10.0),
    log10_radial_m=(1.8, 2.3),
    kinds=("continuous", "facies"),
)
RANGES = {"training": TRAINING, "outside": OUTSIDE}


def draw(seed, number, grid, ranges=TRAINING):
    """Case `number` of the data set with this seed: `draw(1, 0, Grid.reduced())`.

    Wells that would raise the pressure too far (`two_phase.estimated_buildup_bar` over half of the starting pressure) are
    drawn again, as an operator would not drill them.
    """
    rng = np.random.default_rng([seed, number])
    while True:
        case = _draw_once(rng, grid, ranges)
        if two_phase.estimated_buildup_bar(
            case, grid
        ) < BUILD_UP_SHARE * two_phase.hydrostatic_bar(case.depth_m):
            return case


def _draw_once(rng, grid, ranges):
    drawn = {
        field.name: rng.uniform(*getattr(ranges, field.name))
        for field in fields(ranges)
        if field.name != "kinds"
    }
    kind = ranges.kinds[rng.integers(len(ranges.kinds))]
    shape = {
        "vertical_m": drawn["vertical_m"],
        "radial_m": 10 ** drawn["log10_radial_m"],
        "kind": kind,
    }
    k = rock_fields.permeability(
        grid, rng, 10 ** drawn["log10_mean_md"], drawn["sigma"], **shape
    )
    porosity = rock_fields.porosity(grid, rng, k, **shape)
    rows = grid.active_rows(drawn["thickness_m"])
    length = rng.integers(min(2, rows), rows + 1)
    top = rng.integers(0, rows - length + 1)
    return Case(
        k, porosity, rows * grid.row_m, drawn["depth_m"], drawn["rate_mt"],
        (float(top * grid.row_m), float((top + length) * grid.row_m)),
        10 ** drawn["log10_kv_kh"], drawn["irreducible"], drawn["lam"],
    )  # fmt: skip


def generate(
    folder,
    cases,
    seed=0,
    grid=None,
    ranges="training",
    shard=SHARD_CASES,
    device="cpu",
    progress=True,
):
    """The folder's index (a dict) once it holds at least `cases` cases, whole shards; goes on where it stopped.

    Raises ValueError where the folder holds another seed, grid, range or code, a broken shard, or a case whose mass
    balance is off; the message says which.
    """
    from tqdm.auto import tqdm

    folder, grid = Path(folder), grid or Grid.reduced()
    folder.mkdir(parents=True, exist_ok=True)
    index = _open_index(folder, seed, grid, ranges, shard)
    for name, entry in index["shards"].items():
        _verify(folder / name, entry)
    wanted = -(-cases // shard)
    bar = tqdm(
        total=wanted * shard,
        initial=len(index["shards"]) * shard,
        unit="case",
        disable=not progress,
    )
    with bar:
        for part in range(len(index["shards"]), wanted):
            numbers = range(part * shard, (part + 1) * shard)
            arrays = _simulate_shard(numbers, seed, grid, RANGES[ranges], device, bar)
            name = f"cases_{part:04d}.npz"
            index["shards"][name] = _write(folder / name, arrays)
            _write_index(folder, index)
    return index


def _simulate_shard(numbers, seed, grid, ranges, device, bar):
    """The arrays of one shard; cases of about equal thickness run together, because the thickest sets the cost."""
    drawn = [draw(seed, number, grid, ranges) for number in numbers]
    order = sorted(range(len(drawn)), key=lambda i: drawn[i].thickness_m)
    results = [None] * len(drawn)
    for first in range(0, len(order), BATCH):
        chosen = order[first : first + BATCH]
        for i, result in zip(
            chosen,
            two_phase.simulate_batch([drawn[i] for i in chosen], grid, device),
            strict=True,
        ):
            if not result.mass_balance_error < BALANCE_LIMIT:
                raise ValueError(f"case {numbers[i]} of seed {seed}: mass is off by {result.mass_balance_error:.1e} of "
                                 f"the injected CO₂; {BALANCE_LIMIT:g} is allowed")  # fmt: skip
            results[i] = result
            bar.update()
    return to_arrays(drawn, grid) | {
        "saturation": np.stack([r.saturation_TZR.cpu().numpy() for r in results]).astype(
            np.float32
        ),
        "pressure": np.stack([r.pressure_buildup_TZR.cpu().numpy() for r in results]).astype(
            np.float32
        ),
        "bottom_hole": np.stack([r.bottom_hole_bar.cpu().numpy() for r in results]).astype(
            np.float32
        ),
        "balance": np.array([r.mass_balance_error for r in results]),
        "seconds": np.array([r.seconds for r in results]),
        "steps": np.array([r.steps for r in results]),
        "number": np.array(numbers),
    }


def to_arrays(cases, grid):
    """The cases' inputs as arrays, by the names that `load` uses: fields float32, with zeros below the aquifer."""
    mask = np.array(
        [
            np.broadcast_to(
                np.arange(grid.rows)[:, None] < grid.active_rows(c.thickness_m), grid.shape
            )
            for c in cases
        ]
    )
    table = np.array(
        [(c.kv_kh, c.thickness_m, c.depth_m, c.rate_mt, c.irreducible, c.lam) for c in cases]
    )
    return {
        "permeability": np.where(mask, [c.permeability_ZR for c in cases], 0).astype(
            np.float32
        ),
        "porosity": np.where(mask, [c.porosity_ZR for c in cases], 0).astype(np.float32),
        "perforation_mask": np.array(
            [grid.perforated_rows(c.perforation_m, c.thickness_m) for c in cases]
        ),
        "perforation": np.array([c.perforation_m for c in cases]),
        "mask": mask,
        **dict(zip(SCALARS, table.T, strict=True)),
    }


def to_case(data, i):
    """Case i of what `load` or `to_arrays` gave, ready to be simulated again."""
    one = {
        name: np.asarray(data[name][i], float)
        for name in (*SCALARS, "permeability", "porosity", "perforation")
    }
    return Case(
        one["permeability"], one["porosity"], float(one["thickness"]), float(one["depth"]), float(one["rate"]),
        tuple(one["perforation"].tolist()), float(one["kv_kh"]), float(one["swi"]), float(one["lam"]),
    )  # fmt: skip


def load(folder, verify=True, limit=None):
    """A dict of tensors, first axis N, of all finished shards (or the first `limit` cases).

    Fields float32: `permeability` (mD), `porosity` [N, Z, R], `saturation`, `pressure` (bar of build-up) [N, T, Z, R].
    `mask` [N, Z, R] and `perforation_mask` [N, Z] bool. [N] float64: `kv_kh`, `thickness`, `depth` (m), `rate` (Mt/yr),
    `swi`, `lam`, `balance`, `seconds`; also `perforation` [N, 2] in m, `bottom_hole` [N, T] in bar, `steps`, `number`.
    FileNotFoundError for a folder without an index, ValueError for a file that is not what was written.
    """
    folder = Path(folder)
    path = folder / "index.json"
    if not path.exists():
        raise FileNotFoundError(
            f"{path}: no data set here; make one with storage_cases.generate"
        )
    index = json.loads(path.read_text())
    parts, found = [], 0
    for name, entry in index["shards"].items():
        if limit is not None and found >= limit:
            break
        if verify:
            _verify(folder / name, entry)
        with np.load(folder / name) as file:
            parts.append({key: file[key] for key in file.files})
        found += entry["cases"]
    if not parts:
        raise ValueError(f"{path}: no shard is finished yet")
    return {
        key: torch.from_numpy(np.concatenate([part[key] for part in parts])[:limit])
        for key in parts[0]
    }


def grid_of(folder):
    """The `Grid` that a data set was made on."""
    return Grid(**_as_grid(json.loads((Path(folder) / "index.json").read_text())["grid"]))


def _as_grid(kept):
    return {
        name: tuple(value) if isinstance(value, list) else value for name, value in kept.items()
    }


def _open_index(folder, seed, grid, ranges, shard):
    """The folder's index, or a new one; ValueError if it was made otherwise."""
    if ranges not in RANGES:
        raise ValueError(f"ranges {ranges!r}: one of {sorted(RANGES)}")
    kept_grid = {field.name: getattr(grid, field.name) for field in fields(grid)}
    made = {
        "seed": seed,
        "ranges": ranges,
        "shard": shard,
        "code": code_hash(),
        "grid": kept_grid,
    }
    made = json.loads(json.dumps(made))
    path = folder / "index.json"
    if not path.exists():
        return made | {"shards": {}}
    index = json.loads(path.read_text())
    other = [name for name in made if index.get(name) != made[name]]
    if other:
        raise ValueError(
            f"{path} was made with another {', '.join(other)}: use a new folder, or delete this one"
        )
    return index


def code_hash():
    """SHA-256 of the modules that decide what a case is and does, without their docstrings, comments and layout."""
    trees = [ast.parse((Path(__file__).parent / f"{name}.py").read_text()) for name in CODE]
    for node in (node for tree in trees for node in ast.walk(tree)):
        if (
            isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef)
            and ast.get_docstring(node) is not None
        ):
            node.body = node.body[1:]
    return hashlib.sha256("".join(map(ast.dump, trees)).encode()).hexdigest()


def _write(path, arrays):
    """Write one shard, whole or not at all; its index entry."""
    scratch = path.with_suffix(f".{os.getpid()}.tmp")
    with scratch.open("wb") as file:
        np.savez_compressed(file, **arrays)
    entry = {"sha256": hashlib.sha256(scratch.read_bytes()).hexdigest(), "bytes": scratch.stat().st_size,
             "cases": len(arrays["number"])}  # fmt: skip
    scratch.replace(path)
    return entry


def _write_index(folder, index):
    scratch = folder / f"index.{os.getpid()}.tmp"
    scratch.write_text(json.dumps(index, indent=1))
    scratch.replace(folder / "index.json")


def _verify(path, entry):
    found = hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else "no file"
    if found != entry["sha256"]:
        raise ValueError(f"{path}: SHA-256 {found[:12]}…, the index has {entry['sha256'][:12]}…; delete the data set's "
                         "folder and generate it again")  # fmt: skip


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
    index = generate(
        args.folder,
        args.cases,
        args.seed,
        getattr(Grid, args.grid)(),
        args.ranges,
        args.shard,
        args.device,
    )
    print(f"{sum(entry['cases'] for entry in index['shards'].values())} cases in {args.folder}")


if __name__ == "__main__":
    sys.exit(main())
