"""What OPM Flow is told of a site, what is read of its answer, and how near that is to ours."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

from . import opm_flow
from .aquifer import aquifer_of
from .fluids import ROCK_M2, ROCK_POROSITY, curves
from .grid import Grid
from .simulator import Case, simulate
from .validation import co2_in_place_mt, plain_case

GRID = Grid.reduced(4, 16, reports=3)


def rough_case():
    rng = np.random.default_rng(0)
    k = 100 * np.exp(0.5 * rng.standard_normal(GRID.shape))
    return Case(k, rng.uniform(0.1, 0.3, GRID.shape), 150.0, 1500.0, 0.5, (50.0, 150.0), 0.2)


def words(deck, name):
    """The numbers that follow a keyword of the deck."""
    (found,) = re.findall(rf"^{name}\n([^/]*)/", deck, re.MULTILINE)
    return np.array(found.split(), float)


@pytest.fixture(scope="module")
def told():
    """(case, its aquifer of three rows, the deck)."""
    case = rough_case()
    return case, aquifer_of([case], GRID, 3), opm_flow.deck(case, GRID)


def test_flow_is_told_our_cells_and_faces_and_a_boundary_that_is_never_full(told):
    case, ours, deck = told
    assert words(deck, "DIMENS").tolist() == [17, 1, 3]
    pores, along, down = (
        words(deck, name).reshape(3, 17) for name in ("PORV", "TRANX", "TRANZ")
    )
    np.testing.assert_allclose(pores[:, :-1], ours.pore_volume[0], rtol=1e-8)
    assert (pores[:, -1] > 100 * pores[:, :-1].sum()).all()
    cp_m3_day_bar = 1e-3 / 86_400 / 1e5  # in m³ of conductance
    np.testing.assert_allclose(along[:, :-1] * cp_m3_day_bar, ours.radial[0], rtol=1e-8)
    np.testing.assert_allclose(down[:-1, :-1] * cp_m3_day_bar, ours.vertical[0], rtol=1e-8)
    assert not along[:, -1].any() and not down[-1].any() and not down[:, -1].any()
    np.testing.assert_allclose(
        words(deck, "PERMX").reshape(3, 17)[:, :-1], case.permeability_ZR[:3]
    )
    assert (words(deck, "PERMX").reshape(3, 17)[:, -1] == words(deck, "PERMX")[15::17]).all()
    np.testing.assert_allclose(words(deck, "PERMZ"), 0.2 * words(deck, "PERMX"), rtol=1e-8)


def test_flow_is_told_when_where_and_how_much(told):
    _, ours, deck = told
    np.testing.assert_allclose(words(deck, "TSTEP").cumsum(), GRID.times_days)
    opened = re.findall(r"'I' 1 1 (\d) (\d) 'OPEN' 1\* (\S+) ", deck)
    assert [(one, two) for one, two, _ in opened] == [("2", "2"), ("3", "3")]
    own = ours.well_index[0, 1:].numpy() * 8.64e12
    np.testing.assert_allclose([float(x) for *_, x in opened], own, rtol=1e-8)
    (rate,) = re.findall(r"'RATE' (\S+)", deck)
    assert float(rate) * 1.86843 * 365 == pytest.approx(0.5e9)
    (top,) = re.findall(r"'G' 1 1 (\S+) 'GAS'", deck)
    assert float(top) == pytest.approx(1575.0), "the middle of the well's first open row"


def test_flow_is_told_our_curves_rock_and_resting_state(told):
    case, ours, deck = told
    sat, gas, brine, j = words(deck, "SGOF").reshape(-1, 4).T
    wanted = curves(case.irreducible, case.lam)
    np.testing.assert_allclose(sat, np.linspace(0, wanted.largest_saturation, len(sat)))
    np.testing.assert_allclose(np.stack([gas, brine]), [wanted.co2, wanted.brine], rtol=1e-8)
    # JFUNC: a capillary pressure in bar is 0.318316 J √(porosity / mD) at one dyn/cm
    for k_m2, porosity in ((ROCK_M2, ROCK_POROSITY), (5e-14, 0.3)):
        entry = np.sqrt(porosity / ROCK_POROSITY * ROCK_M2 / k_m2)
        bar = 0.318316 * j * np.sqrt(porosity / (k_m2 / 9.869233e-16))
        np.testing.assert_allclose(1e5 * bar, wanted.capillary_pa * entry, rtol=1e-6)
    assert words(deck, "SALINITY") == pytest.approx(0.05 / 0.95 / 0.05844, rel=1e-4)
    np.testing.assert_allclose(
        words(deck, "ROCK"), [ours.start.mean() / 1e5, 4.5e-5], rtol=1e-4
    )
    pressure = words(deck, "PRESSURE").reshape(3, 17)
    np.testing.assert_allclose(pressure, np.tile(ours.start.T / 1e5, 17), rtol=1e-8)
    assert not words(deck, "SGAS").any()
    np.testing.assert_allclose(
        words(deck, "TEMPI")[::17], 15 + 0.03 * (1500 + GRID.depths_m[:3])
    )
    assert max(map(len, deck.splitlines())) <= 128


WRITTEN = """ 'SEQNUM  '           1 'INTE'
           1
 'PRESSURE'           2 'REAL'
   0.15000000E+03   0.16000000E+03
 'SGAS    '           2 'REAL'
   0.25000000E+00   0.00000000E+00
 'PRESSURE'           2 'REAL'
   0.15100000E+03   0.16200000E+03
 'ENDSOL  '           0 'MESS'
"""


def test_all_arrays_of_a_name_are_read():
    assert opm_flow.blocks(WRITTEN, "PRESSURE").tolist() == [[150, 160], [151, 162]]
    assert opm_flow.blocks(WRITTEN, "SGAS").tolist() == [[0.25, 0]]
    assert len(opm_flow.blocks(WRITTEN, "SWAT")) == 0


def test_what_flow_wrote_comes_back_in_rows_and_rings(monkeypatch):
    """Each cell's number is its place, so that a turned or shifted field is seen."""
    case, calls, ended = rough_case(), [], SimpleNamespace(returncode=0, stdout="")
    start = aquifer_of([case], GRID, 3).start[0].numpy() / 1e5

    def run(command, cwd, env, **more):
        calls.append((command, env["OMP_NUM_THREADS"]))
        numbers = " ".join(str(place) for place in range(51))
        text = f"'SGAS    ' 51 'REAL'\n{numbers}\n'PRESSURE' 51 'REAL'\n{numbers}\n'ENDSOL  '"
        (opm_flow.Path(cwd) / "SITE.FUNRST").write_text(3 * text)
        return ended

    monkeypatch.setattr(opm_flow, "installed", lambda: True)
    monkeypatch.setattr(opm_flow.subprocess, "run", run)
    gas, built_up = opm_flow.simulate_in_flow(case, GRID, 2)
    wanted = np.arange(51.0).reshape(3, 17)[:, :-1]
    assert gas.shape == built_up.shape == (3, 4, 16)
    assert (gas[:, :3] == wanted).all() and not gas[:, 3].any()
    np.testing.assert_allclose(built_up[1, :3], wanted - start[:, None])
    assert not built_up[:, 3].any()
    assert calls == [(["flow", "SITE.DATA", "--threads-per-process=2"], "2")]
    ended.returncode = 1
    with pytest.raises(RuntimeError, match="ended with 1, 3 of 3"):
        opm_flow.simulate_in_flow(case, GRID, 2)


def test_a_flow_that_is_not_there_or_stops_early_is_an_error(monkeypatch):
    monkeypatch.setattr(opm_flow.shutil, "which", lambda name: None)
    with pytest.raises(FileNotFoundError, match="libopm-simulators-bin"):
        opm_flow.simulate_in_flow(rough_case(), GRID)
    ended = SimpleNamespace(returncode=1, stdout="why it stopped")
    monkeypatch.setattr(opm_flow, "installed", lambda: True)
    monkeypatch.setattr(opm_flow.subprocess, "run", lambda *given, **more: ended)
    with pytest.raises(RuntimeError, match="ended with 1, 0 of 3 report times: why it stopped"):
        opm_flow.simulate_in_flow(rough_case(), GRID)
    ended.returncode = 0
    with pytest.raises(RuntimeError, match="0 of 3 report times"):
        opm_flow.simulate_in_flow(rough_case(), GRID)


def fields(share, rings, bar, grid=Grid.reduced(2, 12, reports=1)):  # noqa: B008
    """So much gas in the first rings, and one build-up everywhere; (1, 2, 12) each."""
    gas = np.zeros((1, *grid.shape))
    gas[..., :rings] = share
    return gas, np.full(gas.shape, bar)


def test_a_radius_holds_so_much_of_the_gas():
    grid = Grid.reduced(2, 12, reports=1)
    for rings in (1, 5, 12):
        for share in (0.1, 0.7):
            found = opm_flow.radius_m(plain_case(grid), fields(share, rings, 0)[0][-1], grid)
            assert found == pytest.approx(np.sqrt(0.95) * grid.edges_m[rings])


def test_distances_have_their_signs_and_are_shares_of_ours():
    grid = Grid.reduced(2, 12, reports=1)
    case, ours, peer = plain_case(grid), fields(0.5, 5, 10.0), fields(0.2, 7, 9.0)
    told = opm_flow.apart(case, ours, peer, grid)
    wider = grid.edges_m[7] / grid.edges_m[5] - 1
    assert told["radius_off"] == pytest.approx(100 * wider) and wider > 0
    assert told["build_up_off"] == pytest.approx(10)
    injected = 0.1 * grid.times_days[-1] / 365
    held = co2_in_place_mt(case, grid, *peer)[-1]
    assert told["held"] == pytest.approx(100 * held / injected)
    more = opm_flow.apart(case, peer, ours, grid)
    assert more["radius_off"] < 0 and more["build_up_off"] == pytest.approx(100 / 9)


@pytest.mark.skipif(not opm_flow.installed(), reason="OPM Flow is not installed here")
def test_flow_and_our_simulator_agree_within_what_was_said_before():
    case = rough_case()
    ours, peer = simulate(case, GRID)[:2], opm_flow.simulate_in_flow(case, GRID)
    told = opm_flow.apart(case, ours, peer, GRID)
    for name, allowed in opm_flow.ALLOWED.items():
        assert 0 < abs(told[name]) < allowed, name
    held = co2_in_place_mt(case, GRID, *peer) * 365 / 0.5 / np.array(GRID.times_days)
    np.testing.assert_allclose(held, 1, atol=0.06)  # by our density, off by up to 6 %
    assert told["held"] == pytest.approx(100 * held[-1])
