"""NIfTI files and the benchmark's preparation."""

import gzip
import struct

import ct_phantom as cp
import ct_volumes as cv
import numpy as np
import pytest
import sliding_windows as sw
import torch
from helpers import data
from scipy import ndimage


def made(*shape, kind="i2"):
    return np.random.default_rng(0).integers(0, 90, shape).astype(kind)


@pytest.mark.parametrize("kind", ["u1", "i2", "u2", "f4"])
@pytest.mark.parametrize("ending", [".nii", ".nii.gz"])
def test_what_is_written_is_read(tmp_path, kind, ending):
    path, voxels = tmp_path / f"one{ending}", made(3, 4, 5, kind=kind)
    cv.write_nifti(path, voxels, (5.0, 0.5, 0.25))
    found, spacing = cv.read_nifti(path)
    assert (found == voxels).all() and found.dtype == voxels.dtype
    assert spacing == (5.0, 0.5, 0.25)


def test_slope_and_intercept_and_the_other_byte_order(tmp_path):
    path = tmp_path / "one.nii"
    cv.write_nifti(path, made(2, 3, 4), (1, 1, 1))
    head = bytearray(path.read_bytes())
    struct.pack_into("<2f", head, 112, 2.0, -10.0)
    path.write_bytes(head)
    assert (cv.read_nifti(path)[0] == made(2, 3, 4) * 2.0 - 10).all()
    big = bytearray(352)
    struct.pack_into(">i", big, 0, 348)
    struct.pack_into(">8h", big, 40, 3, 2, 3, 4, 1, 1, 1, 1)
    struct.pack_into(">hh", big, 70, 4, 16)
    struct.pack_into(">4f", big, 76, 1, 5, 1, 1)
    struct.pack_into(">3f", big, 108, 352, 0, 0)
    big[344:348] = b"n+1\0"
    path.write_bytes(bytes(big) + made(2, 3, 4).astype(">i2").tobytes(order="F"))
    assert (cv.read_nifti(path)[0] == made(2, 3, 4)).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda b: b[:100], "no NIfTI|damaged"),
        (lambda b: b[:-1], "announced"),
        (lambda b: b"\0" * len(b), "no NIfTI"),
        (lambda b: b[:42] + struct.pack("<3h", 30000, 30000, 30000) + b[48:], "at most"),
        (lambda b: b[:42] + struct.pack("<h", -3) + b[44:], "no plain volume"),
        (lambda b: b[:70] + struct.pack("<h", 1792) + b[72:], "no plain volume"),
        (lambda b: b[:80] + struct.pack("<f", 0.0) + b[84:], "mm"),
    ],
)
def test_damaged_files_are_refused(tmp_path, change, message):
    path = tmp_path / "one.nii"
    cv.write_nifti(path, made(3, 4, 5), (1, 1, 1))
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(ValueError, match=message):
        cv.read_nifti(path)


def test_a_packed_file_that_ends_early_is_refused(tmp_path):
    path = tmp_path / "one.nii.gz"
    cv.write_nifti(
        path, np.random.default_rng(0).integers(0, 99, (9, 9, 9)).astype("i2"), (1, 1, 1)
    )
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ValueError, match="cut short|announced"):
        cv.read_nifti(path)
    path.write_bytes(gzip.compress(b"x" * 400))
    with pytest.raises(ValueError, match="no NIfTI"):
        cv.read_nifti(path)


def test_a_challenge_s_folder(tmp_path):
    folder = tmp_path / "case_00009"
    folder.mkdir()
    with pytest.raises(ValueError, match="missing"):
        cv.read_case(folder)
    labels = np.zeros((3, 4, 5), np.uint8)
    cv.write_nifti(folder / "segmentation.nii.gz", labels, (5.0, 1.0, 1.0))
    case = cv.read_case(folder)
    assert case.scan_hu is None and case.name == "case_00009" and "3×4×5" in repr(case)
    cv.write_nifti(folder / "imaging.nii.gz", made(3, 4, 5), (5.0, 1.0, 1.0))
    assert (cv.read_case(folder).scan_hu == made(3, 4, 5)).all()
    cv.write_nifti(folder / "imaging.nii.gz", made(3, 4, 6), (5.0, 1.0, 1.0))
    with pytest.raises(ValueError, match="scan"):
        cv.read_case(folder)
    cv.write_nifti(folder / "segmentation.nii.gz", labels + np.uint8(3), (5.0, 1.0, 1.0))
    with pytest.raises(ValueError, match="labels other"):
        cv.read_case(folder)


@pytest.mark.parametrize("shape", [(5, 7, 9), (13, 6, 20), (1, 7, 30)])
def test_resampling_is_scipy_s_zoom(shape):
    given = np.random.default_rng(1).normal(size=(5, 7, 9)).astype(np.float32)
    factors = [new / old for new, old in zip(shape, given.shape, strict=True)]
    wanted = ndimage.zoom(given, factors, order=1, mode="nearest", grid_mode=False)
    assert np.allclose(cv.resampled(given, shape), wanted, atol=1e-5)
    labels = np.random.default_rng(2).integers(0, 3, (5, 7, 9)).astype(np.uint8)
    wanted = ndimage.zoom(labels, factors, order=0, mode="nearest", grid_mode=False)
    assert (cv.resampled(labels, shape, nearest=True).numpy() == wanted).mean() > 0.99


def test_the_last_voxel_stays_where_the_benchmark_s_rounding_loses_it():
    size, factor = 169, 2.164916753768921 / 1.2
    ones = np.ones(size, np.float32)
    theirs = ndimage.zoom(ones, factor, order=1, mode="constant", cval=0)
    assert theirs[-1] == 0 and (theirs[:-1] == 1).all(), "SciPy's rounding: see the module"
    assert (cv.resampled(ones[:, None, None], (len(theirs), 1, 1)) == 1).all()


@pytest.mark.parametrize("name", sorted((*cp.TRAINING, cp.TEST, cp.CALIBRATION)))
def test_the_cases_labels_are_the_benchmark_s_voxel_for_voxel(name):
    case = cp.labelled(data.fetch("kits19", ["*.nii.gz"]), name)
    shape = sw.resampled_shape(case.labels.shape, case.spacing)
    for axis, size in enumerate(case.labels.shape):
        factor = case.spacing[axis] / sw.TARGET_MM[axis]
        wanted = ndimage.zoom(np.arange(size), factor, order=0, mode="constant", cval=-1)
        line = np.arange(size).reshape([-1 if one == axis else 1 for one in range(3)])
        to = [shape[axis] if one == axis else 1 for one in range(3)]
        assert (cv.resampled(line, to, nearest=True).flatten().numpy() == wanted).all()


def benchmark(scan, labels, window=8, step=4):
    """The rule of padding and cutting written as the benchmark states it, in NumPy."""
    short = [max(0, window - size) for size in scan.shape]
    sides = [(one // 2, one - one // 2) for one in short]
    scan, labels = (np.pad(one, sides, mode="edge") for one in (scan, labels))
    over = [size % step if size % step < step // 2 else 0 for size in scan.shape]
    cut = tuple(
        slice(one // 2, size - (one - one // 2))
        for one, size in zip(over, scan.shape, strict=True)
    )
    scan, labels = scan[cut], labels[cut]
    more = [(step - size % step) % step for size in scan.shape]
    sides = [(one // 2, one - one // 2) for one in more]
    return np.pad(scan, sides, constant_values=-2.2), np.pad(labels, sides)


@pytest.mark.parametrize("shape", [(8, 8, 8), (5, 9, 10), (1, 11, 13), (17, 14, 15)])
def test_padding_and_cutting_are_the_benchmark_s(shape):
    scan = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    labels = torch.randint(0, 3, shape, generator=torch.Generator().manual_seed(1)).byte()
    wanted = benchmark(scan.numpy(), labels.numpy())
    assert torch.equal(cv.whole_steps(scan, 8, 0.5, cv.AIR), torch.from_numpy(wanted[0]))
    assert torch.equal(cv.whole_steps(labels, 8, 0.5, 0), torch.from_numpy(wanted[1]))


def test_hounsfield_units_are_clipped_and_normalised():
    found = cv.normalised(torch.tensor([-1000.0, -79.0, 101.0, 304.0, 2000.0]))
    assert found.tolist() == pytest.approx(
        [-180 / 76.9, -180 / 76.9, 0, 203 / 76.9, 203 / 76.9]
    )


def test_a_case_comes_out_in_the_grid_s_shape():
    case = cv.Case(
        "one", made(9, 30, 31, kind="f4"), made(9, 30, 31, kind="u1") % 3, (5.0, 2.0, 2.0)
    )
    scan, labels = cv.prepared(case, window=16)
    assert (
        tuple(scan.shape) == tuple(labels.shape) == sw.grid((9, 30, 31), (5.0, 2.0, 2.0), 16)[0]
    )
    assert scan.dtype == torch.float32 and labels.dtype == torch.uint8


def test_the_whole_preparation_is_the_benchmark_s():
    chance, spacing = np.random.default_rng(3), (5.0, 2.0, 2.0)
    scan = chance.normal(100, 400, (9, 30, 31)).astype("f4")
    case = cv.Case("one", scan, chance.integers(0, 3, scan.shape).astype("u1"), spacing)
    factors = np.array(spacing) / sw.TARGET_MM
    zoomed = ndimage.zoom(scan, factors, order=1, mode="constant", cval=scan.min())
    labels = ndimage.zoom(case.labels, factors, order=0, mode="constant")
    wanted = benchmark((zoomed.clip(-79, 304) - 101) / 76.9, labels, 16, 8)
    found = cv.prepared(case, window=16)
    assert np.allclose(found[0], wanted[0], atol=1e-4) and (found[1].numpy() == wanted[1]).all()
    assert found[1][-1].max() == 0, "padded labels are background"


def test_a_case_without_a_scan_is_refused():
    case = cv.Case("one", None, made(2, 2, 2, kind="u1"), (1.0, 1.0, 1.0))
    with pytest.raises(ValueError, match="is needed"):
        cv.prepared(case)
    with pytest.raises(ValueError, match="finite"):
        cv.prepared(case._replace(scan_hu=np.full((2, 2, 2), np.nan)))
