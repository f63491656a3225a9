"""A pass without matrices against the same steps on matrices, and its counted arithmetic."""

import matrix_free
import torch
from linear_solvers import solve
from link_graph import histories_of

U, N, D = 11, 13, 4


def problem(seed=0):
    draw = torch.Generator().manual_seed(seed)
    ones = torch.rand(U, N, generator=draw) < 0.3
    ones[5] = False
    rows, cols = ones.nonzero(as_tuple=True)
    items = torch.randn(N, D, generator=draw)
    start, penalties = torch.randn(U, D, generator=draw), torch.rand(U, generator=draw) + 0.1
    return rows, cols, items, start, penalties


def test_every_step_equals_the_step_with_matrices():
    rows, cols, items, start, penalties = problem()
    gram = 0.3 * items.T @ items
    histories = histories_of(rows, cols, U)
    A = (
        torch.stack([items[h].T @ items[h] for h in histories])
        + gram
        + penalties[:, None, None] * torch.eye(D)
    )
    b = torch.stack([items[h].sum(0) for h in histories])
    links = matrix_free.sparse_links(rows, cols, (U, N), D)
    some = torch.tensor([n for n in range(U) if n != 5])
    for steps in (0, 1, 2, 3):
        found = matrix_free.solve_rows(links, items, start, gram, penalties, steps)
        torch.testing.assert_close(
            found[some], solve(A, b, "cg", start, steps)[some], rtol=1e-4, atol=1e-5
        )
        assert not found[5].any()  # a row without links


def test_links_in_any_order_give_the_same_matrix():
    rows, cols, *_ = problem()
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(1))
    one, two = (
        matrix_free.sparse_links(*ends, (U, N), D)
        for ends in ((rows, cols), (rows[order], cols[order]))
    )
    assert torch.equal(one.blocks[0][2].to_dense(), two.blocks[0][2].to_dense())
    assert one.links_U.tolist() == torch.bincount(rows, minlength=U).tolist()


def test_blocks_are_as_many_for_each_thread_and_of_equal_work(monkeypatch):
    counts = torch.arange(500) // 8  # later rows have more links, up to 62
    rows, before = torch.repeat_interleave(torch.arange(500), counts), torch.get_num_threads()
    cols = torch.arange(len(rows)) - (counts.cumsum(0) - counts)[rows]
    monkeypatch.setattr(matrix_free, "BLOCK", 500 * 8 // 5)  # five blocks would do
    try:
        torch.set_num_threads(4)
        links = matrix_free.sparse_links(rows, cols, (500, 70), 8)
    finally:
        torch.set_num_threads(before)
    work = [
        counts[start:end].sum().item() + 4 * (end - start) for start, end, _ in links.blocks
    ]
    assert len(work) == 8 and sum(work) == counts.sum() + 4 * 500
    assert max(work) - min(work) <= 2 * (62 + 4)  # a row more or less at each end
    assert [start for start, *_ in links.blocks[1:]] == [end for _, end, _ in links.blocks[:-1]]
    assert links.blocks[0][0] == 0 and links.blocks[-1][1] == 500


def test_few_rows_are_one_block():
    rows, cols, *_ = problem()
    assert len(matrix_free.sparse_links(rows, cols, (U, N), D).blocks) == 1


def test_the_counted_arithmetic_is_that_of_the_formula():
    assert matrix_free.flops(10, 50, 4, steps=3) == 4 * (2 * 10 * 16 + 4 * 50 * 4) + 2 * 10 * 16
    by_hand = 2 * 50 * 16 + 10 * (64 / 3 + 32) + 2 * 10 * 16
    assert matrix_free.normal_equation_flops(10, 50, 4) == by_hand
