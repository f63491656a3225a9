"""The race of the six switches: each alone, and one after the other, on a job that has a place
for each. Losses and evaluations are compared first.

In the chapter's folder, a receipt or a quick look:

    python -m bench_switches
    python -m bench_switches --rounds 3

The model has one core, as a model has its accelerator; the other core is the host's, and does
what is put beside the model. So that nobody takes the second core for an optimisation, one
contestant is the baseline with both cores at its products.
"""

import argparse
from copy import deepcopy

import step_switches
import torch
from helpers import bench, check, device, receipts
from step_switches import Detector, Plan, Switches
from torch.utils.flop_counter import FlopCounterMode

ORDER = ("pooled", "targets_outside", "asynchronous", "folded_norm", "fused_gelu", "bool_mask")
ALONE = (*ORDER, "held_back")
SIDES, BOXES, PICTURES, HELD = (300, 600), 40, 12, 8


def job(seed=0):
    """(model, data, what is held out): pictures of many sizes with boxes."""
    random = torch.Generator().manual_seed(seed)
    data = step_switches.draw(PICTURES, SIDES, BOXES, random)
    held = step_switches.ready(step_switches.draw(HELD, SIDES, BOXES, random))
    torch.manual_seed(seed)
    return Detector(), data, held


def waterfall(order=ORDER):
    """{name of the last one: Switches} of one switch after the other."""
    return {
        name: Switches(**dict.fromkeys(order[: at + 1], True)) for at, name in enumerate(order)
    }


def contestants(model, data, held, plan):
    """{name: function}: the baseline on one core and on both, each switch alone, and together
    with those before it."""

    def runs(on, threads=1):
        def call():
            torch.set_num_threads(threads)
            done = step_switches.run(deepcopy(model), data, held, on, plan)
            torch.set_num_threads(1)
            return done

        return call

    made = {"baseline": runs(Switches()), "both_cores": runs(Switches(), 2)}
    made |= {f"{name}_alone": runs(Switches(**{name: True})) for name in ALONE}
    added = list(waterfall().items())[1:]  # the first together is the first alone
    return made | {f"{name}_added": runs(on) for name, on in added}


def agree(runs):
    """None; AssertionError unless all have the same losses, and evaluations where they have
    one, and the last evaluation is there."""
    losses, evaluated = runs["baseline"]()
    why = "float32 sums in another order"
    for run in runs.values():
        mine, judged = run()
        check.close(torch.tensor(mine), torch.tensor(losses), rtol=1e-4, why=why)
        check.that(judged[-1][0] == evaluated[-1][0], "the last evaluation must be there")
        for step, lost in judged:
            check.close(lost, dict(evaluated)[step], rtol=1e-4, why=why)


def account(model, data, held, plan):
    """{switch: (bytes, FLOPs)} that a job saves or moves beside the model, from its shapes.

    A product with GELU: a read forward; backward a write and two reads. A norm: two passes
    forward and one backward, a read and a write each. A mask: a byte less to write and to read
    as it is kept, and two to turn it into 16 bits. Buffers: the system fills each new page with
    zeros, three arrays of them. Targets: 104 bytes a cell and box, thirteen passes. An
    evaluation: the products of its forward pass.
    """
    cells, channels = (step_switches.SIDE // 2) ** 2, 0
    for layer in model.modules():
        channels += len(layer.weight) if isinstance(layer, step_switches.FrozenNorm) else 0
    numbers, count = 4 * plan.steps * plan.batch * cells, plan.steps // plan.every
    pixels = [data[0][n % len(data[0])].numel() for n in range(plan.steps * plan.batch)]
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(held[0], Switches())
    flops, late = counter.get_total_flops(), len(late_evaluations(plan))
    return {
        "pooled": (12 * sum(pixels), 0),
        "targets_outside": (26 * numbers * BOXES, 0),
        "asynchronous": (0, count * flops),
        "held_back": (0, (count - late) * flops),
        "folded_norm": (6 * numbers * channels, 0),
        "fused_gelu": (4 * numbers * len(model.up.weight), 0),
        "bool_mask": (numbers * channels, 0),
    }


def predicted(*given):
    """{switch: milliseconds} of `account` at this machine's own copy and product rates."""
    peak = bench.peak("cpu")
    return {
        name: 1000 * (moved / peak.copy_bytes_per_s + flops / peak.matmul_flops_per_s)
        for name, (moved, flops) in account(*given).items()
    }


def late_evaluations(plan):
    """The steps whose evaluation comes after the rate's last fall."""
    return [s for s in range(plan.every, plan.steps + 1, plan.every) if s > max(plan.falls)]


def main(arguments=None):
    """Check, race, print the table and the receipt's path."""
    options = _options(arguments)
    torch.set_num_threads(options.threads)  # the cores that the race has
    receipt = receipts.start("mlperf_training", device.tier("cpu"), threads=options.threads)
    torch.set_num_threads(1)  # the model's, the other is for what works beside it
    given = (*job(), Plan(steps=options.steps))
    runs = contestants(*given)
    agree(runs)
    race = bench.race(
        runs, repeats=options.rounds, warmup=1, reference="baseline", device="cpu"
    )
    print(race)
    receipt.sizes(steps=options.steps, pictures=PICTURES, held=HELD, boxes=BOXES)
    receipt.record("switches_baseline_time", race.results["baseline"])
    for name in runs:
        if name != "baseline":
            receipt.record(f"switch_{name}", race.ratios[name])
    for name, milliseconds in predicted(*given).items():
        receipt.record(f"switch_{name}_predicted", milliseconds, "ms")
    torch.set_num_threads(options.threads)
    print(receipt.write(name="switches"))


def _options(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    for name, default, words in (
        ("rounds", 20, "interleaved rounds"),
        ("threads", device.cores(), "the cores: one for the model, one beside it"),
        ("steps", 4, "of a job"),
    ):
        parser.add_argument(
            f"--{name}", type=int, default=default, help=f"{words} (default: %(default)s)"
        )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
