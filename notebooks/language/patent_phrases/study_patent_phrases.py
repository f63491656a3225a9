"""The ladder on all anchors: what each step from counting words to a cross-encoder is worth, on
anchors never trained on.

    make study CHAPTERS=language/patent_phrases STUDY=ladder

Anchors are split once (70 % training, 10 % validation, 20 % test). All trained models share one
recipe; nobody has searched for each one's best. Twice while training the validation part is
judged, and the weights that were best there are kept; it also fits the line of the last step.
The test part chooses nothing. Intervals draw whole anchors. Each model is trained once, with
one seed: an interval holds the choice of anchors, not that of the seed. What an arm makes is
called with pairs and returns their scores.
"""

import copy
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

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
CHECKS = 2  # of the validation part, while training
VALIDATION, TEST = 0.1, 0.2
OVERLAPS = {"shared words": rm.token_jaccard, "shared trigrams": rm.ngram_jaccard}


class Thin(NamedTuple):
    """What training changed, cut to matrices of this rank, as the page has it."""

    rank: int


class Asked(NamedTuple):
    """The pairs that judge, and parts of them by name, as masks (N,)."""

    pairs: pp.Pairs
    slices: dict[str, np.ndarray]


@dataclass(frozen=True)
class Tuned:
    """Scores by a scorer that reads the context's title, or does not."""

    scorer: pt.PairScorer
    context: bool

    def __call__(self, pairs: pp.Pairs) -> np.ndarray:
        return pt.scores(self.scorer, pairs, self.context)


@dataclass(frozen=True)
class Listed:
    """Scores where the rest of the raters' list may be seen."""

    tuned: Tuned
    encoder: pe.Encoder
    line: np.ndarray | None = None

    def features(self, pairs: pp.Pairs) -> np.ndarray:
        vectors, others = pe.encode(pairs.target, self.encoder), pp.other_targets(pairs)
        made = pt.with_other_targets(self.tuned(pairs).astype(float), vectors, others)
        return np.column_stack([made, np.ones(len(made))])

    def __call__(self, pairs: pp.Pairs) -> np.ndarray:
        return self.features(pairs) @ self.line


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
    tokens = [torch.tensor(one[1:-1], device=words.device) for one in made.ids]
    vectors = torch.stack([words[one].mean(0) for one in tokens])
    vectors = torch.nn.functional.normalize(vectors, dim=1).cpu().numpy()
    return vectors[made.uses].prod(1).sum(1)


def slices(test: pp.Pairs, train: pp.Pairs, words: np.ndarray) -> dict[str, np.ndarray]:
    """Parts of the test pairs by name, as masks (N,)."""
    contexts = Counter(train.context.tolist())
    seen = np.array([contexts[one] for one in test.context])
    rows = np.unique(test.anchor, return_inverse=True, return_counts=True)
    rows = rows[2][rows[1]]  # pairs of this anchor
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


def switch_agreement(pairs: pp.Pairs, predicted: np.ndarray) -> rm.Interval:
    """Of the pairs rated differently in two contexts, the share whose scores differ in the same
    direction; no move, up to rounding, counts half."""
    low, high = np.array(pp.switched(pairs)).T
    moved = predicted[high] - predicted[low]
    hits = np.where(np.abs(moved) < 1e-6, 0.5, moved > 0)
    return rm.share_interval(hits, pairs.anchor[low])


def best_on_validation(
    tuned: Tuned, train: pp.Pairs, validation: pp.Pairs, recipe: pt.Recipe
) -> Tuned:
    """Trained, with the weights that were best on the validation part."""
    scorer, parts, checked, best = tuned.scorer, (train, validation), [], {}
    made = [pt.texts(pairs, scorer.kind, tuned.context) for pairs in parts]
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
    given = {**found, "test": Asked(found["test"], masks)}
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
    return Tuned(pt.PairScorer(encoder, word, frozen), job.arm.setting["context"])


def fit(job: Job) -> Callable[[pp.Pairs], np.ndarray]:
    """What an arm learns, by its loss; without one, a table of means."""
    loss = job.arm.loss
    if loss is None:
        return partial(job.start, job.train)
    if isinstance(loss, dict):
        return best_on_validation(job.start, job.train, job.choice, recipe_of(job))
    tuned, encoder = job.start
    if isinstance(loss, Thin):
        kept, old = pm.difference(tuned.scorer, encoder, loss.rank), tuned.scorer
        return replace(tuned, scorer=pm.restored(encoder, kept, old.kind, old.frozen))
    listed = Listed(tuned, encoder)
    line = np.linalg.lstsq(listed.features(job.train), job.train.score, rcond=None)[0]
    return replace(listed, line=line)


def judge(made: Callable | tuple, asked: Asked, job: Job) -> dict:
    """Correlations; as lists, what `told` needs. Of several models the mean of the scores."""
    pairs, models = asked.pairs, made if isinstance(made, tuple) else (made,)
    predicted = np.mean([one(pairs) for one in models], axis=0)
    interval = rm.pearson_interval(predicted, pairs.score, pairs.anchor)
    found = {"pearson": interval.value, "spearman": rm.spearman(predicted, pairs.score)}
    found["interval"] = [*interval]
    if job.arm.setting.get("context"):
        found["switch"] = [*switch_agreement(pairs, predicted)]
    found["calibration"] = rm.calibration(predicted, pairs.score).T.tolist()
    found["pairs"] = [int(mask.sum()) for mask in asked.slices.values()]
    found["slices"] = [within(predicted, pairs.score, one) for one in asked.slices.values()]
    columns = {"predicted": predicted, "rated": pairs.score, "anchor": pairs.anchor}
    return found | {name: column.tolist() for name, column in columns.items()}


def within(predicted: np.ndarray, rated: np.ndarray, mask: np.ndarray) -> float | None:
    """The correlation in a part; None where one side is constant there."""
    sides = predicted[mask], rated[mask]
    return rm.pearson(*sides) if all(len(set(one.tolist())) > 1 for one in sides) else None


TITLE, PLAIN = {"context": True}, {"context": False}
LEARN = {"train": "train", "choice": "validation", "loss": RECIPES}
SHOWN = "cross_context"  # the page shows this one, from `pair_difference.safetensors`
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
    f"{SHOWN}_small": Arm(start=(SHOWN, "encoder"), loss=Thin(pm.RANK), setting=TITLE),
    "other_targets": Arm(start=(SHOWN, "encoder"), train="validation", loss="least squares"),
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
}
GAINS = {
    f"study_{one}_over_{other}": Outcome("pearson", one, other, differs)
    for (one, other), differs in DIFFERS.items()
}


def told(receipt, found: dict) -> None:
    """Record intervals over anchors, of correlations, gains and switches, and the curves."""
    note = "95 % interval over anchors"
    runs = {name: seeds[STUDY.seeds[0]]["test"] for name, seeds in found.items()}

    def put(label: str, interval, unit: str) -> None:
        value, low, high = map(float, interval)
        how = {"note": note, "device": device.device(), "interval": "95 %"}
        receipt.record(label, value, unit, low, high, **how)

    for name, one in runs.items():
        put(f"study_{name}_pearson", one["interval"], "r")
        if "switch" in one:
            put(f"study_{name}_switch", one["switch"], "share")
        if ARMS[name].loss is RECIPES:
            mean, rated, count = one["calibration"]
            receipt.curve(f"study_calibration_{name}", predicted=mean, rated=rated, pairs=count)
    for label, gain in GAINS.items():
        one, other = runs[gain.arm], runs[gain.less]["predicted"]
        sides = (np.array(each) for each in (one["predicted"], other, one["rated"]))
        put(label, rm.gain_interval(*sides, one["anchor"]), "r")
    whole = {name: one["slices"] for name, one in runs.items() if None not in one["slices"]}
    receipt.curve("study_slices", pairs=runs[SHOWN]["pairs"], **dict(sorted(whole.items())))


STUDY = Study(
    notebook="patent_phrases",
    name="ladder",
    arms=ARMS,
    seeds=(0,),
    trial={"anchors": 60},
    metrics={"pearson": Metric("r"), "spearman": Metric("r")},
    parts=parts,
    begin=begin,
    fit=fit,
    judge=judge,
    outcomes=GAINS,
    extra=told,
    over="one seed",
)
