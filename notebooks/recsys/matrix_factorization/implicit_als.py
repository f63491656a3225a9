"""Implicit alternating least squares as the article's ALX solves it: all pairs in the loss, one
Gramian a pass.

The loss over users' vectors w and items' vectors h, with S the set of links (Hu, Koren and
Volinsky 2008; in the form of Rendle et al. 2021):

    sum over S of (1 - w.h)^2  +  alpha * sum over all pairs of (w.h)^2
        +  sum_u lambda_u |w_u|^2  +  sum_i lambda_i |h_i|^2

With H fixed each w solves (sum over its items of h h' + alpha * H'H + lambda_u I) w = sum over
its items of h; then sides change. `scaled`: lambda_u = regularisation * (links of u + alpha *
items), as ALX trains; else lambda_u = regularisation. ALX's code of 2021 folds test rows in
with the plain one; here training and `fold_in` use the same.

Shapes: `U` rows (users), `N` columns (items), `D` factors, `R` dense rows, `L` items in a dense
row.
"""

from dataclasses import dataclass
from typing import NamedTuple

import matrix_free
import numpy as np
import ranking
import torch
from dense_batching import dense_batches  # noqa: F401  a public name of this module, too
from linear_solvers import SOLVERS, solve
from link_graph import both_ways, histories_of, refuse_links


class Precision(NamedTuple):
    """dtypes: tables are stored in `storage`, systems built and solved in `solve`, solved rows
    and scores rounded to these.
    """

    storage: torch.dtype = torch.float32
    solve: torch.dtype = torch.float32
    rows: torch.dtype | None = None
    scores: torch.dtype | None = None


@dataclass(frozen=True)
class Settings:
    """How a fit is done: whether lambda is `scaled`, dense rows of `length` items, `batch` of
    them at once, `steps` of CG.
    """

    scaled: bool = True
    length: int = 16
    batch: int = 128
    steps: int = 3
    precision: Precision = Precision()
    seed: int = 0


class Model:
    """A fitted factorisation: `users` (U, D), `items` (N, D), and what made them."""

    def __init__(self, users, items, alpha, regularisation, settings=None, held=None):
        self.users, self.items, self.held = users, items, held
        self.alpha, self.regularisation = float(alpha), float(regularisation)
        self.settings = settings or Settings()

    def fold_in(self, history):
        """The vector (D,) of a row that no training saw, from its items; of a list of
        histories, (B, D).

        Solved by Cholesky with the items fixed. ValueError for an item that is not there, twice
        the same, or NaN items.
        """
        _refuse_nan("items", self.items)
        one = torch.is_tensor(history) or not len(history) or not np.ndim(history[0])
        histories = [
            _checked(asked, len(self.items)) for asked in ([history] if one else history)
        ]
        side = Side(histories, len(self.items), "cholesky", self, self.items.device)
        found = side.solved(self.items, None)
        return found[0] if one else found

    def recall(self, k, held=None):
        """Mean capped recall at k over held-out rows, each folded in from what may be seen,
        which is masked.

        `held`: a `link_graph.Held`, default the one that `fit` was given. ValueError without
        one.
        """
        held = held or self.held
        if held is None:
            raise ValueError("recall needs held-out rows: fit(…, held=…) or recall(k, held=…)")
        return float(self.recalls(k, held).mean())

    def recalls(self, k, held):
        """The capped recall at k of each held-out row, (rows,)."""
        dtype = self.settings.precision.scores
        scores = ranking.scores(self.fold_in(held.seen), self.items, dtype)
        return ranking.capped_recall(ranking.top_k(scores, held.seen, k), held.wanted)

    def loss(self, rows, cols):
        """The loss above on these links, in float64."""
        w, h = self.users.double(), self.items.double()
        on_links = (1 - (w[rows] * h[cols]).sum(1)).square().sum()
        everywhere = ((w.T @ w) * (h.T @ h)).sum()
        sizes = 0
        for ends, own, other in ((rows, w, h), (cols, h, w)):
            penalties = penalties_of(torch.bincount(ends, minlength=len(own)), len(other), self)
            sizes = sizes + (penalties.double() * own.square().sum(1)).sum()
        return on_links + self.alpha * everywhere + sizes


def fit(
    rows,
    cols,
    shape,
    factors,
    alpha,
    regularisation,
    iterations,
    solver="cholesky",
    settings=None,
    held=None,
):
    """The Model after `iterations` passes over both sides: `fit(rows, cols, (U, N), 32, 0.05,
    0.01, 8).recall(20)`.

    `rows`, `cols`: int64 tensors of the links, on the device that does the work. `solver`:
    "cholesky", "lu" or "cg" on dense batches, or "matrix_free" (conjugate gradients, no
    matrices; float32). Both kinds of CG start from the row's last vector. Raises ValueError for
    what `refuse` names, and where a system in float32 has no answer; solves in bfloat16 may end
    in NaN, which is for the caller to see.
    """
    settings = settings or Settings()
    refuse(rows, cols, shape, factors, alpha, regularisation, iterations)
    if solver not in (*SOLVERS, "matrix_free"):
        raise ValueError(f"solver {solver!r}; allowed are {', '.join(SOLVERS)} and matrix_free")
    if solver == "matrix_free" and settings.precision != Precision():
        raise ValueError(f"{settings.precision}: matrix_free works in float32 alone")
    draw = torch.Generator().manual_seed(settings.seed)
    items = torch.randn(shape[1], factors, generator=draw) * 0.1 / factors**0.5
    storage, where = settings.precision.storage, rows.device
    users = torch.zeros(shape[0], factors, dtype=storage, device=where)
    model = Model(users, items.to(where, storage), alpha, regularisation, settings, held)
    sides = sides_of(rows, cols, shape, solver, model)
    for _ in range(iterations):
        model.users = sides[0].solved(model.items, model.users)
        model.items = sides[1].solved(model.users, model.items)
    if settings.precision.solve != torch.bfloat16:
        _refuse_nan("items", model.items)
    return model


def penalties_of(links_U, others, model):
    """Each row's lambda (U,): scaled by its links and the other side, or all the same."""
    plain = torch.full(links_U.shape, model.regularisation, device=links_U.device)
    return plain * (links_U + model.alpha * others) if model.settings.scaled else plain


def gramian(table_ND, dtype=torch.float32):
    """The sum (D, D) of the outer products of a table's rows, summed in float32 at least."""
    wide = table_ND.to(torch.float32) if table_ND.dtype != torch.float64 else table_ND
    return (wide.T @ wide).to(dtype)


def normal_equations(h_RLD, place_R, gram_DD, penalties_U):
    """(matrices (U, D, D), right-hand sides (U, D)) of a batch's owners from their items'
    vectors, zeros in empty places.

    `gram_DD` is `alpha` times the Gramian, and its dtype is that of all arithmetic. Outer
    products of each dense row first, then a segment sum over the rows of each owner.
    """
    h_RLD = h_RLD.to(gram_DD.dtype)
    count, size = len(penalties_U), h_RLD.shape[2]
    A_UDD = gram_DD.expand(count, size, size).clone()
    A_UDD.index_add_(0, place_R, h_RLD.mT @ h_RLD)
    A_UDD.diagonal(dim1=1, dim2=2).add_(penalties_U[:, None].to(A_UDD.dtype))
    b_UD = A_UDD.new_zeros(count, size).index_add_(0, place_R, h_RLD.sum(1))
    return A_UDD, b_UD


class Side:
    """All that one side's passes share: its links, batched once, and its penalties."""

    def __init__(self, links, others, solver, model, where):
        self.settings, self.alpha, self.solver = model.settings, model.alpha, solver
        if solver == "matrix_free":
            self.links, counts = links, links.links_U
        else:
            dense = dense_batches(links, self.settings.length)
            parts = dense.batches(dense.enough(self.settings.batch))
            self.batches = [type(part)(*(t.to(where) for t in part)) for part in parts]
            counts = dense.links_U.to(where)
        self.penalties = penalties_of(counts, others, model)

    def solved(self, other_ND, own_UD):
        """This side's table, solved with the other side's fixed."""
        to, steps = self.settings.precision, self.settings.steps
        gram = self.alpha * gramian(other_ND, to.solve)
        if self.solver == "matrix_free":
            about = self.links, other_ND, own_UD, gram, self.penalties
            return matrix_free.solve_rows(*about, steps)
        table = torch.cat([other_ND, other_ND.new_zeros(1, other_ND.shape[1])])
        found = other_ND.new_zeros(len(self.penalties) + 1, other_ND.shape[1], dtype=to.storage)
        for items_RL, place_R, owners_U in self.batches:  # the last row takes what is nobody's
            penalties_U = torch.where(owners_U < 0, 1, self.penalties[owners_U])
            A_UDD, b_UD = normal_equations(table[items_RL], place_R, gram, penalties_U)
            start = None if own_UD is None else own_UD[owners_U].to(to.solve)
            rows_UD = solve(A_UDD, b_UD, self.solver, start, steps)
            found[owners_U] = rows_UD.to(to.rows or to.storage).to(to.storage)
        return found[:-1]


def sides_of(rows, cols, shape, solver, model):
    """The two Sides of a fit: rows, and columns."""
    sides, factors = [], model.items.shape[1]
    for own, other, sizes in both_ways(rows, cols, shape):
        if solver == "matrix_free":
            links = matrix_free.sparse_links(own, other, sizes, factors)
        else:
            links = histories_of(own.cpu(), other.cpu(), sizes[0])
        sides.append(Side(links, sizes[1], solver, model, rows.device))
    return sides


def refuse(rows, cols, shape, factors, alpha, regularisation, iterations):
    """None; ValueError for what is no set of links, and systems without an answer."""
    refuse_links(rows, cols, shape)
    if not 1 <= factors <= min(shape):
        told = f"factors={factors} for a matrix of {shape[0]} × {shape[1]}"
        raise ValueError(f"{told}: allowed are 1 to {min(shape)}: no matrix has a higher rank")
    weights = f"alpha={alpha}, regularisation={regularisation}, iterations={iterations}"
    if not (0 <= alpha < np.inf and 0 <= regularisation < np.inf) or iterations < 1:
        raise ValueError(
            f"{weights}: weights are finite and not negative, iterations 1 or more"
        )
    for name, ends, count in (("row", rows, shape[0]), ("column", cols, shape[1])):
        empty = (torch.bincount(ends, minlength=count) == 0).nonzero()
        if len(empty) and regularisation == 0:
            told = f"{name} {int(empty[0, 0])} has no link and regularisation is 0"
            raise ValueError(f"{told}: nothing holds its vector, so more than 0 is allowed")


def _checked(history, count):
    """The history as an int64 tensor on the CPU; ValueError for what is no set of items."""
    history = torch.as_tensor(history).cpu()
    told = f"items {history.tolist()[:20]}"
    if history.ndim != 1:
        raise ValueError(f"{told}: a history is one list of items, or a list of such lists")
    if len(history) and (
        history.is_floating_point() or not 0 <= history.min() <= history.max() < count
    ):
        raise ValueError(f"{told}: allowed are whole numbers from 0 to {count - 1}")
    if len(torch.unique(history)) != len(history):
        raise ValueError(f"{told}: one comes twice; a link is there or not, so allowed is once")
    return history.long()


def _refuse_nan(name, table):
    bad = int((~torch.isfinite(table)).any(1).sum())
    if bad:
        told = f"{bad} of {len(table)} {name} are not finite"
        raise ValueError(f"{told}: a row cannot be solved from them")
