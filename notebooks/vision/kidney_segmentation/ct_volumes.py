"""Volumes of computed tomography: NIfTI files, the challenge's folders, and the preparation
that MLPerf's 3D-UNet benchmark makes of a scan.

Resampled to (1.6, 1.2, 1.2) mm, linearly (labels: the nearest voxel), both ends of an axis
kept; clipped to -79 … 304 Hounsfield units, less 101, over 76.9; padded at its edge to one
window; cut or padded with -2.2 to whole steps. All constants are the benchmark's.

Where we differ: the benchmark asks SciPy's `zoom` to fill what lies outside with the scan's
smallest value. Where rounding puts the last voxel of an axis just outside, in about one size of
25, that slice becomes air; ours keeps it. In the eight cases here it does not occur.

The files are of the kind that the KiTS19 challenge hands out: `case_00061/imaging.nii.gz` and
`segmentation.nii.gz`, depth first. The scans themselves are not here: `ct_phantom` makes some.

D, H, W: depth, height and width.
"""

import gzip
import struct
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
import sliding_windows as sw
import torch

CLIP_HU, MEAN_HU, STD_HU, AIR = (-79.0, 304.0), 101.0, 76.9, -2.2
TYPES = {2: "u1", 4: "i2", 8: "i4", 16: "f4", 64: "f8", 256: "i1", 512: "u2", 768: "u4"}
CODES = {np.dtype(name): code for code, name in TYPES.items()}
HEADER, LARGEST = 352, 2**31  # bytes; larger volumes are refused before they are unpacked


class Case(NamedTuple):
    """A scan and its labels: `scan_hu` (D, H, W) or None, `labels` (D, H, W) uint8, `spacing`
    in mm, depth first.
    """

    name: str
    scan_hu: np.ndarray | None
    labels: np.ndarray
    spacing: tuple[float, float, float]

    def __repr__(self) -> str:
        size = "×".join(map(str, self.labels.shape))
        return (
            f"{self.name}: {size} voxels of {'×'.join(f'{mm:.3g}' for mm in self.spacing)} mm"
        )


def read_nifti(path) -> tuple[np.ndarray, tuple[float, float, float]]:
    """(voxels, spacing in mm) of a NIfTI-1 file, `.nii` or `.nii.gz`, its axes as stored.

    Slope and intercept are applied where the header has them. ValueError for another file, one
    that is cut short, another number of axes, or over 2 GiB.
    """
    path = Path(path)
    with (gzip.open if path.name.endswith(".gz") else open)(path, "rb") as file:
        try:
            head = file.read(HEADER)
            order = {348: "<", 1543569408: ">"}.get(int.from_bytes(head[:4], "little"))
            if order is None or head[344:348] != b"n+1\0":
                raise ValueError(f"{path.name}: no NIfTI-1 file with its voxels in it")
            sizes = struct.unpack(f"{order}8h", head[40:56])
            code = struct.unpack(f"{order}h", head[70:72])[0]
            _, *steps = struct.unpack(f"{order}4f", head[76:92])
            offset, slope, base = struct.unpack(f"{order}3f", head[108:120])
            shape = sizes[1:4]
            flat = all(size == 1 for size in sizes[4 : sizes[0] + 1])
            if sizes[0] < 3 or min(shape) < 1 or not flat or code not in TYPES:
                raise ValueError(f"{path.name}: sizes {sizes}, type {code}: no plain volume")
            if not all(0 < step < np.inf for step in steps):
                raise ValueError(f"{path.name}: voxels of {steps} mm")
            kind = np.dtype(order + TYPES[code])
            if (size := int(np.prod(shape, dtype=np.int64)) * kind.itemsize) > LARGEST:
                raise ValueError(f"{path.name}: {size} bytes; at most {LARGEST} are read")
            file.read(max(0, int(offset) - HEADER))
            data = file.read(size)
        except (EOFError, OSError, zlib.error, struct.error) as error:
            raise ValueError(f"{path.name}: damaged or cut short ({error})") from None
    if len(data) < size:
        raise ValueError(f"{path.name}: {len(data)} bytes of voxels, {size} are announced")
    found = np.frombuffer(data, kind).reshape(shape, order="F")
    found = np.ascontiguousarray(found.astype(kind.newbyteorder("=")))
    scaled = np.isfinite(slope) and slope != 0 and (slope, base) != (1.0, 0.0)
    return found * slope + base if scaled else found, tuple(steps)


def write_nifti(path, voxels: np.ndarray, spacing) -> None:
    """Writes (D, H, W) voxels as NIfTI-1, packed where the name ends in .gz."""
    head = bytearray(HEADER)
    kind = np.dtype(voxels.dtype)
    struct.pack_into("<i", head, 0, 348)
    struct.pack_into("<8h", head, 40, 3, *voxels.shape, 1, 1, 1, 1)
    struct.pack_into("<hh", head, 70, CODES[kind], 8 * kind.itemsize)
    struct.pack_into("<4f", head, 76, 1.0, *spacing)
    struct.pack_into("<3f", head, 108, float(HEADER), 1.0, 0.0)
    head[344:348] = b"n+1\0"
    with (gzip.open if str(path).endswith(".gz") else open)(path, "wb") as file:
        file.write(bytes(head) + voxels.astype(kind.newbyteorder("<")).tobytes(order="F"))


def read_case(folder) -> Case:
    """The Case of a challenge's folder `case_00061`: labels always, the scan where it is there.

    ValueError where labels are missing or have other classes, or scan and labels do not fit.
    """
    folder = Path(folder)
    if not (folder / "segmentation.nii.gz").is_file():
        raise ValueError(f"{folder}: segmentation.nii.gz is missing; a case has it")
    labels, spacing = read_nifti(folder / "segmentation.nii.gz")
    if not np.isin(labels, (0, 1, 2)).all():
        raise ValueError(f"{folder.name}: labels other than 0, 1 and 2")
    scan = None
    if (folder / "imaging.nii.gz").is_file():
        scan, there = read_nifti(folder / "imaging.nii.gz")
        if scan.shape != labels.shape or not np.allclose(there, spacing, rtol=1e-3):
            raise ValueError(f"{folder.name}: scan {scan.shape}, labels {labels.shape}")
        scan = scan.astype(np.float32)
    return Case(folder.name, scan, labels.astype(np.uint8), spacing)


def resampled(volume: np.ndarray, shape, nearest: bool = False) -> torch.Tensor:
    """(D, H, W): the volume on another grid, the first and last voxels of each axis on those of
    the old one; linear in float32, or the nearest voxel (halves go up).
    """
    given = torch.as_tensor(volume)
    if not nearest:
        return torch.nn.functional.interpolate(
            given.float()[None, None], tuple(shape), mode="trilinear", align_corners=True
        )[0, 0]
    for axis, size in enumerate(shape):
        ratio = (given.shape[axis] - 1) / (size - 1) if size > 1 else 0.0
        at = torch.floor(torch.arange(size, dtype=torch.float64) * ratio + 0.5).long()
        given = given.index_select(axis, at.clamp_(max=given.shape[axis] - 1))
    return given


def normalised(scan_hu: torch.Tensor) -> torch.Tensor:
    """Hounsfield units clipped, less the benchmark's mean, over its deviation."""
    return (scan_hu.clamp(*CLIP_HU) - MEAN_HU) / STD_HU


def whole_steps(volume: torch.Tensor, window: int, overlap: float, air: float) -> torch.Tensor:
    """The volume padded at its edge to a window, then cut or padded with `air` to whole steps,
    in the middle: of an odd number of voxels the last side has one more.
    """
    step = sw.step_of(window, overlap)
    for axis, size in enumerate(volume.shape):
        edge, cut, more = sw.fitted(size, window, step)
        at = torch.arange(-(edge // 2), size + edge - edge // 2).clamp_(0, size - 1)
        volume = volume.index_select(axis, at[cut // 2 : len(at) - (cut - cut // 2)])
        if more:
            sides = [0, 0] * (2 - axis) + [more // 2, more - more // 2] + [0, 0] * axis
            volume = torch.nn.functional.pad(volume, sides, value=air)
    return volume


def prepared(case: Case, window=128, overlap=0.5, target=sw.TARGET_MM):
    """(scan, labels): what the network sees of a case, float32 and uint8, of `grid`'s shape.

    The benchmark's order: resample, clip and normalise, pad to a window, fit to whole steps.
    ValueError for a case without scan, or with voxels that are not finite.
    """
    if case.scan_hu is None or not np.isfinite(case.scan_hu).all():
        raise ValueError(f"{case.name}: a scan of finite Hounsfield units is needed")
    shape = sw.resampled_shape(case.labels.shape, case.spacing, target)
    scan = normalised(resampled(case.scan_hu, shape))
    labels = resampled(case.labels, shape, nearest=True)
    return (
        whole_steps(scan, window, overlap, AIR),
        whole_steps(labels, window, overlap, 0),
    )
