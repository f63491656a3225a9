"""The recorded studies: recall over splits, and how time grows, by hand from the slice's
folder.

    python study_matrix_factorization.py --parts tuning precision variants   # any machine, a quarter of an hour
    python study_matrix_factorization.py --parts sizes knee                  # a quiet machine, minutes

Each split draws its own test and validation rows. Settings are chosen by recall@20 on the
validation rows of a split, and reported on its test rows; no test row is looked at before. The
receipt holds means over splits and 95 % intervals (Student's t) of paired differences, and the
curves of the first split.

Parts: `tuning` (both kinds of lambda, each with a grid of its own; one knob or both;
popularity), `precision` (tables, solves, rows and scores in bfloat16), `variants` (six graphs),
`sizes` (time by size and by factors), `knee` (processes).
"""

import argparse
import itertools
import statistics
import time

import implicit_als as als
import link_graph
import numpy as np
import ranking
import sharded_als
import torch
from helpers import data, device, receipts
from implicit_als import Precision, Settings
from scipy import stats

ALPHAS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
LAMBDAS = {
    True: (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1),
    False: (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0),
}
MIDDLE, FACTORS, ITERATIONS = 3, 64, 8
KNOBS = {
    "": (0.1, 0.01),
    "weak_": (0.0003, 1e-7),
}  # alpha and lambda: near the best on validation rows, and nearly nothing
B, F = torch.bfloat16, torch.float32
PRECISIONS = {
    "full": Precision(),
    "tables": Precision(storage=B),
    "rows_scores": Precision(rows=B, scores=B),
    "tables_scores": Precision(storage=B, scores=B),
    "solves": Precision(solve=B),
    "all": Precision(storage=B, solve=B, scores=B),
}  # `rows_scores` is what ALX's code does with float32 tables


def fitted(
    split, shape, alpha, regularisation, settings, factors=FACTORS, solver="matrix_free"
):
    """The Model of a split's training links."""
    return als.fit(
        split.rows,
        split.cols,
        shape,
        factors,
        alpha,
        regularisation,
        ITERATIONS,
        solver,
        settings,
    )


def grid(split, shape, scaled, factors=FACTORS, alphas=None):
    """Recall@20 on validation rows (alphas, lambdas)."""
    alphas = alphas or ALPHAS
    cells = itertools.product(alphas, LAMBDAS[scaled])
    found = [
        fitted(split, shape, *cell, Settings(scaled=scaled), factors).recall(
            20, split.validation
        )
        for cell in cells
    ]
    return np.array(found).reshape(len(alphas), -1)


def choices(table):
    """{what may be turned: its best cell}: both knobs, one with the other left in the middle,
    the better of those, none.
    """
    one, other = table[:, MIDDLE].argmax(), table[MIDDLE].argmax()
    found = {
        "both": np.unravel_index(table.argmax(), table.shape),
        "alpha": (one, MIDDLE),
        "lambda": (MIDDLE, other),
    }
    found["one"] = max(found["alpha"], found["lambda"], key=lambda cell: table[cell])
    return found | {"none": (MIDDLE, MIDDLE)}


def tuning(graph, seed):
    """Test recalls of one split: each choice with scaled lambdas, both knobs with plain ones,
    popularity.
    """
    split, told = link_graph.split_rows(graph, seed), {}
    for scaled, kind in ((True, ""), (False, "plain_")):
        table, values = grid(split, graph.shape, scaled), LAMBDAS[scaled]
        if seed == 0:
            knobs = np.array([*itertools.product(ALPHAS, values)]).T.tolist()
            columns = {
                "alpha": knobs[0],
                "regularisation": knobs[1],
                "recall": table.ravel().tolist(),
            }
            told[f"curve_{kind}grid"] = columns
        for name, (at, to) in choices(table).items():
            model = fitted(split, graph.shape, ALPHAS[at], values[to], Settings(scaled=scaled))
            told[f"{kind}{name}"] = model.recall(20, split.test)
            if name == "both":
                chosen = {"alpha_chosen": ALPHAS[at], "lambda_chosen": values[to]}
                told |= {f"{kind}{key}": value for key, value in chosen.items()}
                told[f"{kind}both_50"] = model.recall(50, split.test)
            if name == "both" and scaled:
                told["both_plain_fold_in"] = folded_plainly(model).recall(20, split.test)
    told |= {
        "popularity": popular(split, graph, 20),
        "popularity_50": popular(split, graph, 50),
    }
    told["gain"] = told["both"] - told["one"]
    told["scaled_gain"] = told["both"] - told["plain_both"]
    return told | {"fold_in_gain": told["both"] - told["both_plain_fold_in"]}


def folded_plainly(model):
    """A Model trained with scaled lambdas that folds in with the plain one, as ALX's code of
    2021 does.
    """
    knobs = model.alpha, model.regularisation
    return als.Model(model.users, model.items, *knobs, Settings(scaled=False))


def popular(split, graph, k):
    """Test recall of the pages that most training links lead to."""
    scores = ranking.popularity(split.cols, len(graph.titles), len(split.test.rows))
    return float(
        ranking.capped_recall(
            ranking.top_k(scores, split.test.seen, k), split.test.wanted
        ).mean()
    )


def precision(graph, seed, factors=32):
    """Test recalls of one split in each precision, by Cholesky, with both pairs of `KNOBS`; 0
    where numbers ran out.
    """
    split, told = link_graph.split_rows(graph, seed), {}
    for (corner, knobs), (name, one) in itertools.product(KNOBS.items(), PRECISIONS.items()):
        settings = Settings(precision=one, length=32)
        model = fitted(split, graph.shape, *knobs, settings, factors, "cholesky")
        told[f"{corner}{name}_broken"] = broken = float(not torch.isfinite(model.items).all())
        judge = als.Model(
            model.users, model.items, *knobs, Settings(precision=Precision(scores=one.scores))
        )
        told[f"{corner}{name}"] = 0.0 if broken else judge.recall(20, split.test)
        told[f"{corner}{name}_loss"] = told[f"{corner}full"] - told[f"{corner}{name}"]
    return told


def variants(graphs, seed, factors=32):
    """Test recalls of one split of each of six graphs, settings chosen on its validation rows."""
    told = {}
    for name, graph in graphs.items():
        key, split = name.lower().replace(", ", "_"), link_graph.split_rows(graph, seed)
        table = grid(split, graph.shape, True, factors, ALPHAS[::2])
        at, to = np.unravel_index(table.argmax(), table.shape)
        model = fitted(
            split, graph.shape, ALPHAS[::2][at], LAMBDAS[True][to], Settings(), factors
        )
        told |= {
            f"{key}_recall": model.recall(20, split.test),
            f"{key}_recall_50": model.recall(50, split.test),
        }
        told[f"{key}_popularity"] = popular(split, graph, 20)
    return told


def seconds(graph, factors, solver="matrix_free", repeats=7):
    """The median seconds of a pass over both sides."""
    model = als.fit(graph.rows, graph.cols, graph.shape, factors, 0.1, 0.01, 1, solver)
    ends = (graph.rows, graph.cols, graph.shape), (graph.cols, graph.rows, graph.shape[::-1])
    sides = [
        als.Side(
            als.links_of(*end, factors, solver), end[2][1], solver, model, graph.rows.device
        )
        for end in ends
    ]
    took = []
    for _ in range(repeats):
        began = time.perf_counter()
        sides[1].solved(sides[0].solved(model.items, model.users), model.items)
        took.append(time.perf_counter() - began)
    return statistics.median(took)


def sizes(receipt, repeats=7, factors=(16, 32, 64, 128, 256)):
    """Records how the time of a pass grows with pages and links together, and with the factors."""
    drawn = [link_graph.community_graph(2**n, 40 * 2**n, seed=n) for n in range(11, 17)]
    took = [seconds(graph, FACTORS, repeats=repeats) for graph in drawn]
    links = [len(graph.rows) for graph in drawn]
    receipt.curve("sizes", links=links, seconds=took)
    fit = stats.linregress(np.log(links), np.log(took))
    half = fit.stderr * stats.t.ppf(0.975, len(links) - 2)
    spread = {"low": fit.slope - half, "high": fit.slope + half, "repeats": len(links)}
    receipt.record("study_size_exponent", fit.slope, "exponent", **spread)
    graph = drawn[1]
    rows = {
        kind: [seconds(graph, d, kind, repeats) for d in factors]
        for kind in ("matrix_free", "cholesky", "cg", "lu")
    }
    receipt.curve("factors", factors=list(factors), **rows)


def knee(receipt, graph, repeats=5, factors=32, tried=(1, 2, 4, 8)):
    """Records seconds, computing seconds and bytes for each epoch by the number of processes."""
    items = (
        torch.randn(len(graph.titles), factors, generator=torch.Generator().manual_seed(0))
        * 0.1
    )
    rows = []
    for processes in tried:
        found = []
        for _ in range(repeats):
            job = sharded_als.Job(graph.shape, items, 0.1, 0.01, 3)
            shares = sharded_als.fit_sharded(processes, graph.rows, graph.cols, job)[2]
            sent = max(share.sent_bytes or 0 for share in shares)
            found.append(
                (
                    max(s.seconds for s in shares),
                    max(s.compute_s for s in shares),
                    sent,
                    shares[0].predicted_bytes,
                )
            )
        rows.append(
            [processes, *(statistics.median(column) / 3 for column in zip(*found, strict=True))]
        )
    names = ("processes", "seconds", "compute_s", "sent_bytes", "predicted_bytes")
    receipt.curve("knee", **dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


def record(receipt, part, told):
    """Records means and 95 % intervals over splits of what `told` holds, a dict for each split;
    curves of the first.
    """
    for name in (name for name in told[0] if not name.startswith("curve_")):
        values = [one[name] for one in told]
        half = (
            statistics.stdev(values) / len(values) ** 0.5 * stats.t.ppf(0.975, len(values) - 1)
        )
        units = {"chosen": "weight", "broken": "share of splits"}
        mean, unit = statistics.mean(values), units.get(name.rpartition("_")[2], "recall")
        receipt.record(
            f"study_{part}_{name}",
            mean,
            unit,
            low=mean - half,
            high=mean + half,
            repeats=len(values),
        )
    for name, columns in told[0].items():
        if name.startswith("curve_"):
            receipt.curve(name.removeprefix("curve_"), **columns)


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
            told = [
                call(graphs if part == "variants" else graph, seed)
                for seed in range(given.splits)
            ]
            record(receipt, part, told)
        print(receipt.write(f"study_{part}"), flush=True)


if __name__ == "__main__":
    main()
