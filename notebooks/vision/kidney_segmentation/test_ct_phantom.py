"""The phantom: the same seed the same scan, its Hounsfield values, and who is trained on."""

import ct_phantom as cp
import ct_volumes as cv
import numpy as np
import pytest
import torch
from helpers import data


@pytest.fixture(scope="module")
def folder():
    return data.fetch("kits19", ["*.nii.gz"])


@pytest.fixture(scope="module")
def case():
    return cp.geometric(80, seed=1)


def test_a_seed_draws_one_scan():
    one, same, other = (cp.geometric(40, seed).scan_hu for seed in (1, 1, 2))
    assert (one == same).all() and not np.allclose(one, other)


def test_tissues_have_their_hounsfield_values(case):
    scan, labels = case.scan_hu, case.labels
    assert 80 < scan[labels == 1].mean() < 210 and 20 < scan[labels == 2].mean() < 125
    assert scan[:, 0, 0].mean() == pytest.approx(-1000, abs=5), "air in the corner"
    assert np.isfinite(scan).all() and scan.dtype == np.float32 and scan.shape == labels.shape


def test_noise_is_as_strong_as_asked(case):
    args = case.labels, case.spacing, 4
    noise = cp.phantom(*args, noise_hu=10.0) - cp.phantom(*args, noise_hu=0.0)
    assert noise.std() == pytest.approx(10.0, rel=0.01)


def test_labels_without_an_organ_are_refused():
    with pytest.raises(ValueError, match="a label is needed"):
        cp.phantom(np.zeros((4, 4, 4), np.uint8), (1, 1, 1))


def test_a_blur_of_one_voxel_changes_nothing_and_a_constant_stays():
    given = torch.randn(3, 5, 7)
    assert torch.allclose(cp.blurred(given, 0.5, (1, 1, 1)), given, atol=1e-6)
    assert torch.allclose(cp.blurred(torch.ones(3, 5, 7), 4.0, (1, 1, 1)), torch.ones(3, 5, 7))


def test_test_and_calibration_are_never_trained_on(folder):
    names = {one.parent.name for one in folder.glob("*/segmentation.nii.gz")}
    assert {*cp.TRAINING, cp.TEST, cp.CALIBRATION} == names and len(cp.TRAINING) == 6
    assert cp.TEST == "case_00061" and cp.CALIBRATION == "case_00148"


def test_a_real_case_is_drawn_around_its_labels(folder):
    case = cp.drawn(folder, cp.TEST, seed=0, times=8)
    whole = cv.read_case(folder / cp.TEST)
    assert (case.labels == whole.labels[:, ::8, ::8]).all()
    assert case.spacing == pytest.approx((5.0, 7.8125, 7.8125))
    scan, labels = cp.reduced(case)
    assert scan.shape == labels.shape and {0, 1, 2} == set(labels.unique().tolist())
