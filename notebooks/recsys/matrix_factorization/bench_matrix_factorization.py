"""The race: a pass over both sides, ours and the library implicit's, for the same loss.

    python -m bench_matrix_factorization --threads 1     # 20 rounds; a receipt

Implicit weighs a link with c in c (1 - x.y)^2 and all else with 1. With c = 1 + 1/alpha, a
regularisation of lambda (1 + alpha) / alpha, w = sqrt(t) x, h = sqrt(t) y and t = 1 / (1 +
alpha), its loss is ours over alpha t^2 but for a constant: `gradients_agree`, and one pass of
each from the same tables, hold that before anything is timed. Lambda is not scaled by links.
Timed is implicit's solver on its arrays, without the progress bar of its `fit`.
"""

import argparse
import importlib.util
import itertools
import statistics

import implicit_als as als
import link_graph
import numpy as np
import torch
from helpers import bench, check, data, device, receipts
from implicit_als import Settings

ALPHA, PLAIN = 0.1, 1.0  # near the best on validation rows in the study's plain grid
PLAINLY = Settings(scaled=False)
SOLVERS = ("matrix_free", "cholesky")  # ours; implicit's are its CG and its Cholesky
INSTALLED = importlib.util.find_spec("implicit") is not None


def matched(alpha, regularisation):
    """(implicit's alpha, its regularisation, the scale t of products) for our loss."""
    return 1 + 1 / alpha, regularisation * (1 + alpha) / alpha, 1 / (1 + alpha)


def losses(ones_UN, w, h, alpha, regularisation):
    """(our loss, implicit's at the matching tables times alpha t^2), over all pairs."""
    weight, reg, t = matched(alpha, regularisation)
    products = w @ h.T
    sizes = w.square().sum() + h.square().sum()
    ours = (ones_UN * (1 - products).square() + alpha * products.square()).sum()
    costs = weight * (1 - products / t).square(), (products / t).square()
    theirs = torch.where(ones_UN > 0, *costs).sum()
    return ours + regularisation * sizes, (theirs + reg * sizes / t) * alpha * t**2


def gradients_agree(seed=0, alpha=0.3, regularisation=0.7):
    """The largest difference of both losses' slopes at a point; Failed above rounding."""
    draw = torch.Generator().manual_seed(seed)
    ones_UN = (torch.rand(7, 9, generator=draw) < 0.3).double()
    how = {"generator": draw, "dtype": torch.float64, "requires_grad": True}
    tables = [torch.randn(n, 3, **how) for n in (7, 9)]
    gap = 0
    ours, theirs = losses(ones_UN, *tables, alpha, regularisation)
    slopes = torch.autograd.grad(ours, tables, retain_graph=True)
    for one, two in zip(slopes, torch.autograd.grad(theirs, tables), strict=True):
        gap = max(gap, check.close(one, two, atol=1e-9, why="float64"))
    return gap


class Pass:
    """One pass of ours over both sides from the same tables each time."""

    def __init__(self, graph, tables, solver, settings=PLAINLY):
        model = als.Model(*tables, ALPHA, PLAIN, settings)
        self.tables = tables
        self.sides = als.sides_of(graph.rows, graph.cols, graph.shape, solver, model)

    def __call__(self):
        users = self.sides[0].solved(self.tables[1], self.tables[0])
        return users, self.sides[1].solved(users, self.tables[1])


def library(tables, use_cg, threads, **more):
    """implicit's model for the loss of these tables' pass."""
    import implicit.als
    import threadpoolctl

    threadpoolctl.threadpool_limits(1, "blas")  # its threads are its own: rows of the matrix
    weight, reg, _ = matched(ALPHA, PLAIN)
    options = {"regularization": reg, "alpha": weight, "use_cg": use_cg, "use_gpu": False}
    options |= {"factors": tables[0].shape[1], "num_threads": threads} | more
    return implicit.als.AlternatingLeastSquares(**options)


def theirs(graph, tables, use_cg, threads):
    """A function that makes one pass of implicit's, from the same tables in its scale."""
    weight, reg, t = matched(ALPHA, PLAIN)
    across = sparse(graph) * np.float32(weight)
    down, solver = across.T.tocsr(), library(tables, use_cg, threads).solver
    first = [(table / t**0.5).numpy() for table in tables]

    def one_pass():
        x, y = (table.copy() for table in first)  # it writes in place; ours copies, too
        solver(across, x, y, reg, num_threads=threads)
        solver(down, y, x, reg, num_threads=threads)
        return torch.from_numpy(x), torch.from_numpy(y)

    return one_pass


def sparse(graph):
    """The links as a SciPy matrix of ones."""
    import scipy.sparse

    ends = graph.rows.numpy(), graph.cols.numpy()
    return scipy.sparse.csr_matrix((np.ones(len(ends[0]), np.float32), ends), graph.shape)


def contestants(graph, factors, threads, solver):
    """{name: function} of ours and, where installed, implicit's pass, checked to agree."""
    start = fitted(graph, factors, 2)
    tables, own = (start.users, start.items), Pass(graph, (start.users, start.items), solver)
    if not INSTALLED:
        print("implicit is not installed: left out")
        return {"ours": own}
    peer = theirs(graph, tables, solver == "matrix_free", threads)
    about = {"rtol": 2e-3, "atol": 2e-4, "why": "float32, sums and steps in another order"}
    for one, two in zip(own(), peer(), strict=True):
        check.close(one, two * matched(ALPHA, PLAIN)[2] ** 0.5, **about)
    return {"ours": own, "implicit": peer}


def fitted(graph, factors, iterations, seed=0):
    """Our Model of a graph without matrices, lambda not scaled."""
    settings = Settings(scaled=False, seed=seed)
    about = graph.shape, factors, ALPHA, PLAIN, iterations, "matrix_free", settings
    return als.fit(graph.rows, graph.cols, *about)


def recalls(graph, factors, threads, seeds=5, iterations=8):
    """{"ours": [recall@20 for each seed], "implicit", "gain"} on the same test rows, each from
    first tables that it draws alike; rows are folded in exactly.
    """
    split, found = link_graph.split_rows(graph), {"ours": [], "implicit": []}
    trained = graph._replace(rows=split.rows, cols=split.cols)
    scale = matched(ALPHA, PLAIN)[2] ** 0.5
    for seed in range(seeds):
        own = fitted(trained, factors, iterations, seed)
        tables = own.users, own.items
        peer = library(tables, True, threads, iterations=iterations, random_state=seed)
        peer.fit(sparse(trained), show_progress=False)
        tables = [torch.from_numpy(t) * scale for t in (peer.user_factors, peer.item_factors)]
        theirs = als.Model(*tables, ALPHA, PLAIN, PLAINLY)
        for who, model in (("ours", own), ("implicit", theirs)):
            found[who].append(model.recall(20, split.test))
    return found | {"gain": [a - b for a, b in zip(*found.values(), strict=True)]}


def begun(told, threads, arguments):
    """(rounds and threads as the command line says, a receipt) of a bench."""
    parser = argparse.ArgumentParser(description=told.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=threads)
    given = parser.parse_args(arguments)
    torch.set_num_threads(given.threads)
    return given, receipts.start("matrix_factorization", device.tier("cpu"), given.threads)


def main(arguments=None):
    """Check, race, and write the receipt."""
    given, receipt = begun(__doc__, device.cores(), arguments)
    graph = link_graph.with_links(link_graph.read_links(data.fetch("wikispeedia")), 10)
    receipt.sizes(pages=len(graph.titles), links=len(graph.rows), rounds=given.rounds)
    receipt.record("race_gradient_difference", gradients_agree(), "absolute")
    large = link_graph.community_graph(2**14, 40 * 2**14)
    parts = [(graph, "", *one) for one in itertools.product((64, 128), SOLVERS)]
    for links, size, factors, solver in [*parts, (large, "large_", 128, "matrix_free")]:
        pair = contestants(links, factors, given.threads, solver)
        race = bench.race(pair, given.rounds, reference=[*pair][-1])
        name = f"race_{size}{solver}_{factors}"
        print(name, race, sep="\n")
        for who, found in race.results.items():
            receipt.record(f"{name}_{who}", found)
        receipt.record(name, race.ratios["ours"])
    for factors in (64, 128) if INSTALLED else ():
        for who, values in recalls(graph, factors, given.threads).items():
            told = statistics.mean(values), "recall", min(values), max(values), len(values)
            receipt.record(f"race_recall_{factors}_{who}", *told, interval="range")
    print(receipt.write("race" if given.threads == device.cores() else f"race_{given.threads}"))


if __name__ == "__main__":
    main()
