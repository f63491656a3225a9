"""The race: one pass over both sides, ours and the library implicit's, on the same links and
cores, for the same loss.

    python -m bench_matrix_factorization                 # 20 rounds; a receipt
    python -m bench_matrix_factorization --rounds 3 --threads 1

Implicit weighs a link with c in c (1 - x.y)^2 and everything else with 1. With c = 1 + 1/alpha,
a regularisation of lambda (1 + alpha) / alpha and w = sqrt(t) x, h = sqrt(t) y for t = 1 / (1 +
alpha), its loss is ours over alpha t^2 but for a constant. `gradients_agree` holds that before
anything is timed: values and gradients of both losses, and one pass of each solver from the
same tables. Lambda is not scaled by links on either side. What is timed is implicit's own
solver on its arrays, without the progress bar and copies of its `fit`, and `Side.solved` of
ours; three steps of CG on both, from the last vectors.
"""

import argparse
import itertools
import os
from pathlib import Path

import implicit_als as als
import link_graph
import torch
from helpers import bench, check, data, device, receipts
from implicit_als import Settings

ALPHA, PLAIN = 0.1, 1.0  # near the best on validation rows in the study's plain grid
PLAINLY = Settings(scaled=False)
SOLVERS = ("matrix_free", "cholesky")  # ours; implicit's are its CG and its Cholesky


def matched(alpha, regularisation):
    """(implicit's alpha, implicit's regularisation, the scale t of products) for the loss of
    `implicit_als`.
    """
    return 1 + 1 / alpha, regularisation * (1 + alpha) / alpha, 1 / (1 + alpha)


def losses(ones_UN, w, h, alpha, regularisation):
    """(our loss, implicit's at the matching tables times alpha t^2), over all pairs,
    differentiable.
    """
    weight, reg, t = matched(alpha, regularisation)
    products = w @ h.T
    sizes = w.square().sum() + h.square().sum()
    ours = (ones_UN * (1 - products).square() + alpha * products.square()).sum()
    costs = weight * (1 - products / t).square(), (products / t).square()
    theirs = torch.where(ones_UN > 0, *costs).sum()
    return ours + regularisation * sizes, (theirs + reg * sizes / t) * alpha * t**2


def gradients_agree(seed=0, alpha=0.3, regularisation=0.7):
    """The largest difference of the two losses' gradients at a random point.

    Failed above rounding. Their values differ by a constant.
    """
    draw = torch.Generator().manual_seed(seed)
    ones_UN = (torch.rand(7, 9, generator=draw) < 0.3).double()
    tables = [
        torch.randn(n, 3, generator=draw, dtype=torch.float64, requires_grad=True)
        for n in (7, 9)
    ]
    found = [
        torch.autograd.grad(loss, tables, retain_graph=True)
        for loss in losses(ones_UN, *tables, alpha, regularisation)
    ]
    pairs = zip(*found, strict=True)
    return max(check.close(one, two, atol=1e-9, why="float64") for one, two in pairs)


class Pass:
    """One pass of ours over both sides from the same tables each time."""

    def __init__(self, graph, tables, solver, settings=PLAINLY):
        model = als.Model(*tables, ALPHA, PLAIN, settings)
        self.tables = tables
        self.sides = als.sides_of(graph.rows, graph.cols, graph.shape, solver, model)

    def __call__(self):
        users = self.sides[0].solved(self.tables[1], self.tables[0])
        return users, self.sides[1].solved(users, self.tables[1])


def theirs(graph, tables, use_cg, threads):
    """A function that makes one pass of implicit's, from the same tables in its scale.

    None where it is not installed.
    """
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # its threads are its own: rows of the matrix
    try:
        import implicit.als
    except ImportError:
        return None
    import scipy.sparse

    weight, reg, t = matched(ALPHA, PLAIN)
    options = {"regularization": reg, "alpha": weight, "use_cg": use_cg, "use_gpu": False}
    options |= {"factors": tables[0].shape[1], "num_threads": threads}
    solver = implicit.als.AlternatingLeastSquares(**options).solver
    ends = graph.rows.numpy(), graph.cols.numpy()
    weights = torch.full((len(ends[0]),), weight).numpy()
    across = scipy.sparse.csr_matrix((weights, ends), graph.shape)
    down = across.T.tocsr()
    first = [(table / t**0.5).numpy() for table in tables]

    def one_pass():
        x, y = (table.copy() for table in first)
        solver(across, x, y, reg, num_threads=threads)
        solver(down, y, x, reg, num_threads=threads)
        return [torch.from_numpy(table) * t**0.5 for table in (x, y)]

    return one_pass


def contestants(graph, factors, threads, solver):
    """{name: function} of ours and implicit's pass with one kind of solver, checked to agree;
    alone where it is not installed.
    """
    start = fitted(graph, factors, 2)
    tables, use_cg = (start.users, start.items), solver == "matrix_free"
    own, peer = Pass(graph, tables, solver), theirs(graph, tables, use_cg, threads)
    if peer is None:
        print("implicit is not installed: left out")
        return {"ours": own}
    why = "float32, sums in another order, steps that amplify it"
    for one, two in zip(own(), peer(), strict=True):
        check.close(one, two, rtol=2e-3, atol=2e-4, why=why)
    return {"ours": own, "implicit": peer}


def fitted(graph, factors, iterations):
    """Our Model of a graph without matrices, lambda not scaled."""
    about = graph.shape, factors, ALPHA, PLAIN, iterations, "matrix_free", PLAINLY
    return als.fit(graph.rows, graph.cols, *about)


def recalls(graph, factors, threads, iterations=8):
    """(our recall@20, implicit's) on the same held-out rows after as many passes from the same
    first one, both folded in by our Cholesky.
    """
    split = link_graph.split_rows(graph)
    trained = graph._replace(rows=split.rows, cols=split.cols)
    own, first = (fitted(trained, factors, passes) for passes in (iterations, 1))
    tables = first.users, first.items
    for _ in range(iterations - 1):
        tables = (theirs(trained, tables, True, threads) or Pass(trained, tables, SOLVERS[0]))()
    model = als.Model(*tables, ALPHA, PLAIN, PLAINLY)
    return own.recall(20, split.test), model.recall(20, split.test)


def main(arguments=None):
    """Check, race, and write the receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=device.cores())
    given = parser.parse_args(arguments)
    torch.set_num_threads(given.threads)
    receipt = receipts.start("matrix_factorization", device.tier("cpu"), given.threads)
    graph = link_graph.with_links(link_graph.read_links(Path(data.fetch("wikispeedia"))), 10)
    receipt.sizes(pages=len(graph.titles), links=len(graph.rows), rounds=given.rounds)
    receipt.record("race_gradient_difference", gradients_agree(), "absolute")
    for factors, solver in itertools.product((64, 128), SOLVERS):
        pair = contestants(graph, factors, given.threads, solver)
        race = bench.race(pair, given.rounds, reference=[*pair][-1])
        print(f"{solver}, {factors} factors", race, sep="\n")
        for name, found in race.results.items():
            receipt.record(f"race_{solver}_{factors}_{name}", found)
        receipt.record(f"race_{solver}_{factors}", race.ratios["ours"])
    found = recalls(graph, 64, given.threads)
    for name, value in zip(("ours", "implicit"), found, strict=True):
        receipt.record(f"race_recall_{name}", value, "recall")
    print(receipt.write("race" if given.threads == device.cores() else f"race_{given.threads}"))


if __name__ == "__main__":
    main()
