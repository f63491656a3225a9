"""Makes a data set of storage sites: drawn, simulated, checked, kept in shards.

    python -m storage_sites.generate ../../../_build/co2_cases --cases 600 --seed 1

An interrupted run goes on where it stopped; one with other code, grid or seed is refused.
"""

import argparse
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
    """The folder's index (a dict) once it holds `cases` cases or more, in whole shards; goes on
    where it stopped.

    Raises ValueError where the folder holds another seed, grid or code or a broken shard, and
    for a case whose mass balance is off; the message says which.
    """
    from tqdm.auto import tqdm

    if shard < 1:
        raise ValueError(f"shard {shard}: from 1 case on")
    folder, grid = Path(folder), grid or Grid.reduced()
    folder.mkdir(parents=True, exist_ok=True)
    # "ranges" has one value by now; data sets made earlier name it, and go on
    made = {"seed": seed, "ranges": "training", "shard": shard, "grid": asdict(grid)}
    index = shards.open_index(folder, made | {"code": shards.code_hash(CODE)})
    done, wanted = len(index["shards"]), -(-cases // shard)
    with tqdm(total=max(done, wanted) * shard, initial=done * shard, unit="case") as bar:
        for part in range(done, wanted):
            numbers = range(part * shard, (part + 1) * shard)
            arrays = sites.simulate_shard(numbers, seed, grid, update=bar.update)
            index = shards.add_shard(folder, index, arrays)
    return index


def main(argv=None):
    """Generate a data set from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cases", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shard", type=int, default=SHARD_CASES)
    args = parser.parse_args(argv)
    index = generate(args.folder, args.cases, args.seed, shard=args.shard)
    print(f"{sum(s['cases'] for s in index['shards'].values())} cases in {args.folder}")


if __name__ == "__main__":
    main()
