"""Implicit alternating least squares as the article's ALX solves it: all pairs in the loss, one
Gramian a pass.

The loss over users' vectors w and items' vectors h, with S the set of links (Hu, Koren and
Volinsky 2008; in the form of Rendle et al. 2021):

    sum over S of (1 - w.h)^2  +  alpha * sum over all pairs of (w.h)^2
        +  sum_u lambda_u |w_u|^2  +  sum_i lambda_i |h_i|^2

With H fixed each w solves (sum over its items of h h' + alpha * H'H + lambda_u I) w = sum over
its items of h; then sides change. `scaled`: lambda_u = regularisation * (links of u + alpha *
items), as ALX trains; else lambda_u = regularisation. ALX's code of 2021 folds test rows in
with the plain one; here training and `fold_in` use the same. First tables are drawn as the
package implicit draws them (0.7.3), its scale left out.

Shapes: `U` rows (users), `N` columns (items), `D` factors, `R` dense rows of `L` items.
"""

import itertools
from collections import namedtuple
from dataclasses import dataclass

import matrix_free
import numpy as np
import ranking
import torch
from dense_batching import dense_batches  # noqa: F401  a public name of this module, too
from linear_solvers import SOLVERS, on_cores, solve
from link_graph import both_ways, histories_of, refuse_links

# dtypes of stored tables, of systems and their solving, of solved rows, of scores.
FULL = torch.float32, torch.float32, None, None
Precision = namedtuple("Precision", "storage solve rows scores", defaults=FULL)


@dataclass(frozen=True)
class Settings:
    """Whether lambda is `scaled`; `batch` dense rows of `length` items; `steps` of CG."""

    scaled: bool = True
    length: int = 16
    batch: int = 128
    steps: int = 3
    precision: Precision = Precision()
    seed: int = 0


class Model:
    """A factorisation: `users` (U, D), `items` (N, D), and what made them."""

    def __init__(self, users, items, alpha, regularisation, settings=None, held=None):
        self.users, self.items, self.held = users, items, held
        self.alpha, self.regularisation = float(alpha), float(regularisation)
        self.settings = settings or Settings()

    def fold_in(self, history):
        """The vector (D,) of a row that no training saw, from its items, which stay fixed; of a
        list of histories, (B, D). ValueError for an item that is not there or comes twice, and
        for NaN items.
        """
        _refuse_nan("items", self.items)
        one = torch.is_tensor(history) or not len(history) or not np.ndim(history[0])
        asked = [_checked(own, len(self.items)) for own in ([history] if one else history)]
        side = Side(asked, len(self.items), "cholesky", self, self.items.device)
        found = side.solved(self.items, None)
        return found[0] if one else found

    def recall(self, k, held=None):
        """Mean capped recall at k over held-out rows, each folded in from what may be seen,
        which is masked. `held`: a `link_graph.Held`, default that of `fit`; ValueError without.
        """
        held = held or self.held
        if held is None:
            raise ValueError("recall needs held-out rows: fit(…, held=…) or recall(k, held=…)")
        return float(self.recalls(k, held).mean())

    def recalls(self, k, held):
        """The capped recall at k of each held-out row, (rows,)."""
        users, rounded = self.fold_in(held.seen), self.settings.precision.scores
        scores = ranking.scores(users, self.items, rounded)
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
    "cholesky", "lu" or "cg" on dense batches, or "matrix_free" (CG without matrices; float32).
    Both kinds of CG start from the row's last vector. On a CPU torch's threads solve batches
    side by side. ValueError for what `refuse` names, and where a system in float32 has no
    answer; solves in bfloat16 may end in NaN, which is for the caller to see.
    """
    settings = settings or Settings()
    refuse(rows, cols, shape, factors, alpha, regularisation, iterations)
    if solver not in (*SOLVERS, "matrix_free"):
        raise ValueError(f"solver {solver!r}; allowed are {', '.join(SOLVERS)} and matrix_free")
    if solver == "matrix_free" and settings.precision != Precision():
        raise ValueError(f"{settings.precision}: matrix_free works in float32 alone")
    where = rows.device, settings.precision.storage
    users, items = (table.to(*where) for table in first_tables(shape, factors, settings.seed))
    model = Model(users, items, alpha, regularisation, settings, held)
    sides = sides_of(rows, cols, shape, solver, model)
    for _ in range(iterations):
        model.users = sides[0].solved(model.items, model.users)
        model.items = sides[1].solved(model.users, model.items)
    if settings.precision.solve != torch.bfloat16:
        _refuse_nan("items", model.items)
    return model


def first_tables(shape, factors, seed=0):
    """Both tables before the first pass, (U, D) and (N, D): uniform between 0 and 0.01."""
    draw = torch.Generator().manual_seed(seed)
    return [torch.rand(count, factors, generator=draw) * 0.01 for count in shape]


def penalties_of(links_U, others, model):
    """Each row's lambda (U,): scaled by its links and the other side, or all the same."""
    plain = torch.full(links_U.shape, model.regularisation, device=links_U.device)
    return plain * (links_U + model.alpha * others) if model.settings.scaled else plain


def gramian(table_ND, dtype=torch.float32):
    """The sum (D, D) of the outer products of a table's rows, summed in float32 at least."""
    wide = table_ND.to(torch.float32) if table_ND.dtype != torch.float64 else table_ND
    return (wide.T @ wide).to(dtype)


def normal_equations(h_RLD, ends, gram_DD, penalties_U):
    """(matrices (U, D, D), right-hand sides (U, D)) of a batch's owners from their items'
    vectors, zeros in empty places, and its `ends`.

    `gram_DD`, `alpha` times the Gramian, has the dtype of all arithmetic. Outer products of a
    dense row are added where its owner's sum lies: none is written by itself.
    """
    h_RLD = h_RLD.to(gram_DD.dtype)
    A_UDD = gram_DD.repeat(len(penalties_U), 1, 1)
    A_UDD.diagonal(dim1=1, dim2=2).add_(penalties_U[:, None].to(A_UDD.dtype))
    b_UD = A_UDD.new_zeros(A_UDD.shape[:2])
    for start, end in itertools.pairwise((0, *ends)):
        part, count = h_RLD[start:end], end - start
        A_UDD[:count].baddbmm_(part.mT, part)
        b_UD[:count] += part.sum(1)
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
            self.batches = [part.to(where) for part in parts]
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

        def solve_batch(batch):
            owners_U = batch.owners_U  # -1, nobody's: the last row takes it
            penalties_U = torch.where(owners_U < 0, 1, self.penalties[owners_U])
            systems = normal_equations(table[batch.items_RL], batch.ends, gram, penalties_U)
            start = None if own_UD is None else own_UD[owners_U].to(to.solve)
            rows_UD = solve(*systems, self.solver, start, steps)
            found[owners_U] = rows_UD.to(to.rows or to.storage).to(to.storage)

        on_cores(solve_batch, self.batches, found.device)
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
    if not (0 <= alpha < np.inf and 0 <= regularisation < np.inf) or iterations < 1:
        told = f"alpha={alpha}, regularisation={regularisation}, iterations={iterations}"
        raise ValueError(f"{told}: weights are finite, not negative, iterations 1 or more")
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
    whole = not len(history) or not history.is_floating_point()
    if not whole or len(history) and not 0 <= history.min() <= history.max() < count:
        raise ValueError(f"{told}: allowed are whole numbers from 0 to {count - 1}")
    if len(torch.unique(history)) != len(history):
        raise ValueError(f"{told}: one comes twice; a link is there or not, so allowed is once")
    return history.long()


def _refuse_nan(name, table):
    if bad := int((~torch.isfinite(table)).any(1).sum()):
        told = f"{bad} of {len(table)} {name} are not finite"
        raise ValueError(f"{told}: a row cannot be solved from them")
