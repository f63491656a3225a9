"""The race compares the same loss: matched weights, slopes, and a pass of `fit`."""

import bench_matrix_factorization as bench_of
import implicit_als as als
import pytest
import torch
from helpers import check
from implicit_als import Settings
from link_graph import community_graph

GRAPH = community_graph(60, 900, 3, seed=5)


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
