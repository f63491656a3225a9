"""The knee: real processes, medians of a pass, and the fastest of those tried."""

import os

import bench_knee
import pytest
from helpers import receipts
from link_graph import community_graph

GRAPH = community_graph(31, 300, 3, seed=4)


def test_each_number_of_processes_is_measured_in_each_round():
    job = bench_knee.job_of(GRAPH, 6)
    found = bench_knee.measured(GRAPH, job, 2, (1, 2))
    assert list(found) == [1, 2] and job.items.shape == (31, 6)
    for one in found.values():
        assert {kind: len(values) for kind, values in one.items()} == dict.fromkeys(
            bench_knee.KINDS, 2
        )
        assert all(0 < c <= s for c, s in zip(one["compute_s"], one["seconds"], strict=True))


def test_numbers_are_the_slowest_process_s_of_a_pass(monkeypatch):
    def fit_sharded(processes, rows, cols, job):
        share = bench_knee.sharded_als.Share
        return None, None, [share(None, None, 30, 6.0, 3.0), share(None, None, None, 9.0, 1.5)]

    monkeypatch.setattr(bench_knee.sharded_als, "fit_sharded", fit_sharded)
    found = bench_knee.measured(GRAPH, bench_knee.job_of(GRAPH, 6), 1, (2,))
    assert found == {2: {"seconds": [3.0], "compute_s": [1.0], "sent_bytes": [10.0]}}


def test_the_fastest_is_that_with_the_shortest_median():
    receipt = receipts.start("matrix_factorization", "cpu", 2)
    took = {1: [4.0, 5, 6], 2: [3.0, 3, 9], 4: [2.0, 7, 8]}
    found = {
        count: {"seconds": one, "compute_s": [1.0] * 3, "sent_bytes": [0.0] * 3}
        for count, one in took.items()
    }
    bench_knee.record(receipt, found, [0, 1, 2])
    assert receipt.metrics["study_knee_fastest"]["value"] == 2
    assert receipt.metrics["study_knee_4"]["repeats"] == 3
    assert receipt.curves["knee"]["seconds"] == [5, 3, 7]
    assert receipt.curves["knee"]["predicted_bytes"] == [0, 1, 2]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores cannot be chosen here")
def test_rounds_and_cores_are_obeyed(monkeypatch, tmp_path):
    monkeypatch.setenv("REBUILT_RECEIPTS", str(tmp_path))
    folder, cores, rounds = tmp_path / "data", [], []
    monkeypatch.setattr(bench_knee.os, "sched_setaffinity", lambda _, own: cores.append(own))
    monkeypatch.setattr(bench_knee.os, "sched_getaffinity", lambda _: {3, 5, 7})
    monkeypatch.setattr(bench_knee.data, "fetch", lambda _: folder)
    monkeypatch.setattr(bench_knee.link_graph, "read_links", lambda _: GRAPH)
    monkeypatch.setattr(bench_knee.link_graph, "with_links", lambda graph, _: graph)
    monkeypatch.setattr(bench_knee, "FACTORS", 6)
    monkeypatch.setattr(bench_knee.race_of.torch, "set_num_threads", lambda _: None)

    def measured(graph, job, many):
        rounds.append(many)
        return {n: {kind: [1.0] * many for kind in bench_knee.KINDS} for n in bench_knee.TRIED}

    monkeypatch.setattr(bench_knee, "measured", measured)
    bench_knee.main(["--rounds", "3", "--threads", "2"])
    assert cores == [[3, 5]] and rounds == [3]
    assert (tmp_path / "matrix_factorization.cpu.study_knee.json").is_file()


def test_every_round_begins_with_another_number_of_processes(monkeypatch):
    asked = []

    def fit_sharded(processes, rows, cols, job):
        asked.append(processes)
        return None, None, [bench_knee.sharded_als.Share(None, None, 1, 1.0, 1.0)]

    monkeypatch.setattr(bench_knee.sharded_als, "fit_sharded", fit_sharded)
    bench_knee.measured(GRAPH, bench_knee.job_of(GRAPH, 6), 3, (1, 2, 4))
    assert asked == [1, 2, 4, 2, 4, 1, 4, 1, 2]


def test_the_prediction_is_of_a_pass_at_the_article_s_factors(monkeypatch, tmp_path):
    """As measured: what the busiest process sends in one pass of `TURNS`."""
    asked, graph = [], community_graph(150, 900, 3, seed=4)
    monkeypatch.setenv("REBUILT_RECEIPTS", str(tmp_path))
    monkeypatch.setattr(bench_knee.os, "sched_setaffinity", lambda *_: None, raising=False)
    monkeypatch.setattr(bench_knee.data, "fetch", lambda _: tmp_path)
    monkeypatch.setattr(bench_knee.link_graph, "read_links", lambda _: graph)
    kept = lambda graph, minimum: asked.append(minimum) or graph  # noqa: E731
    monkeypatch.setattr(bench_knee.link_graph, "with_links", kept)
    monkeypatch.setattr(bench_knee.race_of.torch, "set_num_threads", lambda _: None)

    def predicted(processes, rows, cols, job):
        asked.append((processes, rows is graph.rows, job.items.shape[1], job.iterations))
        return 3 * processes

    def record(receipt, found, told):
        asked.append(told)

    monkeypatch.setattr(bench_knee.sharded_als, "predicted_bytes", predicted)
    monkeypatch.setattr(bench_knee, "measured", lambda *_: {})
    monkeypatch.setattr(bench_knee, "record", record)
    bench_knee.main(["--threads", "2"])
    assert asked == [10, *((n, True, 128, 3) for n in (1, 2, 4, 8)), [1, 2, 4, 8]]
