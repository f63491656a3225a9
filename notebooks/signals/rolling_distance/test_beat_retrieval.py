"""Scores of a retrieval, on records small enough to count by hand."""

import numpy as np
import pytest
from beat_retrieval import (
    average_precision,
    best_threshold,
    labels_at,
    paired,
    precision_recall,
    score,
    shape_correlations,
)
from match_ranking import Matches
from mitbih import Record


def record(samples, labels, rate_hz=100.0):
    return Record("x", rate_hz, {}, np.array(samples), np.array(list(labels)))


def test_a_beat_counts_within_150_ms_and_not_beyond():
    labels = labels_at(np.array([0, 85, 115, 116, 250, 900]), record([100, 260], "VN"))
    assert labels.tolist() == ["", "V", "V", "", "N", ""]


def test_closed_answers():
    hits = np.array([True, False, True])
    precision, recall = precision_recall(hits, 4)
    assert precision.tolist() == [1, 1 / 2, 2 / 3] and recall.tolist() == [1 / 4, 1 / 4, 2 / 4]
    assert average_precision(hits, 4) == pytest.approx((1 + 2 / 3) / 4)
    assert average_precision(np.ones(5, bool), 5) == 1


def test_the_threshold_is_the_best_f1():
    hits = np.array([True, True, False, False, True])
    assert best_threshold(hits, np.array([1.0, 2, 3, 4, 5]), 3) == 2  # F1 0.8; at 5 it is 0.75
    assert best_threshold(np.zeros(2, bool), np.array([1.0, 2]), 3) == -np.inf


def test_the_threshold_comes_from_the_first_five_minutes_and_the_score_from_the_rest():
    # seconds 10 and 20 teach; then three V beats, one found below the threshold, and one N
    # beat nearer than the others, of which one is never matched
    beats = record([1000, 2000, 40_000, 50_000, 60_000, 70_000], "VNVVNV")
    matches = Matches(
        np.array([1000, 40_000, 60_000, 2000, 50_000]) - 5, np.array([1.0, 1.0, 0.5, 3.0, 2.0])
    )
    matches = Matches(
        matches.positions[order := matches.distances.argsort()], matches.distances[order]
    )
    found = score(matches, 10, beats)
    assert found.threshold == 1 and found.wanted == 3
    assert found.precision == 1 / 2 and found.recall == 1 / 3
    assert found.average_precision == pytest.approx((1 / 2 + 2 / 3) / 3)


def test_nothing_wanted_is_nan_not_a_crash():
    found = score(Matches(np.array([40_000]), np.array([1.0])), 10, record([40_000], "N"))
    assert np.isnan(found.recall) and np.isnan(found.precision)


def test_pairs_show_what_a_median_hides():
    before, after = np.array([0.1, 0.5, 0.5, 0.9]), np.array([0.4, 0.5, 0.5, 0.8])
    assert np.median(before) == np.median(after) and paired(before, after) == (1, 2, 1)
    assert paired(before, after, slack=0.2) == (1, 3, 0)


def test_a_beats_likeness_is_its_best_window_nearby():
    # the first that counts has its nearest window 0.1 s late, the second is unlike the query
    distances = np.full(50_000, 20.0)
    distances[30_000 + 10], distances[30_000 + 16], distances[29_000] = 4.0, 0.0, 0.0
    beats = record(
        [1000, 30_005, 40_000, 45_000, 49_999], "VVVNV"
    )  # too early, two that count, no V, too late
    assert shape_correlations(distances, 10, beats).tolist() == [0.8, 0.0]
