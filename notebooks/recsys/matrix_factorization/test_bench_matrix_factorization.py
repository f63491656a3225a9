"""The race compares the same loss: matched weights, slopes, a pass of `fit`; its receipt."""

import json

import bench_matrix_factorization as bench_of
import implicit_als as als
import link_graph
import numpy as np
import pytest
import torch
from helpers import bench, check
from implicit_als import Settings
from link_graph import community_graph

GRAPH = community_graph(60, 900, 3, seed=5)
PAGES = community_graph(150, 3000, 3, seed=5)  # a race has 128 factors, and no more than pages


@pytest.mark.parametrize(("alpha", "regularisation"), [(0.01, 0.5), (0.5, 0.01), (3.0, 2.0)])
def test_both_losses_have_the_same_slopes_everywhere(alpha, regularisation):
    assert bench_of.gradients_agree(1, alpha, regularisation) < 1e-9


def test_values_of_both_losses_differ_by_the_same_constant_at_any_point():
    draw = torch.Generator().manual_seed(0)
    ones = (torch.rand(5, 6, generator=draw) < 0.4).double()
    gaps = []
    for _ in range(3):
        tables = [torch.randn(n, 2, generator=draw, dtype=torch.float64) for n in (5, 6)]
        ours, theirs = bench_of.losses(ones, *tables, 0.3, 0.2)
        gaps.append((ours - theirs).item())
    assert gaps == pytest.approx([gaps[0]] * 3)


def test_the_regularisation_read_off_the_matrices_has_other_slopes(monkeypatch):
    monkeypatch.setattr(bench_of, "matched", lambda a, r: (1 + 1 / a, r / a, 1 / (1 + a)))
    with pytest.raises(check.Failed):
        bench_of.gradients_agree()


@pytest.mark.parametrize("solver", bench_of.SOLVERS)
def test_a_raced_pass_is_one_of_a_fit(solver):
    settings = Settings(scaled=False)
    about = GRAPH.rows, GRAPH.cols, GRAPH.shape, 6, bench_of.ALPHA, bench_of.PLAIN
    before, after = (als.fit(*about, n, solver, settings) for n in (2, 3))
    users, items = bench_of.Pass(GRAPH, (before.users, before.items), solver)()
    torch.testing.assert_close(users, after.users)
    torch.testing.assert_close(items, after.items)


def test_implicit_s_pass_ends_in_our_tables():
    pytest.importorskip("implicit", reason="a peer of the race, in an environment of its own")
    for solver in bench_of.SOLVERS:
        assert set(bench_of.contestants(GRAPH, 6, 1, solver)) == {"ours", "implicit"}


@pytest.fixture
def one_core(monkeypatch):
    """A bench takes one thread, and leaves torch's number as it was."""
    before = torch.get_num_threads()
    monkeypatch.setattr(bench_of.device, "cores", lambda: 1)
    yield
    torch.set_num_threads(before)


def test_the_race_s_ratio_is_the_library_s_time_over_ours(monkeypatch, tmp_path, one_core):
    """Ours takes a second, the library's pass as many as there are factors."""

    def theirs(graph, tables, use_cg, threads):
        own = bench_of.Pass(graph, tables, "matrix_free" if use_cg else "cholesky")
        scale = bench_of.matched(bench_of.ALPHA, bench_of.PLAIN)[2] ** 0.5
        return lambda: [table / scale for table in own()]

    def raced(contestants, repeats, reference):
        seconds = {"ours": 1.0, "implicit": float(contestants["ours"].tables[0].shape[1])}
        results = {
            name: bench.Measurement(s, s, s, (s,) * repeats, None, "cpu")
            for name, s in seconds.items()
            if name in contestants
        }
        ratios = {name: bench.ratio(results[reference], one) for name, one in results.items()}
        return bench.Race(results, ratios, reference)

    monkeypatch.setattr(bench_of.data, "fetch", lambda name: "")
    monkeypatch.setattr(bench_of.link_graph, "read_links", lambda folder: PAGES)
    monkeypatch.setattr(bench_of.link_graph, "with_links", lambda graph, minimum: graph)
    monkeypatch.setattr(bench_of.link_graph, "community_graph", lambda pages, links: PAGES)
    monkeypatch.setattr(bench_of, "recalls", lambda graph, factors, threads: {})
    monkeypatch.setattr(bench_of, "theirs", theirs)
    monkeypatch.setattr(bench_of, "INSTALLED", True)
    monkeypatch.setattr(bench_of.bench, "race", raced)
    monkeypatch.setenv("REBUILT_RECEIPTS", str(tmp_path))
    bench_of.main(["--rounds", "6"])
    content = json.loads((tmp_path / "matrix_factorization.cpu.race.json").read_text())
    wanted = {f"race_{solver}_{d}": d for solver in bench_of.SOLVERS for d in (64, 128)}
    wanted["race_large_matrix_free_128"] = 128
    assert {name: content["metrics"][name]["value"] for name in wanted} == wanted


@pytest.fixture
def recalled(monkeypatch):
    """(what `recalls` finds for two seeds, the matrices that the library was given)."""
    given = []

    class Library:
        def __init__(self, seed):
            draw = np.random.default_rng(seed)
            shape = len(PAGES.titles), 6
            self.user_factors, self.item_factors = draw.standard_normal((2, *shape), np.float32)

        def fit(self, matrix, show_progress):
            given.append(matrix)

    def library(tables, use_cg, threads, iterations, random_state):
        return Library(random_state)

    monkeypatch.setattr(bench_of, "library", library)
    return bench_of.recalls(PAGES, 6, 1, seeds=2, iterations=3), given


def test_the_library_learns_from_no_held_out_row(recalled):
    split = link_graph.split_rows(PAGES)
    for matrix in recalled[1]:
        assert not matrix[split.test.rows].nnz and not matrix[split.validation.rows].nnz
        assert matrix.nnz == len(split.rows) < len(PAGES.rows)


def test_each_seed_has_our_recall_first_of_a_model_that_saw_no_held_out_row(recalled):
    split = link_graph.split_rows(PAGES)
    trained = PAGES._replace(rows=split.rows, cols=split.cols)
    models = [bench_of.fitted(trained, 6, 3, seed) for seed in (0, 1)]
    ours, theirs, gain = recalled[0].values()
    assert gain == [one - two for one, two in zip(ours, theirs, strict=True)]
    assert ours == [model.recall(20, split.test) for model in models]
    assert len(theirs) == 2 and max(theirs) < min(ours)  # the library's tables are noise
