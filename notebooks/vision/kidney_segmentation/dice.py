"""Dice's coefficient, by class, as MLPerf's 3D-UNet benchmark scores a segmentation.

    dice = (2 |P and T| + e) / (|P| + |T| + e), e = 1e-6

for the voxels P that were given a class and those T that have it. Two empty sets score 1.
Background is left out: it is nearly everything, and nearly always right.
"""

from typing import NamedTuple

import numpy as np
import torch

SMOOTH = 1e-6


class Dice(NamedTuple):
    """Dice of both classes, in the benchmark's order: `kidney` is class 1, `tumour` class 2."""

    kidney: float
    tumour: float

    @property
    def mean(self) -> float:
        """The benchmark's score of a case."""
        return (self.kidney + self.tumour) / 2


def by_class(prediction, truth) -> Dice:
    """The Dice of kidney (1) and tumour (2): `by_class(found, truth).tumour`.

    Arrays or tensors of one shape with the classes 0, 1 and 2. ValueError for other shapes or
    classes. Counted in integers: exact for any volume below 2^53 voxels.
    """
    found, true = (_tensor(one) for one in (prediction, truth))
    if found.shape != true.shape:
        raise ValueError(f"shapes {tuple(found.shape)} and {tuple(true.shape)}: must be equal")
    for name, one in (("prediction", found), ("truth", true)):
        if not bool(((one == 0) | (one == 1) | (one == 2)).all()):  # NaN is none of them
            raise ValueError(f"{name}: allowed are the classes 0, 1 and 2")
    true = true.to(found.device)
    return Dice(*(_dice(found == label, true == label) for label in (1, 2)))


def _tensor(one) -> torch.Tensor:
    """A tensor of an array in any order of bytes and axes, mirrored ones too."""
    if isinstance(one, torch.Tensor):
        return one
    array = np.asarray(one)
    return torch.from_numpy(array.astype(array.dtype.newbyteorder("="), order="C"))


def _dice(found: torch.Tensor, true: torch.Tensor) -> float:
    both, all_of = int((found & true).sum()), int(found.sum()) + int(true.sum())
    return (2 * both + SMOOTH) / (all_of + SMOOTH)
