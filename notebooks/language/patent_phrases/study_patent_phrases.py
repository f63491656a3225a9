"""The ladder on all anchors: what each step from counting words to a cross-encoder is worth, on
anchors never trained on.

    python study_patent_phrases.py --keep scores  # from the slice's folder; writes a receipt
    python study_patent_phrases.py --anchors 40

Anchors are split once (70 % training, 10 % validation, 20 % test). All trained models share one
recipe; nobody has searched for each one's best. Twice while training the validation part is
judged, and the weights that were best there are kept; it also fits the line of the last step.
The test part chooses nothing. Intervals draw whole anchors. Each model was trained once, with
one seed: an interval holds the choice of anchors, not that of the seed. `--keep` names a folder
for each model's scores, from which a run that was ended goes on, and for
`pair_difference.safetensors`, which the page loads.
"""

import argparse
import copy
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pair_model as pm
import pair_training as pt
import patent_pairs as pp
import phrase_encoder as pe
import rating_metrics as rm
import torch
from helpers import data, device, receipts
from safetensors.torch import save_file

TRAINED = {  # name: kind, with the context's title
    "cross_context": ("cross-encoder", True),
    "bi": ("bi-encoder", False),
    "cross": ("cross-encoder", False),
    "bi_context": ("bi-encoder", True),
}
GAINS = [(name, "zero_shot") for name in TRAINED]  # differences with an interval of their own
GAINS += [("cross", "bi"), ("cross_context", "cross"), ("bi_context", "bi")]
SHOWN = "cross_context"  # the page shows this one, from `pair_difference.safetensors`
RECIPE = pt.Recipe(frozen=4, epochs=1, batch=32, rate=1e-4)
CHECKS = 2  # of the validation part, while training
VALIDATION, TEST = 0.1, 0.2


def recipe() -> pt.Recipe:
    """How all models are trained: the upper layers on a CPU; all on a GPU, which never ran."""
    full = RECIPE._replace(frozen=0, epochs=4, rate=5e-5)
    return device.tier("auto").pick(cpu=RECIPE, gpu=full, big=full)


def untrained(encoder: pe.Encoder, pairs: pp.Pairs) -> dict[str, np.ndarray]:
    """Scores of the steps that need no training, by name."""
    phrases = list(zip(pairs.anchor, pairs.target, strict=True))
    return {
        "words": np.array([rm.token_jaccard(*both) for both in phrases]),
        "trigrams": np.array([rm.ngram_jaccard(*both) for both in phrases]),
        "static": cosines(encoder, pairs, False, layers=0),
        "zero_shot": cosines(encoder, pairs, False),
        "zero_shot_context": cosines(encoder, pairs, True),
    }


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


def kept(path: Path | None, make: Callable[[], dict]) -> dict[str, np.ndarray]:
    """The arrays that `make` returns, from the file where a run before has kept them."""
    if path and path.is_file():
        return dict(np.load(path))
    found = make()
    if path:
        np.savez(path, **found)
    return found


def ladder(
    parts: dict[str, pp.Pairs], keep: Path | None, only: list[str]
) -> dict[str, np.ndarray]:
    """Scores of the test pairs by each step, {name: (N,)}."""
    encoder, at = pe.load(device.device()), keep or Path()
    found = kept(keep and at / "untrained.npz", lambda: untrained(encoder, parts["test"]))
    found["context_mean"] = by_context(parts["train"], parts["test"])
    for name in only:
        path, make = keep and at / f"{name}.npz", partial(trained, encoder, parts, name, keep)
        scored = kept(path, make)
        found[name] = scored["test"]
        if name == SHOWN:
            found[f"{name}_small"] = scored["small"]
            found["other_targets"] = beside_others(encoder, parts, scored)
        print(f"{name}: {rm.pearson(found[name], parts['test'].score):.3f}", flush=True)
    if {"bi", SHOWN} <= found.keys():
        found["mean_of_two"] = (found["bi"] + found[SHOWN]) / 2
    return found


def trained(
    encoder: pe.Encoder, parts: dict[str, pp.Pairs], name: str, keep: Path | None
) -> dict[str, np.ndarray]:
    """Scores of validation and test by one trained model; of the shown one also by its file."""
    (kind, context), frozen = TRAINED[name], recipe().frozen
    made = {part: pt.texts(pairs, kind, context) for part, pairs in parts.items()}
    states = {part: pt.States(encoder, one, frozen) for part, one in made.items()}
    score = {part: parts[part].score for part in ("train", "validation")}
    scorer = best_on_validation(pt.PairScorer(encoder, kind, frozen), made, states, score)
    found = {p: pt.predict(scorer, states[p], made[p].uses) for p in ("validation", "test")}
    if name == SHOWN:
        thin = pm.difference(scorer, encoder)
        small = pm.restored(encoder, thin, kind, frozen)
        found["small"] = pt.predict(small, states["test"], made["test"].uses)
        if keep:
            save_file(thin, keep / "pair_difference.safetensors")
    return found


def best_on_validation(
    scorer: pt.PairScorer,
    made: dict[str, pt.Texts],
    states: dict[str, pt.States],
    score: dict[str, np.ndarray],
) -> pt.PairScorer:
    """The scorer trained, with the weights that were best on the validation part."""
    checked, best = [], {}

    def told(share: float) -> None:
        if share * CHECKS < len(checked) + 1:
            return
        found = pt.predict(scorer, states["validation"], made["validation"].uses)
        checked.append(rm.pearson(found, score["validation"]))
        print(f"{share:.0%} of the steps: {checked[-1]:.3f} on validation", flush=True)
        if checked[-1] == max(checked):
            best.update(copy.deepcopy(scorer.state_dict()))

    pt.train(scorer, states["train"], made["train"].uses, score["train"], recipe(), told)
    scorer.load_state_dict(best)
    return scorer


def beside_others(
    encoder: pe.Encoder, parts: dict[str, pp.Pairs], scored: dict[str, np.ndarray]
) -> np.ndarray:
    """Scores of the test pairs where the rest of the raters' list may be seen; its line is
    fitted on validation."""
    features = {}
    for part in ("validation", "test"):
        vectors, others = pe.encode(parts[part].target, encoder), pp.other_targets(parts[part])
        made = pt.with_other_targets(scored[part].astype(float), vectors, others)
        features[part] = np.column_stack([made, np.ones(len(made))])
    line = np.linalg.lstsq(features["validation"], parts["validation"].score, rcond=None)[0]
    return features["test"] @ line


def record(receipt: receipts.Receipt, found: dict, parts: dict) -> None:
    """Correlations, gains, switches, calibration and slices, into the receipt."""
    test, told = parts["test"], {}
    for name, predicted in found.items():
        told[f"{name}_pearson"] = rm.pearson_interval(predicted, test.score, test.anchor)
        told[f"{name}_spearman"] = rm.Interval(rm.spearman(predicted, test.score), None, None)
        if "context" in name:
            told[f"{name}_switch"] = switch_agreement(test, predicted)
    for name, base in GAINS:
        if {name, base} <= found.keys():
            gain = rm.gain_interval(found[name], found[base], test.score, test.anchor)
            told[f"{name}_over_{base}"] = gain
    for name, (value, low, high) in told.items():
        unit = "share" if name.endswith("switch") else "r"
        receipt.record(f"study_{name}", value, unit, low, high, device=device.device())
    for name in TRAINED.keys() & found.keys():
        mean, rated, count = rm.calibration(found[name], test.score).T
        receipt.curve(f"study_calibration_{name}", predicted=mean, rated=rated, pairs=count)
    masks = slices(test, parts["train"], found["words"]).values()
    columns = {
        name: [rm.pearson(found[name][mask], test.score[mask]) for mask in masks]
        for name in sorted(found.keys() - {"words"})  # constant where no word is shared
    }
    receipt.curve("study_slices", pairs=[int(mask.sum()) for mask in masks], **columns)


def main(argv: list[str] | None = None) -> None:
    """Train, measure, write the receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--anchors", type=int, help="so many anchors only, for a trial")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=list(TRAINED), choices=list(TRAINED))
    parser.add_argument("--keep", type=Path)
    o = parser.parse_args(argv)
    torch.set_num_threads(o.threads)
    receipt = receipts.start("patent_phrases", device.tier("auto"), threads=o.threads)
    pairs = pp.read(data.fetch("patent_phrases") / "train.csv")
    pairs = pairs[np.isin(pairs.anchor, sorted(set(pairs.anchor))[: o.anchors])]
    if o.keep:
        o.keep.mkdir(parents=True, exist_ok=True)
    part = pp.split_by_anchor(pairs.anchor, TEST, VALIDATION)
    parts = {name: pairs[part == name] for name in ("train", "validation", "test")}
    found = ladder(parts, o.keep, o.only)
    if lacking := TRAINED.keys() - set(o.only):
        print(f"not recorded: the ladder lacks {', '.join(sorted(lacking))}")
        return
    record(receipt, found, parts)
    sizes = {name: len(rows) for name, rows in parts.items()}
    receipt.sizes(**sizes, epochs=recipe().epochs, frozen=recipe().frozen)
    print(receipt.write(name="ladder"))


if __name__ == "__main__":
    main()
