"""Enough of Triton's language to run a kernel for a test where Triton itself is not installed.

A kernel is a function of pointers and numbers. `run(kernel, grid, …)` calls it once for each
program, in turn, with arrays as `Pointer`s. Names are those of `triton.language`, masks are not
here, and a test runs the same kernel in Triton's own interpreter.
"""

import numpy as np

constexpr, where, max = int, np.where, np.max  # noqa: A001  Triton's names
_place = {"program": 0}


class Pointer:
    """A place in a flat array, or a block of places: `pointer + offsets`."""

    def __init__(self, array, at=0):
        self.array, self.at = array, at

    def __add__(self, offsets):
        return Pointer(self.array, self.at + offsets)

    def places(self):
        """The places as an array; IndexError for one that is not there."""
        at = np.asarray(self.at)
        if bad := [place for place in at.flat if not 0 <= place < len(self.array)]:
            raise IndexError(f"place {bad[0]} of an array of {len(self.array)}")
        return at


def run(kernel, grid, *arguments, **constants):
    """None; calls the kernel for programs 0 … grid−1; NumPy arrays become pointers."""
    made = [Pointer(one.reshape(-1)) if hasattr(one, "reshape") else one for one in arguments]
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


def load(pointer):
    """The values at a pointer."""
    return pointer.array[pointer.places()]


def store(pointer, value):
    """None; writes values there."""
    pointer.array[pointer.places()] = value
