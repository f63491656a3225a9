"""The race: seconds to an equal error in the Cornell box, by ours (lamps drawn; both ways,
weighed) and by Mitsuba's `path` in its scalar and its LLVM variant, on the same cores.

`--rounds 2 --pixels 16` is a short trial. First the pictures are tested to be the same but for
noise, under matched settings. The variance of each contestant's sample then says how many
samples it needs for the goal, over pixels in which no lamp is seen (its edge varies alike for
all); the clock runs over its whole picture. All get their own best
settings: ours no wait for a lamp where drawing it leaves less, Mitsuba's kernels compiled
before the clock starts.
"""

import argparse
import functools
import importlib.util
import math

import allocation
import equality
import mitsuba_scene
import path_tracing
import rooms
import torch
from helpers import bench, check, device, receipts

OURS = {"ours": "lamp", "ours, both ways": "multiple"}
PEERS = {"Mitsuba, scalar": "scalar_rgb", "Mitsuba, LLVM": "llvm_ad_rgb"}
PILOT = 16  # samples of a picture from which a variance is told


def draw_ours(scene, depth: int, estimator: str, samples: int, seed: int) -> torch.Tensor:
    """The whole picture (height, width, 3)."""
    options = path_tracing.Options(estimator)
    direct, bounces = path_tracing.render(scene, samples, depth, options, seed)
    return sum(bounces, direct)


def draw_theirs(mitsuba, variant, built, samples: int, seed: int) -> torch.Tensor:
    """The same by Mitsuba, whose variant is set each time, since the contestants take turns."""
    mitsuba.set_variant(variant)
    return torch.from_numpy(mitsuba_scene.render(mitsuba, built, samples, seed))


def peers(scene, depth: int, threads: int) -> dict:
    """{name: a function of (samples, seed)} of Mitsuba's variants that run here; what is left
    out is said.
    """
    if not importlib.util.find_spec("mitsuba"):
        print("left out: Mitsuba is not installed")
        return {}
    found = {}
    for name, variant in PEERS.items():
        try:
            mitsuba = mitsuba_scene.load(variant)
            import drjit

            drjit.set_thread_count(threads)
            built = mitsuba_scene.build(mitsuba, scene, depth)
            draw = functools.partial(draw_theirs, mitsuba, variant, built)
            draw(1, 0)
        except Exception as error:
            print(f"left out: {name} ({error})")
        else:
            found[name] = draw
    return found


def needed(variance: float, goal: float) -> int:
    """The samples whose mean has a standard error of `goal` or less."""
    return max(1, math.ceil(variance / goal**2))


def pictures(draw, samples: int, count: int, first: int = 0) -> torch.Tensor:
    """`count` pictures of independent seeds."""
    return torch.stack([draw(samples, first + seed) for seed in range(count)])


def main(argv: list[str] | None = None) -> None:
    """Test that the pictures are one, find the samples to the goal, race, write the receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=device.cores())
    parser.add_argument("--pixels", type=int, default=48)
    parser.add_argument("--depth", type=int, default=5, help="scatterings")
    parser.add_argument("--goal", type=float, default=0.1, help="RMSE over mean radiance")
    o = parser.parse_args(argv)
    torch.set_num_threads(o.threads)
    receipt = receipts.start("light_transport", device.tier("cpu"), threads=o.threads)
    scene = rooms.cornell_box(o.pixels, o.pixels)
    contestants = {
        name: functools.partial(draw_ours, scene, o.depth, way) for name, way in OURS.items()
    } | peers(scene, o.depth, o.threads)
    piloted = {name: pictures(draw, PILOT, 8) for name, draw in contestants.items()}
    for name in contestants:
        if name != "ours":
            same = equality.compare(piloted["ours"], piloted[name], block=o.pixels // 8)
            check.that(
                same["chance"] > 1e-3, f"{name} draws our picture, but for noise: {same}"
            )
            receipt.record(f"chance_{key(name)}", same["chance"], "", interval="exact")
    seen = path_tracing.render_orders(scene, 64, 0)[0].sum(2) > 0
    dark = {name: one[:, ~seen] for name, one in piloted.items()}
    goal = o.goal * float(dark["ours"].mean())
    counts = {
        name: needed(allocation.sample_variance(one, PILOT), goal) for name, one in dark.items()
    }
    runs = {
        name: functools.partial(draw, counts[name], 1000) for name, draw in contestants.items()
    }
    race = bench.race(runs, o.rounds, reference="ours")
    print(race)
    receipt.sizes(pixels=o.pixels, depth=o.depth, goal=o.goal)
    record(receipt, race, counts)
    print(receipt.write(name="race"))


def key(name: str) -> str:
    """A contestant's name in a metric."""
    return name.replace(",", "").replace(" ", "_").lower()


def record(receipt, race, counts: dict) -> None:
    """Samples and seconds to the goal, microseconds a path, and how many times as fast ours is
    as each other.
    """
    for name, found in race.results.items():
        receipt.record(f"samples_{key(name)}", counts[name], "samples", interval="exact")
        receipt.record(f"seconds_{key(name)}", bench.spread(found.times_s), "s")
    others = {
        "both_ways": "ours, both ways",
        "scalar": "Mitsuba, scalar",
        "llvm": "Mitsuba, LLVM",
    }
    for label, name in others.items():
        if name in race.results:
            ratio = bench.ratio(race.results[name], race.results["ours"])
            receipt.record(f"ours_over_{label}", ratio)


if __name__ == "__main__":
    main()
