"""A wavefront path tracer: all paths of a batch take each step together. Direct light and each
bounce come as images.

    L_out = L_emitted + integral of f(out, in) L_in(in) cos(in) d in       (J. Kajiya, 1986)

`depth` counts scatterings: 0 is emission seen straight, 1 adds light scattered once, and so on
(other renderers count segments, one more). Light scattered k times is added to image k and to
no other, so the images sum to the whole, and a lamp is counted once: seen straight in image 0;
at each later hit by the estimator's own weight.

Estimators: `"lamp"` draws a point of a lamp at each scattering (next-event estimation),
`"bsdf"` waits until a path meets a lamp, `"multiple"` does both and weighs them by their
densities (Veach and Guibas, 1995), by the balance or the power heuristic (exponent 2).
"""

import dataclasses

import reflection
import rooms
import scenes
import torch

ESTIMATORS = ("lamp", "bsdf", "multiple")
HEURISTICS = {"balance": 1, "power": 2}
# Paths at once: on a core fewer cost more calls a path, more leave its cache. A GPU wants many.
BATCH = {"cpu": 2**14, "cuda": 2**19}


@dataclasses.dataclass(frozen=True)
class Options:
    """How paths are followed: estimator, heuristic of `"multiple"`, first scattering after
    which roulette may end a path (None: never), first scattering whose light is asked for.
    """

    estimator: str = "multiple"
    heuristic: str = "power"
    roulette_from: int | None = None
    gather_from: int = 0

    def __post_init__(self):
        if self.estimator not in ESTIMATORS:
            raise ValueError(
                f"estimator {self.estimator!r} is none of {ESTIMATORS}: "
                "it says how lamps are found"
            )
        if self.heuristic not in HEURISTICS:
            raise ValueError(
                f"heuristic {self.heuristic!r} is none of {tuple(HEURISTICS)}: "
                "it weighs the two densities"
            )
        if self.roulette_from is not None and self.roulette_from < 1:
            raise ValueError(
                f"roulette_from is {self.roulette_from}; "
                "it must be None or at least 1, as nothing scatters before"
            )


class Lamps:
    """The parallelograms that emit, drawn by their power, with the density of each per area."""

    def __init__(self, scene):
        power = scene.emission_Q3.sum(1) * scene.area_Q
        self.any = bool(power.sum() > 0)
        chance = power / power.sum().clamp_min(1e-30)
        self.cumulative_Q = chance.cumsum(0)
        self.density_Q = chance / scene.area_Q
        self.normal_Q3 = scene.normal_Q3

    def draw(self, scene, uniform_R3):
        """(number (R,), points (R, 3)) on lamps."""
        last = len(self.cumulative_Q) - 1
        number = torch.searchsorted(
            self.cumulative_Q, uniform_R3[:, 0].contiguous(), right=True
        ).clamp_max(last)
        return number, scenes.point_on(scene, number, uniform_R3[:, 1], uniform_R3[:, 2])

    def density(self, number_R, direction_R3, distance_R):
        """Density (R,) per steradian of drawing the numbered lamp's point at `distance` along
        unit `direction`; 0 behind it.
        """
        cosine = -(self.normal_Q3[number_R] * direction_R3).sum(1)
        return torch.where(
            cosine > 0, self.density_Q[number_R] * distance_R**2 / cosine.clamp_min(1e-12), 0.0
        )


def weight(options, own_R, other_R):
    """The share (R,) of a sample drawn with density `own`, where the other way would draw it
    with density `other`.
    """
    if options.estimator != "multiple":
        return torch.ones_like(own_R)
    ratio = other_R / own_R.clamp_min(1e-30)
    return 1 / (1 + ratio ** HEURISTICS[options.heuristic])


@dataclasses.dataclass
class Paths:
    """The batch's state: where paths stand, what they carry (R, 3), the density they were drawn
    with, which of them still go.
    """

    point_R3: torch.Tensor
    out_R3: torch.Tensor
    number_R: torch.Tensor
    carried_R3: torch.Tensor
    alive_R: torch.Tensor

    def only(self, kept):
        """The paths whose places in the batch `kept` lists."""
        return Paths(*(value[kept] for value in vars(self).values()))


def lamp_light(scene, frames, lamps, options, paths, surface, uniform_R3):
    """Light (R, 3) scattered here from a drawn point of a lamp that nothing hides."""
    number, target = lamps.draw(scene, uniform_R3)
    offset = target - paths.point_R3
    distance = offset.norm(dim=1).clamp_min(1e-12)
    direction = offset / distance[:, None]
    density = lamps.density(number, direction, distance)
    value, other = reflection.evaluate(surface, paths.out_R3, direction)
    near, nearest, _, _ = scenes.nearest(frames, paths.point_R3, direction, paths.number_R)
    useful = paths.alive_R & (density > 0) & (nearest == number) & (near > 0)
    share = weight(options, density, other) / density.clamp_min(1e-30)
    light = paths.carried_R3 * value * scene.emission_Q3[number] * share[:, None]
    return torch.where(useful[:, None], light, 0.0)


def step(scene, frames, lamps, options, paths, surface, uniform_R3):
    """(the paths after one scattering, light (R, 3) that they met on a lamp there, weighed)."""
    direction = reflection.sample(surface, paths.out_R3, uniform_R3)
    value, density = reflection.evaluate(surface, paths.out_R3, direction)
    carried = paths.carried_R3 * value / density.clamp_min(1e-30)[:, None]
    distance, number, a, b = scenes.intersect(frames, paths.point_R3, direction, paths.number_R)
    front = (scene.normal_Q3[number] * direction).sum(1) < 0
    alive = paths.alive_R & (density > 0) & torch.isfinite(distance) & front
    carried = torch.where(alive[:, None], carried, 0.0)
    after = Paths(scenes.point_on(scene, number, a, b), -direction, number, carried, alive)
    if options.estimator == "lamp":
        return after, torch.zeros_like(carried)
    other = lamps.density(number, direction, torch.where(alive, distance, 0.0))
    return after, carried * scene.emission_Q3[number] * weight(options, density, other)[:, None]


def play_roulette(paths, uniform_R):
    """The paths with some ended by chance, the others carrying more, so that the mean stays:
    Russian roulette.
    """
    keep = paths.carried_R3.amax(1).clamp(max=0.95)
    stays = uniform_R < keep
    carried = torch.where(
        stays[:, None], paths.carried_R3 / keep.clamp_min(1e-30)[:, None], 0.0
    )
    return dataclasses.replace(paths, carried_R3=carried, alive_R=paths.alive_R & stays)


def trace(scene, frames, lamps, pixel_R, depth, options, generator):
    """Radiance (depth + 1, R, 3) by number of scatterings, of one path through each listed
    pixel.
    """
    like = {"device": scene.corner_Q3.device, "dtype": scene.corner_Q3.dtype}
    size = len(pixel_R)
    starts, directions = scenes.camera_rays(
        scene.camera, pixel_R, torch.rand(size, 2, generator=generator, **like)
    )
    distance, number, a, b = scenes.intersect(frames, starts, directions)
    alive = torch.isfinite(distance) & ((scene.normal_Q3[number] * directions).sum(1) < 0)
    carried = alive[:, None].to(like["dtype"]).expand(size, 3)
    paths = Paths(scenes.point_on(scene, number, a, b), -directions, number, carried, alive)
    light = torch.zeros(depth + 1, size, 3, **like)
    if options.gather_from == 0:
        light[0] = carried * scene.emission_Q3[number]
    going = torch.arange(size, device=like["device"])  # which pixels' paths these are
    for scattering in range(1, depth + 1):
        kept = paths.alive_R.nonzero()[:, 0]  # the others add nothing: they need no more rays
        if not len(kept):
            break
        paths, going = paths.only(kept), going[kept]
        uniform = torch.rand(7, len(going), generator=generator, **like).T
        surface = reflection.surface_at(scene, paths.number_R)
        gathers = scattering >= options.gather_from
        if gathers and options.estimator != "bsdf" and lamps.any:
            drawn = lamp_light(scene, frames, lamps, options, paths, surface, uniform[:, 3:6])
            light[scattering, going] += drawn
        if scattering == depth and options.estimator == "lamp":
            break  # nobody asks where the last reflection leads
        paths, met = step(scene, frames, lamps, options, paths, surface, uniform[:, :3])
        if gathers:
            light[scattering, going] += met
        if options.roulette_from is not None and scattering >= options.roulette_from:
            paths = play_roulette(paths, uniform[:, 6])
    return light


def check_count(name, value, least):
    """Nothing; a `ValueError` where `value` is no whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} is {value!r}; it must be a whole number of at least {least}")


def render_orders(scene, samples, depth, options=None, seed=0):
    """Images (depth + 1, height, width, 3) of radiance by number of scatterings, the mean of
    `samples` paths a pixel.

    Cost: samples x pixels x depth x (1 or 2) rays against all parallelograms. Raises
    `ValueError` for samples < 1, depth < 0.
    """
    check_count("samples", samples, 1)
    check_count("depth", depth, 0)
    options = options or Options()
    device, camera = scene.corner_Q3.device, scene.camera
    generator = torch.Generator(device).manual_seed(seed)
    frames, lamps = scene.frames(), Lamps(scene)
    pixels = camera.width * camera.height
    total = torch.zeros(depth + 1, pixels, 3, device=device, dtype=scene.corner_Q3.dtype)
    batch = BATCH[device.type]
    block = min(samples, max(1, batch // pixels))
    for start in range(0, samples, block):
        repeats = min(block, samples - start)
        for first in range(0, pixels, batch):
            pixel = torch.arange(first, min(first + batch, pixels), device=device)
            light = trace(
                scene, frames, lamps, pixel.repeat(repeats), depth, options, generator
            )
            total[:, pixel] += light.view(depth + 1, repeats, len(pixel), 3).sum(1)
    return (total / samples).view(depth + 1, camera.height, camera.width, 3)


def render(scene, samples, depth, options=None, seed=0):
    """(direct (height, width, 3), bounces: a list of such images), radiance whose sum is the
    whole picture.

    `direct` has light seen straight from lamps and light scattered once; `bounces` lists light
    scattered 2, 3, ... `depth` times. Example: `direct, bounces = render(rooms.cornell_box(),
    16, 5)` gives four bounces. Tone curves come after the sum.
    """
    orders = render_orders(scene, samples, depth, options, seed)
    return orders[:2].sum(0), list(orders[2:])


def furnace(albedo, emission, depth):
    """The mean radiance (a float) in a closed cavity whose walls all emit and reflect, after
    `depth` scatterings: the white furnace.

    Exact at each depth: every path meets a wall, and sampling the reflection weighs each
    scattering by the albedo alone, so each path returns emission (1 + albedo + ... +
    albedo^depth). Raises `ValueError` for an albedo outside 0 to 1.
    """
    if not 0 <= albedo <= 1:
        raise ValueError(
            f"albedo is {albedo!r}; "
            "it must lie in 0 to 1, as a wall returns a share of what arrives"
        )
    check_count("depth", depth, 0)
    scene = rooms.closed_room(float(albedo), float(emission))
    return float(render_orders(scene, 4, depth, Options(estimator="bsdf")).sum(0).mean())
