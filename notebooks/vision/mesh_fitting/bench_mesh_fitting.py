"""The race: a step of a fit (pictures and gradients of two views) by our pairs, by every
triangle for every pixel, and by Mitsuba's differentiable renderer; and how long each takes to
the same overlap with views that it has not seen.

`--rounds 2 --goal 0.5` is a short trial. Silhouettes alone, so that all contestants fit the
same pictures; ours with the page's regularisers and rate, Mitsuba with large steps (Nicolet et
al. 2021), whose stiffness, rate and samples are tried in a small grid before the clock starts.
Ours and the naive one are checked to draw the same.
"""

import argparse
import importlib.util
import math
import os
from pathlib import Path
from statistics import median
from time import perf_counter

import cameras
import mesh_fitting as mf
import mesh_losses as ml
import meshes
import numpy as np
import soft_raster
import torch
from helpers import bench, check, device, receipts

SETTINGS = mf.small(weights={**mf.WEIGHTS, "colour": 0.0})
EVERY = 10  # steps between two looks at the overlap
RATES, STIFF = (0.03, 0.1, 0.3), (5.0, 60.0)  # of large steps; 19 is the authors' stiffness
SAMPLES = (16, 4)  # of Mitsuba's, for each pixel
GRID = [(19.0, rate, SAMPLES[0]) for rate in RATES] + [(stiff, 0.1, 16) for stiff in STIFF]
GRID += [(19.0, rate, SAMPLES[1]) for rate in RATES]


def naive_silhouettes(vertices, faces, views, size: int, sigma: float) -> torch.Tensor:
    """(B, S, S): every triangle for every pixel, a row of pixels at a time."""
    seen = cameras.project(vertices, views)
    across, down = cameras.pixels(size, seen)
    pictures = []
    for corners in seen[:, faces, :2]:
        rows = []
        for y in down:
            points = torch.stack([across, y.expand(size)], 1)
            points = points[:, None].expand(size, len(faces), 2).reshape(-1, 2)
            distance, _ = soft_raster.signed_distance(points, corners.repeat(size, 1, 1))
            rows.append(
                1 - torch.nn.functional.logsigmoid(distance / sigma).view(size, -1).sum(1).exp()
            )
        pictures.append(torch.stack(rows))
    return torch.stack(pictures)


def steps_to(goal: float, step, overlap, most: int) -> int | None:
    """How many calls of `step` it takes until `overlap()` is at least `goal`, looked at every
    `EVERY`; None after `most`.
    """
    for done in range(most + 1):
        if done % EVERY == 0 and overlap() >= goal:
            return done
        step()
    return None


class Ours:
    """The fit of the page, a step a call."""

    def __init__(self, given: mf.Pictures, draw=None):
        self.sphere, self.faces = meshes.icosphere(SETTINGS.level)
        self.sides, self.beside = meshes.edges(self.faces), meshes.neighbours(self.faces)
        self.moves = torch.zeros_like(self.sphere, requires_grad=True)
        self.optimiser = torch.optim.SGD(
            [self.moves], lr=SETTINGS.rate, momentum=SETTINGS.momentum
        )
        self.given, self.chance = given, torch.Generator().manual_seed(0)
        self.draw = draw or (lambda *asked: soft_raster.render(*asked)[0])

    def step(self) -> None:
        chosen = torch.randperm(SETTINGS.views, generator=self.chance)[: SETTINGS.at_once]
        vertices = self.sphere + self.moves
        found = self.draw(
            vertices, self.faces, self.given.cameras[chosen], SETTINGS.size, SETTINGS.sigma
        )
        loss = (found - self.given.silhouettes[chosen]).square().mean()
        weights = SETTINGS.weights
        loss = loss + weights["edge"] * ml.edge_length(vertices, self.sides)
        loss = loss + weights["normal"] * ml.normal_consistency(
            vertices, self.faces, self.beside
        )
        loss = loss + weights["laplacian"] * ml.laplacian(vertices, self.faces)
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()

    def mesh(self):
        """(vertices, faces) now."""
        return (self.sphere + self.moves).detach(), self.faces


class Mitsuba:
    """The same pictures fitted by Mitsuba: a glowing mesh, its projective integrator, large
    steps and uniform Adam.
    """

    def __init__(self, given: mf.Pictures, stiff: float, rate: float, samples: int):
        import mitsuba as mi

        self.samples = samples
        self.mi, self.given, self.chance = mi, given, torch.Generator().manual_seed(0)
        sphere, self.faces = meshes.icosphere(SETTINGS.level)
        mesh = mi.Mesh("fit", len(sphere), len(self.faces), props=self._glow())
        self.params = mi.traverse(mesh)
        self.params["vertex_positions"] = mi.Float(sphere.flatten().numpy())
        self.params["faces"] = mi.UInt32(self.faces.flatten().numpy().astype(np.uint32))
        self.params.update()
        integrator = {"type": "direct_projective", "sppi": 0}  # nothing reflects
        self.scene = mi.load_dict({"type": "scene", "integrator": integrator, "mesh": mesh})
        self.params = mi.traverse(self.scene)
        (self.key,) = [one for one, _ in self.params if one.endswith("vertex_positions")]
        self.large = mi.ad.LargeSteps(
            self.params[self.key],
            self.params[self.key.replace("vertex_positions", "faces")],
            stiff,
        )
        self.optimiser = mi.ad.Adam(lr=rate, uniform=True)
        self.optimiser["u"] = self.large.to_differential(self.params[self.key])
        self.sensors = [self._sensor(view) for view in given.cameras]
        self.wanted = [
            mi.TensorXf(one[..., None].repeat(1, 1, 3).numpy()) for one in given.silhouettes
        ]
        self.count = 0

    def _glow(self):
        props = self.mi.Properties()
        props["emitter"] = self.mi.load_dict(
            {"type": "area", "radiance": {"type": "rgb", "value": 1.0}}
        )
        return props

    def _sensor(self, view: torch.Tensor):
        _, up, forward = view.tolist()
        origin = [-cameras.DISTANCE * one for one in forward]
        film = {
            "type": "hdrfilm",
            "width": SETTINGS.size,
            "height": SETTINGS.size,
            "rfilter": {"type": "box"},
        }
        place = self.mi.ScalarTransform4f().look_at(origin=origin, target=[0, 0, 0], up=up)
        return self.mi.load_dict(
            {"type": "perspective", "fov": 60, "to_world": place, "film": film}
        )

    def step(self) -> None:
        import drjit as dr

        self.params[self.key] = self.large.from_differential(self.optimiser["u"])
        self.params.update()
        loss = 0.0
        for view in torch.randperm(SETTINGS.views, generator=self.chance)[
            : SETTINGS.at_once
        ].tolist():
            self.count += 1
            picture = self.mi.render(
                self.scene,
                self.params,
                sensor=self.sensors[view],
                seed=self.count,
                spp=self.samples,
            )
            loss += (
                dr.mean(dr.square(picture - self.wanted[view]), axis=None) / SETTINGS.at_once
            )
        dr.backward(loss)
        self.optimiser.step()
        dr.eval(self.optimiser["u"])
        dr.sync_thread()

    def mesh(self):
        """(vertices, faces) now."""
        found = self.large.from_differential(self.optimiser["u"]).numpy()
        return torch.from_numpy(np.array(found, dtype=np.float32)).view(-1, 3), self.faces


def peer():
    """Mitsuba, differentiable, on the CPU; None, and said, where it or LLVM is missing."""
    if not importlib.util.find_spec("mitsuba"):
        print("left out: Mitsuba is not installed")
        return None
    libraries = sorted(Path("/usr/lib").glob("*/libLLVM*19*"))
    if libraries:  # 14 to 16, which lie in the same place, fail
        os.environ.setdefault("DRJIT_LIBLLVM_PATH", str(libraries[0]))
    import mitsuba as mi

    try:
        mi.set_variant("llvm_ad_rgb")
        mi.set_log_level(mi.LogLevel.Error)
        mi.Float(1.0) + mi.Float(1.0)
    except Exception as error:
        print(f"left out: Mitsuba finds no LLVM ({error})")
        return None
    return mi


def options(argv: list[str] | None) -> argparse.Namespace:
    """Rounds, threads, the overlap that all have to reach, and when to give up."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=device.cores())
    parser.add_argument("--goal", type=float, default=0.9, help="IoU with unseen views")
    parser.add_argument("--most", type=int, default=200, help="steps")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> None:
    """Check, find the steps to the goal, race the steps, write the receipt."""
    o = options(argv)
    torch.set_num_threads(o.threads)
    receipt = receipts.start("mesh_fitting", device.tier("cpu"), threads=o.threads)
    mesh = meshes.car(4)
    given = mf.photographed(mesh, cameras.around(SETTINGS.views), SETTINGS.size)
    held = cameras.around(8, seed=1)

    def overlap(one):
        return lambda: mf.judged(*one.mesh(), mesh, held, SETTINGS.size, points=10)["iou"]

    ours = Ours(given)
    same = [ours.mesh()[0], ours.faces, given.cameras[:2], SETTINGS.size, SETTINGS.sigma]
    gap = (naive_silhouettes(*same) - soft_raster.render(*same)[0]).abs().max()
    check.that(
        gap < 0.02, f"both draw the same but for what is fainter than {soft_raster.FAINT}"
    )
    receipt.record("largest_gap", float(gap), "")
    contestants = {"pairs": Ours(given), "every triangle": Ours(given, naive_silhouettes)}
    steps = {"pairs": steps_to(o.goal, ours.step, overlap(ours), o.most)}
    steps["every triangle"] = steps["pairs"]  # the same pictures, so the same way
    if peer():
        import drjit

        drjit.set_thread_count(o.threads)
        contestants["Mitsuba"], steps["Mitsuba"] = best_of_mitsuba(given, overlap, o, receipt)
    race = bench.race(
        {name: one.step for name, one in contestants.items()},
        o.rounds,
        reference="every triangle",
    )
    print(race)
    record(receipt, race, steps, o.goal)
    print(receipt.write(name="race"))


def best_of_mitsuba(given, overlap, o, receipt) -> tuple[Mitsuba, int | None]:
    """Mitsuba with that of the grid which is soonest at the goal, in seconds, as it begins; and
    its steps to the goal.
    """
    tried, seconds = {}, {}
    for one_of in GRID:
        one, spent = Mitsuba(given, *one_of), []

        def step(one=one, spent=spent):
            begun = perf_counter()
            one.step()
            spent.append(perf_counter() - begun)

        tried[one_of] = steps_to(o.goal, step, overlap(one), o.most)
        each = median(spent) if spent else 0.0
        seconds[one_of] = math.inf if tried[one_of] is None else tried[one_of] * each
        told = f"{tried[one_of]} steps of {1e3 * each:.0f} ms"
        print(f"Mitsuba, stiffness, rate and samples {one_of}: {told}", flush=True)
    best = min(GRID, key=seconds.get)
    receipt.sizes(stiffness=best[0], rate=best[1], samples=best[2])
    return Mitsuba(given, *best), tried[best]


def record(receipt, race, steps: dict, goal: float) -> None:
    """Milliseconds a step, steps and seconds to the goal, and the ratios: how many times as
    fast the pairs are.
    """
    receipt.sizes(goal=goal)
    for name, found in race.results.items():
        key = name.replace(" ", "_").lower()
        receipt.record(f"step_ms_{key}", bench.spread(1e3 * one for one in found.times_s), "ms")
        if steps[name] is not None:
            receipt.record(f"steps_to_goal_{key}", steps[name], "steps")
            receipt.record(
                f"seconds_to_goal_{key}",
                bench.spread(steps[name] * one for one in found.times_s),
                "s",
            )
    receipt.record("pairs_over_every_triangle", race.ratios["pairs"])
    if steps.get("Mitsuba") and steps["pairs"]:
        ratio = bench.ratio(
            race.results["Mitsuba"], race.results["pairs"], steps["Mitsuba"] / steps["pairs"]
        )
        receipt.record("pairs_over_mitsuba", ratio)


if __name__ == "__main__":
    main()
