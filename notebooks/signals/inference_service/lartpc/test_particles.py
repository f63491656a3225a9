"""Particles in argon against tables, laws of conservation, and their own formulas."""

import numpy as np
import pytest

from . import particles
from .particles import (
    ELECTRON,
    MASS_MEV,
    MICHEL,
    RADIATION_LENGTH,
    STERNHEIMER,
    TRACK,
    bethe,
    highland,
    propagate,
)

WIDE = np.array([1e4, 1e4, 1e4])
MIDDLE = (5e3, 5e3, 5e3)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_a_muon_loses_least_where_the_tables_say():
    energy = np.geomspace(20, 1e4, 2000)
    loss = bethe(energy, MASS_MEV["muon"]) / 1.396
    # Groom, Mokhov, Striganov 2001: 1.508 MeV cm²/g for liquid argon, constants rounded
    assert loss.min() == pytest.approx(1.508, rel=0.002)
    momentum = np.sqrt((energy[loss.argmin()] + 105.658) ** 2 - 105.658**2)
    assert 3 < momentum / 105.658 < 4


@pytest.mark.parametrize("name, energy", [("muon", 150.0), ("proton", 200.0)])
def test_stopped_particles_went_as_far_as_their_range_on_average(rng, name, energy):
    found = propagate([(name, energy, MIDDLE, (0, 0, 1))] * 60, WIDE, rng)
    far = found.length_cm[found.kind == TRACK].sum() / 60
    steps = np.geomspace(0.1, energy, 4000)
    always_the_mean = np.trapezoid(1 / bethe(steps, MASS_MEV[name]), steps)
    assert far == pytest.approx(always_the_mean, rel=0.03)


@pytest.mark.parametrize("energy", [300.0, 3000.0])
def test_the_most_probable_loss_of_a_step_is_landau_s(rng, energy):
    found = propagate([("muon", energy, MIDDLE, (0, 0, 1))] * 1500, np.full(3, 5006.0), rng)
    own = (found.kind == TRACK) & (found.length_cm > 0.29)
    rates = found.mev[own] / 0.3
    counts, edges = np.histogram(rates, np.arange(0.5, 5, 0.1))
    peak = edges[counts.argmax()] + 0.05
    gamma = 1 + energy / MASS_MEV["muon"]
    beta2, bg2 = 1 - gamma**-2, gamma**2 - 1
    xi = 0.307075 / 2 * 18 / 39.948 * 1.396 * 0.3 / beta2
    x, (a, k, x0, x1, c) = np.log10(bg2) / 2, STERNHEIMER
    delta = (2 * np.log(10) * x - c + a * max(x1 - x, 0) ** k) * (x > x0)
    wanted = np.log(2 * ELECTRON * bg2 / 188e-6) + np.log(xi / 188e-6) + 0.2 - beta2 - delta
    assert peak == pytest.approx(xi * wanted / 0.3, abs=0.1)  # PDG's formula; a bin's width
    assert 0.01 < (rates > 3).mean() < 0.1  # the tail, without what became delta rays


def test_energy_is_kept(rng):
    mixed = [(name, 300.0, MIDDLE, (0, 1, 1)) for name in MASS_MEV]
    found = propagate(mixed, WIDE, rng)
    decays = MASS_MEV["muon"]  # the one muon stops, and its rest energy is freed
    assert found.mev.sum() + found.escaped_mev == pytest.approx(4 * 300 + decays, rel=1e-9)
    small = propagate(mixed, np.array([5e3 + 9, 5e3 + 9, 5e3 + 9]), rng)
    total = small.mev.sum() + small.escaped_mev
    assert min(abs(total - 1200), abs(total - 1200 - decays)) < 1e-6
    assert small.escaped_mev > 100


def test_scattering_is_as_wide_as_highland_says(rng):
    short = np.array([1e4, 1e4, 5060])
    found = propagate([("muon", 2000.0, MIDDLE, (0, 0, 1))] * 400, short, rng)
    at = 50.0
    near = (np.abs(found.points[:, 2] - 5e3 - at) < 0.3) & (found.kind == TRACK)
    aside = found.points[near, 0] - 5e3
    energy, mass = 2000 - at / 2 * 2.3, MASS_MEV["muon"]
    momentum = np.sqrt((energy + mass) ** 2 - mass**2)
    wanted = highland(at, momentum, momentum / (energy + mass)) * at / np.sqrt(3)
    # steps of 0.3 cm lose part of the logarithm in Highland's formula
    assert np.std(aside) == pytest.approx(wanted, rel=0.25)


@pytest.mark.parametrize(
    "part, momentum, beta, wanted",
    [
        (1.0, 1000.0, 1.0, 13.6e-3),  # the logarithm of one is nought: 13.6 MeV of 1,000
        (0.01, 100.0, 0.5, 23.873e-3),  # 13.6 / 50 · 0.1 · (1 + 0.038 · ln 0.04)
    ],
)
def test_highland_s_angle_is_the_published_formula_s_by_hand(part, momentum, beta, wanted):
    found = highland(part * 14.00430, momentum, beta)  # 19.55 g/cm² of 1.396 g/cm³
    assert found == pytest.approx(wanted, rel=1e-4)  # digits above


def test_a_shower_s_depth_grows_with_the_logarithm_of_its_energy(rng):
    depths = []
    for energy, count in ((150, 80), (1500, 20)):
        found = propagate([("electron", energy, MIDDLE, (0, 0, 1))] * count, WIDE, rng)
        depths.append(
            np.average(found.points[:, 2] - 5e3, weights=found.mev) / RADIATION_LENGTH
        )
    assert depths[1] - depths[0] == pytest.approx(np.log(10), rel=0.2)  # in radiation lengths


def test_michel_electrons_have_the_spectrum_of_a_muon_s_decay(rng):
    found = propagate([("muon", 60.0, MIDDLE, (0, 0, 1))] * 400, WIDE, rng)
    lost = found.escaped_mev / 400  # two neutrinos; the mean of x²(3 - 2x) is 0.7 of 52.83 MeV
    assert MASS_MEV["muon"] - lost + ELECTRON == pytest.approx(0.7 * 52.83, rel=0.03)
    assert found.time_us[found.kind == MICHEL].mean() == pytest.approx(2.2, rel=0.25)


def test_photons_scatter_as_often_as_klein_and_nishina_say():
    """Their cross-sections of an electron at 0.1, 1 and 10 MeV, in cm²."""
    electrons = 6.02214e23 * 1.396 * 18 / 39.948  # in a cm³
    found = particles._klein_nishina(np.array([0.1, 1.0, 10.0])) / electrons
    np.testing.assert_allclose(found, [4.927e-25, 2.112e-25, 5.099e-26], rtol=1e-3)


@pytest.mark.parametrize("energy, share", [(0.1, 0.138), (1.0, 0.440)])
def test_a_scattered_photon_keeps_what_its_angle_says(rng, energy, share):
    before = np.full(20_000, energy)
    after, cosine = particles._scattered(before, rng)
    compton = before / (1 + before / ELECTRON * (1 - cosine))
    np.testing.assert_allclose(after, compton, rtol=1e-9)
    assert 1 - (after / before).mean() == pytest.approx(share, rel=0.04)  # 33 angles


def test_pairs_begin_at_their_threshold_and_end_at_seven_ninths():
    found = particles._pairs(np.array([0.5, 2 * ELECTRON, 2.0, 100.0, 1e6]))
    assert (found[:2] == 0).all() and (np.diff(found[1:]) > 0).all()
    assert found[-1] * RADIATION_LENGTH == pytest.approx(7 / 9, rel=0.01)


def test_electrons_radiate_what_a_radiation_length_means(rng):
    """A short step of t radiation lengths costs a fast electron the share t of its energy."""
    count, energy, part = 60_000, 1000.0, 0.02
    flat = np.ones(count)
    swarm = {"at": np.zeros((count, 3)), "to": np.tile([0, 0, 1.0], (count, 1))}
    swarm |= {"mev": energy * flat, "us": 0 * flat, "mass": ELECTRON * flat, "kind": 0 * flat}
    photons = particles._radiated(swarm, rng, part * RADIATION_LENGTH * flat)
    assert photons["mev"].sum() / (count * energy) == pytest.approx(part, rel=0.06)
    total = swarm["mev"].sum() + photons["mev"].sum()
    assert total == pytest.approx(count * energy, rel=1e-9)
    assert set(photons["mass"]) == {0} and np.quantile(photons["mev"], 0.01) > 0.9  # from 1 MeV


def test_the_same_seed_gives_the_same_event():
    one, other = (
        propagate([("photon", 80.0, MIDDLE, (1, 0, 0))], WIDE, np.random.default_rng(3))
        for _ in "ab"
    )
    np.testing.assert_array_equal(one.mev, other.mev)


@pytest.mark.parametrize("bad", [("kaon", 10.0), ("muon", 0.0), ("muon", float("nan"))])
def test_unknown_particles_and_energies_are_refused(rng, bad):
    with pytest.raises(ValueError, match="allowed are"):
        propagate([(*bad, MIDDLE, (0, 0, 1))], WIDE, rng)
