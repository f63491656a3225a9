"""Particles in liquid argon, stepped until they stop or leave, and what they deposit where.

Charged particles lose energy by the Bethe formula (electrons: Berger and Seltzer). What goes to
electrons above DELTA_MEV makes them particles of their own, delta rays; the rest fluctuates
after Landau, cut so that its mean is that of the formula. Directions scatter after Highland.
Electrons radiate photons with Rossi's spectrum; photons convert to pairs or scatter after Klein
and Nishina. Stopped muons decay and give a Michel electron. Formulas: Particle Data Group,
"Passage of particles through matter". Not simulated: nuclear reactions, muon capture, photons
that muons radiate, annihilation of positrons, angles of radiation and of pairs. The probability
of a pair between its threshold and its limit is an interpolation of ours.

Legend: P particles, D deposits. Lengths in cm, energies in MeV, times in µs.
"""

from collections import namedtuple

import numpy as np
from scipy.stats import landau

TRACK, EM, MICHEL = 0, 1, 2  # what made a deposit: the network's three kinds
DENSITY, RADIATION_LENGTH = 1.396, 19.55 / 1.396  # g/cm³ and cm
Z_OVER_A, EXCITATION_MEV = 18 / 39.948, 188e-6
K, ELECTRON = 0.307075, 0.510999  # MeV cm²/mol and MeV
STERNHEIMER = 0.1956, 3.0, 0.2, 3.0, 5.2146  # a, k, x0, x1, C of argon's density effect
MASS_MEV = {"muon": 105.658, "proton": 938.272, "electron": ELECTRON, "photon": 0.0}
STEP_CM, CUT_MEV, SOFT_MEV = 0.3, 0.1, 1.0  # a step; deposited on the spot; radiated as photons
DELTA_MEV = 1.0  # of an electron that is a particle of its own
LAMBDA = np.concatenate([np.linspace(-3.4, 6, 500), np.geomspace(6.1, 2000, 500)])
LANDAU = landau.cdf(LAMBDA)  # of its variable λ; and the mean of λ cut off above
MIDDLES = LAMBDA - np.diff(LAMBDA, prepend=LAMBDA[0]) / 2
BELOW = np.cumsum(MIDDLES * np.diff(LANDAU, prepend=0)) / LANDAU
MUON_LIFE_US, LIGHT = 2.197, 29979.2  # cm in a µs


# D deposits: the middle points (D, 3) in cm of steps along (D, 3), their energy, length, time
# and kind (D,); decays, of muons; and what left the volume or went to neutrinos
Deposits = namedtuple("Deposits", "points along mev length_cm time_us kind decays escaped_mev")


def bethe(kinetic_mev, mass_mev):
    """Mean loss of energy by ionisation in liquid argon, MeV/cm, for arrays that broadcast."""
    gamma = 1 + np.asarray(kinetic_mev, float) / mass_mev
    beta2, bg2 = 1 - gamma**-2, gamma**2 - 1
    a, k, x0, x1, c = STERNHEIMER
    x = np.log10(bg2) / 2
    delta = np.where(x < x0, 0, 2 * np.log(10) * x - c + a * np.clip(x1 - x, 0, None) ** k)
    scale = K * DENSITY * Z_OVER_A / beta2
    ratio = ELECTRON / mass_mev
    most = 2 * ELECTRON * bg2 / (1 + 2 * gamma * ratio + ratio**2)
    heavy = np.log(2 * ELECTRON * bg2 * most / EXCITATION_MEV**2) / 2 - beta2 - delta / 2
    light = np.log(ELECTRON**2 * bg2 * (gamma - 1) / 2 / EXCITATION_MEV**2) / 2 - delta / 2
    light += (1 - beta2 - (2 * gamma - 1) / gamma**2 * np.log(2)) / 2
    light += ((gamma - 1) / gamma) ** 2 / 16
    return scale * np.clip(np.where(ratio == 1, light, heavy), 0.1, None)


def highland(length_cm, momentum_mev, beta):
    """Width of the scattering angle in a plane after `length_cm`, in radians."""
    part = length_cm / RADIATION_LENGTH
    return 13.6 / (beta * momentum_mev) * np.sqrt(part) * (1 + 0.038 * np.log(part / beta**2))


def propagate(primaries, size_cm, rng):
    """The Deposits of primaries, (name of `MASS_MEV`, kinetic energy in MeV, point, direction),
    in a box from (0, 0, 0) to `size_cm`. Deposits and `escaped_mev` sum to the kinetic energies
    and the rest energy of each muon that decays. Raises ValueError for an unknown name or an
    energy that is not positive."""
    swarm, done, escaped, decays = _swarm(primaries), [], [0.0], 0
    while len(swarm["mev"]):
        light = swarm["mass"] == 0
        photons, charged = _only(swarm, light), _only(swarm, ~light)
        born = [_photon_step(photons, rng, done), _charged_step(charged, rng, done)]
        swarm = {name: np.concatenate([b[name] for b in born]) for name in swarm}
        inside = ((swarm["at"] >= 0) & (swarm["at"] <= size_cm)).all(1)
        escaped.append(swarm["mev"][~inside].sum())
        swarm = _only(swarm, inside)
        stopped = (swarm["mev"] <= 0) & (swarm["mass"] == MASS_MEV["muon"])
        michel, decays = _decays(_only(swarm, stopped), rng), decays + int(stopped.sum())
        escaped.append(MASS_MEV["muon"] * stopped.sum() - michel["mev"].sum())
        swarm = _only(swarm, swarm["mev"] > 0)
        swarm = {name: np.concatenate([swarm[name], michel[name]]) for name in swarm}
    columns = [np.concatenate(c) for c in zip(*done, strict=True)]
    inside = ((columns[0] >= 0) & (columns[0] <= size_cm)).all(1)
    escaped.append(columns[2][~inside].sum())
    return Deposits(*(column[inside] for column in columns), decays, float(sum(escaped)))


def _swarm(primaries):
    for name, kinetic, *_ in primaries:
        if name not in MASS_MEV or not kinetic > 0:
            allowed = f"{', '.join(MASS_MEV)}, energies above 0"
            raise ValueError(f"{name!r} with {kinetic} MeV came; allowed are {allowed}")
    names, mev, at, along = zip(*primaries, strict=True) if primaries else [()] * 4
    at, along = (np.array(x, float).reshape(-1, 3) for x in (at, along))
    swarm = {
        "at": at,
        "to": _unit(along),
        "mev": np.array(mev, float),
        "us": np.zeros(len(names)),
    }
    swarm["mass"] = np.array([MASS_MEV[name] for name in names], float)
    kinds = [EM if name in ("electron", "photon") else TRACK for name in names]
    return swarm | {"kind": np.array(kinds, int)}


def _only(swarm, mask):
    return {name: values[mask] for name, values in swarm.items()}


def _charged_step(s, rng, done):
    """The swarm one step later, with the photons that its electrons radiated."""
    if not len(s["mev"]):
        return s
    energy, mass = s["mev"], s["mass"]
    gamma = 1 + energy / mass
    beta = np.sqrt(1 - gamma**-2)
    mean = bethe(energy, mass)
    length = np.minimum(STEP_CM, energy / mean)
    loss, rate, most = _straggled(energy, mass, length, rng)
    loss = np.where((energy - loss < CUT_MEV) | (length < STEP_CM), energy, loss)
    middle = s["at"] + s["to"] * length[:, None] / 2
    done.append((middle, s["to"], loss, length, s["us"], s["kind"]))
    width = np.minimum(highland(np.maximum(length, 1e-3), mass * gamma * beta, beta), 0.8)
    after = s | {"at": s["at"] + s["to"] * length[:, None], "mev": energy - loss}
    after |= {"to": _turned(s["to"], rng.rayleigh(width), rng)}  # a width in each of two planes
    after |= {"us": s["us"] + length / (beta * LIGHT)}
    photons, deltas = _radiated(after, rng, length), _deltas(after, rate, most, rng)
    alive = (after["mev"] > 0) | (mass == MASS_MEV["muon"])
    born = {name: np.concatenate([photons[name], deltas[name]]) for name in after}
    return {name: np.concatenate([after[name][alive], born[name]]) for name in after}


def _straggled(energy, mass, length, rng):
    """(what steps lose without delta rays, delta rays to expect of each, the most to one)."""
    gamma = 1 + energy / mass
    beta2 = 1 - gamma**-2
    xi, ratio = K * DENSITY * Z_OVER_A / 2 / beta2 * length, ELECTRON / mass
    most = 2 * ELECTRON * (gamma**2 - 1) / (1 + 2 * gamma * ratio + ratio**2)
    most = np.where(ratio == 1, energy / 2, most)
    least = np.minimum(DELTA_MEV, most)
    apart = xi * (np.log(most / least) - beta2 * (1 - least / most))  # goes to delta rays
    mean = np.maximum(bethe(energy, mass) * length - apart, 0)
    middle = -0.422784 - beta2 * least / most - np.log(xi / least)  # mean of Landau's variable
    end = np.interp(middle, BELOW, LAMBDA)  # there the mean is the formula's
    drawn = rng.random(len(energy)) * np.interp(end, LAMBDA, LANDAU)
    found = mean + xi * (np.interp(drawn, LANDAU, LAMBDA) - middle)
    loss = np.where(middle > -2, np.clip(found, 0.2 * mean, energy), np.minimum(mean, energy))
    return loss, xi * (1 / least - 1 / most), most


def _deltas(after, rate, most, rng):
    """Electrons of at least DELTA_MEV, knocked out; takes their energy out of `after`."""
    most = np.minimum(most, after["mev"] - CUT_MEV)
    rate = np.where(most > DELTA_MEV, rate, 0)
    parent = np.flatnonzero(rng.random(len(rate)) < rate)  # rarely one, never two in a step
    share = rng.random(len(parent))
    mev = 1 / (1 / DELTA_MEV - share * (1 / DELTA_MEV - 1 / most[parent]))
    gamma2 = (1 + after["mev"][parent] / after["mass"][parent]) ** 2
    kept = rng.random(len(parent)) < 1 - (1 - 1 / gamma2) * mev / most[parent]
    parent, mev = parent[kept], mev[kept]
    deltas = _only(after, parent) | {"mev": mev, "kind": np.full(len(parent), EM)}
    deltas["to"] = _turned(deltas["to"], np.arccos(np.sqrt(mev / (mev + 2 * ELECTRON))), rng)
    deltas["mass"] = np.full(len(parent), ELECTRON)
    after["mev"][parent] -= mev
    return deltas


def _turned(to, angle, rng):
    """Directions at an angle to `to` (P, 3), around it anywhere."""
    aside = _unit(np.cross(to, rng.standard_normal(to.shape)))
    return to * np.cos(angle)[:, None] + aside * np.sin(angle)[:, None]


def _radiated(after, rng, length):
    """Photons of at least SOFT_MEV; takes their energy out of `after`."""
    hot = np.flatnonzero((after["mass"] == ELECTRON) & (after["mev"] > 2 * SOFT_MEV))
    least = SOFT_MEV / after["mev"][hot]
    rate = -4 / 3 * np.log(least) - 4 / 3 * (1 - least) + (1 - least**2) / 2
    count = rng.poisson(rate * length[hot] / RADIATION_LENGTH)
    parent, least = np.repeat(hot, count), np.repeat(least, count)
    y, kept = np.empty(len(parent)), np.zeros(len(parent), bool)
    while not kept.all():  # 1/y is drawn, and thinned to Rossi's spectrum
        y[~kept] = least[~kept] ** rng.random((~kept).sum())
        kept[~kept] = rng.random((~kept).sum()) < (1 - y + 0.75 * y**2)[~kept]
    photons = _only(after, parent)
    photons["mev"] = np.zeros(len(parent))
    for i, one in enumerate(parent):  # one after the other, of what is left
        photons["mev"][i] = y[i] * after["mev"][one]
        after["mev"][one] -= photons["mev"][i]
    photons["mass"], photons["kind"] = np.zeros(len(parent)), np.full(len(parent), EM)
    return photons


def _photon_step(s, rng, done):
    """Photons fly to where they convert, scatter, or end; what comes out."""
    energy, count = s["mev"], len(s["mev"])
    if not count:
        return s
    scatters, pairs = _klein_nishina(energy), _pairs(energy)
    far = rng.exponential(1 / (scatters + pairs))
    s = s | {"at": s["at"] + s["to"] * far[:, None], "us": s["us"] + far / LIGHT}
    s["kind"] = np.where(s["kind"] == MICHEL, EM, s["kind"])
    converts = (rng.random(count) < pairs / (scatters + pairs)) & (energy > 2 * ELECTRON)
    pair = _only(s, np.repeat(np.flatnonzero(converts), 2))
    share = rng.random(converts.sum())
    free = energy[converts] - 2 * ELECTRON
    pair["mev"] = np.stack([share, 1 - share], 1).ravel() * np.repeat(free, 2)
    pair["mass"] = np.full(len(pair["mev"]), ELECTRON)
    spent = _only(s, converts)  # the rest energy of a pair stays where it is: no annihilation
    done.append(_on_the_spot(spent, np.full(len(free), 2 * ELECTRON)))
    other = _only(s, ~converts)
    left, cosine = _scattered(other["mev"], rng)
    on = other | {"mev": left, "to": _turned(other["to"], np.arccos(cosine), rng)}
    to = other["mev"][:, None] * other["to"] - left[:, None] * on["to"]  # momentum is kept
    to /= np.maximum(np.linalg.norm(to, axis=1, keepdims=True), 1e-12)
    recoil = other | {"mev": other["mev"] - left, "to": to}
    recoil["mass"] = np.full(len(left), ELECTRON)
    born = {name: np.concatenate([pair[name], recoil[name], on[name]]) for name in s}
    soft = born["mev"] < CUT_MEV
    done.append(_on_the_spot(_only(born, soft), born["mev"][soft]))
    return _only(born, ~soft)


def _on_the_spot(s, mev):
    return s["at"], s["to"], mev, np.full(len(mev), STEP_CM), s["us"], s["kind"]


def _pairs(energy):
    """Conversions in each cm: 7/9 of one in a radiation length far above the threshold."""
    above = np.maximum(energy, 2 * ELECTRON)
    return 7 / 9 / RADIATION_LENGTH * (1 - (2 * ELECTRON / above) ** 0.45) ** 2


def _klein_nishina(energy):
    """Scatterings off electrons in each cm."""
    k = energy / ELECTRON
    one = (1 + k) / k**2 * (2 * (1 + k) / (1 + 2 * k) - np.log1p(2 * k) / k)
    total = one + np.log1p(2 * k) / (2 * k) - (1 + 3 * k) / (1 + 2 * k) ** 2
    return 2 * np.pi * 2.8179e-13**2 * total * 6.02214e23 * DENSITY * Z_OVER_A


def _scattered(energy, rng):
    """What photons keep, and the cosine of the angle, by Klein and Nishina at 33 points."""
    k = (energy / ELECTRON)[:, None]
    part = 1 / (1 + 2 * k) + (1 - 1 / (1 + 2 * k)) * np.linspace(0, 1, 33)
    cosine = 1 - (1 / part - 1) / k
    sums = np.cumsum(1 / part + part - 1 + cosine**2, axis=1)
    drawn = (sums < rng.random((len(energy), 1)) * sums[:, -1:]).sum(1)
    one = np.arange(len(energy)), drawn
    return part[one] * energy, np.clip(cosine[one], -1, 1)


def _decays(muons, rng):
    """A Michel electron for each stopped muon: density x²(3 - 2x) to 52.8 MeV, isotropic."""
    count, grid = len(muons["mev"]), np.linspace(0, 1, 513)
    x = np.interp(rng.random(count), 2 * grid**3 - grid**4, grid)
    to = rng.standard_normal((count, 3))
    born = {"mev": np.maximum(52.83 * x - ELECTRON, CUT_MEV), "kind": np.full(count, MICHEL)}
    born |= {"mass": np.full(count, ELECTRON), "to": _unit(to)}
    return muons | born | {"us": muons["us"] + rng.exponential(MUON_LIFE_US, count)}


def _unit(to):
    return to / np.linalg.norm(to, axis=1, keepdims=True)
