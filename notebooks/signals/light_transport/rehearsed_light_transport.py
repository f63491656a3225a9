"""One sample of every pixel of the box as a GPU would draw it, the naive way, and a broken one.

`make predict` counts them without a GPU, at the sizes of each tier.
"""

import path_tracing
import rooms
import torch

METRICS = {}  # no claim of the card is a rate or a time of a GPU
DEPTH = 1  # scatterings that are counted: each later one is a step of the same kind


def ours(sizes, device):
    """All pixels' paths together, each step one batch"""
    scene = rooms.cornell_box(sizes["pixels"], sizes["pixels"]).to(device)
    return lambda: path_tracing.render_orders(scene, 1, DEPTH).sum(0)


def naive(sizes, device):
    """A sixteenth of the picture at a time"""
    side = sizes["pixels"]
    scene = rooms.cornell_box(side, side).to(device)

    frames, lamps, options = scene.frames(), path_tracing.Lamps(scene), path_tracing.Options()

    def call():
        parts, chance = [], torch.Generator(device).manual_seed(0)
        for pixel in torch.arange(side * side, device=device).chunk(16):
            parts.append(
                path_tracing.trace(scene, frames, lamps, pixel, DEPTH, options, chance).sum(0)
            )
        return torch.cat(parts).view(side, side, 3)

    return call


def broken(sizes, device):
    """As ours, but the picture is read by the host row by row"""
    there = ours(sizes, device)
    return lambda: torch.stack([row.cpu() for row in there()])
