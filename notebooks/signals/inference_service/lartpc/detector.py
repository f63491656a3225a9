"""What a time projection chamber of liquid argon reads of deposits: drift, diffusion, wires,
noise.

Electrons that survive recombination (modified box model) drift along x to three planes of
parallel wires, spread on the way, and make a pulse on each plane: of one sign where they are
collected, of both where they pass. A wire at angle a to the vertical y measures (z cos a + y
sin a) / pitch. Several assemblies of three planes stand side by side along z.

Simpler than ProtoDUNE-SP: one drift volume in place of two, frames of 3.2 m in place of 6 m,
1.2 m of drift in place of 3.6, wires that do not wrap around their frame. Charge on a wire
induces nothing on its neighbours, the pulse is analytic (a Gaussian passage, shaped in 2 µs),
no space charge. Values: LArSoft's where named there; noise in electrons (ENC) is ours.

Legend: D deposits, W wires of a plane, N ticks of 0.5 µs, T pixels of `TICKS_PER_PIXEL` ticks.
"""

from collections import namedtuple
from dataclasses import dataclass

import numpy as np

from .particles import DENSITY, propagate

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
    """Assemblies in a row: by default one of 120 × 115 × 115 cm with 240 collecting wires."""

    drift_cm: float = 120.0
    height_cm: float = 115.0
    wires: int = 240
    white_enc: float = 500.0
    coherent_enc: float = 300.0
    assemblies: int = 1

    @property
    def size_cm(self):
        """Drift, height and depth of one assembly in cm, (3,)."""
        return np.array([self.drift_cm, self.height_cm, self.wires * PITCH_CM[COLLECTION]])

    @property
    def whole_cm(self):
        """The same of all assemblies together."""
        return self.size_cm * [1, 1, self.assemblies]

    @property
    def ticks(self):
        """Ticks of a readout: the drift, 60 µs for decays and tails, a multiple of 96."""
        return -(-int((self.drift_cm / DRIFT_CM_PER_US + 60) / TICK_US) // 96) * 96

    def wire_counts(self):
        """The number of wires of each plane of one assembly, (3,)."""
        _, height, depth = self.size_cm
        across = depth * np.cos(ANGLES) + height * np.abs(np.sin(ANGLES))
        return np.ceil(across / PITCH_CM - 1e-9).astype(int)

    def wire_of(self, points, plane):
        """The (fractional) wire of a plane that sees points (D, 3) of its own assembly."""
        along, up = np.cos(ANGLES[plane]), np.sin(ANGLES[plane])
        across = points[:, 2] * along + points[:, 1] * up - min(0.0, up) * self.height_cm
        return across / PITCH_CM[plane]


# ProtoDUNE-SP's 6 × (800 + 800 + 480) wires face the argon; 480 more of each face a wall
PROTODUNE = Detector(assemblies=6, wires=480, height_cm=320.0)


# One readout: for each plane, three of each assembly, waves (W, N) in electrons at the pulse's
# peak and truth (3, W, T) in electrons by kind
Event = namedtuple("Event", "detector waves truth deposits")


def recombination(mev_per_cm):
    """The share of electrons that escape their ions, by the modified box model; below about
    1 MeV/cm it leaves its range, and the value there is held."""
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
    spread = 2 * np.repeat(drift_us, CLOUDS)[:, None] * [SPREAD_ALONG, *[SPREAD_ACROSS] * 2]
    points += rng.standard_normal(points.shape) * np.sqrt(spread)
    time_us = points[:, 0] / DRIFT_CM_PER_US + np.repeat(deposits.time_us, CLOUDS)
    kinds = np.repeat(deposits.kind, CLOUDS)
    return points, time_us / TICK_US, np.repeat(electrons / CLOUDS, CLOUDS), kinds


def simulate(primaries, detector, rng):
    """The Event of primaries as `particles.propagate` takes them."""
    deposits, depth_cm = propagate(primaries, detector.whole_cm, rng), detector.size_cm[2]
    points, *cloud = drifted(deposits, rng)
    owner = np.clip(points[:, 2] // depth_cm, 0, detector.assemblies - 1)
    waves, truth = [], []
    for assembly in range(detector.assemblies):
        own = owner == assembly
        near = points[own] - [0, 0, assembly * depth_cm]
        for plane, wires in enumerate(detector.wire_counts()):
            wire = np.floor(detector.wire_of(near, plane)).astype(int)
            charge_WN, by_kind = _charge(wire, *(c[own] for c in cloud), wires, detector.ticks)
            waves.append(_read(charge_WN, plane, detector, rng))
            truth.append(by_kind)
    return Event(detector, waves, truth, deposits)


def _charge(wire, tick, electrons, kind, wires, ticks):
    """Electrons by wire and tick, and by kind, wire and pixel; what falls outside is lost."""
    tick = tick.astype(int)
    kept = (wire >= 0) & (wire < wires) & (tick >= 0) & (tick < ticks)
    wire, tick, electrons, kind = wire[kept], tick[kept], electrons[kept], kind[kept]
    fine = np.bincount(wire * ticks + tick, electrons, wires * ticks).reshape(wires, ticks)
    pixels = ticks // TICKS_PER_PIXEL
    where = (kind * wires + wire) * pixels + tick // TICKS_PER_PIXEL
    return fine, np.bincount(where, electrons, 3 * wires * pixels).reshape(3, wires, pixels)


def _read(charge_WN, plane, detector, rng):
    """The plane's waves: charge through its pulse, white noise, noise shared by groups."""
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
    size, made = detector.whole_cm, []
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
