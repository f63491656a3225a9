"""Times by size and by factors: the line through them, and what is recorded."""

import math

import bench_scaling
import pytest
import torch
from helpers import receipts
from link_graph import community_graph

OFF = (0.1, -0.1, -0.1, 0.1)  # they turn no line


def test_time_that_grows_with_the_square_has_the_exponent_two():
    took = [math.exp(2 * math.log(n) + off) for n, off in zip((1, 2, 4, 8), OFF, strict=True)]
    slope, low, high = bench_scaling.line([1, 2, 4, 8], took)
    assert slope == pytest.approx(2)
    half = 4.302653 * (0.02 / (5 * math.log(2) ** 2)) ** 0.5  # two degrees of freedom
    assert (low, high) == pytest.approx((2 - half, 2 + half), rel=1e-5)


def test_each_size_and_each_solver_has_its_time(monkeypatch):
    asked = []

    def one_pass(graph, factors, solver="matrix_free"):
        asked.append((len(graph.rows), factors, solver))
        return lambda: sum(range(10 * len(graph.rows)))

    monkeypatch.setattr(bench_scaling, "one_pass", one_pass)
    receipt = receipts.start("matrix_factorization", "cpu", 1)
    graphs = [community_graph(n, 10 * n, 3) for n in (40, 400, 1600)]
    links = [len(graph.rows) for graph in graphs]
    bench_scaling.by_size(receipt, graphs, 7)
    bench_scaling.by_factors(receipt, graphs[0], 2, (4, 8))
    assert asked[:3] == [(count, 64, "matrix_free") for count in links]
    kinds = ("matrix_free", "cholesky", "cg", "lu")
    assert set(asked[3:]) == {(links[0], d, kind) for d in (4, 8) for kind in kinds}
    sizes, factors = receipt.curves["sizes"], receipt.curves["factors"]
    assert sizes["links"] == links and sizes["seconds"] == sorted(sizes["seconds"])
    assert list(factors) == ["factors", *kinds] and factors["factors"] == [4, 8]
    largest = receipt.metrics["study_size_largest"]
    assert largest["value"] == sizes["seconds"][-1] and largest["repeats"] == 7
    assert receipt.metrics["study_size_exponent"]["repeats"] == 3


@pytest.mark.parametrize("solver", bench_scaling.KINDS)
def test_a_timed_pass_is_of_its_graph_factors_and_solver(solver):
    graph = community_graph(30, 200, 3)
    made = bench_scaling.one_pass(graph, 5, solver)
    assert [side.solver for side in made.sides] == [solver] * 2
    assert [table.shape for table in made()] == [(30, 5)] * 2


def test_rounds_and_threads_are_obeyed_and_the_pages_names_written(monkeypatch, tmp_path):
    monkeypatch.setenv("REBUILT_RECEIPTS", str(tmp_path))
    told, threads = [], []
    monkeypatch.setattr(bench_scaling.race_of.torch, "set_num_threads", threads.append)
    for name in ("by_size", "by_factors"):
        monkeypatch.setattr(bench_scaling, name, lambda *asked: told.append(asked[2]))
    monkeypatch.setattr(bench_scaling, "POWERS", (6, 7))
    bench_scaling.main(["--rounds", "9", "--threads", "2"])
    assert told == [9, 3] and threads == [2]
    assert [path.name for path in tmp_path.iterdir()] == [
        "matrix_factorization.cpu.study_sizes.json"
    ]


def test_pages_and_links_grow_together_and_factors_are_timed_on_the_smallest(
    monkeypatch, tmp_path
):
    monkeypatch.setenv("REBUILT_RECEIPTS", str(tmp_path))
    told, threads, drawn = [], [], []

    def community(pages, links, seed):
        drawn.append((pages, links))
        return community_graph(40, 100, 3)._replace(titles=[pages])

    monkeypatch.setattr(bench_scaling.link_graph, "community_graph", community)
    monkeypatch.setattr(bench_scaling.race_of.torch, "set_num_threads", threads.append)
    for name in ("by_size", "by_factors"):
        monkeypatch.setattr(bench_scaling, name, lambda *asked: told.append(asked[1]))
    bench_scaling.main([])
    pages = [2**n for n in range(11, 17)]
    assert drawn == [(n, 40 * n) for n in pages] and threads == [1]
    assert [graph.titles for graph in told[0]] == [[n] for n in pages]
    assert told[1].titles == [2**11]


def test_a_timed_pass_starts_from_a_pass_of_its_own_factors():
    graph = community_graph(30, 200, 3)
    own = bench_scaling.race_of.fitted(graph, 6, 1)
    made = bench_scaling.one_pass(graph, 6)
    assert all(map(torch.equal, made.tables, (own.users, own.items)))
