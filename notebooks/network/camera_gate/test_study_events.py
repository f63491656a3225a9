"""Arms see the same places, choose on others than they are judged on, and are judged aright."""

from dataclasses import replace

import pytest
import study_events as study
import torch
from frame_gates import GATES
from press.study import hold, record

SIZES = {"tune": 1, "test": 1}
ONE = replace(study.STUDY, trial=SIZES)


@pytest.fixture(scope="module")
def seen():
    return hold(ONE)


def test_each_gate_has_each_share_and_chooses_on_other_places(seen):
    want = {
        f"{g} {s}"
        for g in ("every", "difference", "background", "person")
        for s in (5, 10, 20, 30)
    }
    assert {name for name, _ in seen} == want
    for (name, seed), one in seen.items():
        gate, share = name.split()
        given = study.parts(seed, SIZES)
        assert one.job.arm.loss == {"gate": gate}
        assert one.job.arm.setting == {"share": int(share) / 100} and one.job.train is None
        assert all(map(torch.equal, one.job.choice, given["tune"].data))
        assert all(map(torch.equal, one.tests["test"], given["test"].data))


def test_no_place_is_in_two_parts_or_two_seeds_at_full_size():
    assert list(study.STUDY.seeds) == list(range(10)) and study.STUDY.sizes == {
        "tune": 12,
        "test": 24,
    }
    drawn = []
    for seed in study.STUDY.seeds:
        first = [100_000 + 1000 * (2 * seed + at) for at in range(2)]
        drawn += [set(range(a, a + n)) for a, n in zip(first, (12, 24), strict=True)]
        if seed < 2:
            units = [
                int(one.split()[1])
                for p in study.parts(seed, SIZES).values()
                for one in p.units
            ]
            assert set(units) == set(first)
    assert len(set.union(*drawn)) == sum(map(len, drawn)) == 360
    with pytest.raises(ValueError, match="allowed"):
        study.parts(0, {"tune": 1000, "test": 1})


def places(truth):
    return study.Places(torch.arange(truth.numel()).view(*truth.shape, 1, 1), truth)


def job(gate, share, choice=None):
    return study.Job("any", study.arm(gate, share), 0, SIZES, choice=choice)


@pytest.fixture
def told(monkeypatch):
    """Scores that a test says, by name of the gate."""
    given = {}
    monkeypatch.setattr(study, "memory", lambda gate, frames: given[gate])
    monkeypatch.setitem(GATES, "every", lambda frames: given["every"])
    return given


def test_threshold_and_limit_come_from_what_is_to_choose_on(told):
    truth = torch.tensor([[False, True, False, False]])
    told["person"] = torch.tensor([[0.1, 0.2, 0.3, 0.4]])
    told["detector"] = torch.tensor([[0.5, 0.9, 0.6, 0.1]])
    made = study.fit(job("person", 0.5, places(truth)))
    assert made == (pytest.approx(0.3), pytest.approx(0.6))  # not 0.9: there the plate is


@pytest.mark.parametrize("gate", GATES)
def test_no_more_than_its_share_passes_where_it_is_chosen(gate):
    part = study.parts(3, SIZES)["tune"].data
    scores = study.scored(gate, part.frames)
    for share in study.SHARES:
        passed = scores >= study.fit(job(gate, share, part)).threshold
        assert share - 0.02 < float(passed.float().mean()) < share + 1e-6


TRUTH = torch.tensor([[0, 1, 1, 0], [0, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 0]]).bool()


def test_events_are_counted_by_kind_and_beside_even_steps_at_equal_frames(told):
    told["detector"] = torch.tensor(
        [[0, 1, 0, 1], [0, 1, 0, 0], [0, 0, 0, 0], [1, 0, 0, 0]]
    ).float()
    told["person"] = torch.tensor(
        [[0, 1, 0, 1], [0, 0, 1, 0], [0, 0, 1, 0], [0, 0, 0, 0]]
    ).float()
    told["every"] = torch.tensor([[0.9, 0.1, 0.1, 0.2]]).expand(4, 4)
    made = study.judge(study.Chosen(0.5, 0.5), places(TRUTH), job("person", 1.0))
    assert [made[f"recall_{kind}"] for kind in study.KINDS] == [1, 0, 0]
    assert made["saved"] == 0.75 and made["recall"] == pytest.approx(1 / 3)
    assert made["ceiling"] == pytest.approx(2 / 3) and made["lost"] == pytest.approx(1 / 3)
    assert made["more_than_even"] == pytest.approx(1 / 3)  # four frames, the first of each


def test_a_gate_that_passes_all_is_even_steps_and_loses_nothing(told):
    told |= dict.fromkeys(("person", "every"), torch.ones(4, 4)) | {
        "detector": torch.ones(4, 4)
    }
    made = study.judge(study.Chosen(0.5, 0.5), places(TRUTH), job("person", 1.0))
    assert (made["recall"], made["lost"], made["saved"], made["more_than_even"]) == (1, 0, 0, 0)


def test_what_is_remembered_is_of_these_frames_and_this_gate(monkeypatch):
    asked = []
    monkeypatch.setattr(
        study, "scored", lambda gate, frames: asked.append(gate) or frames + len(asked)
    )
    memory, frames = study.Memory(), torch.zeros(2, 2)
    assert torch.equal(memory("person", frames), frames + 1)
    assert torch.equal(memory("person", frames.clone()), frames + 1)
    assert torch.equal(memory("detector", frames), frames + 2)
    assert torch.equal(memory("person", frames + 9), frames + 12)
    assert asked == ["person", "detector", "person"]


def test_what_is_recorded_points_the_right_way():
    from helpers import receipts

    names = study.STUDY.metrics
    found = {
        name: {
            s: {"test": dict.fromkeys(names, 0.9 if name == "person 30" else 0.6)}
            for s in range(10)
        }
        for name in study.ARMS
    }
    receipt = receipts.start("camera_gate", "cpu")
    record(study.STUDY, receipt, found)
    told = {name: one["value"] for name, one in receipt.metrics.items()}
    assert told["study_person_30_recall"] == pytest.approx(90)
    assert told["study_person_finds_more_than_background"] == pytest.approx(30)
