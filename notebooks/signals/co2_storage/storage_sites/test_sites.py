"""The data set: the same cases whatever way it is made, resumable, verified, refused when
broken."""

import json
import zipfile
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import two_phase
from two_phase import Grid

from . import generate as script
from . import shards, sites
from .generate import generate
from .shards import load

GRID = Grid.reduced(6, 12, reports=2)


@pytest.fixture(scope="module", autouse=True)
def quick():
    """Longer time steps: these tests are about files, not about flow."""
    simulate = sites.simulate_batch

    def hasty(cases, grid):
        return simulate(cases, grid, step_fraction=0.5)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sites, "simulate_batch", hasty)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("cases")
    generate(path, 4, seed=5, grid=GRID, shard=2)
    return path


def test_load_gives_every_array_with_its_shape(folder):
    found = load(folder)
    fields = dict.fromkeys(("permeability", "porosity", "mask"), (4, 6, 12))
    fields |= dict.fromkeys(("saturation", "pressure"), (4, 2, 6, 12))
    fields |= {"perforation_mask": (4, 6), "perforation": (4, 2), "bottom_hole": (4, 2)}
    scalars = ("kv_kh", "thickness", "depth", "rate", "swi", "lam", "balance", "seconds")
    fields |= dict.fromkeys((*scalars, "steps", "number"), (4,))
    assert {name: tuple(value.shape) for name, value in found.items()} == fields
    assert found["mask"].dtype == found["perforation_mask"].dtype == torch.bool
    assert found["saturation"].dtype == found["pressure"].dtype == torch.float32
    assert found["number"].tolist() == [0, 1, 2, 3]


def test_fields_are_zero_outside_the_mask(folder):
    found = load(folder)
    outside = ~found["mask"]
    for name in ("permeability", "porosity"):
        assert found[name][outside].abs().max() == 0 and found[name][~outside].min() > 0
    for name in ("saturation", "pressure"):
        assert found[name].movedim(1, -1)[outside].abs().max() == 0
    rows = found["mask"][:, :, 0].sum(1)
    torch.testing.assert_close(rows.double() * GRID.row_m, found["thickness"])
    assert not (found["perforation_mask"] & outside[:, :, 0]).any()


def test_the_mass_is_in_balance(folder):
    assert load(folder)["balance"].max() < sites.BALANCE_LIMIT


def test_limit_cuts_and_keeps_the_order(folder):
    three = load(folder, limit=3)
    assert three["number"].tolist() == [0, 1, 2]


def test_the_data_set_does_not_depend_on_its_shards(folder, tmp_path):
    generate(tmp_path, 3, seed=5, grid=GRID, shard=3)
    whole, other = load(folder), load(tmp_path)
    for name in ("permeability", "rate", "perforation"):
        assert torch.equal(whole[name][:3], other[name])
    # other cases beside it in the batch change the rounding
    torch.testing.assert_close(whole["saturation"][:3], other["saturation"], rtol=0, atol=1e-5)


def test_an_interrupted_run_goes_on_where_it_stopped(folder, tmp_path, monkeypatch):
    generate(tmp_path, 2, seed=5, grid=GRID, shard=2)
    first = (tmp_path / "cases_0000.npz").stat().st_mtime_ns
    (tmp_path / "cases_0001.npz.77.tmp").write_bytes(b"half a shard")
    drawn = []
    draw = sites.draw
    monkeypatch.setattr(sites, "draw", lambda *a: drawn.append(a[1]) or draw(*a))
    generate(tmp_path, 4, seed=5, grid=GRID, shard=2)
    assert sorted(drawn) == [2, 3]
    assert (tmp_path / "cases_0000.npz").stat().st_mtime_ns == first
    whole, resumed = load(folder), load(tmp_path)
    assert torch.equal(whole["saturation"], resumed["saturation"])


def test_enough_cases_are_left_alone(folder):
    before = (folder / "index.json").read_bytes()
    generate(folder, 3, seed=5, grid=GRID, shard=2)
    assert (folder / "index.json").read_bytes() == before


@pytest.mark.parametrize(
    "change, words",
    [({"seed": 6}, "another seed"), ({"grid": replace(GRID, row_m=9.0)}, "another grid"),
     ({"shard": 4}, "another shard"), ({"shard": 0}, "shard 0")],
)  # fmt: skip
def test_another_data_set_in_the_same_folder_is_refused(folder, change, words):
    options = {"seed": 5, "grid": GRID, "shard": 2} | change
    with pytest.raises(ValueError, match=words):
        generate(folder, 6, **options)


def test_other_code_is_refused(folder, monkeypatch):
    monkeypatch.setattr(shards, "code_hash", lambda paths: "other")
    with pytest.raises(ValueError, match="another code"):
        generate(folder, 6, seed=5, grid=GRID, shard=2)


def test_the_code_hash_sees_code_and_not_its_words(tmp_path):
    path = tmp_path / "module.py"
    hashes = []
    for text in ('"""One."""\nx = 1\n', '"""Two."""\n# why\nx   = 1\n', '"""One."""\nx = 2\n'):
        path.write_text(text)
        hashes.append(shards.code_hash([path]))
    assert hashes[0] == hashes[1] != hashes[2]


def test_a_changed_shard_is_refused(tmp_path):
    path = tmp_path / "cases_0000.npz"
    assert shards.kept(path, lambda: {"x": np.arange(300)})["x"].tolist() == [*range(300)]
    broken = bytearray(path.read_bytes())
    broken[len(broken) // 2] ^= 1
    path.write_bytes(broken)
    with pytest.raises((zipfile.BadZipFile, zlib.error), match="CRC|decompressing"):
        load(tmp_path)


def test_no_shard_is_read_beyond_the_limit(tmp_path):
    for first in (0, 3):
        path = tmp_path / f"cases_{first:04d}.npz"
        shards.kept(path, lambda first=first: {"x": np.arange(first, first + 3)})
    (tmp_path / "cases_0009.npz").write_bytes(b"broken")
    assert load(tmp_path, limit=5)["x"].tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError):
        load(tmp_path, limit=7)


def test_what_is_kept_is_made_once_and_whole(tmp_path):
    made, path = [], tmp_path / "new" / "sites.npz"
    for _ in range(2):
        found = shards.kept(path, lambda: made.append(1) or {"x": np.arange(3)})
    assert found["x"].tolist() == [0, 1, 2] and len(made) == 1
    assert [one.name for one in path.parent.iterdir()] == ["sites.npz"]

    def killed():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        shards.kept(path.with_name("other.npz"), killed)
    assert not path.with_name("other.npz").exists()


def test_a_folder_without_a_data_set_is_refused(tmp_path):
    (tmp_path / "cases_0000.npz.77.tmp").write_bytes(b"half a shard")
    with pytest.raises(FileNotFoundError, match="no shard is finished"):
        load(tmp_path)


def test_a_case_that_loses_mass_stops_the_run(tmp_path, monkeypatch):
    simulate = sites.simulate_batch

    def leaky(cases, grid):
        return [r._replace(mass_balance_error=2e-6) for r in simulate(cases, grid)]

    monkeypatch.setattr(sites, "simulate_batch", leaky)
    with pytest.raises(ValueError, match="mass is off by 2.0e-06"):
        generate(tmp_path, 1, grid=GRID, shard=1)
    assert not list(tmp_path.glob("*.npz"))


def test_a_loaded_case_can_be_simulated_again(folder):
    found = load(folder)
    again = sites.simulate_batch([sites.to_case(found, 2)], GRID)[0]
    # its rock was kept in float32
    torch.testing.assert_close(
        again.saturation_TZR.float(), found["saturation"][2], rtol=0, atol=1e-4
    )


def reproduced(folder, numbers, made_on=GRID):
    """(saturation, bar): the largest differences between these cases in a data set and the same
    drawn and simulated now."""
    kept, index = load(folder), json.loads((folder / "index.json").read_text())
    places = [kept["number"].tolist().index(number) for number in numbers]
    again = sites.simulate_shard(numbers, index["seed"], made_on, sites.RANGES[index["ranges"]])
    names = ("saturation", "pressure")
    return tuple(float(abs(kept[name][places].numpy() - again[name]).max()) for name in names)


def test_the_cases_can_be_made_again_and_a_change_is_noticed(folder, tmp_path):
    saturation, pressure = reproduced(folder, [1, 2])
    assert saturation < 1e-5 and pressure < 1e-2
    arrays = {k: v.numpy() for k, v in load(folder).items()}
    arrays["saturation"] = arrays["saturation"] + 0.01
    (tmp_path / "index.json").write_bytes((folder / "index.json").read_bytes())
    shards.kept(tmp_path / "cases_0000.npz", lambda: arrays)
    assert reproduced(tmp_path, [1])[0] == pytest.approx(0.01, rel=0.01)


def test_the_shipped_sites_are_what_the_simulator_gives_today(monkeypatch):
    monkeypatch.setattr(sites, "simulate_batch", two_phase.simulate_batch)
    shipped = Path(__file__).parents[1] / "sample_cases"
    kept = load(shipped)
    thinnest = int(kept["number"][kept["thickness"].argmin()])
    saturation, pressure = reproduced(shipped, [thinnest], Grid.reduced())
    # another solver and another batch change the rounding, and where Newton's method stops
    assert saturation < 1e-5 and pressure < 1e-3


def test_a_case_depends_on_its_seed_and_number_alone():
    first, again = sites.draw(1, 7, GRID), sites.draw(1, 7, GRID)
    assert np.array_equal(first.permeability_ZR, again.permeability_ZR)
    assert first.rate_mt == again.rate_mt
    assert sites.draw(1, 8, GRID).rate_mt != first.rate_mt
    assert sites.draw(2, 7, GRID).rate_mt != first.rate_mt


@pytest.mark.parametrize("ranges", [sites.TRAINING, sites.OUTSIDE])
def test_drawn_cases_are_physical_and_within_their_ranges(ranges):
    for number in range(40):
        case = sites.draw(3, number, GRID, ranges)
        two_phase.check(case, GRID)
        assert ranges.rate_mt[0] <= case.rate_mt <= ranges.rate_mt[1]
        assert ranges.depth_m[0] <= case.depth_m <= ranges.depth_m[1]
        resting = two_phase.hydrostatic_bar(case.depth_m)
        assert two_phase.estimated_buildup_bar(case, GRID) < 0.5 * resting


def test_rock_outside_the_training_ranges_is_rougher():
    spreads = []
    for ranges in (sites.TRAINING, sites.OUTSIDE):
        rocks = [sites.draw(1, n, GRID, ranges).permeability_ZR for n in range(30)]
        spreads.append(np.median([np.log(rock).std() for rock in rocks]))
    assert spreads[1] > 2 * spreads[0]


def test_the_command_line_makes_a_data_set(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(Grid, "reduced", classmethod(lambda cls: GRID))
    script.main([str(tmp_path), "--cases", "2", "--shard", "2", "--seed", "5"])
    assert "2 cases" in capsys.readouterr().out
    assert len(load(tmp_path)["rate"]) == 2
