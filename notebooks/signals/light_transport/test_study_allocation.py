"""The study of allocation: arms differ in how the time is shared, and are judged alike."""

import allocation
import path_tracing
import pytest
import study_allocation
import torch
from helpers import receipts
from press.study import hold, record


def test_every_split_has_the_room_s_pilot_and_its_time(monkeypatch):
    whole = allocation.Measured(0.0, 0.0, 0.0, 0.0, 10.0)
    monkeypatch.setattr(allocation, "measure", lambda *given: whole)
    monkeypatch.setattr(allocation, "pilot", lambda *given: ([16.0, 1.0], [1.0, 4.0]))
    for (name, seed), seen in hold(study_allocation.STUDY).items():
        room, split = name.split("_")
        scene, seeds = seen.job.choice
        judged = seen.tests[f"{room}_pictures"]
        assert len(scene.corner_Q3) == len(judged[0].corner_Q3)
        assert seeds == [1_000_000 + 3 * seed + one for one in range(3)]
        assert judged[1] == [3 * seed + one for one in range(3)]
        made = study_allocation.fit(seen.job)
        # 2 samples of 10 s are 20 s; roots of variance times seconds are 4 and 2
        counts = {"together": [2], "halves": [10, 2], "best": [13, 2]}[split]
        assert made["samples"] == counts
        assert made["dearer"] == 4 / 16
        assert made["share"] == (0.5 if split == "halves" else pytest.approx(1 / 3))


def test_a_split_is_judged_by_variance_times_its_own_seconds(monkeypatch):
    clock = iter([0.0, 6.0, 10.0, 13.0])
    monkeypatch.setattr(study_allocation.time, "perf_counter", lambda: next(clock))
    value = {0: 1.0, 1: 2.0, 2: 3.0}
    monkeypatch.setattr(
        allocation,
        "split",
        lambda scene, counts, depth, seed: torch.full((1, 1, 3), value[seed]),
    )
    monkeypatch.setattr(
        path_tracing,
        "render_orders",
        lambda scene, count, depth, way, seed: torch.full(
            (2, 1, 1, 3), value[seed] * way.gather_from
        ),
    )
    job = hold(study_allocation.STUDY)["box_best", 0].job
    apart = study_allocation.judge(
        {"samples": [3, 4], "share": 0.4, "dearer": 5.0}, (None, [0, 1, 2]), job
    )
    assert apart == {"variance": 1.0, "seconds": 2.0, "work": 2.0, "share": 0.4, "dearer": 5.0}
    job = hold(study_allocation.STUDY)["box_together", 0].job
    joint = study_allocation.judge({"samples": [5], "share": 0.4}, (None, [0, 1, 2]), job)
    assert joint == {"variance": 4.0, "seconds": 1.0, "work": 4.0}


def test_sizes_and_seeds():
    one = study_allocation.STUDY
    assert one.sizes == {"pixels": 48, "depth": 5, "samples": 16, "pictures": 8}
    assert list(one.seeds) == [0, 1, 2, 3, 4] and one.threads == 1


def test_what_is_recorded_points_the_right_way():
    receipt = receipts.start("light_transport", "cpu")
    value = {"together": 4.0, "halves": 2.0, "best": 1.0}
    scores = {
        f"{room}_{split}": {
            s: {f"{room}_pictures": {"variance": v, "seconds": 1.0, "work": v + s / 9}}
            for s in range(2)
        }
        for room in ("box", "plates")
        for split, v in value.items()
    }
    record(study_allocation.STUDY, receipt, scores)
    told = {name: one["value"] for name, one in receipt.metrics.items()}
    assert told["study_box_best_over_together"] < 0.3 < told["study_box_best_over_halves"] < 0.6
