"""Rock fields: the statistics that were asked for, the same field for the same seed."""

import numpy as np
import pytest
from two_phase import Grid

from . import rock

GRID = Grid.reduced(12, 20)


def many(kind, count=4000, vertical_m=30.0, radial_m=2000.0):
    rng = np.random.default_rng(0)
    return np.stack(
        [rock.gaussian(GRID, rng, vertical_m, radial_m, kind) for _ in range(count)]
    )


@pytest.mark.parametrize("kind, power", [("continuous", 1), ("smooth", 2)])
def test_the_correlation_is_the_one_asked_for(kind, power):
    fields = many(kind)
    # 4,000 draws: a correlation is known to about 1/√4000 = 0.016
    np.testing.assert_allclose(fields.mean(0), 0, atol=0.08)
    np.testing.assert_allclose(fields.var(0), 1, atol=0.12)
    down = np.exp(-((np.diff(GRID.depths_m)[0] / 30.0) ** power))
    out = np.exp(-(((GRID.centres_m[3] - GRID.centres_m[2]) / 2000.0) ** power))
    assert (fields[:, 4, 2] * fields[:, 5, 2]).mean() == pytest.approx(down, abs=0.06)
    assert (fields[:, 4, 2] * fields[:, 4, 3]).mean() == pytest.approx(out, abs=0.06)
    both = (fields[:, 4, 2] * fields[:, 5, 3]).mean()
    assert both == pytest.approx(down * out, abs=0.06)


def test_layers_do_not_change_outwards():
    assert np.ptp(many("layered", 3), axis=2).max() == 0
    assert many("layered", 500).var(0) == pytest.approx(1, abs=0.25)


def test_facies_are_two_rocks():
    k = rock.permeability(GRID, np.random.default_rng(1), 100, 1.0, kind="facies")
    np.testing.assert_allclose(np.unique(k), [100 / np.e, 100 * np.e])


def test_permeability_has_the_median_and_spread_asked_for():
    rng = np.random.default_rng(0)
    logs = np.log([rock.permeability(GRID, rng, 50, 0.7, 5, 50) for _ in range(300)])
    assert logs.mean() == pytest.approx(np.log(50), abs=0.02)
    assert logs.std() == pytest.approx(0.7, abs=0.02)


def test_without_spread_rock_is_uniform():
    assert np.ptp(rock.permeability(GRID, np.random.default_rng(0), 80, 0.0)) == 0


def test_extreme_rock_is_clipped():
    k = rock.permeability(GRID, np.random.default_rng(0), 100, 20.0)
    assert k.min() == rock.SLOWEST_MD and k.max() == rock.FASTEST_MD


def test_porosity_follows_permeability():
    rng = np.random.default_rng(0)
    k = rock.permeability(GRID, rng, 100, 1.0)
    porosity = rock.porosity(GRID, rng, k)
    assert np.corrcoef(np.log(k).ravel(), porosity.ravel())[0, 1] > 0.8
    assert porosity.min() >= 0.05 and porosity.max() <= 0.35
    for k, wanted in ((10, 0.15), (100, 0.2), (1000, 0.25)):
        alike = [rock.porosity(GRID, rng, np.full(GRID.shape, k)) for _ in range(50)]
        assert np.mean(alike) == pytest.approx(wanted, abs=0.003)
        assert np.std(alike) == pytest.approx(0.01, rel=0.2)
    tight = rock.porosity(GRID, rng, np.full(GRID.shape, 0.01))
    assert tight.min() == 0.05


def test_half_of_the_cells_are_of_either_rock():
    assert set(np.unique(many("facies", 3))) == {-1.0, 1.0}
    assert many("facies", 800).mean() == pytest.approx(0, abs=0.08)


def test_lengths_below_a_metre_are_lengths():
    rng = np.random.default_rng(0)
    rough = np.stack([rock.gaussian(GRID, rng, 0.5, 0.5) for _ in range(200)])
    assert abs((rough[:, 4] * rough[:, 5]).mean()) < 0.1


def test_a_root_is_of_the_exponential_if_nothing_else_is_asked():
    places = np.array([0.0, 3.0, 7.0])
    found = rock.root(places, 5.0)
    wanted = np.exp(-np.abs(places[:, None] - places) / 5)
    np.testing.assert_allclose(found @ found.T, wanted, atol=1e-8)


@pytest.mark.parametrize("kind", rock.KINDS)
def test_the_same_seed_gives_the_same_rock(kind):
    first, again, other = (
        rock.permeability(GRID, np.random.default_rng(seed), kind=kind) for seed in (3, 3, 4)
    )
    assert np.array_equal(first, again) and not np.array_equal(first, other)


@pytest.mark.parametrize(
    "change, words",
    [({"kind": "cheese"}, "cheese"), ({"vertical_m": 0.0}, "vertical_m"),
     ({"radial_m": float("nan")}, "radial_m"), ({"radial_m": float("inf")}, "radial_m"),
     ({"sigma": -1.0}, "sigma = -1"), ({"mean_md": 0.0}, "mean_md = 0")],
)  # fmt: skip
def test_rock_that_cannot_be_is_refused(change, words):
    with pytest.raises(ValueError, match=words):
        rock.permeability(GRID, np.random.default_rng(0), **change)
