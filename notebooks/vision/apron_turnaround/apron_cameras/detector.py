"""A small network that finds things in a picture: where their feet are, and what box they fill.

Objects as points (Zhou et al. 2019): for each cell of 4 × 4 pixels a likeness for each kind,
and from the likeliest cell the footprint's middle and the four sides of the box. The
footprint's middle is what the homography needs: a box's own middle lies above the ground.

`python -m apron_cameras.detector` in the chapter's folder trains it anew, on rendered examples,
scenes of their own and no film's frames, and writes `detector.safetensors` beside this file.

Shapes: `B` pictures, `K` kinds, `h`, `w` cells: 28 × 48.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from .scene import HIGH, KINDS, WIDE, Seen

STRIDE, WEIGHTS = 4, Path(__file__).with_name("detector.safetensors")
LEAST_VISIBLE = 0.25  # of a thing, for the network to be asked for it


class Found(NamedTuple):
    """A thing in a picture: its kind, how likely, box and foot in pixels as in `scene.Seen`."""

    kind: str
    score: float
    box: tuple[float, float, float, float]
    foot: tuple[float, float]


class Network(nn.Module):
    """Pictures (B, 3, HIGH, WIDE) from 0 to 1 → (B, K + 6, h, w): a score for each kind, the
    foot's place in the cell, and the distances from the foot to the box's sides, in cells."""

    def __init__(self, wide: int = 24):
        super().__init__()
        layers, came = [], 3
        for out, step, apart in (
            (16, 2, 1),
            (wide, 2, 1),
            (wide, 1, 1),
            (wide, 1, 2),
            (wide, 1, 4),
            (wide, 1, 1),
        ):
            layers += [
                nn.Conv2d(came, out, 3, step, apart, dilation=apart, bias=False),
                nn.BatchNorm2d(out),
                nn.ReLU(),
            ]
            came = out
        self.layers = nn.Sequential(*layers)
        self.head = nn.Conv2d(wide, len(KINDS) + 6, 1)
        nn.init.constant_(self.head.bias[: len(KINDS)], -4.0)  # most cells hold nothing

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        """Raw scores and places."""
        return self.head(self.layers(pictures - 0.45))


def targets(seen: list[Seen]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(heat (K, h, w), places (6, h, w), where the places count (h, w)) of one picture."""
    high, wide = HIGH // STRIDE, WIDE // STRIDE
    heat = np.zeros((len(KINDS), high, wide), np.float32)
    places = np.zeros((6, high, wide), np.float32)
    counts = np.zeros((high, wide), bool)
    rows, columns = np.mgrid[:high, :wide]
    for one in seen:
        u, v = one.foot[0] / STRIDE, one.foot[1] / STRIDE
        if one.visible < LEAST_VISIBLE or not (0 <= u < wide and 0 <= v < high):
            continue
        row, column, kind = int(v), int(u), KINDS.index(one.kind)
        reach = 1.5 if one.kind == "aircraft" else 0.7
        around = np.exp(-((rows - row) ** 2 + (columns - column) ** 2) / (2 * reach**2))
        heat[kind] = np.maximum(heat[kind], around)
        sides = np.abs(np.array(one.box) / STRIDE - (u, v, u, v))
        places[:, row, column], counts[row, column] = (u - column, v - row, *sides), True
    return heat, places, counts


def loss(made: torch.Tensor, heat: torch.Tensor, places: torch.Tensor, counts: torch.Tensor):
    """The focal loss of the scores, and the L1 distance of places where something stands."""
    scores, told = made[:, : len(KINDS)], made[:, len(KINDS) :]
    likely, unlikely = functional.logsigmoid(scores), functional.logsigmoid(-scores)
    hit = (heat == 1).float()
    good = hit * unlikely.exp() ** 2 * likely
    bad = (1 - hit) * (1 - heat) ** 4 * likely.exp() ** 2 * unlikely
    off = ((told - places).abs() * counts[:, None]).sum()
    return (0.3 * off - good.sum() - bad.sum()) / hit.sum().clamp(min=1)


@torch.no_grad()
def find(network: nn.Module, pictures: np.ndarray, least: float = 0.35) -> list[list[Found]]:
    """What the network finds in each of (B, HIGH, WIDE, 3) uint8 pictures, the likeliest first.

    A cell speaks for a kind where it is the likeliest of its nine, and at least `least`.
    """
    device = next(network.parameters()).device
    made = network(torch.from_numpy(pictures).to(device).permute(0, 3, 1, 2).float() / 255)
    scores = made[:, : len(KINDS)].sigmoid()
    peak = functional.max_pool2d(scores, 3, 1, 1) == scores
    where = (peak & (scores >= least)).nonzero().cpu().numpy()
    scores, told = scores.cpu().numpy(), made[:, len(KINDS) :].cpu().numpy()
    found = [[] for _ in pictures]
    for at, kind, row, column in where:
        du, dv, left, top, right, bottom = told[at, :, row, column]
        u, v = column + du, row + dv
        box = STRIDE * np.array([u - left, v - top, u + right, v + bottom])
        box = tuple(np.clip(box, 0, (WIDE, HIGH, WIDE, HIGH)).tolist())
        foot = (float(STRIDE * u), float(STRIDE * v))
        found[at].append(Found(KINDS[kind], float(scores[at, kind, row, column]), box, foot))
    return [sorted(one, key=lambda each: -each.score) for one in found]


def load(path: Path = WEIGHTS) -> Network:
    """The trained network, ready to find."""
    from safetensors.torch import load_file

    network = Network()
    network.load_state_dict({name: one.float() for name, one in load_file(path).items()})
    return network.eval()


def train(pictures: np.ndarray, truths: list, steps: int, seed: int = 0, batch: int = 16):
    """A network after so many steps on (N, HIGH, WIDE, 3) pictures and what they show."""
    torch.manual_seed(seed)
    made = [np.stack(one) for one in zip(*map(targets, truths), strict=True)]
    heat, places, counts = (torch.from_numpy(one) for one in made)
    network = Network()
    optimiser = torch.optim.AdamW(network.parameters(), 3e-3, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, steps)
    for _ in range(steps):
        some = torch.randint(len(pictures), (batch,))
        x = torch.from_numpy(pictures[some.numpy()]).permute(0, 3, 1, 2).float() / 255
        one = loss(network(x), heat[some], places[some], counts[some].float())
        optimiser.zero_grad()
        one.backward()
        optimiser.step()
        schedule.step()
    return network.eval()


def save(network: Network, path: Path = WEIGHTS) -> None:
    """Write the weights, halved to 16 bits."""
    from safetensors.torch import save_file

    halved = {
        name: one.half() if one.is_floating_point() else one
        for name, one in network.state_dict().items()
    }
    save_file(halved, path)


if __name__ == "__main__":
    from .footage import examples

    save(train(*examples(4000, seed=1), steps=1300))
