"""Gates before a costly detector: a score for each frame, high where something is worth a look.

`difference` compares a frame with the one before. `background` keeps for each pixel a running
mean and variance, one normal distribution where Stauffer and Grimson (1999) keep several, and
counts the pixels that do not fit. `person` looks among these for a tall shape: the fullest
upright box, near or far. `every` looks at nothing: a frame's turn comes at even steps, the
simplest way to save load.

`B` cameras, `T` frames, `H` rows, `W` columns.
"""

import torch

RATE, DEVIATIONS, LEAST = (
    0.02,
    2.3,
    4.0,
)  # of the running mean; what does not fit; least deviation
BOXES = ((14, 5), (8, 3))  # rows and columns of an upright box, near and far
WARM = 10  # frames that the running mean begins with, scored 0


class Background:
    """The running mean and variance of B cameras; `update` takes one frame of each."""

    def __init__(self, first_BHW: torch.Tensor):
        self.mean = first_BHW.float().clone()
        self.variance = torch.full_like(self.mean, LEAST**2 * 2)

    def update(self, frame_BHW: torch.Tensor) -> torch.Tensor:
        """Which pixels do not fit, (B, H, W) of bool; the state is read and written once."""
        away = frame_BHW.float() - self.mean
        away = away - away.flatten(1).median(1).values[:, None, None]  # a cloud dims all alike
        moved = away.abs() > DEVIATIONS * self.variance.sqrt().clamp(min=LEAST)
        rate = torch.where(moved, RATE / 4, RATE)  # what does not fit is learnt, but slowly
        self.mean += rate * (frame_BHW.float() - self.mean)
        self.variance += torch.where(moved, 0.0, RATE) * (away**2 - self.variance)
        return moved


def masks(frames_BTHW: torch.Tensor) -> torch.Tensor:
    """The pixels that do not fit, (B, T, H, W) of bool."""
    if frames_BTHW.ndim != 4 or frames_BTHW.shape[1] <= WARM:
        told = f"(cameras, more than {WARM} frames, rows, columns) are allowed"
        raise ValueError(f"frames {tuple(frames_BTHW.shape)}: {told}")
    model = Background(frames_BTHW[:, :WARM].float().mean(1))
    made = torch.stack(
        [model.update(frames_BTHW[:, t]) for t in range(frames_BTHW.shape[1])], 1
    )
    made[:, :WARM] = False
    return made


def difference(frames_BTHW: torch.Tensor) -> torch.Tensor:
    """Mean absolute change from the frame before, (B, T); 0 for the first."""
    step = frames_BTHW.float().diff(dim=1)
    step = step - step.flatten(2).median(2).values[:, :, None, None]
    return torch.nn.functional.pad(step.abs().flatten(2).mean(2), (1, 0))


def background(frames_BTHW: torch.Tensor) -> torch.Tensor:
    """The share of a neighbourhood that does not fit, at its fullest place, (B, T)."""
    return _fullest(masks(frames_BTHW), (6, 6))


def person(frames_BTHW: torch.Tensor) -> torch.Tensor:
    """How much of an upright box does not fit, at its fullest place, (B, T)."""
    mask_BTHW = masks(frames_BTHW)
    return torch.stack([_fullest(mask_BTHW, box) for box in BOXES]).amax(0)


def every(frames_BTHW: torch.Tensor) -> torch.Tensor:
    """Even steps: the turn of frame t is its bits in reverse order (van der Corput), (B, T)."""
    cameras, length = frames_BTHW.shape[:2]
    return turns(length).to(frames_BTHW.device).expand(cameras, length)


def turns(length: int) -> torch.Tensor:
    """A number from 0 to 1 for each of so many frames; those above any limit lie evenly."""
    bits = max(length - 1, 1).bit_length()
    return torch.tensor([1 - int(f"{t:0{bits}b}"[::-1], 2) / 2**bits for t in range(length)])


def _fullest(mask_BTHW: torch.Tensor, box: tuple[int, int]) -> torch.Tensor:
    """The fullest box of each frame; sums over boxes are four reads of a table of sums."""
    rows, columns = box
    sums = torch.nn.functional.pad(mask_BTHW.float().cumsum(2).cumsum(3), (1, 0, 1, 0))
    tall = sums[:, :, rows:] - sums[:, :, :-rows]
    return (tall[..., columns:] - tall[..., :-columns]).flatten(2).amax(2) / (rows * columns)


GATES = {"every": every, "difference": difference, "background": background, "person": person}
