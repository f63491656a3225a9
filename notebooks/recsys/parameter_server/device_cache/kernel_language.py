"""Enough of Triton's language to run a kernel for a test where Triton itself is not installed.

A kernel is a function of pointers and numbers. `run(kernel, grid, …)` calls it once for each
program, in turn, with arrays as `Pointer`s. Names and arguments are those of `triton.language`,
and a test runs the same kernels in Triton's own interpreter; what is not here, a kernel for
this page does not need.
"""

import numpy as np

int8, int32, int64, float32 = np.int8, np.int32, np.int64, np.float32
constexpr = int
_place = {"program": 0}


class Pointer:
    """A place in a flat array, or a block of places: `pointer + offsets`."""

    def __init__(self, array, at=0):
        self.array, self.at = array, at

    def __add__(self, offsets):
        return Pointer(self.array, self.at + offsets)


def run(kernel, grid, *arguments, **constants):
    """None; calls the kernel for programs 0 … grid−1; NumPy arrays become pointers."""
    made = [
        Pointer(one.reshape(-1)) if isinstance(one, np.ndarray) else one for one in arguments
    ]
    for _place["program"] in range(grid):
        kernel(*made, **constants)


def program_id(axis):
    """The number of this program."""
    return _place["program"]


def arange(start, end):
    """The numbers from start to end; Triton wants their count to be a power of two."""
    if (end - start) & (end - start - 1):
        raise ValueError(f"arange of {end - start}: a power of two is needed")
    return np.arange(start, end)


def load(pointer, mask=None, other=0):
    """The values at a pointer; where the mask is false, `other`, and memory is not read."""
    at, mask = np.broadcast_arrays(pointer.at, True if mask is None else mask)
    _inside(pointer, at[mask])
    found = np.full(at.shape, other, pointer.array.dtype)
    found[mask] = pointer.array[at[mask]]
    return found if found.shape else found[()]


def store(pointer, value, mask=None):
    """None; writes values where the mask is true."""
    at, value, mask = np.broadcast_arrays(pointer.at, value, True if mask is None else mask)
    _inside(pointer, at[mask])
    pointer.array[at[mask]] = value[mask]


def where(condition, yes, no):
    """`yes` where the condition holds, `no` elsewhere."""
    return np.where(condition, yes, no)


def sum(values, axis=None):  # noqa: A001  Triton's names
    """The sum."""
    return np.sum(values, axis)


def max(values, axis=None):  # noqa: A001
    """The largest value."""
    return np.max(values, axis)


def _inside(pointer, at):
    if at.size and not (at.min() >= 0 and at.max() < len(pointer.array)):
        worst = at.min() if at.min() < 0 else at.max()
        raise IndexError(f"place {worst} of an array of {len(pointer.array)}: mask it out")
