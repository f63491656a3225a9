"""Each solver against the plain one, at sizes 1 and odd, on every device; conjugate gradients'
law; refused input.
"""

from concurrent.futures import ThreadPoolExecutor

import linear_solvers
import pytest
import torch
from linear_solvers import solve

DEVICES = [
    "cpu",
    pytest.param(
        "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
    ),
]


def systems(count, size, seed=0, dtype=torch.float64, where="cpu"):
    draw = torch.Generator().manual_seed(seed)
    roots = torch.randn(count, size, size + 3, generator=draw, dtype=torch.float64)
    A = roots @ roots.mT + 0.5 * torch.eye(size, dtype=torch.float64)
    b = torch.randn(count, size, generator=draw, dtype=torch.float64)
    return A.to(where, dtype), b.to(where, dtype)


@pytest.mark.parametrize("where", DEVICES)
@pytest.mark.parametrize("solver", linear_solvers.SOLVERS)
@pytest.mark.parametrize(("count", "size"), [(1, 1), (5, 7), (3, 16)])
def test_solvers_equal_the_reference(solver, count, size, where):
    A, b = systems(count, size, where=where)
    found = solve(A, b, solver, steps=4 * size)
    assert found.device == A.device
    torch.testing.assert_close(
        found.cpu(), linear_solvers.solve_reference(A, b), rtol=1e-6, atol=1e-8
    )


def test_cholesky_by_columns_equals_the_reference_in_float64():
    A, b = systems(4, 9)
    torch.testing.assert_close(
        linear_solvers.cholesky_columns(A, b), linear_solvers.solve_reference(A, b)
    )


def test_sixteen_bits_keep_the_dtype_and_lose_digits():
    A, b = systems(4, 9)
    found = solve(A.bfloat16(), b.bfloat16())
    assert found.dtype == torch.bfloat16
    assert torch.equal(found, linear_solvers.cholesky_columns(A.bfloat16(), b.bfloat16()))
    wide = solve(A.bfloat16().float(), b.bfloat16().float()).bfloat16()
    assert not torch.equal(found, wide)  # rounded at the end alone
    lost = (found.double() - linear_solvers.solve_reference(A, b)).abs().max()
    assert 1e-4 < lost < 5


def test_as_many_steps_as_unknowns_solve_and_each_step_comes_nearer_in_the_matrix_s_norm():
    A, b = systems(3, 8)
    exact = linear_solvers.solve_reference(A, b)
    far = []
    for steps in range(9):
        away = solve(A, b, "cg", steps=steps) - exact
        far.append((away[:, None] @ A @ away[..., None])[:, 0, 0])
    assert all(
        bool((after <= before + 1e-12).all())
        for before, after in zip(far[:-1], far[1:], strict=True)
    )
    assert far[-1].max() < 1e-12 * far[0].max()


def test_a_start_at_the_solution_stays_there():
    A, b = systems(3, 5)
    exact = linear_solvers.solve_reference(A, b)
    torch.testing.assert_close(solve(A, b, "cg", exact, 7), exact)


def test_a_right_hand_side_of_zeros_gives_zeros_not_nan():
    A, _ = systems(2, 4)
    assert not solve(A, torch.zeros(2, 4, dtype=A.dtype), "cg", steps=3).any()


def test_the_start_is_not_overwritten():
    A, b = systems(2, 4)
    start = torch.ones_like(b)
    solve(A, b, "cg", start, 2)
    assert torch.equal(start, torch.ones_like(b))


def test_a_matrix_that_is_not_positive_definite_is_refused_by_cholesky():
    A, b = systems(3, 4)
    A[1] = -A[1]
    with pytest.raises(ValueError, match="1 of 3 matrices are not positive definite"):
        solve(A, b)


def test_an_unknown_solver_is_refused():
    with pytest.raises(ValueError, match="allowed are cholesky, lu, cg"):
        solve(*systems(1, 2), "qr")


@pytest.mark.parametrize("threads", [1, 2])
def test_all_parts_are_done_each_with_one_thread_of_its_own(threads):
    before, seen = torch.get_num_threads(), []
    try:
        torch.set_num_threads(threads)
        linear_solvers.on_cores(
            lambda part: seen.append((part, torch.get_num_threads())),
            range(5),
            torch.device("cpu"),
        )
        assert sorted(seen) == [(part, 1) for part in range(5)]
        with ThreadPoolExecutor(1) as later:  # threads that begin afterwards are as before
            told = later.submit(torch.get_num_threads).result()
        assert torch.get_num_threads() == told == threads
    finally:
        torch.set_num_threads(before)


def test_an_error_in_one_part_is_raised():
    with pytest.raises(ValueError, match="part 3"):
        linear_solvers.on_cores(_fails_at_3, range(5), torch.device("cpu"))


def _fails_at_3(part):
    if part == 3:
        raise ValueError("part 3")


@pytest.mark.parametrize("solver", ["cholesky", "lu"])
def test_a_singular_matrix_is_refused_by_both_exact_solvers(solver):
    A_BDD = torch.stack([torch.eye(2), torch.ones(2, 2)])  # exact in any arithmetic
    with pytest.raises(ValueError, match="1 of 2 matrices are not positive definite"):
        solve(A_BDD, torch.ones(2, 2), solver)
