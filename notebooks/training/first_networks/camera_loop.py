"""Frames as from a camera: how long each waits, how many are dropped; and what fits a board.

A camera sends a frame every 1/fps seconds, whether the last one was answered or not. A loop
that is slower takes the newest frame and drops those between: latency stays bounded. Here the
arrivals are computed from measured times of the work, so that the loop needs no camera.

`BOARDS` holds the memory of the two developer kits that the article names. What fits is
counted, never measured here.
"""

import time
from typing import NamedTuple

BOARDS = {  # bytes of memory of the developer kits, shared by processor and graphics; a Nano
    # of 2 GB and a Xavier NX of 16 GB exist, too, so look at yours
    "Jetson Nano": 4 * 1024**3,
    "Jetson Xavier NX": 8 * 1024**3,
}


class Frames(NamedTuple):
    """Latencies of the answered frames in seconds, the count dropped, answers a second."""

    latency_s: list
    dropped: int
    per_second: float


def timed(work, frames):
    """Seconds that `work` takes for each frame, a list; the first call is not among them."""
    frames = list(frames)
    if not frames:
        raise ValueError("no frames; one at least is needed")
    work(frames[0])
    took = []
    for frame in frames:
        begun = time.perf_counter()
        work(frame)
        took.append(time.perf_counter() - begun)
    return took


def camera(seconds, fps):
    """`Frames` of a loop whose n-th piece of work takes seconds[n], behind a camera of `fps`.

        camera([0.05] * 9, fps=10)     # each waits 0.05 s, none is dropped
        camera([0.25] * 9, fps=10)     # two of three frames are dropped, or one of two

    When the work is free it takes the newest frame that has come, else waits for the next.
    Latency counts from a frame's arrival to its answer. Raises ValueError for no work, a
    negative time, or a rate that is not above 0.
    """
    if not seconds or min(seconds) < 0 or not fps > 0:
        raise ValueError(f"{len(seconds)} times and {fps} frames/s; both must be positive")
    latency, free_s, last = [], 0.0, -1
    for took_s in seconds:
        newest = int(free_s * fps + 1e-9)  # the newest that has come by now
        frame = max(last + 1, newest)
        begun_s = max(free_s, frame / fps)
        free_s = begun_s + took_s
        latency.append(free_s - frame / fps)
        last = frame
    span_s = max(free_s, (last + 1) / fps)
    return Frames(latency, last + 1 - len(seconds), len(seconds) / span_s)


def training_bytes(weights, activations, batch, bytes_each=4, optimiser=0):
    """Bytes that training needs by count: weights, gradients and `optimiser` more copies, and
    the activations of a batch. The framework's own memory comes on top, and is not counted."""
    if min(weights, activations, batch, bytes_each) < 1 or optimiser < 0:
        raise ValueError("weights, activations, batch and bytes must be 1 or more")
    return bytes_each * (weights * (2 + optimiser) + activations * batch)


def largest_batch(board, weights, activations, share=0.5, **options):
    """The largest batch whose training fits into a `share` of a board's memory; 0 for none.

    Raises ValueError for a board that is not in `BOARDS`.
    """
    if board not in BOARDS:
        raise ValueError(f"no board {board!r}; known are {', '.join(BOARDS)}")
    fixed = training_bytes(weights, activations, 1, **options)
    each = training_bytes(weights, activations, 2, **options) - fixed
    left = int(BOARDS[board] * share) - (fixed - each)
    return max(0, left // each)
