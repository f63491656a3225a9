"""From the sliders of the live page to a case as the operator knows it, in tensors that can be
exported.

The page offers six numbers and a kind of rock, a seeded field that the slider of permeability
lifts or lowers as a whole. What the training cases draw besides (anisotropy, brine that never
flows, the curves' exponent) is held at its middle here. `Scene.pressed` tells wells that press
harder than those of the training, so that the page can refuse what no network has seen.

Legend: Z rows, R rings; k knobs of the page.
"""

import math
from collections import namedtuple

import numpy as np
import torch
from storage_sites import TRAINING, rock
from torch import nn
from two_phase import Depth, at_depth, buildup_bar

SEED = 1
ROCKS = {
    "even": ("smooth", 0.2),  # name to kind and standard deviation of ln k
    "layered": ("layered", 0.8), "rough": ("continuous", 0.8), "smooth": ("smooth", 0.8),
    "sand and shale": ("facies", 0.8),
}  # fmt: skip
DEPTH_STEP_M, DEEPEST_M = 10.0, 4000.0


# A slider of the page. `scale`: "" as it stands; "log10": of the number in `unit`; "share": of
# the thickness.
Knob = namedtuple("Knob", "name label group min max step value unit scale", defaults=("",))


def knobs(grid):
    """The six `Knob`s, within what a network has seen in training on `grid`."""
    # a step rounded up would leave the last row out of a slider's reach; `Scene` rounds to rows
    row, thickest = math.floor(grid.row_m * 1e4) / 1e4, grid.rows * grid.row_m
    thinnest = math.ceil(TRAINING.thickness_m[0] / grid.row_m - 1e-9) * grid.row_m
    usual = thinnest + (round(0.75 * grid.rows) - round(thinnest / row)) * row
    depth, rate, mean = TRAINING.depth_m, TRAINING.rate_mt, TRAINING.log10_mean_md
    return (
        Knob("depth", "Depth of the aquifer’s top", "Site", *depth, 50, 1500, "m"),
        Knob("thickness", "Thickness", "Site", thinnest, thickest, row, usual, "m"),
        Knob("permeability", "Permeability, median", "Site", *mean, 0.05, 2.3, "mD", "log10"),
        Knob("rate", "CO₂ injected", "Well", *rate, 0.05, 1.0, "Mt a year"),
        Knob("top", "Open from, below the top", "Well", 0.0, 1.0, 0.05, 0.5, "m", "share"),
        Knob("bottom", "Open down to", "Well", 0.0, 1.0, 0.05, 1.0, "m", "share"),
    )


def rocks(grid, seed=SEED):
    """Rock patterns by name, (2, Z, R) float32: what is added to the logarithm of permeability,
    and the scatter of porosity, by the recipe of `storage_sites.rock`."""
    found = {}
    for index, (name, (kind, sigma)) in enumerate(ROCKS.items()):
        rng = np.random.default_rng([seed, index])
        lift, scatter = (rock.gaussian(grid, rng, 30.0, 2000.0, kind) for _ in range(2))
        found[name] = torch.tensor(np.stack([sigma * lift, scatter]), dtype=torch.float32)
    return found


class Scene(nn.Module):
    """From the page's knobs to a case as the operator knows it: `Scene(grid)(pattern_2ZR,
    knobs_k)`, a dict of tensors of batch one like those of `storage_sites.load`."""

    def __init__(self, grid, kv_kh=0.1, irreducible=0.2, lam=0.5):
        super().__init__()
        self.grid = grid
        depths = at_depth(np.arange(0, DEEPEST_M + 1, DEPTH_STEP_M))
        numbers = {
            "depths_Z": grid.depths_m,
            "held": [kv_kh, irreducible, lam],
            "table": np.stack(depths, 1),  # a row every 10 m
        }
        for name, value in numbers.items():
            self.register_buffer(name, torch.tensor(value, dtype=torch.float32))
        self.register_buffer("rows_Z", torch.arange(grid.rows))

    def forward(self, pattern_2ZR, knobs_k):
        """A dict of tensors of batch one."""
        depth, thickness, log_median, rate, top, bottom = knobs_k.unbind()
        thickness = (thickness / self.grid.row_m).round() * self.grid.row_m
        inside_Z = self.depths_Z < thickness
        open_Z = (self.depths_Z > top * thickness) & (self.depths_Z < bottom * thickness)
        away_Z = (self.depths_Z - (top + bottom) / 2 * thickness).abs() + 1e6 * ~inside_Z
        open_Z = inside_Z & (open_Z | (self.rows_Z == away_Z.argmin()))
        limits = math.log(rock.SLOWEST_MD), math.log(rock.FASTEST_MD)
        log_k_ZR = (log_median * math.log(10) + pattern_2ZR[0]).clamp(*limits)
        porosity_ZR = 0.2 + 0.05 * (log_k_ZR / math.log(10) - 2) + 0.01 * pattern_2ZR[1]
        mask_ZR = inside_Z[:, None].expand(self.grid.shape)
        kv_kh, swi, lam = self.held[:, None].unbind()
        return {
            "permeability": (log_k_ZR.exp() * mask_ZR)[None],
            "porosity": (porosity_ZR.clamp(*rock.POROSITY) * mask_ZR)[None],
            "thickness": thickness[None], "depth": depth[None], "rate": rate[None],
            "perforation_mask": open_Z[None], "mask": mask_ZR[None],
            "kv_kh": kv_kh, "swi": swi, "lam": lam,
        }  # fmt: skip

    def pressed(self, case):
        """(1,): the estimate `two_phase.buildup_bar` over the resting pressure."""
        place = (case["depth"][0] / DEPTH_STEP_M).clamp(0, len(self.table) - 1.001)
        low = place.floor().long()
        here = self.table[low] + (place - low) * (self.table[low + 1] - self.table[low])
        depth = Depth(*here.view(3, 1))
        return buildup_bar(case, depth, self.grid) / depth.start_bar
