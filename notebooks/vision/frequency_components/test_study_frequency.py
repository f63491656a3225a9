"""The study's bookkeeping: what is kept is not computed again, and spreads are over seeds."""

import json

import pytest
from study_frequency import kept, record


class Receipt:
    """What a receipt is told."""

    def __init__(self):
        self.metrics, self.curves = {}, {}

    def record(self, name, *told):
        self.metrics[name] = told

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
