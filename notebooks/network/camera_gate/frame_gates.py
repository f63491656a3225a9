"""Gates before a costly detector: a score for each frame, high where something is worth a look.

`difference` compares a frame with the one before. `background` keeps for each pixel a running
mean and variance, one normal distribution where Stauffer and Grimson (1999) keep several, and
counts the pixels that do not fit. `person` looks among these for a tall shape: the fullest
upright box, near or far. `every` looks at nothing: a frame's turn comes at even steps, the
simplest way to save load.

`B` cameras, `T` frames, `H` rows, `W` columns.
"""

import torch

RATE = 0.02  # of the running mean
DEVIATIONS, LEAST = 2.3, 4.0  # what does not fit; the least deviation, in grey levels
SQUARE = ((6, 6),)  # rows and columns of what `background` looks for
PERSON = ((14, 5), (8, 3))  # of upright boxes, near and far
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


class Stream:
    """A gate as cameras meet it: `score` takes one frame of each, in their order, and returns
    how much of the fullest box does not fit, (B,); 0 for the first `WARM`.

    >>> gate = Stream(PERSON)
    >>> gate.score(torch.zeros((2, 48, 64), dtype=torch.uint8))
    tensor([0., 0.])
    """

    def __init__(self, boxes: tuple[tuple[int, int], ...]):
        self.boxes, self.early, self.model = boxes, [], None

    def score(self, frame_BHW: torch.Tensor) -> torch.Tensor:
        known = self.early[0].shape if self.early else frame_BHW.shape
        if frame_BHW.ndim != 3 or frame_BHW.shape != known:
            raise ValueError(f"frames {tuple(frame_BHW.shape)}; {tuple(known)} are allowed")
        if frame_BHW.is_floating_point() and not bool(frame_BHW.isfinite().all()):
            raise ValueError(
                "a pixel is no number: a mean that learns it is blind from then on"
            )
        if self.model:
            moved_BHW = self.model.update(frame_BHW)
            return torch.stack([_fullest(moved_BHW, box) for box in self.boxes]).amax(0)
        self.early.append(frame_BHW)
        if len(self.early) == WARM:
            self.model = Background(torch.stack(self.early).float().mean(0))
            for one in self.early:
                self.model.update(one)
            self.early = [self.early[0]]  # its shape is asked of those that follow
        return torch.zeros(len(frame_BHW), device=frame_BHW.device)


def _streamed(frames_BTHW: torch.Tensor, boxes) -> torch.Tensor:
    """The scores of all frames, (B, T), one after another as a camera sends them."""
    if frames_BTHW.ndim != 4 or frames_BTHW.shape[1] <= WARM:
        told = f"(cameras, more than {WARM} frames, rows, columns) are allowed"
        raise ValueError(f"frames {tuple(frames_BTHW.shape)}: {told}")
    gate = Stream(boxes)
    return torch.stack([gate.score(frame_BHW) for frame_BHW in frames_BTHW.unbind(1)], 1)


def difference(frames_BTHW: torch.Tensor) -> torch.Tensor:
    """Mean absolute change from the frame before, (B, T); 0 for the first."""
    step = frames_BTHW.float().diff(dim=1)
    step = step - step.flatten(2).median(2).values[:, :, None, None]
    return torch.nn.functional.pad(step.abs().flatten(2).mean(2), (1, 0))


def background(frames_BTHW: torch.Tensor) -> torch.Tensor:
    """The share of a neighbourhood that does not fit, at its fullest place, (B, T)."""
    return _streamed(frames_BTHW, SQUARE)


def person(frames_BTHW: torch.Tensor) -> torch.Tensor:
    """How much of an upright box does not fit, at its fullest place, (B, T)."""
    return _streamed(frames_BTHW, PERSON)


def every(frames_BTHW: torch.Tensor) -> torch.Tensor:
    """Even steps: the turn of frame t is its bits in reverse order (van der Corput), (B, T)."""
    cameras, length = frames_BTHW.shape[:2]
    return turns(length).to(frames_BTHW.device).expand(cameras, length)


def turns(length: int) -> torch.Tensor:
    """A number from 0 to 1 for each of so many frames; those above any limit lie evenly."""
    bits = max(length - 1, 1).bit_length()
    return torch.tensor([1 - int(f"{t:0{bits}b}"[::-1], 2) / 2**bits for t in range(length)])


def _fullest(mask_BHW: torch.Tensor, box: tuple[int, int]) -> torch.Tensor:
    """The fullest box of each frame; sums over boxes are four reads of a table of sums."""
    rows, columns = box
    sums = torch.nn.functional.pad(mask_BHW.float().cumsum(1).cumsum(2), (1, 0, 1, 0))
    tall = sums[:, rows:] - sums[:, :-rows]
    return (tall[..., columns:] - tall[..., :-columns]).flatten(1).amax(1) / (rows * columns)


GATES = {"every": every, "difference": difference, "background": background, "person": person}
