"""The studies as they are declared: who learns from which rows, chooses on which, is judged on
which; choices, precisions, and what is recorded.
"""

import implicit_als as als
import link_graph
import pytest
import study_matrix_factorization as study
import torch
from helpers import receipts
from helpers.study import Arm, Job, StudyError
from implicit_als import Precision, Settings
from link_graph import community_graph
from press.study import hold, record, run

GRAPH, SEEDS = community_graph(150, 3_000, 5, seed=6), (0, 1)
ALPHAS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
B, GRIDS = torch.bfloat16, ("grid", "plain_grid")
SCALED = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
FULL, WEAK = Precision(), (0.0003, 1e-7)
TUNING = {  # start, (scaled, turned, folded in plainly)
    "both": ("grid", (True, "both", False)),
    "one": ("grid", (True, "one", False)),
    "none": ("grid", (True, "none", False)),
    "plain_both": ("plain_grid", (False, "both", False)),
    "both_plain_fold_in": ("grid", (True, "both", True)),
}
PRECISIONS = {
    "full": FULL,
    "tables": FULL._replace(storage=B),
    "rows_scores": FULL._replace(rows=B, scores=B),
    "solves": FULL._replace(solve=B),
    "all": Precision(B, B, None, B),
}
PLACES = [f"{place}_{n}" for place in ("all", "geography", "science") for n in (10, 20)]
SIZES = {"factors": 4, "iterations": 2}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Drawn graphs in the place of the six, each one page larger, with titles of its own."""
    names = [name.lower().replace(", ", "_") for name in PLACES]
    six = {n: community_graph(150 + k, 3_000, 5, seed=k) for k, n in enumerate(names)}
    six = {n: g._replace(titles=[f"page {t}" for t in g.titles]) for n, g in six.items()}
    monkeypatch.setattr(study, "graphs", lambda: six)
    return six


def of(split, name):
    """The data of a part of a split, in plain numbers."""
    if name == "train":
        return split.rows.tolist(), split.cols.tolist()
    held = getattr(split, name)
    return [held.rows, *([one.tolist() for one in part] for part in held[1:])]


def plain(told):
    """The same of what an arm was handed."""
    if isinstance(told, link_graph.Graph):
        return told.rows.tolist(), told.cols.tolist()
    return told and [told.rows, *([one.tolist() for one in part] for part in told[1:])]


def handed(seen, name, graph, seed, choice=False, test=True):
    """The start of an arm, that learned from its own split, chose and was judged as told."""
    one, split = seen[name, seed], link_graph.split_rows(graph, seed, 0.1)
    assert plain(one.job.train) == of(split, "train"), name
    assert one.job.train.shape == graph.shape
    assert plain(one.job.choice) == (of(split, "validation") if choice else None), name
    assert [plain(part) for part in one.tests.values()] == [of(split, "test")] * test, name
    return one.job.start


@pytest.mark.parametrize("seed", SEEDS)
def test_tuning_chooses_on_validation_rows_and_is_judged_on_test_rows(small, seed):
    seen, graph = hold(study.TUNING), small["all_10"]
    assert {name for name, _ in seen} == {*TUNING, *GRIDS, "popularity"}
    for name, scaled in zip(GRIDS, (True, False), strict=True):
        assert handed(seen, name, graph, seed, choice=True, test=False) == "new"
        loss = seen[name, seed].job.arm.loss
        assert loss == (scaled, (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0))
    for name, (start, (scaled, turned, plainly)) in TUNING.items():
        assert handed(seen, name, graph, seed) == ("made", start, seed), name
        assert seen[name, seed].job.arm.loss == (turned, scaled, plainly, None, None), name
    assert handed(seen, "popularity", graph, seed) == "new"
    assert seen["popularity", seed].job.arm.loss == "popularity"


@pytest.mark.parametrize("seed", SEEDS)
def test_precision_rounds_what_each_arm_is_named_for(small, seed):
    seen, graph = hold(study.PRECISION), small["all_10"]
    assert handed(seen, "grid", graph, seed, choice=True, test=False) == "new"
    names = {corner + name for corner in ("", "weak_") for name in PRECISIONS}
    assert {name for name, _ in seen} == {"grid", *names}
    for name, one in PRECISIONS.items():
        assert handed(seen, name, graph, seed) == ("made", "grid", seed)
        assert handed(seen, f"weak_{name}", graph, seed) == "new"
        assert seen[name, seed].job.arm.loss == ("both", True, False, one, None)
        assert seen[f"weak_{name}", seed].job.arm.loss == ("both", True, False, one, WEAK)


@pytest.mark.parametrize("seed", SEEDS)
def test_each_graph_is_chosen_and_judged_on_its_own_rows(small, seed):
    seen = hold(study.VARIANTS)
    assert len(seen) == 2 * 3 * 6
    for name, graph in small.items():
        assert handed(seen, f"{name}_grid", graph, seed, True, False) == "new"
        start = handed(seen, f"{name}_recall", graph, seed)
        assert start == ("made", f"{name}_grid", seed)
        assert handed(seen, f"{name}_popularity", graph, seed) == "new"
        assert seen[f"{name}_grid", seed].job.arm.loss == (True, (0.001, 0.01, 0.1, 1.0))
        assert seen[f"{name}_recall", seed].job.arm.loss == study.Fit()


def test_what_is_recorded_is_ten_splits_of_eight_passes():
    studies = study.TUNING, study.PRECISION, study.VARIANTS
    assert [one.sizes["factors"] for one in studies] == [64, 32, 32]
    for one in studies:
        assert list(one.seeds) == [*range(10)] and one.sizes["iterations"] == 8
        assert one.interval is study.corrected and study.SHARE == 0.1


def test_a_row_in_two_parts_is_seen(monkeypatch):
    split_rows = link_graph.split_rows

    def leaky(graph, seed, share):
        split = split_rows(graph, seed, share)
        row = torch.tensor([split.test.rows[0]])
        return split._replace(rows=torch.cat([split.rows, row]))

    monkeypatch.setattr(link_graph, "split_rows", leaky)
    with pytest.raises(StudyError, match="'page"):
        hold(study.TUNING)


# What an arm makes of it


def job(arm, **more):
    return Job("any", arm, 0, SIZES, **{"train": GRAPH, **more})


@pytest.fixture
def fits(monkeypatch):
    """The settings of all fits, whose models hold their alpha and lambda; recall is a sum."""
    calls = []

    def fit(rows, cols, shape, factors, alpha, regularisation, iterations, solver, settings):
        assert (rows is GRAPH.rows, cols is GRAPH.cols) == (True, True)
        calls.append((alpha, regularisation, solver, settings, factors, iterations))
        tables = torch.zeros(150, factors), torch.ones(150, factors)
        return als.Model(*tables, alpha, regularisation, settings)

    monkeypatch.setattr(als, "fit", fit)

    def recall(model, k, held):
        assert (k, held) == (20, "validation")
        at = abs(model.regularisation - 0.01 - 2 * model.alpha)  # a ridge
        return -at - (0 if model.settings.scaled else 5)

    monkeypatch.setattr(als.Model, "recall", recall)
    return calls


def test_a_search_tries_all_pairs_on_the_rows_to_choose_on(fits):
    arm = study.TUNING.arms["grid"]
    grid = study.fit(job(arm, choice="validation"))
    pairs = [(a, b) for a in ALPHAS for b in SCALED]
    assert [call[:2] for call in fits] == pairs
    assert {call[2:] for call in fits} == {("matrix_free", Settings(), 4, 2)}
    assert list(grid[False]) == list(grid[True]) == pairs
    assert grid[False][0.001, 0.01] == pytest.approx(-0.002)
    assert all(one - grid[True][at] == pytest.approx(5) for at, one in grid[False].items())
    study.fit(job(study.TUNING.arms["plain_grid"], choice="validation"))
    assert fits[49][1] == 0.01 and fits[-1][1] == 10 and not fits[-1][3].scaled


def cells(**better):
    """Recalls of all pairs, zero but in some cells: `cells(a5_l6=3)`."""
    table = {(a, b): 0 for a in ALPHAS for b in SCALED}
    for name, recall in better.items():
        table[ALPHAS[int(name[1])], SCALED[int(name[4])]] = recall
    return table


def grid():
    return {False: cells(a5_l6=3, a2_l3=1, a3_l1=2), True: cells(a4_l2=1)}


@pytest.mark.parametrize(
    ("turned", "knobs", "edge"),
    [
        ("both", (0.3, 0.1), True),
        ("one", (0.03, 3e-4), False),
        ("none", (0.03, 0.003), False),
    ],
)
def test_an_arm_trains_with_the_best_that_it_may_turn(fits, turned, knobs, edge):
    made = study.fit(job(Arm(loss=study.Fit(turned)), start=grid()))
    (call,) = fits
    model, on_edge = made
    assert call == (*knobs, "matrix_free", Settings(), 4, 2) and on_edge is edge
    assert model.settings == Settings()
    assert (model.alpha, model.regularisation) == knobs


def test_one_knob_is_the_better_of_both_alone():
    assert study.chosen(cells(a2_l3=2, a3_l1=1, a0_l0=5), "one")[0] == (0.01, 0.003)
    assert study.chosen(cells(a2_l3=1, a3_l1=2, a0_l0=5), "one")[0] == (0.03, 3e-4)


def test_rows_are_folded_in_with_the_plain_lambda_that_was_chosen_for_it(fits):
    model, _ = study.fit(job(study.TUNING.arms["both_plain_fold_in"], start=grid()))
    assert fits == [(0.1, 1e-3, "matrix_free", Settings(), 4, 2)]
    assert model.settings == Settings(scaled=False)


@pytest.mark.parametrize(
    ("name", "edge"),
    [("a0_l3", True), ("a6_l3", True), ("a3_l0", True), ("a3_l6", True), ("a1_l5", False)],
)
def test_a_best_pair_on_any_edge_is_seen(name, edge):
    assert study.chosen(cells(**{name: 1}), "both")[1] is edge


def test_plain_arms_train_with_lambda_not_scaled(fits):
    model, _ = study.fit(job(study.TUNING.arms["plain_both"], start=grid()))
    assert fits[0][3] == model.settings == Settings(scaled=False)


@pytest.mark.parametrize("name", PRECISIONS)
def test_training_is_rounded_and_folding_in_is_not_but_for_scores(fits, name):
    made, edge = study.fit(job(study.PRECISION.arms[name], start=grid()))
    weak, none = study.fit(job(study.PRECISION.arms[f"weak_{name}"], start="new"))
    settings = Settings(precision=PRECISIONS[name], length=32)
    assert fits == [(0.3, 0.1, "cholesky", settings, 4, 2), (*WEAK, "cholesky", settings, 4, 2)]
    exact = Settings(precision=Precision(scores=PRECISIONS[name].scores))
    assert made.settings == weak.settings == exact
    assert (edge, none) == (True, None)


# How it is judged


def test_a_model_is_judged_on_the_rows_it_is_given_at_20_and_50():
    split = link_graph.split_rows(GRAPH)
    arm = study.TUNING.arms["plain_both"]
    trained = GRAPH._replace(rows=split.rows, cols=split.cols)
    made = study.fit(job(arm, start=grid(), train=trained))
    told = study.VARIANTS.judge(made, split.test, job(arm))
    own = {"": made[0].recall(20, split.test), "_50": made[0].recall(50, split.test)}
    assert told == own | {"_edge": 1}
    assert told[""] != pytest.approx(made[0].recall(20, split.validation))


def test_numbers_that_ran_out_are_told_and_count_as_no_recall():
    arm = study.PRECISION.arms["weak_solves"]
    tables = torch.zeros(150, 4), torch.full((150, 4), float("nan"))
    made = als.Model(*tables, 0.1, 0.1), None
    judge = study.PRECISION.judge
    assert judge(made, None, job(arm)) == {"": 0, "_broken": 1}
    whole = als.Model(tables[0], torch.ones(150, 4), 0.1, 0.1), None
    assert judge(whole, link_graph.split_rows(GRAPH).test, job(arm))["_broken"] == 0


def test_popularity_recommends_what_most_training_links_lead_to():
    arm = study.TUNING.arms["popularity"]
    cols = torch.tensor([60, *range(30, 70)])  # page 60 twice
    links = link_graph.Graph(torch.arange(41), cols, [str(n) for n in range(90)])
    made = study.fit(job(arm, train=links))
    held = link_graph.Held([4], [torch.tensor([61])], [torch.tensor([5, 60])])
    assert study.TUNING.judge(made, held, job(arm))[""] == 0.5
    held = held._replace(seen=[torch.tensor([60])])
    assert study.TUNING.judge(made, held, job(arm))[""] == 0


# What is recorded


def test_intervals_are_corrected_for_splits_that_share_their_training_rows():
    mean, low, high = study.corrected([0.2, 0.4])
    half = 12.7062 * (0.2 / 2**0.5) * (1 / 2 + 1 / 8) ** 0.5  # a tenth tested, eight trained on
    assert (mean, low, high) == pytest.approx((0.3, 0.3 - half, 0.3 + half), rel=1e-4)
    assert study.corrected([0.2]) == (0.2, None, None)


def recorded(declared, better):
    """The metrics of scores that are 0.2 and 0.3, and more by what `better` says of an arm."""
    found = {
        name: {
            seed: {part: {"": 0.2 + seed / 10 + better.get(name, 0)} for part in arm.test}
            for seed in SEEDS
        }
        for name, arm in declared.arms.items()
    }
    receipt = receipts.start("matrix_factorization", "cpu")
    record(declared, receipt, found)
    return receipt.metrics


@pytest.mark.parametrize(
    ("gain", "other"),
    [("gain", "one"), ("scaled_gain", "plain_both"), ("fold_in_gain", "both_plain_fold_in")],
)
def test_what_both_knobs_gain_is_above_zero_where_they_are_better(gain, other):
    found = recorded(study.TUNING, {"both": 0.1, other: 0.04})
    one = found[f"study_tuning_{gain}"]
    assert one["value"] == pytest.approx(0.06) and one["unit"] == "recall"
    assert one["low"] == pytest.approx(0.06) and one["repeats"] == 2
    assert found["study_tuning_both"]["value"] == pytest.approx(0.35)
    assert "over splits, 95 %" in one["note"]


def test_a_loss_is_above_zero_where_rounding_costs_recall():
    lost = recorded(study.PRECISION, {"tables": -0.05})["study_precision_tables_loss"]
    assert lost["value"] == pytest.approx(0.05) and lost["unit"] == "recall"


def test_each_small_study_runs_and_writes_what_the_page_reads(monkeypatch):
    monkeypatch.setattr(study, "searched", lambda job: grid())
    wanted = {
        "TUNING": "both one none plain_both both_plain_fold_in popularity gain "
        "scaled_gain fold_in_gain both_edge",
        "PRECISION": "weak_full full tables_loss solves_broken weak_tables_broken",
        "VARIANTS": "all_10_recall science_20_recall_50 all_10_popularity all_20_recall_edge",
    }
    for name, words in wanted.items():
        declared = getattr(study, name)
        receipt = receipts.start("matrix_factorization", "cpu")
        record(declared, receipt, run(declared.small(1)))
        keys = {f"{declared.name}_{word}" for word in words.split()}
        assert keys <= receipt.metrics.keys(), keys - receipt.metrics.keys()
        assert all(0 <= receipt.metrics[key]["value"] <= 1 for key in keys if "_re" in key)


@pytest.mark.parametrize(("page", "recall"), [(10, 1), (9, 0)])
def test_popularity_is_judged_by_its_first_twenty(page, recall):
    made = torch.arange(30.0)[None]  # page 29 first, page 10 the twentieth
    held = link_graph.Held([0], [torch.arange(0)], [torch.tensor([page])])
    arm = study.TUNING.arms["popularity"]
    assert study.TUNING.judge(made, held, job(arm)) == {"": recall}


def test_the_six_graphs_are_of_the_subjects_and_links_of_their_names(monkeypatch):
    """`small` has taken the place of the real ones: they are made anew."""
    asked, links = [], community_graph(150, 30_000, 5, seed=6)
    monkeypatch.undo()
    monkeypatch.setattr(study.data, "fetch", lambda name: name)
    monkeypatch.setattr(link_graph, "read_links", lambda folder: links)
    subjects = {
        title: {"Geography"} if int(title) % 2 else {"Science"} for title in links.titles
    }
    monkeypatch.setattr(
        link_graph, "read_subjects", lambda folder: asked.append(folder) or subjects
    )
    study.graphs.cache_clear()
    six = study.graphs()
    study.graphs.cache_clear()
    assert list(six) == [f"{p}_{n}" for n in (10, 20) for p in ("all", "geography", "science")]
    assert asked == ["wikispeedia"]
    for name, graph in six.items():
        place, least = name.split("_")
        odd = {int(title) % 2 for title in graph.titles}
        assert odd == {"all": {0, 1}, "geography": {1}, "science": {0}}[place], name
        inside = torch.tensor([int(title) % 2 in odd for title in links.titles])
        kept = link_graph.with_links(link_graph.among(links, inside), int(least))
        assert kept.titles == graph.titles and torch.equal(kept.rows, graph.rows), name
