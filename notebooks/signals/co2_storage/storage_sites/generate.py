"""Makes a data set of storage sites: drawn, simulated, checked, kept in shards.

    python -m storage_sites.generate ../../../_build/co2_cases --cases 600 --seed 1

`index.json` beside the shards says how they were made (seed, grid, ranges, a hash of the code).
An interrupted run goes on where it stopped; one with other code, grid or seed is refused.
"""

import argparse
import functools
import json
from dataclasses import asdict
from pathlib import Path

import two_phase
from two_phase import Grid

from . import shards, sites

SHARD_CASES = 50
FLOW = ("aquifer", "equations", "estimate", "fluids", "grid", "linear", "newton", "simulator")
CODE = [Path(two_phase.__file__).with_name(f"{name}.py") for name in FLOW]
CODE += [Path(__file__).with_name(f"{name}.py") for name in ("rock", "sites")]


def generate(folder, cases, seed=0, grid=None, shard=SHARD_CASES):
    """None once the folder holds `cases` cases or more, in whole shards. ValueError where it
    holds another seed, grid or code, and for a case whose mass balance is off."""
    from tqdm.auto import tqdm

    if shard < 1:
        raise ValueError(f"shard {shard}: from 1 case on")
    grid, index = grid or Grid.reduced(), Path(folder) / "index.json"
    # "ranges" has one value by now; data sets made earlier name it, and go on
    made = {"seed": seed, "ranges": "training", "shard": shard, "grid": asdict(grid)}
    told = json.dumps(made | {"code": shards.code_hash(CODE)}, indent=1)
    known, made = json.loads(index.read_text() if index.exists() else told), json.loads(told)
    if other := ", ".join(name for name in made if known.get(name) != made[name]):
        raise ValueError(f"{index} was made with another {other}: take a new folder")
    index.parent.mkdir(parents=True, exist_ok=True)
    if not index.exists():
        index.write_text(told)
    with tqdm(total=-(-cases // shard) * shard, unit="case") as bar:
        for first in range(0, cases, shard):
            numbers = range(first, first + shard)
            make = functools.partial(
                sites.simulate_shard, numbers, seed, grid, update=bar.update
            )
            shards.kept(index.with_name(f"cases_{first // shard:04d}.npz"), make)


def main(argv=None):
    """Generate a data set from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cases", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shard", type=int, default=SHARD_CASES)
    args = parser.parse_args(argv)
    generate(args.folder, args.cases, args.seed, shard=args.shard)
    print(f"{len(shards.load(args.folder)['number'])} cases in {args.folder}")


if __name__ == "__main__":
    main()
