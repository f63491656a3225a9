"""The study: arms differ in how windows are added, or in int8, and are judged alike."""

import math

import ct_phantom as cp
import kidney_int8 as k8
import kidney_unet as ku
import pytest
import study_kidney_segmentation as study
import torch
from helpers import receipts
from press.study import hold, record

SETTINGS = {
    "trained": (0.5, 3.0),
    "none": (0.0, math.inf),
    "constant": (0.5, math.inf),
    "half": (0.5, 3.0),
    "plain": (0.5, 1.0),
    "three_quarters": (0.75, 3.0),
    "int8": (0.5, 3.0),
    "threshold": (0.5, 3.0),
}


@pytest.fixture(scope="module")
def seen():
    return hold(study.STUDY)


def test_arms_differ_in_what_they_are_named_for(seen):
    assert {name for name, _ in seen} == set(SETTINGS)
    for name, wanted in SETTINGS.items():
        own = seen[name, 0].job.arm
        assert (own.setting["overlap"], own.setting["root"]) == wanted
        assert own.start == {"trained": "new", "threshold": "hounsfield"}.get(name, "trained")
        assert (own.train, own.choice) == (
            "training" if name == "trained" else None,
            "calibration" if name == "int8" else None,
        )


def test_patients_are_in_one_part_only():
    parts = study.parts(0, {**study.STUDY.sizes, **study.STUDY.trial})
    units = [set(part.units) for part in parts.values()]
    assert sum(map(len, units)) == len(set.union(*units))
    assert set(parts["test"].units) == {"case_00061"}
    assert set(parts["calibration"].units) == {"case_00148"}
    assert not {"case_00061", "case_00148"} & set(cp.TRAINING)


def test_a_part_s_scans_are_of_the_patients_that_it_names():
    sizes = {**study.STUDY.sizes, **study.STUDY.trial, "draws": 2}
    folder = study.data.fetch("kits19", ["*.nii.gz"])
    for name, part in study.parts(0, sizes).items():
        draws = 1 if name == "calibration" else 2
        assert len(part.data) == draws * len(part.units)
        for at, (scan, labels) in enumerate(part.data):
            case = cp.thinned(cp.labelled(folder, part.units[at // draws]), 8)
            case = case._replace(scan_hu=case.labels.astype("f4"))
            wanted = cp.reduced(case, 32, 0.0, sizes["voxels"])[1]
            assert torch.equal(labels, wanted)
            assert at == 0 or not torch.equal(scan, part.data[at - 1][0])


def test_a_seed_draws_phantoms_of_its_own_and_all_arms_share_them(seen):
    tests = {(name, seed): one.tests["test"] for (name, seed), one in seen.items()}
    for name in SETTINGS:
        assert torch.equal(tests[name, 0][0][0], tests["half", 0][0][0])
    assert not torch.equal(tests["half", 0][0][0], tests["half", 1][0][0])
    assert torch.equal(tests["half", 0][0][1], tests["half", 1][0][1]), "the same labels"


def test_the_study_s_sizes_and_seeds():
    assert list(study.STUDY.seeds) == [0, 1, 2, 3, 4]
    assert study.STUDY.sizes == {
        "steps": 1500,
        "draws": 2,
        "cases": 6,
        "thinned": 2,
        "voxels": 3,
    }


def test_the_recipe_s_numbers_reach_the_training(monkeypatch, seen):
    asked = []
    monkeypatch.setattr(ku, "trained", lambda *given: asked.append(given) or (ku.Unet(), []))
    job = seen["trained", 1].job
    assert isinstance(study.fit(job), ku.Folded)
    assert asked[0][0] is job.train and asked[0][1:] == (2, 1, 2, 32, 5e-3)


def test_int8_is_calibrated_on_its_own_case(monkeypatch, seen):
    asked = []
    ranges = k8.ranges
    monkeypatch.setattr(k8, "ranges", lambda net, cuts: asked.append(cuts) or ranges(net, cuts))
    job = seen["int8", 0].job
    network = ku.folded(ku.Unet())
    made = study.fit(job._replace(start=network))
    assert isinstance(made, k8.Integers)
    assert len(made.steps["same2"].scale_weight.unique()) > 1, "a scale for each channel"
    wanted = study.windows_of(study.parts(0, job.sizes)["calibration"].data[0][0])
    assert len(asked[0]) == len(wanted) > 0
    assert all(torch.equal(one, other) for one, other in zip(asked[0], wanted, strict=True))


def test_windows_to_calibrate_on_have_a_body_in_them():
    scan = torch.full((32, 32, 96), -2.34)
    scan[..., 64:] = 0.5
    found = study.windows_of(scan)
    assert [float((one > 0).float().mean()) for one in found] == [0.5, 1.0]


def test_the_arm_s_way_reaches_the_windows(monkeypatch, seen):
    asked = []

    def segment(scan, made, window, **way):
        asked.append((made, window, way))
        return torch.zeros_like(scan, dtype=torch.uint8)

    monkeypatch.setattr(study.sw, "segment", segment)
    for name in ("none", "half"):
        found = study.judge("network", seen[name, 0].tests["test"], seen[name, 0].job)
        assert set(found) == {"kidney", "tumour", "mean"}
    assert asked[0] == ("network", 32, {"overlap": 0.0, "root": math.inf})
    assert asked[1] == ("network", 32, {"overlap": 0.5, "root": 3.0})
    study.judge("hounsfield", seen["threshold", 0].tests["test"], seen["threshold", 0].job)
    assert len(asked) == 2, "the baseline has no windows"


def test_truth_scores_one(monkeypatch, seen):
    cases = seen["half", 0].tests["test"]
    truths = iter([labels for _, labels in cases])
    monkeypatch.setattr(study.sw, "segment", lambda *given, **way: next(truths))
    found = study.judge("network", cases, seen["half", 0].job)
    assert found == {"kidney": 1.0, "tumour": 1.0, "mean": 1.0}


def test_a_judgement_is_the_mean_of_both_classes_over_all_cases(monkeypatch, seen):
    (scan, labels), *_ = seen["half", 0].tests["test"]
    no_tumour = labels.clone()
    no_tumour[labels == 2] = 0
    answers = iter([labels, no_tumour])
    monkeypatch.setattr(study.sw, "segment", lambda *given, **way: next(answers))
    found = study.judge("network", [(scan, labels)] * 2, seen["half", 0].job)
    assert found["kidney"] == 1.0 and found["tumour"] == pytest.approx(0.5, abs=1e-6)
    assert found["mean"] == pytest.approx(0.75, abs=1e-6)


def test_what_is_recorded_points_the_right_way():
    value = {"trained": 0.8, "none": 0.6, "constant": 0.7, "half": 0.8, "plain": 0.75}
    value |= {"three_quarters": 0.82, "int8": 0.796, "threshold": 0.2}
    found = {
        name: {
            seed: {"test": dict.fromkeys(("kidney", "tumour", "mean"), mean * (1 + seed / 100))}
            for seed in range(5)
        }
        for name, mean in value.items()
    }
    receipt = receipts.start("kidney_segmentation", "cpu")
    record(study.STUDY, receipt, found)
    told = {name: one["value"] for name, one in receipt.metrics.items()}
    assert told["study_half_over_none"] == pytest.approx(0.2 * 1.02)
    assert told["study_constant_over_none"] == pytest.approx(0.1 * 1.02)
    assert told["study_gaussian_over_constant"] == pytest.approx(0.1 * 1.02)
    assert told["study_root_over_plain"] == pytest.approx(0.05 * 1.02)
    assert told["study_three_quarters_over_half"] == pytest.approx(0.02 * 1.02)
    assert told["study_network_over_threshold"] == pytest.approx(0.6 * 1.02)
    assert told["study_int8_over_float"] == pytest.approx(0.995)
