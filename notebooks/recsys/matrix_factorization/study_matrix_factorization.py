"""The recorded studies: recall over splits, and how time grows, by hand from the slice's
folder.

    python study_matrix_factorization.py --parts tuning precision variants   # 20 minutes
    python study_matrix_factorization.py --parts sizes knee   # a quiet machine, minutes

Each split draws its own test and validation rows. Settings are chosen by recall@20 on the
validation rows of a split, and reported on its test rows; no test row is looked at before. The
receipt holds means over splits, 95 % intervals, and the curves of the first split. All splits
are of one graph, so their training rows overlap: Student's t is corrected as in Nadeau and
Bengio (2003), which multiplies the variance of a mean of n splits by 1 + n * test / training.

Parts: `tuning` (both kinds of lambda, each with a grid of its own; one knob or both;
popularity), `precision` (tables, solves, rows and scores in bfloat16), `variants` (six graphs),
`sizes` (time by size and by factors), `knee` (processes).
"""

import argparse
import itertools
import statistics

import bench_matrix_factorization as race_of
import implicit_als as als
import link_graph
import numpy as np
import ranking
import shard_traffic
import sharded_als
import torch
from helpers import bench, data, device, receipts
from implicit_als import Precision, Settings
from scipy import stats

ALPHAS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
LAMBDAS = {
    True: (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1),
    False: (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0),
}
MIDDLE, FACTORS, ITERATIONS = 3, 64, 8
SHARE = 0.1  # of the rows for the test, as many for validation, the rest for training
KNOBS = {"": (0.1, 0.01), "weak_": (0.0003, 1e-7)}  # near the best alpha and lambda; hardly any
B = torch.bfloat16
KINDS = ("matrix_free", "cholesky", "cg", "lu")
PRECISIONS = {
    "full": Precision(),
    "tables": Precision(storage=B),
    "rows_scores": Precision(rows=B, scores=B),
    "tables_scores": Precision(storage=B, scores=B),
    "solves": Precision(solve=B),
    "all": Precision(storage=B, solve=B, scores=B),
}  # `rows_scores` is what ALX's code does with float32 tables


def fitted(split, shape, knobs, settings, factors=FACTORS, solver="matrix_free"):
    """The Model of a split's training links; `knobs`: alpha and lambda."""
    about = shape, factors, *knobs, ITERATIONS, solver, settings
    return als.fit(split.rows, split.cols, *about)


def grid(split, shape, scaled, factors=FACTORS, alphas=None):
    """Recall@20 on validation rows, (2, alphas, lambdas): folded in as trained, and plainly."""
    alphas, found = alphas or ALPHAS, []
    for knobs in itertools.product(alphas, LAMBDAS[scaled]):
        model = fitted(split, shape, knobs, Settings(scaled=scaled), factors)
        found.append([one.recall(20, split.validation) for one in (model, plainly(model))])
    return np.array(found).T.reshape(2, len(alphas), -1)


def choices(table):
    """{what may be turned: its best cell}; a knob that may not stays in the middle."""
    one, other = table[:, MIDDLE].argmax(), table[MIDDLE].argmax()
    best = np.unravel_index(table.argmax(), table.shape)
    found = {"both": best, "alpha": (one, MIDDLE), "lambda": (MIDDLE, other)}
    found["one"] = max(found["alpha"], found["lambda"], key=lambda cell: table[cell])
    return found | {"none": (MIDDLE, MIDDLE)}


def tuning(graph, seed):
    """Test recalls of one split: each choice with scaled lambdas and with plain ones, folded in
    with the plain one, popularity.
    """
    split, told = link_graph.split_rows(graph, seed, SHARE), {}
    for scaled, kind in ((True, ""), (False, "plain_")):
        (table, other), values = grid(split, graph.shape, scaled), LAMBDAS[scaled]
        if seed == 0:
            alphas, lambdas = np.array([*itertools.product(ALPHAS, values)]).T.tolist()
            columns = {"alpha": alphas, "regularisation": lambdas}
            told[f"curve_{kind}grid"] = columns | {"recall": table.ravel().tolist()}
        cells = choices(table)
        cells |= {"both_plain_fold_in": choices(other)["both"]} if scaled else {}
        for name, (at, to) in cells.items():
            knobs = ALPHAS[at], values[to]
            model = fitted(split, graph.shape, knobs, Settings(scaled=scaled))
            judge = plainly(model) if name.endswith("fold_in") else model
            told[f"{kind}{name}"] = judge.recall(20, split.test)
            if name == "both":
                told[f"{kind}alpha_chosen"], told[f"{kind}lambda_chosen"] = knobs
                told[f"{kind}both_50"] = judge.recall(50, split.test)
    told["popularity"], told["popularity_50"] = (popular(split, graph, k) for k in (20, 50))
    pairs = {"gain": "one", "scaled_gain": "plain_both", "fold_in_gain": "both_plain_fold_in"}
    return told | {gain: told["both"] - told[other] for gain, other in pairs.items()}


def plainly(model):
    """The Model that folds in with the plain lambda, as ALX's code of 2021 does."""
    knobs = model.alpha, model.regularisation
    return als.Model(model.users, model.items, *knobs, Settings(scaled=False))


def popular(split, graph, k):
    """Test recall of the pages that most training links lead to."""
    scores = ranking.popularity(split.cols, len(graph.titles), len(split.test.rows))
    best = ranking.top_k(scores, split.test.seen, k)
    return float(ranking.capped_recall(best, split.test.wanted).mean())


def precision(graph, seed, factors=32):
    """Test recalls of a split in each precision, with both pairs of `KNOBS`; 0 where broken."""
    split, told = link_graph.split_rows(graph, seed), {}
    for (corner, knobs), (name, one) in itertools.product(KNOBS.items(), PRECISIONS.items()):
        settings = Settings(precision=one, length=32)
        model = fitted(split, graph.shape, knobs, settings, factors, "cholesky")
        told[f"{corner}{name}_broken"] = broken = float(not torch.isfinite(model.items).all())
        exact = Settings(precision=Precision(scores=one.scores))
        judge = als.Model(model.users, model.items, *knobs, exact)
        told[f"{corner}{name}"] = 0.0 if broken else judge.recall(20, split.test)
        told[f"{corner}{name}_loss"] = told[f"{corner}full"] - told[f"{corner}{name}"]
    return told


def variants(graphs, seed, factors=32):
    """Test recalls of one split of each graph, settings chosen on its validation rows."""
    told, alphas = {}, ALPHAS[::2]
    for name, graph in graphs.items():
        key, split = name.lower().replace(", ", "_"), link_graph.split_rows(graph, seed, SHARE)
        at, to = choices(grid(split, graph.shape, True, factors, alphas)[0])["both"]
        model = fitted(split, graph.shape, (alphas[at], LAMBDAS[True][to]), Settings(), factors)
        told[f"{key}_recall"] = model.recall(20, split.test)
        told[f"{key}_recall_50"] = model.recall(50, split.test)
        told[f"{key}_popularity"] = popular(split, graph, 20)
    return told


def seconds(graph, factors, solver="matrix_free", repeats=7):
    """The median seconds of a pass over both sides."""
    start = race_of.fitted(graph, factors, 1)
    one_pass = race_of.Pass(graph, (start.users, start.items), solver)
    return bench.measure(one_pass, repeats, warmup=1).median_s


def sizes(receipt, repeats=7, factors=(16, 32, 64, 128)):
    """Records how the time of a pass grows with pages and links, and with the factors."""
    drawn = [link_graph.community_graph(2**n, 40 * 2**n, seed=n) for n in range(11, 17)]
    took = [seconds(graph, FACTORS, repeats=repeats) for graph in drawn]
    links = [len(graph.rows) for graph in drawn]
    receipt.curve("sizes", links=links, seconds=took)
    fit = stats.linregress(np.log(links), np.log(took))
    half = fit.stderr * stats.t.ppf(0.975, len(links) - 2)
    spread = {"low": fit.slope - half, "high": fit.slope + half, "repeats": len(links)}
    receipt.record("study_size_exponent", fit.slope, "exponent", **spread)
    graph, repeats = drawn[0], min(repeats, 3)
    rows = {kind: [seconds(graph, d, kind, repeats) for d in factors] for kind in KINDS}
    receipt.curve("factors", factors=list(factors), **rows)


def knee(receipt, graph, repeats=5, factors=32, tried=(1, 2, 4, 8)):
    """Records seconds, computing seconds and bytes of a pass by the number of processes."""
    draw, rows = torch.Generator().manual_seed(0), []
    items = torch.randn(len(graph.titles), factors, generator=draw) * 0.1
    job, links = sharded_als.Job(graph.shape, items, 0.1, 0.01, 3), (graph.rows, graph.cols)
    for processes in tried:
        found = []
        for _ in range(repeats):
            shares = sharded_als.fit_sharded(processes, *links, job)[2]
            kinds = ("seconds", "compute_s", "sent_bytes")
            found.append([max(getattr(share, kind) or 0 for share in shares) for kind in kinds])
        predicted = shard_traffic.predicted_bytes(processes, *links, job)
        middle = [statistics.median(column) / 3 for column in zip(*found, strict=True)]
        rows.append([processes, *middle, predicted / 3])
    names = ("processes", "seconds", "compute_s", "sent_bytes", "predicted_bytes")
    receipt.curve("knee", **dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
    receipt.record("study_knee_fastest", min(rows, key=lambda row: row[1])[0], "processes")


def record(receipt, part, told):
    """Records means and corrected 95 % intervals over splits of what `told` holds, a dict for
    each split; curves of the first.
    """
    count, units = len(told), {"chosen": "weight", "broken": "share of splits"}
    wide = stats.t.ppf(0.975, count - 1) * (1 / count + SHARE / (1 - 2 * SHARE)) ** 0.5
    for name, first in told[0].items():
        if name.startswith("curve_"):
            receipt.curve(name.removeprefix("curve_"), **first)
            continue
        values = [one[name] for one in told]
        mean, half = statistics.mean(values), wide * statistics.stdev(values)
        unit = units.get(name.rpartition("_")[2], "recall")
        spread = {"low": mean - half, "high": mean + half, "repeats": count}
        receipt.record(f"study_{part}_{name}", mean, unit, **spread)


def main(arguments=None):
    """Run the parts, and write one receipt for each."""
    parts = ("tuning", "precision", "variants", "sizes", "knee")
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--parts", nargs="+", choices=parts, default=parts)
    parser.add_argument("--splits", type=int, default=10, help="2 or more")
    parser.add_argument("--threads", type=int, default=device.cores())
    given = parser.parse_args(arguments)
    torch.set_num_threads(given.threads)
    tier, folder = device.tier("cpu"), data.fetch("wikispeedia")
    pages = link_graph.read_links(folder)
    graph = link_graph.with_links(pages, 10)
    graphs = link_graph.six_variants(pages, link_graph.read_subjects(folder))
    for part in given.parts:
        receipt = receipts.start("matrix_factorization", tier, given.threads)
        receipt.sizes(pages=len(graph.titles), links=len(graph.rows), splits=given.splits)
        if part in ("sizes", "knee"):
            sizes(receipt) if part == "sizes" else knee(receipt, graph)
        else:
            call = {"tuning": tuning, "precision": precision, "variants": variants}[part]
            whole = graphs if part == "variants" else graph
            told = [call(whole, seed) for seed in range(given.splits)]
            record(receipt, part, told)
        print(receipt.write(f"study_{part}"), flush=True)


if __name__ == "__main__":
    main()
