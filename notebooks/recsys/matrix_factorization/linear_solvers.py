"""Many small symmetric systems at once: Cholesky in any precision, LU, conjugate gradients.

The last needs only a function that applies the matrices: so it serves `matrix_free`, too.

Shapes: `B` systems, `D` unknowns each; `A_BDD` symmetric, positive definite.
"""

import functools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch

SOLVERS = ("cholesky", "lu", "cg")


def on_cores(task, parts, device):
    """None; `task` is called with each of the parts, which share nothing: on a CPU by as many
    threads as torch has, each with one core; on a GPU one after the other.
    """
    threads = torch.get_num_threads() if device.type == "cpu" else 1
    if threads == 1 or len(parts) == 1:
        for part in parts:
            task(part)
        return
    list(_pool(threads).map(task, parts))
    torch.set_num_threads(threads)  # the pool's have set with how many later ones begin


@functools.cache
def _pool(threads):
    return ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))


def solve(A_BDD, b_BD, solver="cholesky", start_BD=None, steps=None):
    """The solutions (B, D) in the dtype that came; below float32 by `cholesky_columns`, or CG.

    `steps`: of conjugate gradients (default: as many as unknowns), from `start_BD` (default:
    zeros). ValueError for an unknown solver, where Cholesky finds a matrix that is not positive
    definite, and where LU meets a pivot of zero; one singular but for rounding may pass either.
    """
    if solver not in SOLVERS:
        raise ValueError(f"solver {solver!r}; allowed are {', '.join(SOLVERS)}")
    if solver == "cg":
        start_BD = torch.zeros_like(b_BD) if start_BD is None else start_BD
        steps = b_BD.shape[1] if steps is None else steps
        return conjugate_gradients(lambda p_BD: _times(A_BDD, p_BD), b_BD, start_BD, steps)
    if A_BDD.dtype not in (torch.float32, torch.float64):
        return cholesky_columns(A_BDD, b_BD)
    if solver == "lu":
        found, failed = torch.linalg.solve_ex(A_BDD, b_BD)
    else:
        factor, failed = torch.linalg.cholesky_ex(A_BDD, upper=True)  # copied as it lies
        found = torch.cholesky_solve(b_BD[..., None], factor, upper=True)[..., 0]
    if bool(failed.any()):
        told = f"{int((failed > 0).sum())} of {len(failed)} matrices are not positive definite"
        raise ValueError(f"{told}: a larger regularisation, or fewer factors, makes them so")
    return found


def conjugate_gradients(apply, b_BD, start_BD, steps):
    """The solutions (B, D) after `steps` steps from `start_BD`; `apply(p_BD)` multiplies each
    row with its matrix, `steps + 1` times. A system that is done stays where it is: to look for
    such would be a read of the host in each step.
    """
    x_BD = start_BD.clone()
    r_BD = b_BD - apply(x_BD)
    p_BD, squares_B1 = r_BD.clone(), _dot(r_BD, r_BD)
    for step in range(steps):
        q_BD = apply(p_BD)
        length_B1 = _share(squares_B1, _dot(p_BD, q_BD))
        x_BD.addcmul_(length_B1, p_BD)
        if step + 1 < steps:
            r_BD.addcmul_(length_B1, q_BD, value=-1)
            before_B1, squares_B1 = squares_B1, _dot(r_BD, r_BD)
            p_BD.mul_(_share(squares_B1, before_B1)).add_(r_BD)
    return x_BD


def cholesky_columns(A_BDD, b_BD):
    """The solutions (B, D), each column of the factor and each unknown rounded to the dtype
    that came: LAPACK's way, for dtypes that it lacks. A pivot that is not positive gives NaN.
    """
    size = b_BD.shape[1]
    L_BDD = torch.zeros_like(A_BDD)
    for j in range(size):
        column = A_BDD[:, j:, j] - _times(L_BDD[:, j:, :j], L_BDD[:, j, :j])
        L_BDD[:, j:, j] = column / column[:, :1].sqrt()
    y_BD = torch.zeros_like(b_BD)
    for j in range(size):
        y_BD[:, j] = (b_BD[:, j] - (L_BDD[:, j, :j] * y_BD[:, :j]).sum(1)) / L_BDD[:, j, j]
    x_BD = torch.zeros_like(b_BD)
    for j in reversed(range(size)):
        done = (L_BDD[:, j + 1 :, j] * x_BD[:, j + 1 :]).sum(1)
        x_BD[:, j] = (y_BD[:, j] - done) / L_BDD[:, j, j]
    return x_BD


def solve_reference(A_BDD, b_BD):
    """The solutions in float64, one system after the other."""
    pairs = zip(A_BDD.double().cpu().numpy(), b_BD.double().cpu().numpy(), strict=True)
    return torch.tensor(np.array([np.linalg.solve(A, b) for A, b in pairs]))


def _times(A_BDD, p_BD):
    return (A_BDD @ p_BD[..., None])[..., 0]


def _dot(a_BD, b_BD):
    return torch.linalg.vecdot(a_BD, b_BD)[:, None]


def _share(part_B1, whole_B1):
    """Their ratio, 0 where the whole is not above 0: a system that is done takes no step."""
    return torch.where(whole_B1 > 0, part_B1 / whole_B1, torch.zeros_like(whole_B1))
