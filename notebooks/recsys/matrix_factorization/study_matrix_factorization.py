"""The studies of recall over splits: what both knobs bring, what sixteen bits cost, six graphs.

    make study CHAPTERS=recsys/matrix_factorization STUDY=study_tuning

Settings are chosen by recall@20 on the validation rows of a split, and reported on its test
rows; only the weak knobs of `study_precision` are given. `edge` is the share of splits whose
choice lies on the grid's edge. All splits are of one graph, so their training rows overlap:
Student's t is corrected as in Nadeau and Bengio (2003), which multiplies the variance of a mean
of n splits by 1 + n * test / training. The units are pages, by their titles.
"""

import functools
import itertools
import statistics
from collections import namedtuple

import implicit_als as als
import link_graph
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
    "rows_scores": Precision(rows=B, scores=B),  # what ALX's code does with float32 tables
    "solves": Precision(solve=B),
    "all": Precision(storage=B, solve=B, scores=B),
}
POPULAR, PER, AT = "popularity", "share of splits", {"": 20, "_50": 50}
MOVES = {"none": 0, "one": 1, "both": 2}  # how many knobs may leave the middle of the grid


# Try all pairs of an alpha and a lambda, which is `scaled` by links or not.
Search = namedtuple("Search", "scaled alphas", defaults=(True, ALPHAS))
# Train with the best pair of a search where knobs are `turned`, or with `knobs`; fold rows in
# with lambda as trained, or (`plain_fold`) as ALX's code of 2021 does.
BOTH = "both", True, False, None, None
Fit = namedtuple("Fit", "turned scaled plain_fold precision knobs", defaults=BOTH)


def fitted(graph, knobs, sizes, settings, solver="matrix_free"):
    """The Model of training links; `knobs`: alpha and lambda."""
    about = graph.shape, sizes["factors"], *knobs, sizes["iterations"], solver, settings
    return als.fit(graph.rows, graph.cols, *about)


def folding(model, settings):
    """The Model that folds rows in with these settings."""
    return als.Model(model.users, model.items, model.alpha, model.regularisation, settings)


def searched(job):
    """Recall@20 on validation rows, {plain_fold: {(alpha, lambda): recall}}."""
    scaled, alphas = job.arm.loss
    found = {False: {}, True: {}}
    for knobs in itertools.product(alphas, LAMBDAS[scaled]):
        model = fitted(job.train, knobs, job.sizes, Settings(scaled=scaled))
        found[False][knobs] = model.recall(20, job.choice)
        found[True][knobs] = folding(model, Settings(scaled=False)).recall(20, job.choice)
    return found


def chosen(table, turned):
    """(the best pair of those that `turned` allows, whether it lies on the grid's edge)."""
    axes = [sorted({pair[at] for pair in table}) for at in (0, 1)]
    middle = [axis[len(axis) // 2] for axis in axes]

    def moves(pair):
        return sum(one != other for one, other in zip(pair, middle, strict=True))

    best = max((pair for pair in table if moves(pair) <= MOVES[turned]), key=table.get)
    pairs = zip(best, axes, strict=True)
    return best, any(one in (axis[0], axis[-1]) for one, axis in pairs)


def fit(job):
    """The popularity (1, N) of all pages; what was `searched`; or (a Model as it is judged,
    whether its knobs lie on the edge of a grid).
    """
    recipe, edge = job.arm.loss, None
    if recipe == POPULAR:
        return ranking.popularity(job.train.cols, job.train.shape[1], 1)
    if isinstance(recipe, Search):
        return searched(job)
    knobs = recipe.knobs
    if knobs is None:
        knobs, edge = chosen(job.start[recipe.plain_fold], recipe.turned)
    if recipe.precision is None:
        model = fitted(job.train, knobs, job.sizes, Settings(scaled=recipe.scaled))
        return (folding(model, Settings(scaled=False)) if recipe.plain_fold else model), edge
    settings = Settings(precision=recipe.precision, length=32)
    model = fitted(job.train, knobs, job.sizes, settings, "cholesky")
    return folding(model, Settings(precision=Precision(scores=recipe.precision.scores))), edge


def judge(made, held, job, told):
    """Recall on held-out rows: at 20 (its recorded name has no ending) and at 50; 0 where
    numbers became NaN. `told`: what is recorded of a model.
    """
    if torch.is_tensor(made):
        best = ranking.top_k(made.expand(len(held.rows), -1), held.seen, 20)
        return {"": float(ranking.capped_recall(best, held.wanted).mean())}
    model, edge = made
    broken = not torch.isfinite(model.items).all()
    found = {key: 0.0 if broken else model.recall(k, held) for key, k in AT.items()}
    found |= {"_broken": float(broken), "_edge": float(bool(edge))}
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
    both = link_graph.read_links(folder), link_graph.read_subjects(folder)
    six = link_graph.six_variants(*both)
    return {name.lower().replace(", ", "_"): graph for name, graph in six.items()}


def split_of(graph, seed, ending=""):
    """{"train": Part, "validation": Part, "test": Part} of a split, each with an ending."""
    split = link_graph.split_rows(graph, seed, SHARE)
    trained = graph._replace(rows=split.rows, cols=split.cols)
    parts = {"train": (trained, split.rows.unique().tolist())}
    parts |= {"validation": (split.validation, split.validation.rows)}
    parts |= {"test": (split.test, split.test.rows)}
    titled = [
        (name, one, [graph.titles[at] for at in rows]) for name, (one, rows) in parts.items()
    ]
    return {name + ending: Part(one, titles) for name, one, titles in titled}


def largest(seed, sizes):
    """The parts of the largest graph."""
    return split_of(graphs()["all_10"], seed)


def study(name, told, arms, factors=32, parts=largest, **more):
    """A Study over ten splits that records what is `told` of each model."""
    more |= {"key": f"{name}_{{arm}}{{metric}}", "judge": functools.partial(judge, told=told)}
    more |= {"sizes": {"factors": factors, "iterations": 8}, "fit": fit, "interval": corrected}
    more |= {"trial": {"factors": 4, "iterations": 1}, "seeds": range(10), "over": "splits"}
    more |= {"processes": 2}  # no times are recorded
    units = {key: Metric("recall" if key in AT else PER) for key in told}
    about = {"notebook": "matrix_factorization", "name": name, "metrics": units}
    return Study(arms=arms, parts=parts, **about, **more)


def trains(loss, start="new", ending=""):
    """An Arm that trains on the training rows, and is judged on the test rows."""
    return Arm(train=f"train{ending}", test=(f"test{ending}",), loss=loss, start=start)


def searches(loss, ending=""):
    """An Arm that tries pairs on the validation rows, and is not judged."""
    return Arm(train=f"train{ending}", choice=f"validation{ending}", test=(), loss=loss)


COARSE = Search(alphas=ALPHAS[::2])
TUNING = study(
    "study_tuning",
    ("", "_edge"),
    factors=64,
    arms={
        "grid": searches(Search()),
        "plain_grid": searches(Search(scaled=False)),
        **{turned: trains(Fit(turned), "grid") for turned in MOVES},
        "plain_both": trains(Fit(scaled=False), "plain_grid"),
        "both_plain_fold_in": trains(Fit(plain_fold=True), "grid"),
        POPULAR: trains(POPULAR),
    },
    outcomes={
        f"study_tuning_{name}": Outcome("", "both", *rest)
        for name, rest in {
            "gain": ("one", ("loss.turned",)),
            "scaled_gain": ("plain_both", ("loss.scaled", "start")),
            "fold_in_gain": ("both_plain_fold_in", ("loss.plain_fold",)),
        }.items()
    },
)
CORNERS = {"": ("grid", None), "weak_": ("new", WEAK)}  # start, knobs
LOST = Outcome("", "full", "tables", ("loss.precision.storage",))
PRECISION = study(
    "study_precision",
    ("", "_broken"),
    arms={"grid": searches(COARSE)}
    | {
        corner + name: trains(Fit(precision=one, knobs=knobs), start)
        for corner, (start, knobs) in CORNERS.items()
        for name, one in PRECISIONS.items()
    },
    outcomes={"study_precision_tables_loss": LOST},
)


def six_arms():
    """The arms of all graphs, each on parts of its own."""
    arms, six = {}, itertools.product(("all", "geography", "science"), (10, 20))
    for name in (f"{place}_{least}" for place, least in six):
        arms[f"{name}_grid"] = searches(COARSE, f"_{name}")
        arms[f"{name}_recall"] = trains(Fit(), f"{name}_grid", f"_{name}")
        arms[f"{name}_{POPULAR}"] = trains(POPULAR, ending=f"_{name}")
    return arms


def six_splits(seed, sizes):
    """The parts of all six graphs."""
    pairs = [split_of(graph, seed, f"_{name}") for name, graph in graphs().items()]
    return {name: part for parts in pairs for name, part in parts.items()}


VARIANTS = study("study_variants", ("", "_50", "_edge"), arms=six_arms(), parts=six_splits)
