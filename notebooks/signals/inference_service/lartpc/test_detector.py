"""What the wires read: charge kept, geometry, drift, and a pulse of each sign."""

from dataclasses import replace

import numpy as np
import pytest

from .detector import (
    COLLECTION,
    DRIFT_CM_PER_US,
    PITCH_CM,
    PROTODUNE,
    Detector,
    draw_primaries,
    drifted,
    pulse,
    recombination,
    simulate,
)
from .particles import TRACK, Deposits

SILENT = Detector(wires=96, height_cm=40, drift_cm=60, white_enc=0, coherent_enc=1e-9)


def muon(at, to, detector=SILENT):
    return simulate([("muon", 5000.0, at, to)], detector, np.random.default_rng(0))


def test_a_muon_along_the_wires_of_one_tick_is_one_pixel_wide_where_it_should_be():
    x, z = 20.0, 22.0
    event = muon((x, 39.9, z), (0, -1, 0))
    wire, pixel = np.unravel_index(
        event.truth[COLLECTION][TRACK].argmax(), event.truth[COLLECTION][TRACK].shape
    )
    assert abs(wire - z / PITCH_CM[COLLECTION]) <= 2
    assert abs(pixel - x / DRIFT_CM_PER_US / 0.5 / 6) <= 1


def test_all_planes_see_the_same_electrons():
    event = muon((20, 20, 1), (0, 0, 1))
    seen = [plane.sum() for plane in event.truth]
    np.testing.assert_allclose(seen, seen[0], rtol=5e-3)  # some leave over the edges
    mev = event.deposits.mev.sum()
    # 5 GeV lose 2.3 to 2.9 MeV/cm, of which the box model leaves about 70 %
    assert seen[0] == pytest.approx(mev / 23.6e-6 * 0.69, rel=0.06)


def test_three_wires_meet_where_the_charge_was():
    points = np.random.default_rng(1).random((50, 3)) * SILENT.size_cm
    u, v, y = (SILENT.wire_of(points, plane) * PITCH_CM[plane] for plane in range(3))
    lift = np.sin(np.radians(35.7)) * SILENT.height_cm
    np.testing.assert_allclose((u + v - lift) / 2 / np.cos(np.radians(35.7)), y, atol=1e-9)


def test_every_wire_that_a_point_can_meet_is_there():
    points = np.random.default_rng(1).random((2000, 3)) * SILENT.size_cm
    for plane, wires in enumerate(SILENT.wire_counts()):
        found = SILENT.wire_of(points, plane)
        assert found.min() >= 0 and found.max() < wires


def test_the_full_detector_has_the_wires_that_face_the_argon_in_protodune():
    """15,360 channels: six assemblies of 800, 800 and 960, 480 of these at each side."""
    assert PROTODUNE.assemblies == 6 and PROTODUNE.wire_counts().tolist() == [800, 800, 480]


def test_assemblies_in_a_row_share_what_flies_through_them():
    two = replace(SILENT, assemblies=2)
    depth = two.size_cm[2]
    event = muon((20, 20, 1), (0, 0, 1), two)
    assert len(event.waves) == len(event.truth) == 6
    seen = [plane.sum() for plane in event.truth]
    for own in (seen[:3], seen[3:]):  # some leave over the edges
        np.testing.assert_allclose(own, own[0], rtol=5e-3)
    assert 0.5 < seen[0] / seen[3] < 2  # as long a way through each; one may have a shower
    x, z = 20.0, depth + 22.0
    truth = muon((x, 39.9, z), (0, -1, 0), two).truth
    wire, pixel = np.unravel_index(truth[3 + COLLECTION][TRACK].argmax(), truth[2].shape[1:])
    assert abs(wire - 22.0 / PITCH_CM[COLLECTION]) <= 2
    assert abs(pixel - x / DRIFT_CM_PER_US / 0.5 / 6) <= 1
    assert truth[COLLECTION].sum() < 0.02 * truth[3 + COLLECTION].sum()  # the other saw nothing


def test_collected_pulses_have_one_sign_and_passing_ones_two():
    assert pulse(COLLECTION, 400).min() > -1e-9 and pulse(
        COLLECTION, 400
    ).max() == pytest.approx(1)
    for plane in (0, 1):
        assert abs(pulse(plane, 400).sum()) < 0.02 * np.abs(pulse(plane, 400)).sum()


def test_noise_is_as_loud_as_it_was_asked_to_be():
    detector = Detector(wires=96, height_cm=40, drift_cm=60, white_enc=500, coherent_enc=300)
    event = simulate([("muon", 1.0, (1, 1, 1), (0, 0, 1))], detector, np.random.default_rng(0))
    quiet = event.waves[COLLECTION][50:]
    assert quiet.std() == pytest.approx(np.hypot(500, 300), rel=0.1)
    assert np.corrcoef(quiet[20], quiet[30])[0, 1] > 0.1  # of one group


def test_coherent_noise_is_one_for_32_wires_and_another_for_the_next():
    alone = Detector(wires=96, height_cm=40, drift_cm=60, white_enc=0, coherent_enc=300)
    spot = [("proton", 1.0, (1, 1, 1), (0, 0, 1))]  # on the first group; nothing decays
    waves = simulate(spot, alone, np.random.default_rng(0)).waves[COLLECTION][32:]
    np.testing.assert_allclose(waves[:32], waves[:1].repeat(32, 0), atol=0.1)  # of 300
    # some 20 swings in a readout: by chance 0.2
    assert abs(np.corrcoef(waves[31], waves[32])[0, 1]) < 0.6


def test_denser_ionisation_loses_more_to_recombination():
    found = recombination(np.array([2.1, 5.0, 20.0]))
    assert found[0] == pytest.approx(0.69, abs=0.03) and (np.diff(found) < 0).all()


@pytest.mark.parametrize("mev_per_cm, share", [(2.1, 0.70504), (10.0, 0.45372)])
def test_recombination_is_the_box_model_by_hand(mev_per_cm, share):
    """ln(0.93 + b) / b, where b = 0.212 · dE/dx / (1.396 · 0.5): 0.63782 and 3.03725."""
    assert recombination(mev_per_cm) == pytest.approx(share, abs=2e-5)  # digits above


@pytest.mark.parametrize("x", [10.0, 80.0])
def test_electrons_spread_as_diffusion_says_and_are_lost_on_the_way(x):
    count, drift_us = 4000, x / DRIFT_CM_PER_US
    at, flat = np.tile([x, 50, 50], (count, 1)), np.ones(count)
    made = Deposits(at, 0 * at, flat, flat, 0 * flat, 0 * flat.astype(int), 0, 0.0)
    points, ticks, electrons, _ = drifted(made, np.random.default_rng(0))
    wanted = 2 * np.array([6.2e-6, 16.3e-6, 16.3e-6]) * drift_us
    np.testing.assert_allclose(points.var(0), wanted, rtol=0.05)
    assert ticks.mean() == pytest.approx(2 * drift_us, rel=1e-3)
    free = count / 23.6e-6 * recombination(np.ones(1))[0]
    assert electrons.sum() == pytest.approx(free * np.exp(-drift_us / 10_000), rel=1e-6)


def test_what_decays_late_arrives_as_late():
    found = []
    for time_us in (0.0, 5.0):
        flat = np.ones(7)
        at, late = np.tile([10.0, 50, 50], (7, 1)), np.full(7, time_us)
        made = Deposits(at, 0 * at, flat, flat, late, 0 * flat.astype(int), 0, 0.0)
        found.append(drifted(made, np.random.default_rng(0)))
    (points, ticks, *_), (same, later, *_) = found
    np.testing.assert_array_equal(same, points)  # on the same wires
    np.testing.assert_allclose(later - ticks, 10, atol=1e-9)  # ticks of half a µs


def test_crossing_muons_come_from_above_by_the_square_of_the_cosine():
    drawn = draw_primaries(Detector(), np.random.default_rng(0), 4000, 0, 0, 0)
    energy, at, to = (np.array([one[i] for one in drawn]) for i in (1, 2, 3))
    assert (at[:, 1] > 114.99).all() and (to[:, 1] <= 0).all()
    assert -to[:, 1].mean() == pytest.approx(3 / 4, abs=0.015)  # of cos² for each solid angle
    assert np.abs(to[:, [0, 2]].mean(0)).max() < 0.04
    np.testing.assert_allclose((to**2).sum(1), 1)
    assert np.median(energy) == pytest.approx(10**3.5, rel=0.1)  # even in the logarithm


def test_an_event_has_the_particles_that_were_asked_for():
    drawn = draw_primaries(Detector(), np.random.default_rng(0), 2, 300, 200, 4)
    energies = {}
    for name, energy, *_ in drawn:
        energies.setdefault(name, []).append(energy)
    assert [len(one) for one in energies.values()] == [302, 200, 2, 2]
    stopping = energies["muon"][2:]
    assert 60 <= min(stopping) < 65 and 215 < max(stopping) <= 220
    assert 100 <= min(energies["proton"]) < 105 and 295 < max(energies["proton"]) <= 300
    assert min(energies["electron"] + energies["photon"]) >= 200
    assert max(energies["electron"] + energies["photon"]) <= 1200


def test_primaries_begin_inside():
    detector = Detector()
    for _, energy, at, _ in draw_primaries(detector, np.random.default_rng(0)):
        assert (
            energy > 0
            and (np.array(at) >= 0).all()
            and (np.array(at) <= detector.size_cm).all()
        )
