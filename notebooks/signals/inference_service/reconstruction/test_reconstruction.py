"""The chain, stage by stage, against charge and places that are known."""

import numpy as np
import pytest
from lartpc import COLLECTION, MICHEL, TRACK, Detector, simulate
from lartpc.detector import pulse
from scipy.spatial import cKDTree

from .chain import amdahl, prepare, reconstruct
from .clusters import cluster, hit_truth, kinds_of, match_planes, quality
from .waveforms import (
    SCALE,
    SIDE,
    Hits,
    cut_patches,
    deconvolve,
    find_hits,
    remove_shared_noise,
)


@pytest.fixture(scope="module")
def event():
    detector = Detector(wires=96, height_cm=45, drift_cm=60)
    tracks = [
        ("muon", 3000.0, (10, 44, 5), (0.5, -0.8, 0.6)),
        ("electron", 300.0, (30, 20, 8), (0, 0.1, 1)),
    ]
    return simulate(tracks, detector, np.random.default_rng(2))


def test_deconvolution_gives_charge_back():
    charge = np.zeros((3, 512))
    charge[1, 200] = 10_000
    for plane, lost in ((COLLECTION, 0.01), (0, 0.2)):
        wave = np.fft.irfft(np.fft.rfft(charge) * np.fft.rfft(pulse(plane, 512)), n=512)
        found = deconvolve(wave, plane)
        assert abs(found[1].argmax() - 200) <= 1
        assert found[1, 185:216].sum() == pytest.approx(10_000, rel=lost + 0.1)
        assert np.abs(found[0]).max() < 1e-6


def test_shared_noise_goes_and_a_pulse_stays():
    rng = np.random.default_rng(0)
    shared = np.repeat(rng.standard_normal((2, 400)) * 300, 32, axis=0)
    own = rng.standard_normal((64, 400)) * 50
    own[10, 200:210] += 5000
    found = remove_shared_noise(shared + own)
    assert found[10, 200:210].mean() > 4900
    assert np.delete(found, 10, 0).std() < 60


def test_a_track_in_the_plane_of_the_wires_is_not_taken_for_noise():
    own = np.random.default_rng(0).standard_normal((64, 400)) * 50
    own[:20, 200:210] += 5000  # most wires of a group at once: its median is the track
    found = remove_shared_noise(own)
    assert found[:20, 200:210].mean() > 4900
    np.testing.assert_array_equal(found[:, 200:210][:32], own[:, 200:210][:32])


def test_hits_lie_where_the_charge_was_and_long_pulses_are_cut():
    rng = np.random.default_rng(0)
    charge = rng.standard_normal((2, 600)).astype(np.float32)
    charge[0, 100:110] += 100
    charge[1, 300:348] += 100
    hits = find_hits(charge)
    assert hits.wire.tolist() == [0, 1, 1, 1]
    assert hits.tick[0] == pytest.approx(104.5, abs=0.5)
    assert hits.electrons[1:].sum() == pytest.approx(4800, rel=0.02)
    assert find_hits(charge[:, :90]).wire.size == 0


def test_a_patch_is_the_image_around_its_hit():
    image = np.arange(60 * 70, dtype=np.float32).reshape(60, 70)
    hits = Hits(np.array([30, 0, 59]), np.array([40, 0, 69]), np.zeros(3), np.zeros(3))
    patches = cut_patches(image, hits)
    assert patches.shape == (3, SIDE, SIDE)
    np.testing.assert_allclose(
        patches[:, 24, 24] * SCALE, image[hits.wire, hits.pixel], rtol=1e-6
    )
    np.testing.assert_allclose(patches[0] * SCALE, image[6:54, 16:64], rtol=1e-6)
    assert (patches[1][:24] == 0).all()
    with pytest.raises(ValueError, match="60 wires"):
        cut_patches(image, Hits(np.array([60]), np.array([0]), np.zeros(1), np.zeros(1)))


def test_points_of_the_second_assembly_lie_where_it_stands():
    row = Detector(wires=96, height_cm=45, drift_cm=60, assemblies=2)
    tracks = [("muon", 3000.0, (10, 44, z), (0.5, -0.8, 0.3)) for z in (5, row.size_cm[2] + 5)]
    two = simulate(tracks, row, np.random.default_rng(2))

    def infer(patches):
        return np.tile([0.9, 0.1, 0.0], (len(patches), 1)), np.zeros((len(patches), 1))

    found = reconstruct(two, infer)
    assert len(found.hits) == len(found.kinds) == len(found.clusters) == 6
    second = found.points[:, 2] > row.size_cm[2]
    assert second.sum() > 20 and (~second).sum() > 20
    away = cKDTree(two.deposits.points).query(found.points)[0]
    assert np.median(away[second]) < 1.0 and np.median(away[~second]) < 1.0


def test_clusters_join_steps_and_not_kinds():
    hits = Hits(
        np.array([0, 2, 4, 20, 4]), np.zeros(5, int), np.array([0.0, 1, 2, 3, 3]), np.ones(5)
    )
    found = cluster(hits, np.array([0, 0, 0, 0, 1]), COLLECTION)
    assert len(set(found[:3])) == 1 and len(set(found)) == 3
    empty = Hits(*[np.zeros(0, int)] * 4)
    assert cluster(empty, np.zeros(0, int), 0).size == 0


# three wires and 9 ticks of 0.8 mm: 1.575 cm at 4.67 mm, 1.607 at 4.79; the limit is 1.6
APART = Hits(np.array([5, 8]), np.array([1, 3]), np.array([9.0, 18.0]), np.ones(2))


@pytest.mark.parametrize("plane, count", [(0, 1), (1, 1), (COLLECTION, 2)])
def test_steps_are_measured_by_the_pitch_of_their_plane(plane, count):
    assert len(set(cluster(APART, np.zeros(2, int), plane))) == count


def test_points_in_space_lie_on_what_crossed(event):
    images, hits, patches = prepare(event)
    points, rows = match_planes(hits, event.detector)
    away = cKDTree(event.deposits.points).query(points)[0]
    assert len(points) > 50 and np.median(away) < 1.0  # two wires; a shower has many candidates
    assert len(set(rows[:, 2])) == len(rows)


@pytest.mark.parametrize("away, count", [(-5, 0), (-2, 0), (0, 1), (2, 0), (5, 0)])
def test_two_wires_meet_the_third_or_there_is_no_point(away, count):
    detector, at = Detector(wires=96, height_cm=45, drift_cm=60), np.array([[20.0, 20, 22]])
    wires = [int(detector.wire_of(at, plane)[0]) for plane in range(3)]
    wires[COLLECTION] += away
    one = np.array([250.0])
    planes = [Hits(np.array([w]), np.array([41]), one, one) for w in wires]
    points, _ = match_planes(planes, detector)
    assert len(points) == count
    if count:
        np.testing.assert_allclose(points, at, atol=0.6)  # a wire is 0.479 cm


@pytest.mark.parametrize("plane", [1, COLLECTION])
@pytest.mark.parametrize("late, count", [(-3.5, 0), (-2.0, 1), (2.0, 1), (3.5, 0)])
def test_three_planes_see_a_point_at_one_time(plane, late, count):
    detector, at = Detector(wires=96, height_cm=45, drift_cm=60), np.array([[20.0, 20, 22]])
    wires = [int(detector.wire_of(at, one)[0]) for one in range(3)]
    ticks = np.full(3, 250.0)
    ticks[plane] += late
    planes = [
        Hits(np.array([w]), np.array([41]), np.array([t]), np.ones(1))
        for w, t in zip(wires, ticks, strict=True)
    ]
    assert len(match_planes(planes, detector)[0]) == count


def test_the_chain_hands_patches_to_any_network_and_times_it(event):
    asked = []

    def infer(patches):
        asked.append(len(patches))
        three = np.tile([0.9, 0.1, 0.0], (len(patches), 1))
        return three, np.zeros((len(patches), 1))

    found = reconstruct(event, infer)
    assert asked == [sum(len(h.wire) for h in found.hits)]
    assert all((k == TRACK).all() for k in found.kinds)
    assert min(found.seconds.values()) >= 0 and len(found.seconds) == 7


def test_the_chain_clusters_each_plane_by_its_own_pitch(event, monkeypatch):
    monkeypatch.setattr("reconstruction.chain.find_hits", lambda charge: APART)
    found = reconstruct(event, lambda patches: (np.zeros((6, 3)), np.zeros((6, 1))))
    assert [len(set(one)) for one in found.clusters] == [1, 1, 2]


def found_share(event, hits, plane):
    """The share of pixels of much charge that have a hit within two pixels on their wire."""
    wire, pixel = np.nonzero(event.truth[plane].sum(0) > 20_000)
    seen = set(zip(hits[plane].wire, hits[plane].pixel, strict=True))
    near = [
        any((w, p + d) in seen for d in range(-2, 3)) for w, p in zip(wire, pixel, strict=True)
    ]
    return np.mean(near)


def test_hits_find_the_true_charge_but_where_induction_cancels(event):
    _, hits, _ = prepare(event)
    for plane in range(3):
        assert (hit_truth(hits[plane], event.truth[plane]) >= 0).mean() > 0.95
    assert min(found_share(event, hits, plane) for plane in (1, 2)) > 0.95
    # the muon runs along the wires of plane U and towards them: pulses of both signs overlap
    assert found_share(event, hits, 0) < 0.9


@pytest.mark.parametrize("electrons, kind", [(0, -1), (650, -1), (680, MICHEL)])
def test_a_hit_is_of_no_kind_below_2_000_electrons(electrons, kind):
    truth = np.zeros((3, 4, 20))
    truth[MICHEL, 2, 6:9] = electrons  # its pixel and the two beside it: 1,950 or 2,040
    truth[TRACK, 2, [5, 9]] = truth[TRACK, [1, 3], 7] = 9000  # farther, and on other wires
    hits = Hits(np.array([2]), np.array([7]), np.array([45.0]), np.ones(1))
    assert hit_truth(hits, truth).tolist() == [kind]


@pytest.mark.parametrize("michel, kind", [(0.49, TRACK), (0.5, TRACK), (0.51, MICHEL)])
def test_more_than_one_half_makes_a_michel_electron(michel, kind):
    assert kinds_of(np.array([[0.6, 0.3, 0.1]]), np.array([[michel]])).tolist() == [kind]


def test_quality_counts_efficiency_and_purity():
    truth, said = np.array([0, 0, 1, 1, 2, -1]), np.array([0, 1, 1, 1, 0, 0])
    assert quality(said, truth)["track"] == (0.5, 0.5, 2)
    assert quality(said, truth)["shower"] == (1.0, 2 / 3, 2)
    assert kinds_of(np.array([[0.2, 0.7, 0.1]]), np.array([[0.9]])).tolist() == [MICHEL]


def test_amdahl_and_its_limits():
    assert amdahl(0.65, 17) == pytest.approx(2.575, abs=0.01)
    assert amdahl(0, 100) == 1
    with pytest.raises(ValueError, match="share 2"):
        amdahl(2, 3)
