"""Fluids and curves: as dense and as thick as reference equations say, and refusing what no
rock has."""

import numpy as np
import pytest

from . import fluids
from .aquifer import hydrostatic_bar

# pressure (Pa), temperature (K), density (kg/m³), viscosity (Pa s): Span and Wagner's equation
# of state and Laesecke and Muzny's viscosity, computed once with CoolProp 8.0.0
CO2 = [
    (1.2e7, 308.15, 767.07, 6.614e-05),
    (2.0e7, 308.15, 865.72, 8.472e-05),
    (3.0e7, 308.15, 929.11, 1.002e-04),
    (1.2e7, 323.15, 584.71, 4.345e-05),
    (2.0e7, 323.15, 784.29, 6.945e-05),
    (3.0e7, 323.15, 870.43, 8.599e-05),
    (9.0e6, 343.15, 208.04, 2.099e-05),
    (1.2e7, 343.15, 345.85, 2.670e-05),
    (2.0e7, 343.15, 659.05, 5.246e-05),
    (3.0e7, 343.15, 787.97, 7.075e-05),
    (9.0e6, 373.15, 164.16, 2.124e-05),
    (1.2e7, 373.15, 242.07, 2.366e-05),
    (2.0e7, 373.15, 480.53, 3.671e-05),
    (3.0e7, 373.15, 661.87, 5.412e-05),
]
# depth (m), pressure over resting pressure, density by CoolProp, largest relative error
RESTING = [
    (850, 1.0, 362.27, 0.31),
    (850, 1.1, 559.04, 0.12),
    (900, 1.0, 426.85, 0.20),
    (1000, 1.0, 513.34, 0.06),
    (1300, 1.25, 698.34, 0.035),
    (2500, 1.0, 637.86, 0.03),
    (4000, 2.0, 861.17, 0.035),
]
# pressure, °C, density, viscosity of pure water, IAPWS 95 and 2008, by CoolProp too
WATER = [
    (1.0e7, 40, 996.52, 6.540e-4),
    (2.5e7, 60, 993.79, 4.721e-4),
    (1.0e7, 60, 987.48, 4.684e-4),
]


@pytest.mark.parametrize("pressure, kelvin, density, viscosity", CO2)
def test_co2_is_as_dense_and_thick_as_the_reference_equations_say(
    pressure, kelvin, density, viscosity
):
    assert fluids.co2_density(pressure, kelvin) == pytest.approx(density, rel=0.04)
    assert fluids.co2_viscosity(density, kelvin) == pytest.approx(viscosity, rel=0.025)


@pytest.mark.parametrize("depth, share, density, error", RESTING)
def test_the_density_in_an_aquifer_is_as_far_off_as_the_module_says(
    depth, share, density, error
):
    pressure = share * hydrostatic_bar(depth) * 1e5
    found = fluids.co2_density(pressure, fluids.temperature_c(depth) + 273.15)
    assert found == pytest.approx(density, rel=error)


@pytest.mark.parametrize("pressure, celsius, density, viscosity", WATER)
def test_brine_without_salt_is_water(pressure, celsius, density, viscosity):
    assert fluids.brine_density(pressure, celsius, 0.0) == pytest.approx(density, rel=1e-3)
    assert fluids.brine_viscosity(celsius, 0.0) == pytest.approx(viscosity, rel=0.02)


def test_salt_makes_brine_denser_and_thicker():
    assert (
        1.03 < fluids.brine_density(1e7, 50, 0.05) / fluids.brine_density(1e7, 50, 0.0) < 1.05
    )
    assert 1.05 < fluids.brine_viscosity(50, 0.05) / fluids.brine_viscosity(50, 0.0) < 1.25


def test_brine_compressibility_is_the_slope_of_its_density():
    found = fluids.brine_compressibility(1.5e7, 55.0)
    higher = fluids.brine_density(1.5e7 + 1e5, 55.0) / fluids.brine_density(1.5e7, 55.0)
    assert higher == pytest.approx(1 + found * 1e5, abs=1e-8)
    assert 3e-10 < found < 5e-10  # water has 4.5e-10 at room temperature


@pytest.mark.parametrize("kelvin", [300.0, 305.0, 308.0, 340.0, 400.0])
def test_co2_solves_the_redlich_kwong_equation(kelvin):
    pressure = np.linspace(2e6, 8e7, 40)
    volume = fluids.CO2_KG_PER_MOL / fluids.co2_density(pressure, kelvin)
    a, b = (7.54e7 - 4.13e4 * kelvin) * 1e-7, 27.80e-6
    again = fluids.GAS_CONSTANT * kelvin / (volume - b) - a / (
        kelvin**0.5 * volume * (volume + b)
    )
    # the closed form cancels digits where three roots meet
    np.testing.assert_allclose(again, pressure, rtol=1e-5)


@pytest.mark.parametrize("kelvin", [300.0, 306.0, 330.0, 420.0])
def test_co2_gets_denser_with_pressure(kelvin):
    assert (np.diff(fluids.co2_density(fluids.PRESSURES_PA, kelvin)) > 0).all()


@pytest.mark.parametrize("kelvin", [295.0, 300.0, 305.0])
def test_below_38_degrees_co2_boils_where_maxwell_s_areas_are_equal(kelvin):
    a, b = (7.54e7 - 4.13e4 * kelvin) * 1e-7, 27.80e-6
    low, high = 50e5, 90e5
    while high - low > 1:
        middle = (low + high) / 2
        thin = fluids.co2_density(middle, kelvin) < 450
        low, high = (middle, high) if thin else (low, middle)
    vapour, liquid = fluids.CO2_KG_PER_MOL / fluids.co2_density(np.array([low, high]), kelvin)
    assert vapour > 1.5 * liquid
    volume = np.linspace(liquid, vapour, 200_001)
    pressure = fluids.GAS_CONSTANT * kelvin / (volume - b)
    pressure -= a / (kelvin**0.5 * volume * (volume + b))
    assert np.trapezoid(pressure, volume) == pytest.approx(low * (vapour - liquid), rel=1e-4)


# K, kg/m³, µPa s: the check values of Fenghour et al. 1998, but for the one near the critical
# point, where the full equation has a term more
@pytest.mark.parametrize(
    "kelvin, density, viscosity",
    [(220, 2.440, 11.06), (300, 1.773, 15.02), (800, 0.662, 35.09),
     (220, 1194.86, 269.37), (300, 1029.27, 132.55), (800, 407.828, 48.74)],
)  # fmt: skip
def test_co2_is_as_thick_as_published(kelvin, density, viscosity):
    assert fluids.co2_viscosity(density, kelvin) * 1e6 == pytest.approx(viscosity, abs=0.006)


# share of salt, kg/m³ at 20 °C and one atmosphere: CRC Handbook of Chemistry and Physics
@pytest.mark.parametrize("salt, density", [(0.05, 1034.0), (0.10, 1070.7), (0.20, 1147.8)])
def test_brine_is_as_dense_as_measured(salt, density):
    assert fluids.brine_density(101_325, 20.0, salt) == pytest.approx(density, rel=0.003)


@pytest.mark.parametrize("irreducible, lam", [(0.0, 0.3), (0.2, 0.5), (0.3, 0.7)])
def test_curves_run_from_brine_alone_to_co2_alone(irreducible, lam):
    found = fluids.curves(irreducible, lam)
    assert found.largest_saturation == 1 - irreducible
    np.testing.assert_allclose([found.brine[0], found.brine[-1]], [1, 0], atol=1e-12)
    np.testing.assert_allclose([found.co2[0], found.co2[-1]], [0, 1], atol=1e-12)
    assert found.capillary_pa[0] == 0
    assert (np.diff(found.brine) <= 0).all() and (np.diff(found.co2) > 0).all()
    assert (np.diff(found.capillary_pa) > 0).all() and np.isfinite(found.capillary_pa).all()


def test_curves_have_van_genuchtens_values_in_the_middle():
    found = fluids.curves(0.0, 0.5, nodes=3)  # S* = 0.5, λ = 0.5
    assert found.capillary_pa[1] == pytest.approx(fluids.ENTRY_PA * 3**0.5)
    assert found.brine[1] == pytest.approx(0.5**0.5 * (1 - 0.75**0.5) ** 2)
    assert found.co2[1] == pytest.approx(0.25 * 0.75)


@pytest.mark.parametrize(
    "irreducible, lam, words",
    [(-0.1, 0.5, "irreducible"), (0.95, 0.5, "irreducible"), (float("nan"), 0.5, "irreducible"),
     (0.2, 0.0, "lambda"), (0.2, 1.0, "lambda"), (0.2, float("nan"), "lambda")],
)  # fmt: skip
def test_curves_refuse_what_no_rock_has(irreducible, lam, words):
    with pytest.raises(ValueError, match=words):
        fluids.curves(irreducible, lam)
