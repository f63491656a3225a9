"""How a stream is cut, and what goes in and out of it; the equations stand in `stream_state`.

Legend: B batch, F mel bands, T frames of 10 ms, S output steps of 20 ms."""

from collections import namedtuple
from dataclasses import dataclass

import numpy as np
import torch

FRAME_MS, FRAMES_PER_STEP = 10, 2


@dataclass(frozen=True)
class StreamOptions:
    """How a stream is cut, normalised and ended; times in ms are whole steps of 20 ms.

    >>> StreamOptions(chunk_ms=60, right_ms=180).delay_ms
    240

    Context of None is all there is, so that the only window comes at the end. `normalise`:
    "running" or "window"; `prior_frames` is how much a prior counts in the first.
    `endpoint_ms`: silence after a word that ends an utterance (None: only the stream's end
    does); beyond `longest_ms` the next blank ends it."""

    chunk_ms: int = 60
    left_ms: int | None = 660
    right_ms: int | None = 180
    normalise: str = "running"
    prior_frames: float = 30.0
    endpoint_ms: int | None = 1000
    longest_ms: int = 30_000

    def __post_init__(self):
        step = FRAME_MS * FRAMES_PER_STEP
        for name in ("chunk_ms", "left_ms", "right_ms", "endpoint_ms", "longest_ms"):
            value, least = getattr(self, name), 0 if "t_ms" in name else step
            if value is not None and (value % step or value < least):
                raise ValueError(f"{name}={value}: whole steps of {step} ms from {least} up")
        if self.normalise not in ("running", "window"):
            raise ValueError(f"normalise={self.normalise!r}: allowed are 'running', 'window'")

    @property
    def delay_ms(self):
        """What a person waits beside the response: the chunk and its right context."""
        return self.chunk_ms + (self.right_ms or 0)

    @property
    def window_frames(self):
        """Frames of a window in the middle of a stream; those at its ends are shorter."""
        return (self.chunk_ms + (self.left_ms or 0) + (self.right_ms or 0)) // FRAME_MS


@dataclass(frozen=True)
class Window:
    """What the network reads at once: features (F, T), and which of its steps to keep."""

    features_FT: torch.Tensor
    keep_from: int  # steps of this window's output
    keep_to: int
    to_ms: int  # the stream's time up to which the kept steps reach
    heard_ms: int  # how much had to be heard before this window was complete

    @property
    def steps(self):
        """How many steps the network answers with."""
        return -(-self.features_FT.shape[1] // FRAMES_PER_STEP)


# the text of the current utterance after one window: `kind` is "partial" or "final"
Event = namedtuple("Event", "kind text start_ms to_ms heard_ms")


def as_batch(windows, pad_to=0):
    """Windows (F, T) as one array (B, F, T), zeros behind the shorter, and their frames (B,),
    None where all fill it, which saves the masks. T is at least `pad_to`: few shapes, few first
    times."""
    frames_B = np.array([window.shape[1] for window in windows], np.int64)
    longest = max(int(frames_B.max()), pad_to)
    if (frames_B == longest).all():
        return np.stack(windows), None
    batch_BFT = np.zeros((len(windows), windows[0].shape[0], longest), np.float32)
    for row, window in zip(batch_BFT, windows, strict=True):
        row[:, : window.shape[1]] = window
    return batch_BFT, frames_B


@torch.inference_mode()
def computed(model, batch_BFT, frames_B=None):
    """The model's log-probabilities (B, S, V) of what `as_batch` makes; float32 arrays."""
    device = next(iter(model.parameters())).device
    frames_B = None if frames_B is None else torch.from_numpy(frames_B).to(device)
    return model(torch.from_numpy(batch_BFT).to(device), frames_B)[0].cpu().numpy()
