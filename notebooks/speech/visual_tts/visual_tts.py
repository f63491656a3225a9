"""Sums of every window of a stream: an example, to be replaced by the chapter's algorithm.

Say here what the article describes, the equations with their source, where this module
differs and why.

Shapes: `N` stream length, `M` window length. Streams are one-dimensional NumPy arrays.
"""

import numpy as np


def window_sums_reference(stream, length):
    """The sums of all windows, shape (N−M+1,), float64: the plainest loop.

        window_sums_reference([1.0, 2.0, 4.0], 2)    # array([3., 6.])

    Raises ValueError unless 1 ≤ M ≤ N.
    """
    stream = _checked(stream, length)
    starts = range(len(stream) - length + 1)
    return np.array([sum(stream[start : start + length]) for start in starts])


def window_sums(stream, length):
    """The sums of all windows, shape (N−M+1,), float64: one pass over the stream, whatever M.

        window_sums([1.0, 2.0, 4.0], 2)    # array([3., 6.])

    Each sum is the difference of two prefix sums, so its error grows with the size of the
    whole stream's sum. Raises ValueError unless 1 ≤ M ≤ N.
    """
    stream = _checked(stream, length)
    prefix = np.concatenate([[0.0], np.cumsum(stream)])
    return prefix[length:] - prefix[:-length]


def _checked(stream, length):
    stream = np.asarray(stream, dtype=np.float64)
    if stream.ndim != 1:
        raise ValueError(f"the stream has shape {stream.shape}; one axis is allowed")
    if not 1 <= length <= len(stream):
        most = len(stream)
        raise ValueError(f"windows of {length} in a stream of {most}; 1 to {most} are allowed")
    return stream
