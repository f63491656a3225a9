"""The ladder on all anchors: what each step from counting words to a cross-encoder is worth, on
anchors never trained on.

    python study_patent_phrases.py --keep scores  # from the slice's folder; writes a receipt
    python study_patent_phrases.py --anchors 40 --epochs 1

Anchors are split once (70 % training, 10 % validation, 20 % test). All trained models share one
recipe. After each quarter of the steps the validation part is judged, and the weights that were
best there are kept; it also fits the line of the last step. The test part chooses nothing.
Intervals draw whole anchors. Each model was trained once, with one seed: an interval holds the
choice of anchors, not that of the seed. `--keep` names a folder for the scores of each model,
so that a run that was ended goes on where it stopped, and for `pair_difference.safetensors`,
which the page loads.
"""

import argparse
import copy
from collections.abc import Callable
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
    "apart_context": ("apart", True),
    "together_context": ("together", True),
    "apart": ("apart", False),
    "together": ("together", False),
}
SHOWN = "apart_context"  # the page shows this one, from `pair_difference.safetensors`
RECIPE = pt.Recipe(frozen=4, epochs=1, batch=32, rate=1e-4)
CHECKS = 4  # of the validation part, while training
VALIDATION, TEST = 0.1, 0.2


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
    made = pt.texts(pairs, "apart", context)
    if layers:
        scorer = pt.PairScorer(encoder, "apart", layers)
        return pt.predict(scorer, pt.States(encoder, made.ids, layers), made.uses)
    words = encoder.word.weight
    vectors = torch.stack(
        [words[torch.tensor(one[1:-1], device=words.device)].mean(0) for one in made.ids]
    )
    vectors = torch.nn.functional.normalize(vectors, dim=1).cpu().numpy()
    return (vectors[made.uses[:, 0]] * vectors[made.uses[:, 1]]).sum(1)


def slices(test: pp.Pairs, train: pp.Pairs, words: np.ndarray) -> dict[str, np.ndarray]:
    """Parts of the test pairs by name, as masks (N,)."""
    contexts = dict(zip(*np.unique(train.context, return_counts=True), strict=True))
    anchors = dict(zip(*np.unique(test.anchor, return_counts=True), strict=True))
    seen = np.array([contexts.get(one, 0) for one in test.context])
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


def switch_agreement(pairs: pp.Pairs, predicted: np.ndarray) -> tuple[float, int]:
    """Of the pairs rated differently in two contexts, the share whose scores differ in the same
    direction; how many."""
    found = pp.switched(pairs)
    return float(np.mean([predicted[high] > predicted[low] for low, high in found])), len(found)


def kept(path: Path | None, make: Callable[[], dict]) -> dict[str, np.ndarray]:
    """The arrays that `make` returns, from the file where a run before has kept them."""
    if path and path.is_file():
        return dict(np.load(path))
    found = make()
    if path:
        np.savez(path, **found)
    return found


def ladder(
    parts: dict[str, pp.Pairs], keep: Path | None, only: list[str], epochs: int
) -> dict[str, np.ndarray]:
    """Scores of the test pairs by each step, {name: (N,)}."""
    encoder, test, found = pe.load(device.device()), parts["test"], {}
    for name in only:
        scored = kept(
            keep and keep / f"{name}.npz",
            lambda name=name: trained(encoder, parts, name, epochs, keep),
        )
        found[name] = scored["test"]
        if "small" in scored:
            found[f"{name}_small"] = scored["small"]
        if name == "together_context":
            found["other_targets"] = beside_others(encoder, parts, scored)
        print(f"{name}: {rm.pearson(scored['test'], test.score):.3f}", flush=True)
    steps = kept(keep and keep / "untrained.npz", lambda: untrained(encoder, test))
    if {"apart", "together_context"} <= found.keys():
        found["mean_of_two"] = (found["apart"] + found["together_context"]) / 2
    return steps | found


def trained(
    encoder: pe.Encoder, parts: dict[str, pp.Pairs], name: str, epochs: int, keep: Path | None
) -> dict[str, np.ndarray]:
    """Scores of validation and test by one trained model; of the shown one also by its file."""
    (kind, context), recipe = TRAINED[name], RECIPE._replace(epochs=epochs)
    scorer = best_on_validation(encoder, parts, kind, context, recipe)
    found = {part: pt.scores(scorer, parts[part], context) for part in ("validation", "test")}
    if name == SHOWN:
        thin = pm.difference(scorer, encoder)
        small = pm.restored(encoder, thin, kind, recipe.frozen)
        found["small"] = pt.scores(small, parts["test"], context)
        if keep:
            save_file(thin, keep / "pair_difference.safetensors")
    return found


def best_on_validation(
    encoder: pe.Encoder, parts: dict[str, pp.Pairs], kind: str, context: bool, recipe: pt.Recipe
) -> pt.PairScorer:
    """A trained scorer with the weights that were best on the validation part."""
    torch.manual_seed(recipe.seed)
    made = {name: pt.texts(parts[name], kind, context) for name in ("train", "validation")}
    states = {name: pt.States(encoder, one.ids, recipe.frozen) for name, one in made.items()}
    scorer, checked, best = pt.PairScorer(encoder, kind, recipe.frozen), [], {}

    def told(share: float) -> None:
        if share * CHECKS < len(checked) + 1:
            return
        found = pt.predict(scorer, states["validation"], made["validation"].uses)
        checked.append(rm.pearson(found, parts["validation"].score))
        print(f"{kind}, {share:.0%} of the steps: {checked[-1]:.3f} on validation", flush=True)
        if checked[-1] == max(checked):
            best.update(copy.deepcopy(scorer.state_dict()))

    pt.train(scorer, states["train"], made["train"].uses, parts["train"].score, recipe, told)
    scorer.load_state_dict(best)
    return scorer


def beside_others(
    encoder: pe.Encoder, parts: dict[str, pp.Pairs], kept: dict[str, np.ndarray]
) -> np.ndarray:
    """Scores of the test pairs where the rest of the raters' list may be seen; its line is
    fitted on validation."""
    features = {}
    for part in ("validation", "test"):
        vectors = pe.encode(list(parts[part].target), encoder)
        made = pt.with_other_targets(
            kept[part].astype(float), vectors, pp.other_targets(parts[part])
        )
        features[part] = np.column_stack([made, np.ones(len(made))])
    line = np.linalg.lstsq(features["validation"], parts["validation"].score, rcond=None)[0]
    return features["test"] @ line


def record(receipt: receipts.Receipt, found: dict, parts: dict, trained: list[str]) -> None:
    """Correlations, gains, switches, calibration and slices, into the receipt."""
    test, where = parts["test"], device.device()
    for name, predicted in found.items():
        told = rm.pearson_interval(predicted, test.score, test.anchor)
        receipt.record(
            f"study_{name}_pearson", told.value, "r", told.low, told.high, device=where
        )
        ranks = rm.spearman(predicted, test.score)
        receipt.record(f"study_{name}_spearman", ranks, "r", device=where)
        agree, count = switch_agreement(test, predicted)
        receipt.record(f"study_{name}_switch", agree, "share", count=count)
    for name in set(trained) & found.keys():
        gain = rm.gain_interval(found[name], found["zero_shot"], test.score, test.anchor)
        receipt.record(f"study_{name}_gain", gain.value, "r", gain.low, gain.high)
        mean, rated, count = rm.calibration(found[name], test.score).T
        receipt.curve(f"study_calibration_{name}", predicted=mean, rated=rated, pairs=count)
    masks = slices(test, parts["train"], found["words"])
    compared = found.keys() - {"words"}  # constant where no word is shared
    columns = {
        name: [rm.pearson(found[name][mask], test.score[mask]) for mask in masks.values()]
        for name in sorted(compared)
    }
    receipt.curve("study_slices", pairs=[int(mask.sum()) for mask in masks.values()], **columns)


def main(argv: list[str] | None = None) -> None:
    """Train, measure, write the receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--anchors", type=int, help="so many anchors only, for a trial")
    parser.add_argument("--epochs", type=int, default=RECIPE.epochs)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=list(TRAINED), choices=list(TRAINED))
    parser.add_argument("--keep", type=Path)
    o = parser.parse_args(argv)
    torch.set_num_threads(o.threads)
    receipt = receipts.start("patent_phrases", device.tier("auto"), threads=o.threads)
    pairs = pp.read(data.fetch("patent_phrases") / "train.csv")
    if o.anchors:
        pairs = pairs[np.isin(pairs.anchor, sorted(set(pairs.anchor))[: o.anchors])]
    if o.keep:
        o.keep.mkdir(parents=True, exist_ok=True)
    part = pp.split_by_anchor(pairs.anchor, TEST, VALIDATION)
    parts = {name: pairs[part == name] for name in ("train", "validation", "test")}
    found = ladder(parts, o.keep, o.only, o.epochs)
    record(receipt, found, parts, o.only)
    receipt.sizes(
        **{part: len(rows) for part, rows in parts.items()},
        epochs=o.epochs,
        frozen=RECIPE.frozen,
    )
    print(receipt.write(name="ladder"))


if __name__ == "__main__":
    main()
