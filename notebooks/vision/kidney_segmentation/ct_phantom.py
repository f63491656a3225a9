"""A phantom: a made-up scan around real labels of kidneys and tumours.

The challenge's scans are tens of gigabytes, kept elsewhere; its label maps are small. So the
organs that are asked for have real shapes, and everything else is drawn here, in Hounsfield
units (water 0, air -1000), on the grid of the labels:

| what | HU | shape |
|---|---|---|
| air; a ring of fat; soft tissue | -1000; -100; 45 | ellipses around the kidneys' middle |
| spine; aorta; vena cava | 250; 190; 150 | cylinders along the depth |
| liver; spleen | 110; 125 | ellipsoids in front, one on each side |
| bowel | -50 … 180 | balls in front, some as bright as a kidney |
| fat around the kidneys | -100 | within about a centimetre of a label |
| kidney: cortex, inside | 150 … 210, 50 less | label 1, its rim brighter than its inside |
| tumour | 50 … 120, 35 inside a large one | label 2, mottled |

One draw differs from another by contrast, bowel, mottling and noise (14 HU on the drawn grid;
in the plane neighbours share it where voxels are under 1.5 mm, as in a reconstruction; on the
thinned grid it is white). What it is not: it has no motion, no streaks, no cyst, and its body
is laid around the labels, so that where the body lies tells where the kidneys are. A score on
it says how windows are put together, and nothing of patients. Which row is the back is
our convention: the larger one.

Data: labels of KiTS19 (Heller and others), CC BY-NC-SA 4.0. What is made from them carries
that.
"""

from functools import cache, partial
from pathlib import Path

import ct_volumes
import numpy as np
import sliding_windows as sw
import torch
from scipy import ndimage

CALIBRATION, TEST = "case_00148", "case_00061"  # neither is ever trained on
TRAINING = ("case_00015", "case_00021", "case_00037", "case_00038", "case_00110", "case_00152")
REDUCED = 3  # the page's voxels are so many times the benchmark's, in each axis
THINNED = 2  # of rows and columns, where a phantom is drawn for reduced voxels
NOISE_HU = 14.0


def blurred(values_DHW: torch.Tensor, mm: float, spacing) -> torch.Tensor:
    """Means over boxes of about `mm` in each axis, sizes kept, the edge repeated. Running sums:
    a large box costs no more than a small one.
    """
    sizes = [2 * round(mm / 2 / one) + 1 for one in spacing]
    return torch.from_numpy(ndimage.uniform_filter(values_DHW.numpy(), sizes, mode="nearest"))


def phantom(labels: np.ndarray, spacing, seed: int = 0, noise_hu: float = NOISE_HU):
    """(D, H, W) float32 Hounsfield units around `labels` (0, 1, 2), `spacing` in mm, depth
    first.

    The same seed gives the same scan. ValueError for labels without any kidney or tumour.
    """
    labels = torch.as_tensor(labels)
    if labels.ndim != 3 or not bool((labels > 0).any()):
        raise ValueError(
            f"labels of shape {tuple(labels.shape)}: a volume with a label is needed"
        )
    chance = torch.Generator().manual_seed(seed)
    draw = partial(torch.rand, generator=chance)
    scan = _around(labels, spacing, draw)
    organ = (labels > 0).float()
    near = blurred(organ, 18.0, spacing) > 0.01
    scan[near & (scan > 0) & (scan < 130)] = -100.0
    mottle = blurred(torch.randn(labels.shape, generator=chance), 9.0, spacing)
    mottle *= 14 / mottle.std()
    bright, dull = 150 + 60 * draw(1), 50 + 70 * draw(1)
    deep = blurred(organ, 14.0, spacing)  # near one inside, a half at a flat rim
    kidney = bright - 50 * ((deep - 0.6) / 0.3).clamp(0, 1) + 0.5 * mottle
    hollow = blurred((labels == 2).float(), 26.0, spacing) > 0.9
    tumour = torch.where(hollow, torch.tensor(35.0), dull) + mottle
    scan = torch.where(labels == 1, kidney, torch.where(labels == 2, tumour, scan))
    scan = blurred(scan, 1.5, (99.0, *spacing[1:]))  # what a scanner mixes at borders
    noise = blurred(torch.randn(labels.shape, generator=chance), 1.5, (99.0, *spacing[1:]))
    return (scan + noise_hu * noise / noise.std()).numpy()


def _around(labels: torch.Tensor, spacing, draw) -> torch.Tensor:
    """The body without kidneys: each part is painted over those before it."""
    places = (labels > 0).nonzero().float()
    middle = (places.amin(0) + places.amax(0)) / 2
    z, y, x = (
        ((torch.arange(size) - at) * mm).reshape([-1 if axis == one else 1 for one in range(3)])
        for axis, (size, at, mm) in enumerate(zip(labels.shape, middle, spacing, strict=True))
    )
    front = y + 35  # the body's middle lies before the kidneys
    around = (x / 175) ** 2 + (front / 125) ** 2
    scan = torch.full((1, *labels.shape[1:]), -1000.0)
    scan[around < 1] = -100.0
    scan[(x / 155) ** 2 + (front / 105) ** 2 < 1] = 45.0
    scan = scan.repeat(labels.shape[0], 1, 1)
    for at_y, at_x, radius, value in ((45, 0, 19, 250), (12, 9, 10, 190), (8, -14, 11, 150)):
        tube = ((y - at_y) ** 2 + (x - at_x) ** 2 < radius**2).expand_as(scan)
        scan[tube] = float(value)
    for at_x, wide, value in ((-80, 65, 110), (95, 35, 125)):
        shift = 20 * float(draw(1)) - 10
        ball = (z + shift) ** 2 / 90**2 + (front + 15) ** 2 / 60**2 + (x - at_x) ** 2 / wide**2
        scan[ball < 1] = float(value)
    reach = spacing[0] * labels.shape[0] / 2
    for _ in range(14):
        where, value = draw(5), -50 + 230 * float(draw(1))
        at = [reach * (2 * where[0] - 1), -80 + 60 * where[1], 200 * where[2] - 100]
        ball = (z - at[0]) ** 2 + (front - at[1]) ** 2 + (x - at[2]) ** 2
        scan[(ball < (12 + 14 * where[3]) ** 2) & (scan > 0) & (scan < 130)] = value
    return scan


@cache
def labelled(folder: Path, name: str) -> ct_volumes.Case:
    """The Case of real labels without its scan; kept, since it is read often."""
    return ct_volumes.read_case(Path(folder) / name)


def thinned(case: ct_volumes.Case, times: int = THINNED) -> ct_volumes.Case:
    """The labels at every so many rows and columns: what is drawn and scored at reduced
    voxels."""
    depth, *plane = case.spacing
    labels = np.ascontiguousarray(case.labels[:, ::times, ::times])
    return case._replace(labels=labels, spacing=(depth, *(times * mm for mm in plane)))


def drawn(folder, name: str, seed: int = 0, times: int = THINNED) -> ct_volumes.Case:
    """The case with a phantom's scan in it, every `times` rows and columns."""
    case = thinned(labelled(Path(folder), name), times)
    return case._replace(scan_hu=phantom(case.labels, case.spacing, seed))


def reduced(case: ct_volumes.Case, window: int = 32, overlap: float = 0.5, times=REDUCED):
    """(scan, labels) as the network sees them, at so many times the benchmark's voxels."""
    target = tuple(times * mm for mm in sw.TARGET_MM)
    return ct_volumes.prepared(case, window, overlap, target)


def geometric(size: int = 80, seed: int = 0) -> ct_volumes.Case:
    """A case of our own, without anybody's data: two ellipsoids, a ball in one of them, and the
    same body around; `size` rows and columns of 5 mm, a quarter as many slices of 12 mm.
    """
    depth = max(8, size // 4)
    z, y, x = np.ogrid[:depth, :size, :size]
    spacing = (12.0, 5.0, 5.0)
    axes = zip((z, y, x), spacing, strict=True)
    deep, high, wide = ((at - (at.size - 1) / 2) * mm for at, mm in axes)
    labels = np.zeros((depth, size, size), np.uint8)
    for side in (-65, 65):
        labels[(deep / 55) ** 2 + (high / 26) ** 2 + ((wide - side) / 30) ** 2 < 1] = 1
    labels[deep**2 + (high - 12) ** 2 + (wide - 80) ** 2 < 20**2] = 2
    return ct_volumes.Case("geometric", phantom(labels, spacing, seed), labels, spacing)
