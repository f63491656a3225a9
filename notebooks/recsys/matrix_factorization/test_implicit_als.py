"""The fit against plain loops and the loss; folding in; precision; what is refused."""

import implicit_als as als
import matrix_free
import pytest
import ranking
import torch
from implicit_als import Precision, Settings
from link_graph import Held, community_graph, histories_of, split_rows

GRAPH = community_graph(40, 500, 4, seed=2)
SOLVERS = ("cholesky", "lu", "cg", "matrix_free")
DEVICES = [
    "cpu",
    pytest.param(
        "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
    ),
]


def fit_reference(rows, cols, items, users_count, alpha, penalties, iterations):
    """(users, items) in float64 from the given items, one row after the other, `penalties` for
    both sides.
    """
    tables = [torch.zeros(users_count, items.shape[1], dtype=torch.float64), items.double()]
    links = list(zip(rows.tolist(), cols.tolist(), strict=True))
    for turn in range(2 * iterations):
        side = turn % 2
        own, other = tables[side], tables[1 - side]
        for row in range(len(own)):
            mine = other[[pair[1 - side] for pair in links if pair[side] == row]]
            matrix = (
                mine.T @ mine
                + alpha * other.T @ other
                + penalties[side][row] * torch.eye(own.shape[1])
            )
            own[row] = torch.linalg.solve(matrix, mine.sum(0))
    return tables


def fitted(
    solver="cholesky",
    iterations=3,
    factors=5,
    where="cpu",
    graph=GRAPH,
    regularisation=0.05,
    **settings,
):
    ends = graph.rows.to(where), graph.cols.to(where)
    return als.fit(
        *ends,
        graph.shape,
        factors,
        0.2,
        regularisation,
        iterations,
        solver,
        Settings(**settings),
    )


@pytest.mark.parametrize("where", DEVICES)
@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("solver", SOLVERS)
def test_a_fit_equals_the_plain_loops(solver, scaled, where):
    model = fitted(solver, where=where, steps=30, length=3, scaled=scaled)
    first = als.first_tables(GRAPH.shape, 5)[1]
    penalties = [
        als.penalties_of(torch.bincount(ends, minlength=40), 40, model)
        for ends in (GRAPH.rows, GRAPH.cols)
    ]
    users, items = fit_reference(GRAPH.rows, GRAPH.cols, first, 40, 0.2, penalties, 3)
    torch.testing.assert_close(model.users.cpu().double(), users, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(model.items.cpu().double(), items, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("solver", ["cg", "matrix_free"])
def test_both_kinds_of_conjugate_gradients_start_from_the_rows_last_vectors(solver):
    draw = torch.Generator().manual_seed(3)
    own, other = (torch.randn(40, 3, generator=draw) for _ in range(2))
    model = als.Model(own, other, 0.1, 0.1, Settings(steps=0))
    side, _ = als.sides_of(GRAPH.rows, GRAPH.cols, GRAPH.shape, solver, model)
    torch.testing.assert_close(side.solved(other, own), own)  # no step from there


def test_first_tables_are_drawn_as_the_library_draws_them_each_side_its_own():
    users, items = als.first_tables((300, 200), 20, seed=4)
    assert users.shape == (300, 20) and items.shape == (200, 20)
    for table in (users, items):
        assert 0 <= table.min() < 1e-5 and 0.01 - 1e-5 < table.max() < 0.01
        assert table.mean().item() == pytest.approx(0.005, rel=0.05)
    assert not torch.equal(users[:200], items)
    assert torch.equal(items, als.first_tables((300, 200), 20, seed=4)[1])
    assert not torch.equal(items, als.first_tables((300, 200), 20, seed=5)[1])


def test_a_fit_begins_with_the_first_tables_of_its_seed(monkeypatch):
    seen = []

    def solved(side, other, own):
        seen.extend([own, other])
        return own

    monkeypatch.setattr(als.Side, "solved", solved)
    fitted(iterations=1, seed=3)
    for own, wanted in zip(seen[:2], als.first_tables(GRAPH.shape, 5, 3), strict=True):
        assert torch.equal(own, wanted)


@pytest.mark.parametrize("solver", ["cholesky", "matrix_free"])
def test_threads_change_no_bit(solver, monkeypatch):
    """Small batches and blocks, so that there are several for each thread."""
    monkeypatch.setattr(matrix_free, "BLOCK", 64)
    graph, before = community_graph(90, 1500, 3, seed=2), torch.get_num_threads()
    settings = Settings(batch=40, length=4, scaled=False)
    start = als.first_tables(graph.shape, 6)
    found = []
    try:
        torch.set_num_threads(3)  # blocks are cut for so many
        model = als.Model(*start, 0.1, 0.1, settings)
        sides = als.sides_of(graph.rows, graph.cols, graph.shape, solver, model)
        for threads in (3, 1):
            torch.set_num_threads(threads)
            found.append([sides[0].solved(start[1], start[0]), torch.get_num_threads()])
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0][0], found[1][0])
    assert [threads for _, threads in found] == [3, 1]


def test_the_loss_by_the_gramian_equals_the_sum_over_all_pairs():
    model, ones = fitted(), torch.zeros(40, 40, dtype=torch.float64)
    ones[GRAPH.rows, GRAPH.cols] = 1
    w, h = model.users.double(), model.items.double()
    sizes = [
        (als.penalties_of(ones.sum(axis), 40, model) * table.square().sum(1)).sum()
        for axis, table in ((1, w), (0, h))
    ]
    slow = (ones * (1 - w @ h.T).square()).sum() + 0.2 * (w @ h.T).square().sum() + sum(sizes)
    torch.testing.assert_close(model.loss(GRAPH.rows, GRAPH.cols), slow)


def test_the_scaled_penalty_is_alx_s():
    model = als.Model(torch.zeros(2, 1), torch.zeros(5, 1), 0.5, 0.1)
    assert als.penalties_of(torch.tensor([0, 3]), 5, model).tolist() == pytest.approx(
        [0.1 * 2.5, 0.1 * 5.5]
    )


def test_the_loss_falls_with_every_pass():
    losses = [fitted(iterations=n).loss(GRAPH.rows, GRAPH.cols) for n in range(1, 6)]
    assert all(after < before for before, after in zip(losses[:-1], losses[1:], strict=True))


def test_folding_a_row_in_ends_where_the_loss_is_flat():
    model, histories = fitted(), histories_of(GRAPH.rows, GRAPH.cols, 40)
    model.users = model.fold_in(histories).requires_grad_()
    (slope,) = torch.autograd.grad(model.loss(GRAPH.rows, GRAPH.cols), model.users)
    assert slope.abs().max() < 1e-4


def test_one_history_gives_one_vector_and_an_empty_one_gives_zeros():
    model = fitted()
    assert model.fold_in([3, 1]).shape == (5,)
    torch.testing.assert_close(model.fold_in([3, 1]), model.fold_in([[1, 3], []])[0])
    assert not model.fold_in([]).any()
    assert not model.fold_in([[1], []])[1].any()


@pytest.mark.parametrize("solver", SOLVERS)
def test_rows_without_links_become_zero(solver):
    graph = GRAPH._replace(rows=GRAPH.rows[GRAPH.rows != 7], cols=GRAPH.cols[GRAPH.rows != 7])
    model = fitted(solver, graph=graph)
    assert not model.users[7].any()
    assert torch.isfinite(model.items).all()


def test_the_order_of_links_and_the_batch_do_not_matter():
    order = torch.randperm(len(GRAPH.rows), generator=torch.Generator().manual_seed(0))
    other = GRAPH._replace(rows=GRAPH.rows[order], cols=GRAPH.cols[order])
    for solver in ("cholesky", "matrix_free"):
        torch.testing.assert_close(
            fitted(solver).items,
            fitted(solver, graph=other, batch=9, length=5).items,
            rtol=1e-4,
            atol=1e-5,
        )


def test_blocks_of_the_pass_without_matrices_change_nothing(monkeypatch):
    whole = fitted("matrix_free")
    monkeypatch.setattr(matrix_free, "BLOCK", 5 * 7)
    torch.testing.assert_close(fitted("matrix_free").items, whole.items, rtol=1e-5, atol=1e-6)


def test_recall_folds_in_held_out_rows_and_finds_communities():
    graph = community_graph(300, 9_000, 6, inside=0.95, seed=1)
    split = split_rows(graph)
    model = als.fit(split.rows, split.cols, graph.shape, 12, 0.1, 0.01, 5, held=split.test)
    assert model.recall(20) == pytest.approx(model.recalls(20, split.test).mean().item())
    chance = 20 / 300
    assert model.recall(20) > 3 * chance


def test_recall_without_held_out_rows_is_refused():
    with pytest.raises(ValueError, match="needs held-out rows"):
        fitted().recall(20)


@pytest.mark.parametrize(
    "precision", [Precision(storage=torch.bfloat16), Precision(rows=torch.bfloat16)]
)
def test_stored_and_rounded_rows_hold_numbers_of_sixteen_bits(precision):
    model = fitted(precision=precision)
    assert model.users.dtype == precision.storage
    assert torch.equal(model.users.float(), model.users.bfloat16().float())
    full = fitted()
    assert not torch.equal(model.users.float(), full.users)
    torch.testing.assert_close(model.users.float(), full.users, rtol=0.1, atol=0.05)


def test_solving_in_sixteen_bits_reaches_the_solver():
    assert not torch.equal(
        fitted(precision=Precision(solve=torch.bfloat16)).users, fitted().users
    )


def fit(
    rows,
    cols,
    shape=(4, 5),
    factors=2,
    alpha=0.1,
    regularisation=0.1,
    iterations=1,
    solver="cholesky",
    settings=None,
):
    ends = torch.tensor(rows), torch.tensor(cols)
    return als.fit(*ends, shape, factors, alpha, regularisation, iterations, solver, settings)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"rows": [0, 1], "cols": [1]}, "2 rows, 1 columns"),
        ({"rows": [], "cols": []}, "as many, not 0"),
        ({"rows": [0.0, 1.0], "cols": [0, 1]}, "rows are torch.float32; allowed are"),
        ({"rows": [0, 4], "cols": [0, 1]}, "rows 0 to 4: allowed are 0 to 3"),
        ({"rows": [0, 1], "cols": [-1, 1]}, "columns -1 to 1"),
        ({"rows": [0, 0, 0], "cols": [1, 1, 2]}, r"link \(0, 1\) and 0 more come twice"),
        ({"rows": [0], "cols": [0], "factors": 5}, "allowed are 1 to 4"),
        ({"rows": [0], "cols": [0], "factors": 0}, "allowed are 1 to 4"),
        (
            {"rows": [0], "cols": [0], "regularisation": 0.0},
            "row 1 has no link and regularisation is 0",
        ),
        (
            {"rows": [0, 1, 2, 3], "cols": [0, 1, 2, 3], "regularisation": 0.0},
            "column 4 has no link",
        ),
        ({"rows": [0], "cols": [0], "alpha": float("nan")}, "finite, not negative"),
        ({"rows": [0], "cols": [0], "regularisation": -1.0}, "finite, not negative"),
        ({"rows": [0], "cols": [0], "iterations": 0}, "iterations 1 or more"),
        (
            {"rows": [0], "cols": [0], "solver": "qr"},
            "allowed are cholesky, lu, cg and matrix_free",
        ),
        (
            {
                "rows": [0],
                "cols": [0],
                "solver": "matrix_free",
                "settings": Settings(precision=Precision(rows=torch.bfloat16)),
            },
            "float32 alone",
        ),
    ],
)
def test_what_has_no_answer_is_refused(bad, words):
    with pytest.raises(ValueError, match=words):
        fit(**bad)


@pytest.mark.parametrize(
    ("history", "words"),
    [
        ([0, 40], "allowed are whole numbers from 0 to 39"),
        ([3, 3], "twice"),
        ([1.5], "whole numbers"),
    ],
)
def test_a_history_that_is_no_set_of_items_is_refused(history, words):
    with pytest.raises(ValueError, match=words):
        fitted().fold_in(history)


def test_tables_with_nan_are_refused_when_a_row_is_folded_in():
    model = fitted()
    model.items[3, 1] = float("nan")
    with pytest.raises(ValueError, match="1 of 40 items are not finite"):
        model.recall(5, Held([0], [torch.tensor([1])], [torch.tensor([2])]))


@pytest.mark.parametrize("last", [7, 39])
def test_an_empty_row_without_any_weight_on_all_pairs_refuses_nothing(last):
    kept = GRAPH.rows != last
    model = als.fit(GRAPH.rows[kept], GRAPH.cols[kept], GRAPH.shape, 5, 0.0, 0.05, 2)
    assert torch.isfinite(model.users).all()
    assert not model.users[last].any()


def test_recall_masks_what_was_seen_and_equals_a_plain_loop():
    model, found = fitted(iterations=2), []
    split = split_rows(GRAPH, share=0.2)
    for seen, wanted in zip(split.test.seen, split.test.wanted, strict=True):
        scores = (model.items @ model.fold_in(seen)).tolist()
        order = sorted(
            (i for i in range(40) if i not in seen.tolist()), key=lambda i: -scores[i]
        )
        found.append(len(set(order[:5]) & set(wanted.tolist())) / min(5, len(wanted)))
    assert model.recalls(5, split.test).tolist() == pytest.approx(found)


def test_scores_are_rounded_before_they_are_ranked():
    held = Held([0], [torch.tensor([0])], [torch.tensor([2])])
    items = torch.tensor([[1.0], [1.0], [1.001]])  # the last two tie in bfloat16
    about = torch.zeros(1, 1), items, 0.1, 0.1
    assert als.Model(*about).recall(1, held) == 1
    rounded = Settings(precision=Precision(scores=torch.bfloat16))
    seen = []
    real = ranking.scores
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranking, "scores", lambda *args: seen.append(args[2]) or real(*args))
        als.Model(*about, rounded).recall(1, held)
    assert seen == [torch.bfloat16]


def test_links_that_are_no_tensors_are_refused():
    with pytest.raises(ValueError, match="columns are list; allowed are tensors"):
        als.fit(torch.tensor([0, 1]), [0, 1], (4, 5), 2, 0.1, 0.1, 1)


def test_a_history_of_two_axes_is_refused():
    with pytest.raises(ValueError, match="one list of items"):
        fitted().fold_in(torch.zeros(2, 2, dtype=torch.int64))
