"""The race compares the same loss: matched weights, slopes, a pass of `fit`; its receipt."""

import json
import sys
import types

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


def conjugate(A, b, x, steps=3):
    """The library's CG: so many steps from its own tables."""
    r = b - A @ x
    p, old = r.copy(), r @ r
    for _ in range(steps if old else 0):  # a row without links is there already
        Ap = A @ p
        move = old / (p @ Ap)
        x, r = x + move * p, r - move * Ap
        new = r @ r
        p, old = r + (new / old) * p, new
    return x


@pytest.fixture
def stand_in(monkeypatch):
    """What the library is asked, where a plain one of its loss takes its place."""
    asked = {"options": [], "threads": [], "limits": []}

    class Plain:
        def __init__(self, **options):
            asked["options"].append(options)
            self.exact = not options["use_cg"]

        def solver(self, matrix, x, y, reg, num_threads):
            asked["threads"].append(num_threads)
            base = (y.T @ y + reg * np.eye(y.shape[1])).astype(np.float64)
            for u in range(len(x)):
                own = matrix[u]
                near, c = y[own.indices].astype(np.float64), own.data.astype(np.float64)
                A, b = base + near.T @ ((c - 1)[:, None] * near), c @ near
                x[u] = np.linalg.solve(A, b) if self.exact else conjugate(A, b, x[u])

    module = types.SimpleNamespace(AlternatingLeastSquares=Plain)
    monkeypatch.setitem(sys.modules, "implicit", types.SimpleNamespace(als=module))
    monkeypatch.setitem(sys.modules, "implicit.als", module)
    limits = types.SimpleNamespace(threadpool_limits=lambda *some: asked["limits"].append(some))
    monkeypatch.setitem(sys.modules, "threadpoolctl", limits)
    monkeypatch.setattr(bench_of, "INSTALLED", True)
    return asked


@pytest.mark.parametrize("solver", bench_of.SOLVERS)
def test_a_plain_solver_of_the_library_s_loss_ends_in_our_tables(stand_in, solver):
    pair = bench_of.contestants(GRAPH, 6, 3, solver)
    assert list(pair) == ["ours", "implicit"]
    first, again = ([one.clone() for one in pair["implicit"]()] for _ in range(2))
    assert all(torch.equal(one, two) for one, two in zip(first, again, strict=True))
    (options,) = stand_in["options"]
    assert options["use_cg"] is (solver == "matrix_free") and options["factors"] == 6
    assert options["num_threads"] == 3 and options["use_gpu"] is False
    assert set(stand_in["threads"]) == {3} and stand_in["limits"] == [(1, "blas")]


@pytest.mark.parametrize("side", [0, 1])
def test_a_library_s_pass_that_ends_elsewhere_stops_the_race(stand_in, monkeypatch, side):
    made = bench_of.theirs

    def theirs(*asked):
        one_pass = made(*asked)

        def wrong():
            tables = list(one_pass())
            tables[side] = tables[side] * 1.02
            return tables

        return wrong

    monkeypatch.setattr(bench_of, "theirs", theirs)
    with pytest.raises(check.Failed):
        bench_of.contestants(GRAPH, 6, 1, "cholesky")


def test_the_library_s_tables_are_judged_in_our_scale_as_ours_are(monkeypatch):
    asked, judged = [], []

    class Library:
        user_factors, item_factors = np.ones((2, len(PAGES.titles), 6), np.float32)

        def fit(self, matrix, show_progress):
            pass

    def library(tables, use_cg, threads, **more):
        asked.append((tables[0].shape, use_cg, threads, more))
        return Library()

    monkeypatch.setattr(bench_of, "library", library)
    rows = link_graph.split_rows(PAGES).test.rows

    def recall(model, k, held):
        assert held.rows == rows
        judged.append(model)
        return k

    monkeypatch.setattr(als.Model, "recall", recall)
    found = bench_of.recalls(PAGES, 6, 2, seeds=2)
    shape = len(PAGES.titles), 6
    wanted = [(shape, True, 2, {"iterations": 8, "random_state": seed}) for seed in (0, 1)]
    assert asked == wanted and found["implicit"] == [20, 20] and len(judged) == 4
    for ours, theirs in zip(judged[::2], judged[1::2], strict=True):
        torch.testing.assert_close(theirs.items, torch.full(shape, (1 / 1.1) ** 0.5))
        for name in ("alpha", "regularisation"):
            assert getattr(ours, name) == getattr(theirs, name)
        assert ours.settings.scaled is theirs.settings.scaled is False


@pytest.fixture
def raced(monkeypatch, tmp_path, one_core):
    """(all that the race asked for, its receipt's metrics), with two threads."""
    asked, seconds = [], bench.Measurement(1.0, 1.0, 1.0, (1.0,) * 6, None, "cpu")

    def community(pages, links):
        asked.append(("drawn", pages, links))
        return GRAPH

    def contestants(graph, factors, threads, solver):
        asked.append(("large" if graph is GRAPH else "links", factors, threads, solver))
        return {"ours": None, "implicit": None}

    def recalls(graph, factors, threads):
        assert graph is PAGES
        asked.append(("recalls", factors, threads))
        return {"gain": [factors / 1000, 0.2, 0.6]}

    def race(pair, repeats, reference):
        results = dict.fromkeys(pair, seconds)
        return bench.Race(
            results, dict.fromkeys(pair, bench.ratio(seconds, seconds)), reference
        )

    monkeypatch.setattr(bench_of.data, "fetch", lambda name: name)
    monkeypatch.setattr(bench_of.link_graph, "read_links", lambda folder: PAGES)
    kept = lambda graph, minimum: asked.append(("links out and in", minimum)) or graph  # noqa: E731
    monkeypatch.setattr(bench_of.link_graph, "with_links", kept)
    monkeypatch.setattr(bench_of.link_graph, "community_graph", community)
    monkeypatch.setattr(bench_of, "contestants", contestants)
    monkeypatch.setattr(bench_of, "recalls", recalls)
    monkeypatch.setattr(bench_of, "INSTALLED", True)
    monkeypatch.setattr(bench_of.bench, "race", race)
    monkeypatch.setenv("REBUILT_RECEIPTS", str(tmp_path))
    bench_of.main(["--threads", "2"])
    told = json.loads((tmp_path / "matrix_factorization.cpu.race_2.json").read_text())
    return asked, told["metrics"]


def test_graphs_factors_and_threads_are_those_that_the_page_names(raced):
    asked, _ = raced
    pairs = [(d, 2, solver) for d in (64, 128) for solver in ("matrix_free", "cholesky")]
    wanted = [("links out and in", 10), ("drawn", 2**14, 40 * 2**14)]
    wanted += [("links", *one) for one in pairs] + [("large", 128, 2, "matrix_free")]
    assert asked == [*wanted, ("recalls", 64, 2), ("recalls", 128, 2)]


def test_a_gain_in_recall_is_the_mean_over_seeds_with_its_range(raced):
    for factors in (64, 128):
        one = raced[1][f"race_recall_{factors}_gain"]
        assert one["value"] == pytest.approx((factors / 1000 + 0.8) / 3)
        assert (one["low"], one["high"]) == (factors / 1000, 0.6) and one["repeats"] == 3
