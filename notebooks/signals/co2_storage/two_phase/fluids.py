"""What CO₂, brine and rock are like at depth: densities, viscosities, relative permeabilities
and capillary pressure.

CO₂      density: Redlich–Kwong with the parameters that Spycher, Pruess and Ennis-King fitted
         to CO₂ from 12 to 100 °C (Geochim. Cosmochim. Acta 67, 2003, table 1),
         p = RT/(V−b) − a/(√T V(V+b)), a = 7.54e7 − 4.13e4 T bar cm⁶ √K mol⁻², b = 27.8 cm³/mol.
         Viscosity: Fenghour, Wakeham and Vesovic (J. Phys. Chem. Ref. Data 27, 1998).
brine    density and viscosity: Batzle and Wang (Geophysics 57, 1992), eq. 27 and 32.
curves   van Genuchten (1980) for capillary pressure and, with Mualem's model, for brine; Corey
         (1954) for CO₂: with S* = (S_w − S_wi)/(1 − S_wi),
         p_c = P₀ (S*^(−1/λ) − 1)^(1−λ),  k_rw = √S* (1 − (1 − S*^(1/λ))^λ)²,
         k_rg = (1 − S*)² (1 − S*²).

We read them from tables with straight lines between the nodes, as simulators do: a table has
a finite slope everywhere, which the van Genuchten curves lack where brine is undisturbed.
Beside the reference equation of Span and Wagner the density is off by at most 6 % from 1,000 m
down, nearer to the critical point by up to 30 %; a test holds these numbers. CO₂ and brine do
not dissolve in each other here, and no salt is deposited.

Units: Pa, kg/m³, Pa s, kelvin where it says `_k`, °C where it says `_c`.
"""

from typing import NamedTuple

import numpy as np

GAS_CONSTANT = 8.314462618
CO2_KG_PER_MOL = 0.0440098
SURFACE_C, GRADIENT_C_PER_M = 15.0, 0.030
SALT = 0.05  # mass fraction in the brine
PRESSURES_PA = np.arange(1e6, 1.0e8 + 1, 2e5)  # nodes of the CO2 tables, every 2 bar to 1,000
ENTRY_PA = 1.0e4  # P₀ at the reference rock below
ROCK_M2, ROCK_POROSITY = 1e-13, 0.2  # Leverett: p_c goes with sqrt(porosity / permeability)
ROCK_PER_PA = 4.5e-10  # compressibility of the pores
SATURATION_NODES = 51


class Curves(NamedTuple):
    """Tables over CO₂ saturation from 0 to 1 − S_wi, evenly spaced: brine's and CO₂'s
    relative permeability and capillary pressure in Pa at the reference rock."""

    brine: np.ndarray
    co2: np.ndarray
    capillary_pa: np.ndarray
    largest_saturation: float


def temperature_c(depth_m):
    """Degrees Celsius at a depth: 15 at the surface, 30 more per km."""
    return SURFACE_C + GRADIENT_C_PER_M * np.asarray(depth_m, float)


def co2_density(pressure_pa, temperature_k):
    """CO₂'s density in kg/m³: `co2_density(2e7, 323.0)` is about 765; arrays broadcast. Of the
    cubic equation's roots the stable one: the vapour's or the liquid's, by Gibbs energy."""
    p, t = np.broadcast_arrays(np.asarray(pressure_pa, float), np.asarray(temperature_k, float))
    a, b = (7.54e7 - 4.13e4 * t) * 1e-7, 27.80e-6
    c2, c1 = -GAS_CONSTANT * t / p, -(GAS_CONSTANT * t * b / p - a / (p * np.sqrt(t)) + b * b)
    # x³ + 3qx + 2r = 0, x = V + c2/3
    q, r = c1 / 3 - c2 * c2 / 9, c2**3 / 27 - c2 * c1 / 6 - a * b / (p * np.sqrt(t)) / 2
    disc = q**3 + r * r
    root = np.sqrt(np.maximum(disc, 0))
    single = np.cbrt(-r + root) + np.cbrt(-r - root)
    angle = np.arccos(np.clip(-r / np.sqrt(np.maximum(-(q**3), 1e-300)), -1, 1)) / 3
    spread = 2 * np.sqrt(np.maximum(-q, 0))
    vapour = np.where(disc > 0, single, spread * np.cos(angle)) - c2 / 3
    liquid = np.where(disc > 0, single, spread * np.cos(angle + 2 * np.pi / 3)) - c2 / 3
    liquid = np.where(liquid > b, liquid, vapour)
    volume = np.where(_gibbs(liquid, p, t, a, b) < _gibbs(vapour, p, t, a, b), liquid, vapour)
    return CO2_KG_PER_MOL / volume


def _gibbs(volume, p, t, a, b):
    """Molar Gibbs energy up to a function of temperature, from Redlich–Kwong."""
    return (p * volume - GAS_CONSTANT * t * np.log(volume - b)
            - a / (b * np.sqrt(t)) * np.log((volume + b) / volume))  # fmt: skip


def co2_viscosity(density, temperature_k):
    """CO₂'s viscosity in Pa s from its density in kg/m³ (Fenghour et al. 1998)."""
    rho, t = np.asarray(density, float), np.asarray(temperature_k, float)
    ts = t / 251.196
    logs = np.log(ts)
    series = 0.235156 + logs * (
        -0.491266 + logs * (5.211155e-2 + logs * (5.347906e-2 - logs * 1.537102e-2))
    )
    dilute = 1.00697 * np.sqrt(t) / np.exp(series)
    excess = (0.4071119e-2 * rho + 0.7198037e-4 * rho**2 + 0.2411697e-16 * rho**6 / ts**3
              + (0.2971072e-22 - 0.1627888e-22 / ts) * rho**8)  # fmt: skip
    return (dilute + excess) * 1e-6


def brine_density(pressure_pa, celsius, salt=SALT):
    """Brine's density in kg/m³ (Batzle and Wang 1992, eq. 27)."""
    p, t = np.asarray(pressure_pa, float) / 1e6, np.asarray(celsius, float)
    water = 1 + 1e-6 * (-80 * t - 3.3 * t**2 + 0.00175 * t**3
                        + 489 * p - 2 * t * p + 0.016 * t**2 * p
                        - 1.3e-5 * t**3 * p - 0.333 * p**2 - 0.002 * t * p**2)  # fmt: skip
    inner = 300 * p - 2400 * p * salt + t * (80 + 3 * t - 3300 * salt - 13 * p + 47 * p * salt)
    return 1000 * (water + salt * (0.668 + 0.44 * salt + 1e-6 * inner))


def brine_compressibility(pressure_pa, celsius, salt=SALT):
    """1/Pa: the relative slope of `brine_density` over ±10 bar, at constant temperature."""
    low, high = (
        brine_density(np.asarray(pressure_pa) + step, celsius, salt) for step in (-1e6, 1e6)
    )
    return (high - low) / (high + low) / 1e6


def brine_viscosity(celsius, salt=SALT):
    """Brine's viscosity in Pa s (Batzle and Wang 1992, eq. 32); pressure matters little."""
    t = np.asarray(celsius, float)
    power = (0.42 * (salt**0.8 - 0.17) ** 2 + 0.045) * t**0.8
    return 1e-3 * (0.1 + 0.333 * salt + (1.65 + 91.9 * salt**3) * np.exp(-power))


def check_curve(irreducible, lam):
    """None; ValueError for values that no rock has."""
    if not 0 <= irreducible < 0.9:
        raise ValueError(
            f"irreducible brine saturation {irreducible}: a share from 0 to below 0.9"
        )
    if not 0.2 <= lam <= 0.9:
        raise ValueError(
            f"van Genuchten's lambda {lam}: rocks and these tables have 0.2 to 0.9"
        )


def curves(irreducible, lam, nodes=SATURATION_NODES):
    """`Curves` of a rock with irreducible brine saturation S_wi and van Genuchten's λ.

    Capillary pressure goes to infinity where brine becomes irreducible; the last node continues
    the line through the two before it. ValueError unless 0 <= S_wi < 0.9, 0.2 <= λ <= 0.9.
    """
    check_curve(irreducible, lam)
    star = np.linspace(1, 0, nodes)
    with np.errstate(divide="ignore"):
        capillary = ENTRY_PA * (star ** (-1 / lam) - 1) ** (1 - lam)
    capillary[-1] = 2 * capillary[-2] - capillary[-3]
    brine = np.sqrt(star) * (1 - (1 - star ** (1 / lam)) ** lam) ** 2
    return Curves(brine, (1 - star) ** 2 * (1 - star**2), capillary, 1 - irreducible)
