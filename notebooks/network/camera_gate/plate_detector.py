"""The detector behind the gate: normalised correlation with the plate's pattern at every place.

It stands for a network: it sees single frames, costs much more than a gate, and errs. The
pattern is tried in several sizes, as a detector would that does not know how far a thing is.

`N` frames, `H` rows, `W` columns.
"""

import functools

import numpy as np
import torch
from camera_scenes import PLATE
from torch.nn.functional import conv2d, interpolate

SIZES = (5, 6, 7)  # pixels of the pattern's side
PIECE = (
    8  # frames at a time on a CPU: more leave its caches, and each costs three times as much
)


def correlation_reference(frame: np.ndarray, pattern: np.ndarray) -> float:
    """The best normalised correlation of a frame with a pattern, by trying all places."""
    best, (rows, columns) = -1.0, pattern.shape
    shape = pattern - pattern.mean()
    for row in range(frame.shape[0] - rows + 1):
        for column in range(frame.shape[1] - columns + 1):
            piece = frame[row : row + rows, column : column + columns].astype(float)
            piece = piece - piece.mean()
            size = np.sqrt((piece**2).sum() * (shape**2).sum())
            best = max(best, float((piece * shape).sum() / size) if size > 1e-9 else 0.0)
    return best


@functools.cache
def patterns() -> list[torch.Tensor]:
    """The plate in each size, (1, 1, side, side)."""
    plate = torch.tensor(PLATE, dtype=torch.float32)[None, None]
    return [interpolate(plate, size=(side, side), mode="nearest") for side in SIZES]


def detect(frames_NHW: torch.Tensor, shapes: list[torch.Tensor] | None = None) -> torch.Tensor:
    """How plate-like the most plate-like place of each frame is, (N,) from −1 to 1."""
    size = PIECE if frames_NHW.device.type == "cpu" else max(len(frames_NHW), 1)
    return torch.cat([_best(some, shapes or patterns()) for some in frames_NHW.split(size)])


def _best(frames_NHW: torch.Tensor, shapes: list[torch.Tensor]) -> torch.Tensor:
    image = frames_NHW.float()[:, None] - 128.0  # near nought, so that squares lose no digits
    best = torch.full((len(image),), -1.0, device=image.device)
    for shape in shapes:
        shape = (shape - shape.mean()).to(image.device)
        both = torch.cat([shape, torch.ones_like(shape)])
        fit, total = conv2d(image, both).unbind(1)
        spread = conv2d(image**2, both[1:])[:, 0] - total**2 / shape.numel()
        spread = spread.clamp(min=1e-3) * (shape**2).sum()
        best = torch.maximum(best, (fit / spread.sqrt()).flatten(1).amax(1))
    return best
