"""What a time projection chamber of liquid argon reads of deposits: drift, diffusion, wires,
noise.

Electrons that survive recombination (modified box model) drift along x to three planes of
parallel wires, spread on the way, and make a pulse on each plane: of one sign where they are
collected, of both where they pass. A wire at angle a to the vertical y measures (z cos a + y
sin a) / pitch.

Simpler than ProtoDUNE-SP: wires do not wrap around the frame, all are read at one side, charge
on a wire induces nothing on its neighbours, the pulse is analytic (a Gaussian passage, shaped
in 2 µs), no space charge. Values: LArSoft's defaults where named there; noise in electrons
(ENC) is ours.

Legend: D deposits, W wires of a plane, N ticks of 0.5 µs, T pixels of `TICKS_PER_PIXEL` ticks.
"""

from dataclasses import dataclass, field

import numpy as np

from .particles import DENSITY, Deposits, propagate

__all__ = ["COLLECTION", "TICKS_PER_PIXEL", "Detector", "Event", "draw_primaries", "simulate"]

TICK_US, DRIFT_CM_PER_US = 0.5, 0.16
COLLECTION = 2
ANGLES, PITCH_CM = np.radians([35.7, -35.7, 0.0]), (0.467, 0.467, 0.479)
W_ION_MEV, FIELD_KV_PER_CM = 23.6e-6, 0.5
BOX_A, BOX_B = 0.930, 0.212
SPREAD_ALONG, SPREAD_ACROSS = 6.2e-6, 16.3e-6  # diffusion, cm²/µs
LIFETIME_US = 10_000.0
TICKS_PER_PIXEL = 6  # 4.8 mm of drift: a pixel is about as long as two wires are apart
GROUP, CLOUDS = 32, 6  # wires that share noise; pieces that a deposit is cut into to spread


@dataclass(frozen=True)
class Detector:
    """A chamber: 120 × 115 × 115 cm at its default, seen by 240 collecting wires."""

    drift_cm: float = 120.0
    height_cm: float = 115.0
    wires: int = 240
    white_enc: float = 500.0
    coherent_enc: float = 300.0

    @property
    def size_cm(self):
        """Drift, height and depth in cm, (3,)."""
        return np.array([self.drift_cm, self.height_cm, self.wires * PITCH_CM[COLLECTION]])

    @property
    def ticks(self):
        """Ticks of a readout: the drift, 60 µs for decays and tails, a multiple of 96."""
        return -(-int((self.drift_cm / DRIFT_CM_PER_US + 60) / TICK_US) // 96) * 96

    def wire_counts(self):
        """The number of wires of each plane, (3,)."""
        _, height, depth = self.size_cm
        across = depth * np.cos(ANGLES) + height * np.abs(np.sin(ANGLES))
        return np.ceil(across / PITCH_CM - 1e-9).astype(int)

    def wire_of(self, points, plane):
        """The (fractional) wire of a plane that sees points (D, 3)."""
        angle = ANGLES[plane]
        start = min(0.0, np.sin(angle)) * self.height_cm
        across = points[:, 2] * np.cos(angle) + points[:, 1] * np.sin(angle)
        return (across - start) / PITCH_CM[plane]


@dataclass(frozen=True)
class Event:
    """One readout: `waves`, three arrays (W, N) in electrons at the pulse's peak; `truth`,
    three arrays (3, W, T) of electrons by kind; the `deposits`, and the `detector`."""

    detector: Detector
    waves: list
    truth: list
    deposits: Deposits = field(repr=False)


def recombination(mev_per_cm):
    """The share of electrons that escape their ions, by the modified box model.

    Below about 1 MeV/cm the model leaves its range; the value there is held.
    """
    part = BOX_B * np.maximum(mev_per_cm, 1.0) / (DENSITY * FIELD_KV_PER_CM)
    return np.log(BOX_A + part) / part


def pulse(plane, ticks):
    """The response to one electron on a plane, (N,): its peak, or its lowest point, is 1."""
    time = (np.arange(ticks) - 20) * TICK_US
    shaping = np.where(time > -10, np.clip(time + 10, 0, None) / 2, 0)
    shaping = shaping**5 * np.exp(5 * (1 - shaping))
    passage = np.exp(-((time / 1.0) ** 2) / 2)
    if plane != COLLECTION:
        passage = -time * np.exp(-((time / 1.2) ** 2) / 2)
    whole = np.convolve(passage, shaping)[:ticks]
    return np.roll(whole / np.abs(whole).max(), -20)


def drifted(deposits, rng):
    """Where and when the electrons of deposits arrive: CLOUDS pieces of each, spread along
    their step and by diffusion: points (P, 3), ticks, electrons and kinds (P,)."""
    drift_us = deposits.points[:, 0] / DRIFT_CM_PER_US
    electrons = deposits.mev / W_ION_MEV * np.exp(-drift_us / LIFETIME_US)
    electrons *= recombination(deposits.mev / np.maximum(deposits.length_cm, 0.05))
    step = np.repeat(deposits.along * deposits.length_cm[:, None], CLOUDS, axis=0)
    points = np.repeat(deposits.points, CLOUDS, axis=0)
    points = points + step * rng.uniform(-0.5, 0.5, (len(points), 1))
    spread = np.sqrt(2 * np.array([SPREAD_ALONG, SPREAD_ACROSS, SPREAD_ACROSS]))
    spread = spread * np.sqrt(np.repeat(drift_us, CLOUDS))[:, None]
    points += rng.standard_normal(points.shape) * spread
    time_us = points[:, 0] / DRIFT_CM_PER_US + np.repeat(deposits.time_us, CLOUDS)
    kinds = np.repeat(deposits.kind, CLOUDS)
    return points, time_us / TICK_US, np.repeat(electrons / CLOUDS, CLOUDS), kinds


def simulate(primaries, detector, rng):
    """The Event of primaries as `particles.propagate` takes them."""
    deposits = propagate(primaries, detector.size_cm, rng)
    points, ticks, *cloud = drifted(deposits, rng)
    waves, truth = [], []
    for plane, wires in enumerate(detector.wire_counts()):
        wire = np.floor(detector.wire_of(points, plane)).astype(int)
        charge_WN, by_kind = _charge(wire, ticks.astype(int), *cloud, wires, detector.ticks)
        waves.append(_read(charge_WN, plane, detector, rng))
        truth.append(by_kind)
    return Event(detector, waves, truth, deposits)


def _charge(wire, tick, electrons, kind, wires, ticks):
    """Electrons by wire and tick, and by kind, wire and pixel; what falls outside is lost."""
    kept = (wire >= 0) & (wire < wires) & (tick >= 0) & (tick < ticks)
    wire, tick, electrons, kind = wire[kept], tick[kept], electrons[kept], kind[kept]
    fine = np.bincount(wire * ticks + tick, electrons, wires * ticks).reshape(wires, ticks)
    pixels = ticks // TICKS_PER_PIXEL
    where = (kind * wires + wire) * pixels + tick // TICKS_PER_PIXEL
    return fine, np.bincount(where, electrons, 3 * wires * pixels).reshape(3, wires, pixels)


def _read(charge_WN, plane, detector, rng):
    """The plane's waves: charge through its pulse, white noise, noise shared by groups of
    wires.
    """
    wires, ticks = charge_WN.shape
    spectrum = np.fft.rfft(charge_WN) * np.fft.rfft(pulse(plane, ticks))
    wave_WN = np.fft.irfft(spectrum, n=ticks)
    wave_WN += detector.white_enc * rng.standard_normal(wave_WN.shape)
    slow = np.exp(-np.fft.rfftfreq(ticks, TICK_US) / 0.05)  # below about 50 kHz
    groups = -(-wires // GROUP)
    shared = np.fft.irfft(np.fft.rfft(rng.standard_normal((groups, ticks))) * slow, n=ticks)
    shared *= detector.coherent_enc / shared.std()
    return (wave_WN + np.repeat(shared, GROUP, axis=0)[:wires]).astype(np.float32)


def draw_primaries(detector, rng, muons=6, stopping=6, protons=2, showers=3):
    """Primaries of one event: crossing muons from above, muons and protons that stop inside,
    electrons and photons of 200 to 1,200 MeV that shower along z."""
    size, made = detector.size_cm, []
    for _ in range(muons):
        zenith = np.arccos(rng.random() ** (1 / 3))  # cos² for each solid angle
        turn = rng.uniform(0, 2 * np.pi)
        to = np.sin(zenith) * np.cos(turn), -np.cos(zenith), np.sin(zenith) * np.sin(turn)
        at = rng.random(3) * size
        made.append(("muon", 10 ** rng.uniform(3, 4), (at[0], size[1] - 1e-6, at[2]), to))
    for name in ["muon"] * stopping + ["proton"] * protons:
        energy = rng.uniform(60, 220) if name == "muon" else rng.uniform(100, 300)
        made.append((name, energy, (0.15 + 0.7 * rng.random(3)) * size, rng.standard_normal(3)))
    for i in range(showers):
        at = (0.15 + 0.7 * rng.random(3)) * size * [1, 1, 0.4]
        to = rng.standard_normal(3) * 0.4 + [0, 0, 1]
        energy = np.exp(rng.uniform(*np.log([200, 1200])))
        made.append((("electron", "photon")[i % 2], energy, at, to))
    return made
