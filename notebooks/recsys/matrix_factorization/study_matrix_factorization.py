"""The studies of recall over splits: what both knobs bring, what sixteen bits cost, six graphs.

    make study CHAPTERS=recsys/matrix_factorization STUDY=study_tuning

Each split draws its own test and validation rows. Settings are chosen by recall@20 on the
validation rows of a split, and reported on its test rows; only the weak knobs of
`study_precision` are given. `edge` is the share of splits whose choice lies on the grid's edge:
there a better one may lie outside. All splits are of one graph, so their training rows overlap:
Student's t is corrected as in Nadeau and Bengio (2003), which multiplies the variance of a mean
of n splits by 1 + n * test / training. The units are pages, by their titles.
"""

import functools
import itertools
import statistics
from typing import NamedTuple

import implicit_als as als
import link_graph
import numpy as np
import ranking
import torch
from helpers import data
from helpers.study import Arm, Metric, Outcome, Part, Study
from implicit_als import Precision, Settings
from scipy import stats

ALPHAS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
LAMBDAS = {
    True: (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1),
    False: (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0),
}
SHARE = 0.1  # of the rows for the test, as many for validation, the rest for training
WEAK = 0.0003, 1e-7  # alpha and lambda that leave systems nearly singular
B = torch.bfloat16
PRECISIONS = {
    "full": Precision(),
    "tables": Precision(storage=B),
    "rows_scores": Precision(rows=B, scores=B),
    "solves": Precision(solve=B),
    "all": Precision(storage=B, solve=B, scores=B),
}  # `rows_scores` is what ALX's code does with float32 tables
POPULAR, PER = "popularity", "share of splits"


class Links(NamedTuple):
    """Training links between numbered pages."""

    rows: torch.Tensor
    cols: torch.Tensor
    shape: tuple


class Search(NamedTuple):
    """Try all pairs of an alpha and a lambda, which is `scaled` by links or not."""

    scaled: bool = True
    alphas: tuple = ALPHAS


class Fit(NamedTuple):
    """Train with the best pair of a search where `turned` may move, or with `knobs`; fold rows
    in with lambda as trained, or (`plain_fold`) as ALX's code of 2021 does.
    """

    turned: str = "both"
    scaled: bool = True
    plain_fold: bool = False
    precision: Precision | None = None
    knobs: tuple | None = None


class Grid(NamedTuple):
    """Recall@20 on validation rows (alphas, lambdas) by `plain_fold`, and the pairs."""

    tables: dict
    alphas: tuple
    lambdas: tuple


class Fitted(NamedTuple):
    """A model as it is judged, and whether its knobs lie on the edge of a grid."""

    model: als.Model
    edge: bool | None


def fitted(links, knobs, sizes, settings, solver="matrix_free"):
    """The Model of training links; `knobs`: alpha and lambda."""
    about = links.shape, sizes["factors"], *knobs, sizes["iterations"], solver, settings
    return als.fit(links.rows, links.cols, *about)


def plainly(model):
    """The Model that folds in with the plain lambda."""
    knobs = model.alpha, model.regularisation
    return als.Model(model.users, model.items, *knobs, Settings(scaled=False))


def searched(job):
    """The Grid of a search."""
    (scaled, alphas), lambdas = job.arm.loss, LAMBDAS[job.arm.loss.scaled]
    found = []
    for knobs in itertools.product(alphas, lambdas):
        model = fitted(job.train, knobs, job.sizes, Settings(scaled=scaled))
        found.append([one.recall(20, job.choice) for one in (model, plainly(model))])
    tables = np.array(found).T.reshape(2, len(alphas), len(lambdas))
    return Grid(dict(zip((False, True), tables, strict=True)), alphas, lambdas)


def chosen(table, turned):
    """((row, column), whether it lies on an edge) of the best cell where `turned` may move:
    "both", "alpha", "lambda", the better "one" of these, "none". The other stays in the middle.
    """
    middle = tuple(size // 2 for size in table.shape)
    one, other = table[:, middle[1]].argmax(), table[middle[0]].argmax()
    cells = {"alpha": (one, middle[1]), "lambda": (middle[0], other), "none": middle}
    cells["both"] = np.unravel_index(table.argmax(), table.shape)
    cells["one"] = max(cells["alpha"], cells["lambda"], key=lambda cell: table[cell])
    cell = tuple(map(int, cells[turned]))
    ends = zip(cell, table.shape, strict=True)
    return cell, any(at in (0, size - 1) for at, size in ends)


def fit(job):
    """The popularity (1, N) of all pages, the Grid of a search, or what was Fitted."""
    recipe, edge = job.arm.loss, None
    if recipe == POPULAR:
        return ranking.popularity(job.train.cols, job.train.shape[1], 1)
    if isinstance(recipe, Search):
        return searched(job)
    knobs = recipe.knobs
    if knobs is None:
        (at, to), edge = chosen(job.start.tables[recipe.plain_fold], recipe.turned)
        knobs = job.start.alphas[at], job.start.lambdas[to]
    if recipe.precision is None:
        model = fitted(job.train, knobs, job.sizes, Settings(scaled=recipe.scaled))
        return Fitted(plainly(model) if recipe.plain_fold else model, edge)
    settings = Settings(precision=recipe.precision, length=32)
    model = fitted(job.train, knobs, job.sizes, settings, "cholesky")
    exact = Settings(precision=Precision(scores=recipe.precision.scores))
    return Fitted(als.Model(model.users, model.items, *knobs, exact), edge)


def judge(made, held, job, told):
    """Recall on held-out rows: at 20 (its recorded name has no ending) and at 50; 0 where the
    numbers ran out. `told`: what is recorded of a model.
    """
    if torch.is_tensor(made):
        best = ranking.top_k(made.expand(len(held.rows), -1), held.seen, 20)
        return {"": float(ranking.capped_recall(best, held.wanted).mean())}
    model, edge = made
    broken = not torch.isfinite(model.items).all()
    found = {"_broken": float(broken), "_edge": float(bool(edge))}
    for key, k in {"": 20, "_50": 50}.items():
        found[key] = 0.0 if broken else model.recall(k, held)
    return {key: found[key] for key in told}


def corrected(values):
    """(mean, low, high) over splits of one graph; no ends (None) for fewer than two."""
    count, mean = len(values), statistics.fmean(values)
    if count < 2:
        return mean, None, None
    spread = (1 / count + SHARE / (1 - 2 * SHARE)) ** 0.5 * statistics.stdev(values)
    half = stats.t.ppf(0.975, count - 1) * spread
    return mean, mean - half, mean + half


@functools.cache
def graphs():
    """{"all_10": Graph, …}: the six variants."""
    folder = data.fetch("wikispeedia")
    six = link_graph.six_variants(
        link_graph.read_links(folder), link_graph.read_subjects(folder)
    )
    return {name.lower().replace(", ", "_"): graph for name, graph in six.items()}


def split_of(graph, seed, ending=""):
    """{"train": Part, "validation": Part, "test": Part} of one split, each name with an ending;
    the units are the titles of the pages whose links are in it.
    """
    split, titles = link_graph.split_rows(graph, seed, SHARE), graph.titles
    pages = [titles[row] for row in split.rows.unique().tolist()]
    parts = {"train": Part(Links(split.rows, split.cols, graph.shape), pages)}
    for name in ("validation", "test"):
        held = getattr(split, name)
        parts[name] = Part(held, [titles[row] for row in held.rows])
    return {name + ending: part for name, part in parts.items()}


def study(name, told, **more):
    """A Study over ten splits that records what is `told` of each model; of the largest graph
    unless it says otherwise.
    """
    whole = {
        "parts": lambda seed, sizes: split_of(graphs()["all_10"], seed),
        "key": f"{name}_{{arm}}{{metric}}",
        "sizes": {"factors": 32, "iterations": 8},
    }
    return Study(
        notebook="matrix_factorization",
        name=name,
        seeds=range(10),
        over="splits",
        trial={"factors": 4, "iterations": 1},
        metrics={key: Metric("recall" if key in ("", "_50") else PER) for key in told},
        fit=fit,
        judge=functools.partial(judge, told=told),
        interval=corrected,
        **whole | more,
    )


COARSE = Search(alphas=ALPHAS[::2])
GRID = Arm(train="train", choice="validation", test=(), loss=COARSE)
TUNING = study(
    "study_tuning",
    ("", "_edge"),
    sizes={"factors": 64, "iterations": 8},
    arms={
        "grid": Arm(train="train", choice="validation", test=(), loss=Search()),
        "plain_grid": Arm(train="train", choice="validation", test=(), loss=Search(False)),
        **{
            one: Arm(start="grid", train="train", loss=Fit(one))
            for one in ("both", "one", "none")
        },
        "plain_both": Arm(start="plain_grid", train="train", loss=Fit(scaled=False)),
        "both_plain_fold_in": Arm(start="grid", train="train", loss=Fit(plain_fold=True)),
        POPULAR: Arm(train="train", loss=POPULAR),
    },
    outcomes={
        "study_tuning_gain": Outcome("", "both", "one", ("loss.turned",)),
        "study_tuning_scaled_gain": Outcome("", "both", "plain_both", ("loss.scaled", "start")),
        "study_tuning_fold_in_gain": Outcome(
            "", "both", "both_plain_fold_in", ("loss.plain_fold",)
        ),
    },
)
CORNERS = {"": ("grid", None), "weak_": ("new", WEAK)}  # start, knobs
PRECISION = study(
    "study_precision",
    ("", "_broken"),
    arms={"grid": GRID}
    | {
        corner + name: Arm(start=start, train="train", loss=Fit(precision=one, knobs=knobs))
        for corner, (start, knobs) in CORNERS.items()
        for name, one in PRECISIONS.items()
    },
    outcomes={
        "study_precision_tables_loss": Outcome(
            "", "full", "tables", ("loss.precision.storage",)
        )
    },
)


def six_arms():
    """The arms of all graphs, each on parts of its own."""
    arms = {}
    for place, least in itertools.product(("all", "geography", "science"), (10, 20)):
        name = f"{place}_{least}"
        own = {"train": f"train_{name}", "test": (f"test_{name}",)}
        search = {"train": own["train"], "test": (), "choice": f"validation_{name}"}
        arms[f"{name}_grid"] = Arm(loss=COARSE, **search)
        arms[f"{name}_recall"] = Arm(start=f"{name}_grid", loss=Fit(), **own)
        arms[f"{name}_{POPULAR}"] = Arm(loss=POPULAR, **own)
    return arms


def six_splits(seed, sizes):
    """The parts of all six graphs."""
    pairs = [split_of(graph, seed, f"_{name}") for name, graph in graphs().items()]
    return {name: part for parts in pairs for name, part in parts.items()}


VARIANTS = study("study_variants", ("", "_50", "_edge"), arms=six_arms(), parts=six_splits)
