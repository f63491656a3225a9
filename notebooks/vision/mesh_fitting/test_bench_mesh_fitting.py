"""What the race records: seconds to the same overlap, and ratios above one where ours is
sooner.
"""

import argparse

import bench_mesh_fitting as race_of
import cameras
import meshes
import pytest
import soft_raster
import torch
from helpers import bench, check, receipts
from helpers.device import Tier

SECONDS = {"pairs": 0.5, "every triangle": 5.0, "Mitsuba": 2.0}


def raced(names=tuple(SECONDS)):
    results = {
        n: bench.Measurement(*[SECONDS[n]] * 3, (SECONDS[n],) * 6, None, "cpu") for n in names
    }
    ratios = {n: bench.ratio(results["every triangle"], one) for n, one in results.items()}
    return bench.Race(results, ratios, "every triangle")


def told(race, steps):
    receipt = receipts.start("mesh_fitting", "cpu", 1)
    race_of.record(receipt, race, steps, 0.9)
    return {name: one["value"] for name, one in receipt.metrics.items()}


def test_ratios_are_above_one_where_the_pairs_are_sooner():
    found = told(raced(), {"pairs": 100, "every triangle": 100, "Mitsuba": 50})
    assert found["pairs_over_every_triangle"] == 10
    assert found["pairs_over_mitsuba"] == pytest.approx((50 * 2.0) / (100 * 0.5))


def test_seconds_to_the_goal_are_steps_times_their_time():
    found = told(raced(), {"pairs": 100, "every triangle": 100, "Mitsuba": 50})
    assert found["seconds_to_goal_pairs"] == 50 and found["seconds_to_goal_mitsuba"] == 100
    assert found["step_ms_every_triangle"] == 5000 and found["steps_to_goal_mitsuba"] == 50


def test_who_does_not_reach_the_goal_has_no_seconds():
    found = told(raced(), {"pairs": 100, "every triangle": 100, "Mitsuba": None})
    assert not [name for name in found if "mitsuba" in name and "goal" in name]
    assert "pairs_over_mitsuba" not in found
    assert "pairs_over_mitsuba" not in told(
        raced(("pairs", "every triangle")), {"pairs": 9, "every triangle": 9}
    )


@pytest.mark.parametrize(("goal", "wanted"), [(0.0, 0), (0.25, 30), (0.9, 90), (2.0, None)])
def test_steps_are_counted_until_the_goal(goal, wanted):
    done = []
    found = race_of.steps_to(goal, lambda: done.append(1), lambda: len(done) / 100, most=120)
    assert found == wanted


def test_the_naive_silhouettes_are_those_of_the_reference():
    vertices, faces, _ = meshes.car(1)
    views = cameras.around(2, seed=3)
    found = race_of.naive_silhouettes(vertices.double(), faces, views, 10, 1e-3)
    assert torch.allclose(
        found, soft_raster.silhouette_reference(vertices, faces, views, 10, 1e-3), atol=1e-9
    )


def test_a_step_of_the_race_is_a_step_of_the_fit(monkeypatch):
    own = race_of.mf.small(size=16, level=1, views=4, steps=5, weights=race_of.SETTINGS.weights)
    monkeypatch.setattr(race_of, "SETTINGS", own)
    given = race_of.mf.photographed(meshes.car(1), cameras.around(4), 16)
    one = race_of.Ours(given)
    for _ in range(own.steps):
        one.step()
    assert torch.allclose(one.mesh()[0], race_of.mf.fit(given, own).vertices, atol=1e-5)


def test_mitsuba_races_with_what_is_soonest_of_its_grid(monkeypatch):
    needs = dict.fromkeys(race_of.GRID, 60)
    needs |= {race_of.GRID[1]: None, race_of.GRID[2]: 20, race_of.GRID[3]: 30}
    clock = [0.0]

    class Fake:
        def __init__(self, given, *pair):
            self.pair = pair

        def step(self):
            clock[0] += 9 if self.pair == race_of.GRID[2] else 1

    def steps_to(goal, step, pair, most):
        step()
        return needs[pair]

    monkeypatch.setattr(race_of, "Mitsuba", Fake)
    monkeypatch.setattr(race_of, "steps_to", steps_to)
    monkeypatch.setattr(race_of, "perf_counter", lambda: clock[0])
    options = argparse.Namespace(goal=0.9, most=200)
    receipt = receipts.start("mesh_fitting", "cpu", 1)
    found, steps = race_of.best_of_mitsuba(None, lambda one: one.pair, options, receipt)
    assert steps == 30 and found.pair == race_of.GRID[3], "30 s; the fewest steps take 180 s"


def test_the_race_goes_by_the_same_pictures_and_stops_where_they_differ(monkeypatch):
    monkeypatch.setattr(race_of.device, "tier", lambda name: Tier("cpu", "cpu", ""))
    monkeypatch.setattr(race_of, "peer", lambda: None)
    monkeypatch.setattr(race_of, "SETTINGS", race_of.mf.small(size=16, level=1, views=2))
    written, runs, looked = [], {}, []
    monkeypatch.setattr(
        race_of.bench, "race", lambda own, *_, **__: runs.update(own) or raced(tuple(own))
    )
    monkeypatch.setattr(
        race_of.mf, "judged", lambda *seen, **_: looked.append(seen[3]) or {"iou": 1.0}
    )
    monkeypatch.setattr(
        receipts.Receipt, "write", lambda self, name: written.append(self) or name
    )
    race_of.main(["--rounds", "6", "--goal", "0.0", "--threads", "1"])
    assert written[0].metrics["pairs_over_every_triangle"]["value"] == 10
    naive, pairs = (runs[name].__self__ for name in ("every triangle", "pairs"))
    assert naive.draw is race_of.naive_silhouettes and pairs.draw is not naive.draw
    assert not pairs.moves.any() and not naive.moves.any(), "both begin with the sphere"
    for view in looked[0]:
        assert (pairs.given.cameras - view).abs().amax((1, 2)).min() > 0.05, "an unseen view"
    monkeypatch.setattr(race_of, "naive_silhouettes", lambda *given: torch.ones(2, 16, 16))
    with pytest.raises(check.Failed):
        race_of.main(["--rounds", "6", "--goal", "0.0", "--threads", "1"])


def test_mitsuba_draws_the_same_silhouettes():
    mi = race_of.peer()
    if mi is None:
        pytest.skip("needs mitsuba and LLVM")
    vertices, faces, _ = meshes.car(3)
    views = cameras.around(3, seed=2)
    given = race_of.mf.photographed(
        (vertices, faces, vertices * 0), views, race_of.SETTINGS.size
    )
    one = race_of.Mitsuba(given, *race_of.GRID[0])
    one.params[one.key] = mi.Float(vertices.flatten().numpy())
    one.params["mesh.faces"] = mi.UInt32(faces.flatten().int().numpy())
    one.params.update()
    for sensor, wanted in zip(one.sensors, given.silhouettes, strict=True):
        found = torch.tensor(mi.render(one.scene, sensor=sensor, spp=64).numpy())[..., 0]
        assert float((found - wanted).abs().mean()) < 0.01
