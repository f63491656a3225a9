"""Fit a sphere to pictures: its vertices move until its own pictures are those given."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import hard_raster
import mesh_losses as ml
import meshes
import soft_raster
import torch

WEIGHTS = {"silhouette": 1.0, "colour": 1.0, "edge": 1.0, "normal": 0.01, "laplacian": 1.0}


@dataclass(frozen=True)
class Settings:
    """How a fit goes. Sizes, weights, softness and steps as PyTorch3D's tutorial publishes
    them; `small()` is the same in little: 64 pixels, level 3, twelve views, 250 steps.
    """

    level: int = 4
    size: int = 128
    views: int = 20
    at_once: int = 2  # views a step
    steps: int = 2000
    sigma: float = 1e-4
    most: int = 50  # triangles a pixel
    rate: float = 1.0
    colour_rate: float | None = None  # of the colours; None: as all else, as published
    momentum: float = 0.9
    weights: dict = field(default_factory=lambda: dict(WEIGHTS))


def small(**other) -> Settings:
    """The settings that fit into a page; `other` replaces some."""
    return Settings(**{"level": 3, "size": 64, "views": 12, "steps": 250, **other})


@dataclass
class Fit:
    """What came of it: the mesh, its colours, the losses of each step by name, vertices and
    colours at the `looks`.
    """

    vertices: torch.Tensor
    faces: torch.Tensor
    colours: torch.Tensor
    losses: dict[str, list[float]]
    looks: dict[int, tuple[torch.Tensor, torch.Tensor]]


@dataclass(frozen=True)
class Pictures:
    """What a fit is given: cameras (N, 3, 3), silhouettes (N, S, S), pictures (N, S, S, 3)."""

    cameras: torch.Tensor
    silhouettes: torch.Tensor
    pictures: torch.Tensor

    def __post_init__(self):
        shape = (count := len(self.cameras), *[self.silhouettes.shape[-1]] * 2)
        wanted = [(count, 3, 3), shape, (*shape, 3)]
        if wanted != [one.shape for one in (self.cameras, self.silhouettes, self.pictures)]:
            shapes = [
                tuple(one.shape) for one in (self.cameras, self.silhouettes, self.pictures)
            ]
            raise ValueError(
                f"cameras, silhouettes and pictures have the shapes {shapes}; "
                "(N, 3, 3), (N, S, S) and (N, S, S, 3) are allowed"
            )

    def to(self, device) -> "Pictures":
        """The same on a device."""
        own = (self.cameras, self.silhouettes, self.pictures)
        return Pictures(*(one.to(device) for one in own))


def photographed(
    mesh: tuple, cameras: torch.Tensor, size: int, renderer: str = "hard"
) -> Pictures:
    """Pictures of a mesh (vertices, faces, colours): by the z-buffer ("hard"), or by the very
    rasteriser that a fit uses ("soft"), which flatters it.
    """
    vertices, faces, colours = mesh
    if renderer == "hard":
        return Pictures(cameras, *hard_raster.render(vertices, faces, cameras, size, colours))
    if renderer == "soft":
        with torch.no_grad():
            return Pictures(
                cameras, *soft_raster.render(vertices, faces, cameras, size, colours=colours)
            )
    raise ValueError(f"no renderer is called {renderer!r}; there are hard and soft")


def fit(
    given: Pictures, settings: Settings, seed: int = 0, looks: Sequence[int] = (), device="cpu"
) -> Fit:
    """The sphere of `settings.level` fitted to the pictures; `looks` are steps at which it is
    kept on the way. ValueError for another number of pictures than the settings have views, an
    unknown weight, or pictures of another size or not from 0 to 1; FloatingPointError where the
    fit diverges.
    """
    _check(given, settings)
    sphere, faces = (one.to(device) for one in meshes.icosphere(settings.level))
    sides, beside = meshes.edges(faces), meshes.neighbours(faces)
    given = given.to(device)
    moves = torch.zeros_like(sphere, requires_grad=True)
    shades = torch.full_like(sphere, 0.5, requires_grad=True)
    quick = settings.rate if settings.colour_rate is None else settings.colour_rate
    unknowns = [{"params": [moves]}, {"params": [shades], "lr": quick}]
    optimiser = torch.optim.SGD(unknowns, lr=settings.rate, momentum=settings.momentum)
    chance, told, kept = torch.Generator().manual_seed(seed), [], {}
    for step in range(settings.steps):
        if step in looks:
            kept[step] = ((sphere + moves).detach().clone(), shades.detach().clone())
        chosen = torch.randperm(settings.views, generator=chance)[: settings.at_once].to(device)
        vertices, seen = sphere + moves, given.cameras[chosen]
        how = {"sigma": settings.sigma, "colours": shades, "most": settings.most}
        found = soft_raster.render(vertices, faces, seen, settings.size, **how)
        wanted = given.silhouettes[chosen], given.pictures[chosen]
        losses = losses_of(vertices, faces, sides, beside, found, wanted)
        whole = sum(settings.weights[name] * loss for name, loss in losses.items())
        if not torch.isfinite(whole):
            raise FloatingPointError(
                f"the fit diverged at step {step}: rate {settings.rate} is too large for it"
            )
        optimiser.zero_grad()
        whole.backward()
        optimiser.step()
        told.append([float(loss.detach()) for loss in losses.values()])
    vertices, shades = (sphere + moves).detach().cpu(), shades.detach().clamp(0, 1).cpu()
    columns = zip(*told, strict=True) if told else [()] * len(WEIGHTS)
    told = {name: list(column) for name, column in zip(WEIGHTS, columns, strict=True)}
    return Fit(vertices, faces.cpu(), shades, told, kept)


def _check(given: Pictures, settings: Settings) -> None:
    if len(given.cameras) != settings.views:
        raise ValueError(
            f"{len(given.cameras)} pictures; the settings ask for {settings.views} views"
        )
    if given.silhouettes.shape[-1] != settings.size:
        raise ValueError(
            f"pictures of {given.silhouettes.shape[-1]} pixels; settings say {settings.size}"
        )
    for one in (given.silhouettes, given.pictures):
        if not ((one > -0.01) & (one < 1.01)).all():
            raise ValueError("pictures must hold numbers from 0 to 1, and nothing else")
    if settings.steps < 0:
        raise ValueError(f"{settings.steps} steps; 0, the sphere as it is, is the least")
    if not 1 <= settings.at_once <= settings.views:
        raise ValueError(
            f"{settings.at_once} views a step of {settings.views}; 1 to all of them are allowed"
        )
    if odd := settings.weights.keys() ^ WEIGHTS.keys():
        raise ValueError(
            f"weights {sorted(odd)} are missing or unknown; wanted are {sorted(WEIGHTS)}, and "
            "0 switches one off"
        )


def losses_of(vertices, faces, sides, beside, found, wanted) -> dict[str, torch.Tensor]:
    """The five losses by name: of pictures `found` = (silhouettes, pictures) beside those
    `wanted`, and of the mesh.
    """
    return {
        "silhouette": (found[0] - wanted[0]).square().mean(),
        "colour": (found[1] - wanted[1]).square().mean(),
        "edge": ml.edge_length(vertices, sides),
        "normal": ml.normal_consistency(vertices, faces, beside),
        "laplacian": ml.laplacian(vertices, faces),
    }


def judged(
    vertices, faces, mesh: tuple, cameras: torch.Tensor, size: int, points: int = 4000
) -> dict[str, float]:
    """`iou` of the silhouettes from cameras that the fit has not seen, both by the z-buffer;
    `self_iou`, both by the fit's own rasteriser; `chamfer` of points drawn on both surfaces;
    `roughness`, the mean of 1 − cos between neighbours.
    """
    truth, _ = hard_raster.render(mesh[0], mesh[1], cameras, size)
    ours, _ = hard_raster.render(vertices, faces, cameras, size)
    with torch.no_grad():
        soft = [
            soft_raster.render(*one, cameras, size)[0] for one in ((vertices, faces), mesh[:2])
        ]
        drawn = [
            meshes.on_surface(*one, points, seed)
            for seed, one in enumerate(((vertices, faces), mesh[:2]))
        ]
        rough = ml.normal_consistency(vertices, faces, meshes.neighbours(faces))
        return {
            "iou": float(ml.iou(ours, truth)),
            "chamfer": float(ml.chamfer(*drawn)),
            "self_iou": float(ml.iou(*soft)),
            "roughness": float(rough),
        }
