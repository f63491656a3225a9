"""How the time of a pass grows: with pages and links, and with the factors.

Rows, columns and links grow together on a drawn graph, all sizes timed in turn. The exponent is
the slope of log time on log links; its interval is that of the line through the six medians.
"""

import itertools

import bench_matrix_factorization as race_of
import link_graph
import numpy as np
from helpers import bench
from scipy import stats

POWERS, LINKS, FACTORS = range(11, 17), 40, 64  # pages 2 ** power, links a page
WIDTHS, KINDS = (16, 32, 64, 128), ("matrix_free", "cholesky", "cg", "lu")
FEW = 3  # rounds of the slow solvers


def one_pass(graph, factors, solver="matrix_free"):
    """A function that makes one pass over both sides, from tables of one pass."""
    start = race_of.fitted(graph, factors, 1)
    return race_of.Pass(graph, (start.users, start.items), solver)


def line(links, took):
    """(slope, low, high) of log seconds on log links, with its 95 % interval."""
    fit = stats.linregress(np.log(links), np.log(took))
    half = fit.stderr * stats.t.ppf(0.975, len(links) - 2)
    return float(fit.slope), float(fit.slope - half), float(fit.slope + half)


def by_size(receipt, graphs, rounds):
    """Records seconds of a pass by links, the exponent, and the largest graph's time."""
    links = [len(graph.rows) for graph in graphs]
    calls = {count: one_pass(g, FACTORS) for count, g in zip(links, graphs, strict=True)}
    race = bench.race(calls, rounds, warmup=1)
    took = [race.results[count].median_s for count in links]
    receipt.curve("sizes", links=links, seconds=took)
    told = *line(links, took), len(links)
    receipt.record("study_size_exponent", told[0], "exponent", *told[1:], interval="95 %")
    receipt.record("study_size_largest", race.results[links[-1]])


def by_factors(receipt, graph, rounds, widths=WIDTHS):
    """Records seconds of a pass by factors, of each solver."""
    pairs = itertools.product(KINDS, widths)
    race = bench.race({pair: one_pass(graph, pair[1], pair[0]) for pair in pairs}, rounds, 1)
    rows = {kind: [race.results[kind, d].median_s for d in widths] for kind in KINDS}
    receipt.curve("factors", factors=list(widths), **rows)


def main(arguments=None):
    """Times both, and writes the receipt."""
    given, receipt = race_of.begun(__doc__, 1, arguments)
    graphs = [link_graph.community_graph(2**n, LINKS * 2**n, seed=n) for n in POWERS]
    receipt.sizes(factors=FACTORS, links=len(graphs[-1].rows), rounds=given.rounds)
    by_size(receipt, graphs, given.rounds)
    by_factors(receipt, graphs[0], min(given.rounds, FEW))
    print(receipt.write("study_sizes"))


if __name__ == "__main__":
    main()
