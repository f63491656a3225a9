"""Jets: their truth, their clusters, and what calibration brings."""

import numpy as np
import pytest
import torch

from .jets import NOISE, Calibration, clusters_of, collision, cones, fit, jet_ratios, response


def test_hadrons_are_seen_more_faintly_the_softer_they_are():
    energy = np.array([2.0, 10.0, 100.0])
    found = response(energy, np.zeros(3, bool))
    assert (np.diff(found) > 0).all() and (found < 1).all()
    assert (response(energy, np.ones(3, bool)) == 1).all()


def test_the_response_is_groom_s_by_hand():
    """Of 10 GeV the share 1 - 10^-0.18 is electromagnetic, the rest is seen at 1 / 1.6."""
    assert response(10.0, False) == pytest.approx(0.33931 + 0.66069 / 1.6, rel=1e-4)


def test_a_cluster_starts_at_four_sigmas_and_grows_by_two():
    cells = np.zeros((40, 63))
    cells[10, 10:14] = np.array([2.1, 4.1, 2.1, 1.9]) * NOISE
    cells[20, 20] = 3.9 * NOISE
    [features], [momenta] = clusters_of(cells)
    np.testing.assert_allclose(momenta[0], 8.3 * NOISE)
    np.testing.assert_allclose(np.exp(features[:2]), [8.3 * NOISE, 3], rtol=1e-5)
    assert features[2] == pytest.approx(4.1 / 8.3)
    np.testing.assert_allclose(momenta[1:], [10.5 * 0.1 - 2, 11.5 * 0.1])


def test_a_jet_is_the_hardest_cluster_with_all_around_it():
    found = cones(np.array([[10, 0.1, 1.1], [50, 0.0, 1.0], [40, 0.5, 4.0], [2, 1.5, 2.5]]))
    np.testing.assert_allclose(found, [[60, 0.0, 1.0], [40, 0.5, 4.0]])
    around = cones(np.array([[50, 0.0, 0.05], [10, 0.0, 2 * np.pi - 0.05]]))
    assert len(around) == 1  # φ goes round


def test_noise_alone_makes_no_jet_and_empty_cells_no_cluster():
    one = collision(np.random.default_rng(0), jets=0)
    assert len(cones(clusters_of(one.cells)[1])) == 0
    assert clusters_of(np.zeros_like(one.cells))[0].shape == (0, 3)


def test_calibrated_jets_are_as_large_as_the_true_ones():
    rng = np.random.default_rng(0)
    network = fit([collision(rng) for _ in range(30)], steps=120)
    unseen = [collision(rng) for _ in range(30)]
    with torch.no_grad():
        calibrated = jet_ratios(unseen, lambda x: network(torch.from_numpy(x)).numpy())
    raw = jet_ratios(unseen)
    assert len(raw) >= 50
    assert np.median(raw) < 0.93
    assert np.median(calibrated) == pytest.approx(1, abs=0.05)


def test_factors_are_positive():
    assert (Calibration()(torch.randn(5, 3)) > 0).all()
