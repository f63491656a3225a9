"""The race: what a 30-year case costs, by grid, by batch, and by linear solver, in one run.

    python -m two_phase.bench_two_phase             # this machine's tier, 20 rounds
    python -m two_phase.bench_two_phase --rounds 3 --sizes 12x24

Three questions: how the cost grows with the grid, what batching saves, and whether our block
elimination or SciPy's sparse solver (SuperLU) is the faster way through one Newton iteration.
Answers are compared before the clock starts.
"""

import argparse

import numpy as np
import torch
from helpers import bench, device, receipts

from . import equations
from .aquifer import aquifer_of
from .grid import BAR, DAY_S, Grid
from .linear import BlockTridiagonal, solve_blocks, solve_scipy, solve_sparse, to_scipy
from .simulator import Case, simulate_batch

BATCHES = (1, 4)


def sites(count, grid, seed=11, thickness_rows=0.5):
    """`count` cases in rough rock, their aquifers as thick as the same share of the grid."""
    thickness, rng = round(grid.rows * thickness_rows) * grid.row_m, np.random.default_rng(seed)
    found = []
    for _ in range(count):
        k, porosity = (
            100 * np.exp(0.8 * rng.standard_normal(grid.shape)),
            rng.uniform(0.1, 0.3, grid.shape),
        )
        found.append(
            Case(k, porosity, thickness, 1500.0, rng.uniform(0.2, 0.8), (0.0, thickness))
        )
    return found


def newton_system(cases, grid, where="cpu"):
    """(matrix, right) of a Newton iteration in the middle of a run: the fields of a report, a
    step of a tenth of its time."""
    rows = max(grid.active_rows(case.thickness_m) for case in cases)
    at = len(grid.times_days) // 2
    aquifer = aquifer_of(cases, grid, rows, where)
    results = simulate_batch(cases, grid, where)
    built = torch.stack([result.pressure_buildup_TZR[at, :rows] for result in results]) * BAR
    saturation = torch.stack([result.saturation_TZR[at, :rows] for result in results])
    pressure = aquifer.start[..., None] + built
    state = equations.phases(aquifer, pressure, saturation)
    held = equations.masses(aquifer, state, pressure, saturation)[0]
    dt = torch.full_like(aquifer.rate, 0.1 * grid.times_days[at] * DAY_S)
    system = equations.assemble(aquifer, pressure, saturation, held, dt)
    return system.matrix, -system.residual


def linear_race(cases, grid, where, rounds):
    """Race of the linear solvers for a batch of Newton iterations; checked, then timed."""
    matrix, right = newton_system(cases, grid, where)
    here = BlockTridiagonal(*(part.cpu() for part in matrix)), right.cpu()
    ours, scipys = solve_blocks(matrix, right).cpu(), solve_sparse(*here)
    scale = scipys.abs().amax((0, 2, 3), keepdim=True)
    if not ((ours - scipys) / scale).abs().max() < 1e-6:
        raise ArithmeticError("the two solvers disagree; no race")
    ready = [
        (to_scipy(here[0], b), here[1][b].permute(2, 0, 1).flatten().numpy())
        for b in range(len(cases))
    ]
    contestants = {
        "block elimination": lambda: solve_blocks(matrix, right),
        "SciPy, SuperLU, matrices ready": lambda: [solve_scipy(*one) for one in ready],
        "SciPy, SuperLU": lambda: solve_sparse(*here),
    }
    return bench.race(contestants, repeats=rounds, reference="SciPy, SuperLU", device=where)


def case_race(batches, grid, where, rounds):
    """Race of whole runs: batches of different sizes on one grid; checked, then timed."""
    drawn = sites(max(batches), grid)
    alone, together = (
        simulate_batch(drawn[:1], grid, where)[0],
        simulate_batch(drawn, grid, where)[0],
    )
    if not (alone.saturation_TZR - together.saturation_TZR).abs().max() < 1e-4:
        raise ArithmeticError("a case alone and in its batch disagree; no race")
    contestants = {
        f"{count} at a time": lambda count=count: simulate_batch(drawn[:count], grid, where)
        for count in batches
    }
    return bench.race(contestants, repeats=rounds, warmup=1, device=where)


def main(argv=None):
    """Race at this machine's size and write the receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=device.cores())
    parser.add_argument("--sizes", nargs="+", help="grids as rows x rings, such as 24x48")
    parser.add_argument("--batches", nargs="+", type=int)
    args = parser.parse_args(argv)
    torch.set_num_threads(args.threads)
    tier = device.tier()
    sizes = args.sizes or tier.pick(
        cpu=["12x24", "24x48"], gpu=["24x48", "48x96"], big=["24x48", "48x96", "96x200"]
    )
    batches = args.batches or tier.pick(cpu=BATCHES, gpu=(1, 32, 128), big=(1, 32, 128))
    receipt = receipts.start("co2_storage", tier, args.threads)
    receipt.sizes(rounds=args.rounds, largest_batch=max(batches))
    for size in sizes:
        grid = Grid.reduced(*(int(part) for part in size.split("x")))
        linear = linear_race(sites(max(batches), grid), grid, tier.device, args.rounds)
        runs = case_race(batches, grid, tier.device, args.rounds)
        for race in (linear, runs):
            print(f"{size}\n{race}\n")
        name = size.replace("x", "_by_")
        receipt.record(f"block_solver_speedup_{name}", linear.ratios["block elimination"])
        for count in batches:
            timed = runs.results[f"{count} at a time"]
            receipt.record(
                f"simulator_case_s_{name}_batch_{count}",
                timed.median_s / count, "s", timed.low_s / count, timed.high_s / count,
                len(timed.times_s), note="per case",
            )  # fmt: skip
    print(receipt.write("two_phase"))


if __name__ == "__main__":
    main()
