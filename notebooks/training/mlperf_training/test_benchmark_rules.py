"""The benchmark's arithmetic against known answers and the article's table."""

import math

import pytest
from benchmark_rules import (
    graph_counts,
    last_batch_waste,
    published_minutes,
    runs_to_tell,
    score,
    small_waste,
)


def test_last_batch_of_the_article_wastes_497_images():
    assert 527 * 8 * 16 == 67_456
    steps, wasted, share = last_batch_waste(1_281_167, 67_456)
    assert (steps, wasted) == (19, 497) and share == pytest.approx(497 / 1_281_664)


def test_a_whole_number_of_batches_wastes_nothing():
    assert last_batch_waste(12, 4) == (3, 0, 0.0)


@pytest.mark.parametrize(("batch", "graphs"), [(1, 3), (2, 5), (3, 7)])
def test_graphs_a_batch(batch, graphs):
    assert (
        len(graph_counts(batch)) == graphs
        and graph_counts(batch)[0] == batch
        and graph_counts(batch)[-1] == 3 * batch
    )


def test_aborted_run_is_dropped_as_slowest():
    assert score([9, 10, 12, math.inf], 8) == 88


def test_two_aborted_runs_give_no_score():
    with pytest.raises(ValueError, match="aborted"):
        score([9, 10, math.inf, math.inf], 8)


def test_three_of_175_published_runs_were_aborted():
    runs = [time for times in published_minutes().values() for time in times]
    assert len(runs) == 175 and sum(map(math.isinf, runs)) == 3


@pytest.mark.parametrize(
    ("entry", "drop", "printed"),
    [
        ("Inspur/results/nf5688m6_pytorch/bert", 1, 126.95),
        ("NVIDIA/results/dgxa100_ngc22.04_pytorch/bert", 1, 147.54),
        ("NVIDIA/results/dgxa100_ngc22.04_pytorch/ssd", 1, 675.18),
    ],
)
def test_score_of_the_published_logs(entry, drop, printed):
    assert round(score(published_minutes()[entry], 8, drop), 2) == printed


@pytest.mark.parametrize(
    ("task", "drop", "printed"),
    [
        ("dlrm", 1, 12.78),
        ("resnet", 1, 217.82),
        ("maskrcnn", 1, 327.34),
        ("rnnt", 1, 230.07),
        ("unet3d", 4, 170.23),
        ("minigo", 1, 2045.37),
    ],
)
def test_article_prints_one_vendors_score(task, drop, printed):
    scores = [
        score(times, 8, drop)
        for entry, times in published_minutes().items()
        if entry.endswith("/" + task)
    ]
    assert printed in [round(value, 2) for value in scores]


@pytest.mark.parametrize(
    "call",
    [
        lambda: last_batch_waste(0, 4),
        lambda: last_batch_waste(4, 0),
        lambda: graph_counts(0),
        lambda: score([1, 2], 8),
        lambda: score([1, 2, 3], 0),
        lambda: score([1, 2, -3], 8),
        lambda: score([1, 2, math.nan], 8),
    ],
)
def test_bad_input_is_refused(call):
    with pytest.raises(ValueError):
        call()


def test_the_article_s_node_count_wastes_least_near_it():
    best = small_waste(1_281_167, 128, range(500, 550))
    assert best[0][1:] == (527, 19) and best[0][0] < best[1][0]
    assert all(steps < 20 for _, _, steps in small_waste(1_281_167, 128, range(480, 550), 20))


def test_runs_to_tell_follow_the_square_of_the_spread():
    # (1.960 + 0.842)² · 2 = 15.7
    assert runs_to_tell(0.03, 0.03) == 16 and runs_to_tell(0.03, 0.06) == 63


@pytest.mark.parametrize(
    "call",
    [
        lambda: small_waste(100, 10, range(1, 3), 2),
        lambda: runs_to_tell(0, 0.1),
        lambda: runs_to_tell(0.1, 0.1, 1.0),
    ],
)
def test_questions_without_an_answer_are_refused(call):
    with pytest.raises(ValueError):
        call()
