"""The study: choices come from validation rows, means have intervals, and each part runs at a
small size.
"""

import numpy as np
import pytest
import study_matrix_factorization as study
from helpers import receipts
from link_graph import community_graph

GRAPH = community_graph(150, 3_000, 5, seed=6)


@pytest.fixture
def small(monkeypatch):
    for name, value in {"FACTORS": 4, "ITERATIONS": 2}.items():
        monkeypatch.setattr(study, name, value)


def test_choices_turn_what_they_may():
    table = np.zeros((7, 7))
    table[5, 6], table[2, study.MIDDLE], table[study.MIDDLE, 1] = 3, 1, 2
    found = study.choices(table)
    assert tuple(found["both"]) == (5, 6)
    assert found["alpha"] == (2, 3)
    assert found["lambda"] == found["one"] == (3, 1)
    assert found["none"] == (3, 3)


def test_settings_are_chosen_without_a_look_at_test_rows(small, monkeypatch):
    looked = []
    recall = study.als.Model.recall

    def watched(self, k, held=None):
        looked.append(tuple(held.rows))
        return recall(self, k, held)

    monkeypatch.setattr(study.als.Model, "recall", watched)
    split = study.link_graph.split_rows(GRAPH)
    study.grid(split, GRAPH.shape, True, 4, (0.1, 1.0))
    assert set(looked) == {tuple(split.validation.rows)}


def test_tuning_brings_paired_differences(small, monkeypatch):
    monkeypatch.setattr(study, "ALPHAS", study.ALPHAS[2:5])
    monkeypatch.setattr(
        study, "LAMBDAS", {kind: values[2:5] for kind, values in study.LAMBDAS.items()}
    )
    monkeypatch.setattr(study, "MIDDLE", 1)
    told = study.tuning(GRAPH, 0)
    split = study.link_graph.split_rows(GRAPH, 0)
    knobs = told["alpha_chosen"], told["lambda_chosen"]
    model = study.fitted(split, GRAPH.shape, knobs, study.Settings(), 64)
    assert told["both"] == pytest.approx(model.recall(20, split.test))
    assert told["both"] != pytest.approx(model.recall(20, split.validation))
    assert told["gain"] == pytest.approx(told["both"] - told["one"])
    assert told["scaled_gain"] == pytest.approx(told["both"] - told["plain_both"])
    assert len(told["curve_grid"]["recall"]) == 9
    assert 0 < told["popularity"] < told["popularity_50"]


def test_means_have_intervals_that_hold_them():
    receipt = receipts.start("matrix_factorization", "cpu")
    study.record(receipt, "part", [{"one": 0.2, "curve_x": {"a": [1, 2]}}, {"one": 0.4}])
    found = receipt.metrics["study_part_one"]
    assert found["value"] == pytest.approx(0.3)
    spread = (0.2 / 2**0.5) * (1 / 2 + 1 / 8) ** 0.5  # a tenth tested, eight tenths trained on
    assert found["high"] - found["value"] == pytest.approx(12.706 * spread, rel=1e-3)
    assert receipt.curves["x"]["a"] == [1, 2]


def test_a_precision_that_breaks_counts_as_zero(small, monkeypatch):
    monkeypatch.setattr(study, "fitted", lambda *_: study.als.Model(*_nan(), 0.1, 0.1))
    told = study.precision(GRAPH, 0, 4)
    assert told["solves"] == 0
    assert told["solves_broken"] == 1


def _nan():
    import torch

    return torch.zeros(150, 4), torch.full((150, 4), float("nan"))


def test_six_variants_have_recall_and_popularity(small):
    told = study.variants({"all, 10": GRAPH}, 0, 4)
    assert set(told) == {"all_10_recall", "all_10_recall_50", "all_10_popularity"}


def test_sizes_and_processes_bring_curves(monkeypatch):
    receipt = receipts.start("matrix_factorization", "cpu")
    monkeypatch.setattr(study.link_graph, "community_graph", lambda *_, **__: GRAPH)
    monkeypatch.setattr(
        study.stats, "linregress", lambda *_: type("Line", (), {"slope": 1.0, "stderr": 0.1})
    )
    study.sizes(receipt, repeats=1, factors=(4, 8))
    assert receipt.curves["factors"]["factors"] == [4, 8]
    study.knee(receipt, GRAPH, repeats=1, factors=4, tried=(1, 2))
    assert receipt.curves["knee"]["processes"] == [1, 2]
