"""The study's bookkeeping: what is kept is not computed again, and spreads are over seeds."""

import json

import pytest
import study_frequency
import torch
from helpers import cards
from study_frequency import TESTS, code, compare, kept, main, record, record_signers


class Receipt:
    """What a receipt is told."""

    def __init__(self):
        self.metrics, self.curves = {}, {}

    def record(self, name, *told, repeats=None):
        self.metrics[name] = told if repeats is None else (*told, repeats)

    def curve(self, name, **columns):
        self.curves[name] = columns


def test_a_run_is_computed_once_for_the_same_sizes_and_code(tmp_path):
    asked = []

    def compute():
        asked.append(1)
        return {"rows": [len(asked)]}

    path = tmp_path / "folder" / "plain_0.json"
    assert kept(path, {"images": 5}, compute) == {"rows": [1]}
    assert kept(path, {"images": 5}, compute) == {"rows": [1]}
    assert kept(path, {"images": 6}, compute) == {"rows": [2]}
    assert json.loads(path.read_text())["about"] == {"images": 6} and len(asked) == 2


def test_a_run_that_fails_leaves_no_file(tmp_path):
    def compute():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kept(tmp_path / "one.json", {}, compute)
    assert not [*tmp_path.iterdir()]


def test_curves_are_means_over_seeds_and_the_end_has_its_extremes():
    rows = [[{"whole": 0.1}, {"whole": 0.5}], [{"whole": 0.3}, {"whole": 0.9}]]
    runs = [{"rows": one, "scores": {"pgd": 0.2, "roughness": 1.5}} for one in rows]
    receipt = Receipt()
    record(receipt, "plain", runs)
    assert receipt.curves == {"plain": {"epoch": [1, 2], "whole": [20.0, 70.0]}}
    assert receipt.metrics["study_plain_whole"] == (70.0, "%", 50.0, 90.0, 2)
    assert receipt.metrics["study_plain_pgd"] == (20.0, "%", 20.0, 20.0, 2)
    assert receipt.metrics["study_plain_roughness"] == (1.5, "mean square", 1.5, 1.5, 2)


def test_ways_are_compared_seed_by_seed():
    def runs(*scores):
        return [{"scores": {"roughness": one, "pgd": other}} for one, other in scores]

    found = {"plain": runs((2, 0), (4, 0)), "adversarial": runs((1, 0), (6, 0))}
    found |= {"plain_longer": runs((0, 0.3), (0, 0.5)), "batch_norm": runs((0, 0.1), (0, 0.6))}
    receipt = Receipt()
    compare(receipt, found)
    assert receipt.metrics["robust_roughness_ratio"] == (1.0, "×", 0.5, 1.5, 2)
    told = receipt.metrics["batch_norm_pgd_gap"]
    assert told == pytest.approx((5, "percentage points", -10, 20, 2))


def test_signers_of_all_runs_are_taken_together():
    def side(groups, *right):
        return {"group": groups} | {test: list(right) for test in TESTS}

    runs = [
        {"own": side([1, 1, 2], 1, 1, 0), "other": side([3, 4], 0, 1)},
        {"own": side([3], 1), "other": side([1, 2], 0, 0)},
    ]
    receipt = Receipt()
    record_signers(receipt, "signers_raw", runs)
    assert receipt.metrics["signers_raw_whole_own"] == (75.0, "%", 4)
    assert receipt.metrics["signers_raw_low_other"] == (25.0, "%", 4)
    lost, unit, low, high, count = receipt.metrics["signers_raw_high_gap"]
    assert lost == pytest.approx(50) and count == 4 and unit == "percentage points"
    right = [
        torch.tensor(one) for one in ([1, 1, 0, 1], [1, 1, 2, 3], [0, 1, 0, 0], [3, 4, 1, 2])
    ]
    error = 100 * study_frequency.gap(*right)[1]
    assert (low, high) == pytest.approx((50 - 2 * error, 50 + 2 * error))


def test_a_run_is_kept_by_what_the_study_executes(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(cards, "code_hash", lambda *given: asked.append(given) or "abc")
    assert code() == "abc"
    (notebook, script) = asked[0]
    assert notebook.exists() and script == "study_frequency.py"


def test_time_that_is_over_leaves_no_receipt(tmp_path, monkeypatch):
    monkeypatch.setattr(study_frequency, "jobs_of", lambda given: {("plain", 0): None})
    monkeypatch.setattr(study_frequency.receipts, "start", lambda *given: None)
    assert main(["--minutes", "-1", "--folder", str(tmp_path)]) is None
    assert not [*tmp_path.iterdir()]
