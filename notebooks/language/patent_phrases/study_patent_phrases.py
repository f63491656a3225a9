"""The ladder: what each step from counting words to a cross-encoder is worth, on anchors never
trained on.

    make study CHAPTERS=language/patent_phrases STUDY=ladder

Anchors are split once (70 % training, 10 % validation, 20 % test). All trained models share one
recipe, but for one that trains all layers; nobody has searched for each one's best. The weights
that were best on the validation part are kept; it also fits the line on a list's features. The
test part chooses nothing. Each model is trained with three seeds, and an interval draws whole
anchors and one of the seeds. What an arm makes is called with pairs and returns their scores.
"""

import copy
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pair_model as pm
import pair_training as pt
import patent_pairs as pp
import phrase_encoder as pe
import rating_metrics as rm
import torch
from helpers import data, device
from helpers.study import Arm, Job, Metric, Outcome, Part, Study

RECIPE = pt.Recipe(frozen=4, epochs=1, batch=32, rate=1e-4)
WHOLE = RECIPE._replace(frozen=0, epochs=4, rate=5e-5)  # all layers, on a GPU; it never ran
RECIPES = {"cpu": RECIPE, "gpu": WHOLE, "big": WHOLE}
ALL_LAYERS = RECIPES | {"cpu": RECIPE._replace(frozen=0)}
LISTED = 6  # other targets that one arm reads as text: its texts are twice as long
CHECKS = 2  # of the validation part, while training
VALIDATION, TEST = 0.1, 0.2
OVERLAPS = {"shared words": rm.token_jaccard, "shared trigrams": rm.ngram_jaccard}


@dataclass(frozen=True)
class Tuned:
    """Scores by a scorer that reads the context's title, or does not, and so many targets of
    the list beside its own."""

    scorer: pt.PairScorer
    context: bool
    listed: int = 0

    def __call__(self, pairs: pp.Pairs) -> np.ndarray:
        return pt.scores(self.scorer, pairs, self.context, self.listed)


def in_list(tuned: Tuned, encoder: pe.Encoder, pairs: pp.Pairs) -> np.ndarray:
    """Where each pair stands in the raters' list, and a one: (N, 5)."""
    vectors, others = pe.encode(pairs.target, encoder), pp.other_targets(pairs)
    made = pt.with_other_targets(tuned(pairs).astype(float), vectors, others)
    return np.column_stack([made, np.ones(len(made))])


def by_list(tuned: Tuned, encoder: pe.Encoder, line: np.ndarray, pairs: pp.Pairs) -> np.ndarray:
    """Scores by a line on `in_list`."""
    return in_list(tuned, encoder, pairs) @ line


def overlaps(overlap: Callable[[str, str], float], pairs: pp.Pairs) -> np.ndarray:
    """The overlap of each pair's phrases, (N,)."""
    return np.array([overlap(*both) for both in zip(pairs.anchor, pairs.target, strict=True)])


@torch.inference_mode()
def cosines(
    encoder: pe.Encoder, pairs: pp.Pairs, context: bool, layers: int = pe.LAYERS
) -> np.ndarray:
    """The cosine of each pair, (N,): after all layers, or, with `layers=0`, of the mean of the
    tokens' own vectors."""
    if layers:
        return pt.scores(pt.PairScorer(encoder, "bi-encoder", layers), pairs, context)
    made, words = pt.texts(pairs, "bi-encoder", context), encoder.word.weight
    vectors = torch.stack([words[one[1:-1]].mean(0) for one in made.ids])
    vectors = torch.nn.functional.normalize(vectors, dim=1).cpu().numpy()
    return vectors[made.uses].prod(1).sum(1)


def slices(test: pp.Pairs, train: pp.Pairs, words: np.ndarray) -> dict[str, np.ndarray]:
    """Parts of the test pairs by name, as masks (N,)."""
    contexts, anchors = Counter(train.context.tolist()), Counter(test.anchor.tolist())
    seen = np.array([contexts[one] for one in test.context])
    rows = np.array([anchors[one] for one in test.anchor])
    return {
        "all": np.ones(len(test), bool),
        "no shared word": words == 0,
        "a shared word": words > 0,
        "new target": pp.is_new(test, train),
        "rare context": seen <= np.median(seen),
        "frequent context": seen > np.median(seen),
        "anchor with few pairs": rows <= np.median(rows),
        "anchor with many pairs": rows > np.median(rows),
    }


def by_context(train: pp.Pairs, pairs: pp.Pairs) -> np.ndarray:
    """Each context's mean training score: what there is to know without reading the phrases."""
    mean = {one: train.score[train.context == one].mean() for one in set(train.context)}
    return np.array([mean.get(one, train.score.mean()) for one in pairs.context])


def switch_hits(pairs: pp.Pairs, predicted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of the pairs rated differently in two contexts, whether scores differ in the same
    direction, and their anchors; no move, up to rounding, counts half."""
    low, high = np.array(pp.switched(pairs)).T
    moved = predicted[high] - predicted[low]
    return np.where(np.abs(moved) < 1e-6, 0.5, moved > 0), pairs.anchor[low]


def best_on_validation(tuned: Tuned, train, validation, recipe: pt.Recipe) -> Tuned:
    """Trained on pairs, with the weights that were best on the validation part."""
    scorer, parts, checked, best = tuned.scorer, (train, validation), [], {}
    made = [pt.texts(pairs, scorer.kind, tuned.context, tuned.listed) for pairs in parts]
    states = [pt.States(scorer.encoder, one, scorer.frozen) for one in made]

    def told(share: float) -> None:
        if share * CHECKS < len(checked) + 1:
            return
        found = pt.predict(scorer, states[1], made[1].uses)
        checked.append(rm.pearson(found, validation.score))
        print(f"{share:.0%} of the steps: {checked[-1]:.3f} on validation", flush=True)
        if checked[-1] == max(checked):
            best.update(copy.deepcopy(scorer.state_dict()))

    pt.train(scorer, states[0], made[0].uses, train.score, recipe, told)
    scorer.load_state_dict(best)
    return tuned


def recipe_of(job: Job) -> pt.Recipe:
    """How this machine trains: the upper layers on a CPU; all on a GPU."""
    return device.tier("auto").pick(**job.arm.loss)._replace(seed=job.seed)


def parts(seed: int, sizes: dict) -> dict[str, Part]:
    """The same split for all seeds, by anchor; of so many anchors only, where `sizes` says."""
    pairs = pp.read(data.fetch("patent_phrases") / "train.csv")
    names = np.random.default_rng(0).permutation(sorted(set(pairs.anchor)))
    pairs = pairs[np.isin(pairs.anchor, names[: sizes.get("anchors")])]
    part = pp.split_by_anchor(pairs.anchor, TEST, VALIDATION)
    found = {name: pairs[part == name] for name in ("train", "validation", "test")}
    masks = slices(found["test"], found["train"], overlaps(rm.token_jaccard, found["test"]))
    given = {**found, "test": (found["test"], masks)}
    return {name: Part(given[name], rows.anchor.tolist()) for name, rows in found.items()}


def begin(word: str, job: Job) -> object:
    """What scores without training; a scorer of that kind; or the encoder itself."""
    if word in OVERLAPS:
        return partial(overlaps, OVERLAPS[word])
    if word == "contexts":
        return by_context
    encoder = pe.load(device.device())
    if word == "token embeddings":
        return partial(cosines, encoder, context=False, layers=0)
    if word == "encoder":
        return encoder
    frozen = recipe_of(job).frozen if job.arm.loss else pe.LAYERS
    return Tuned(pt.PairScorer(encoder, word, frozen), **job.arm.setting)


def fit(job: Job) -> Callable[[pp.Pairs], np.ndarray]:
    """What an arm learns, by its loss; without one, a table of means."""
    loss = job.arm.loss
    if loss is None:
        return partial(job.start, job.train)
    if loss.keys() == RECIPES.keys():
        return best_on_validation(job.start, job.train, job.choice, recipe_of(job))
    tuned, encoder = job.start
    if "rank" in loss:
        kept, old = pm.difference(tuned.scorer, encoder, loss["rank"]), tuned.scorer
        return replace(tuned, scorer=pm.restored(encoder, kept, old.kind, old.frozen))
    line = np.linalg.lstsq(in_list(tuned, encoder, job.train), job.train.score, rcond=None)[0]
    return partial(by_list, tuned, encoder, line)


def judge(made: Callable | tuple, asked: tuple[pp.Pairs, dict], job: Job) -> dict:
    """Correlations; as lists, what `told` needs. Of several models the mean of the scores."""
    (pairs, masks), models = asked, made if isinstance(made, tuple) else (made,)
    predicted = np.mean([one(pairs) for one in models], axis=0)
    columns = {"predicted": predicted, "rated": pairs.score, "anchor": pairs.anchor}
    if job.arm.setting.get("context"):
        columns["hits"], columns["switched"] = switch_hits(pairs, predicted)
    found = {name: column.tolist() for name, column in columns.items()}
    found["pairs"] = [int(mask.sum()) for mask in masks.values()]
    sides = [(predicted[mask], pairs.score[mask]) for mask in masks.values()]
    vary = [all(len(one) and np.ptp(one) for one in both) for both in sides]  # else undefined
    found["slices"] = [rm.pearson(*x) if y else None for x, y in zip(sides, vary, strict=True)]
    found["spearman"] = rm.spearman(predicted, pairs.score)
    return found | {"pearson": rm.pearson(predicted, pairs.score)}


TITLE, PLAIN = {"context": True}, {"context": False}
LEARN = {"train": "train", "choice": "validation", "loss": RECIPES}
SHOWN = "cross_context"  # the page shows this one, from `pair_difference.safetensors`
SMALL, DEEP, TEXT_LIST = f"{SHOWN}_small", f"{SHOWN}_deep", f"{SHOWN}_list"
ARMS = {
    "words": Arm(start="shared words"),
    "trigrams": Arm(start="shared trigrams"),
    "static": Arm(start="token embeddings"),
    "context_mean": Arm(start="contexts", train="train", setting=TITLE),
    "zero_shot": Arm(start="bi-encoder", setting=PLAIN),
    "zero_shot_context": Arm(start="bi-encoder", setting=TITLE),
    "bi": Arm(start="bi-encoder", setting=PLAIN, **LEARN),
    "bi_context": Arm(start="bi-encoder", setting=TITLE, **LEARN),
    "cross": Arm(start="cross-encoder", setting=PLAIN, **LEARN),
    SHOWN: Arm(start="cross-encoder", setting=TITLE, **LEARN),
    DEEP: Arm(start="cross-encoder", setting=TITLE, **(LEARN | {"loss": ALL_LAYERS})),
    SMALL: Arm(start=(SHOWN, "encoder"), loss={"rank": pm.RANK}, setting=TITLE),
    "other_targets": Arm(start=(SHOWN, "encoder"), train="validation", loss={"line": True}),
    TEXT_LIST: Arm(start="cross-encoder", setting=TITLE | {"listed": LISTED}, **LEARN),
    "mean_of_two": Arm(start=("bi", SHOWN)),  # only the second reads the title
}
LEARNT = ("choice", "train", "loss")
LEARNT += tuple(f"loss.{tier}.{key}" for tier in RECIPES for key in pt.Recipe._fields)
DIFFERS = {
    ("bi", "zero_shot"): LEARNT,
    ("bi_context", "zero_shot"): (*LEARNT, "setting.context"),
    ("cross", "zero_shot"): (*LEARNT, "start"),
    (SHOWN, "zero_shot"): (*LEARNT, "start", "setting.context"),
    ("cross", "bi"): ("start",),
    (SHOWN, "cross"): ("setting.context",),
    ("bi_context", "bi"): ("setting.context",),
    (DEEP, SHOWN): ("loss.cpu.frozen",),
    (SMALL, SHOWN): (*LEARNT[:2], *LEARNT[3:], "loss.rank", "start"),
    (TEXT_LIST, SHOWN): ("setting.listed",),
}
GAINS = {
    f"study_{one}_over_{other}": Outcome("pearson", one, other, differs)
    for (one, other), differs in DIFFERS.items()
}


def told(receipt, found: dict) -> None:
    """Record intervals over anchors and seeds, of correlations, gains and switches; curves."""
    runs = {name: [seed["test"] for seed in seeds.values()] for name, seeds in found.items()}
    scored = {name: np.array([one["predicted"] for one in each]) for name, each in runs.items()}
    first = runs[SHOWN][0]
    rated, anchor = np.array(first["rated"]), first["anchor"]

    def put(label: str, interval: rm.Interval, unit: str) -> None:
        how = {"note": "95 % interval over anchors and seeds", "device": device.device()}
        receipt.record(label, interval.value, unit, *interval[1:], interval="95 %", **how)

    whole, seeds = {}, {}
    for name, each in runs.items():
        put(f"study_{name}_pearson", rm.pearson_interval(scored[name], rated, anchor), "r")
        if "hits" in each[0]:
            hits = np.array([one["hits"] for one in each])
            put(f"study_{name}_switch", rm.share_interval(hits, each[0]["switched"]), "share")
        if ARMS[name].choice:
            table = rm.calibration(scored[name].ravel(), np.tile(rated, len(each)))
            columns = dict(zip(("predicted", "rated", "pairs"), table.T, strict=True))
            receipt.curve(f"study_calibration_{name}", **columns)
            seeds[name] = [one["pearson"] for one in each]
        if not any(None in one["slices"] for one in each):
            whole[name] = np.mean([one["slices"] for one in each], axis=0)
    for label, gain in GAINS.items():
        put(label, rm.gain_interval(scored[gain.arm], scored[gain.less], rated, anchor), "r")
    receipt.curve("study_seeds", **seeds)
    receipt.curve("study_slices", pairs=first["pairs"], **dict(sorted(whole.items())))


STUDY = Study(
    notebook="patent_phrases",
    name="ladder",
    arms=ARMS,
    seeds=range(3),
    trial={"anchors": 60},
    metrics={"pearson": Metric("r"), "spearman": Metric("r")},
    parts=parts,
    begin=begin,
    fit=fit,
    judge=judge,
    outcomes=GAINS,
    extra=told,
    threads=2,
)


def write_shown(path: Path, study: Study = STUDY) -> None:
    """Write the page's small file: what training changes in the arm `SHOWN`, first seed."""
    from safetensors.torch import save_file

    torch.set_num_threads(study.threads)
    seed, arm = study.seeds[0], study.arms[SHOWN]
    parts = study.parts(seed, study.sizes)
    given = parts[arm.train].data, parts[arm.choice].data
    job = Job(SHOWN, arm, seed, study.sizes, None, *given)
    device.seed(seed)
    tuned = study.fit(job._replace(start=study.begin(arm.start, job)))
    save_file(pm.difference(tuned.scorer, pe.load(device.device())), path)
