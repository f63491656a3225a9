"""The study behind the chapter on accents: what has to move, what a shared recording flatters,
and voices that training never heard, seed by seed.

    python -m fine_tuning.study_accents    # from the slice's folder; minutes; writes a receipt
    python -m fine_tuning.study_accents --seeds 2 --rows 100

Word error rates are measured on the voices in training, on recordings that no training used
("accented") and on recordings that training rows share ("shared"); on the two voices that the
base model knows ("source"); and on each accented speaker by a model whose training lacked that
voice ("unseen"), beside one that had it ("seen"). Every training is repeated with every seed,
on one thread, as many side by side as there are cores."""

import argparse
import copy
from concurrent.futures import ThreadPoolExecutor

import ctc
import digit_speech
import jiwer
import numpy as np
import torch
from helpers import data, device, receipts
from quartznet import load_model, recognise

from .training import Recipe, train

__all__ = ["RECIPES", "main"]

RECIPES = {"full": {}, "decoder": {"mode": "decoder"}, "batch_norm": {"mode": "batch-norm"}}
RECIPES["full_gently"] = {"rate": 1e-3}  # the article's rate on its own
ARTICLE_ROWS, RATE, BATCH = 4_500, 1e-3, 8


def spoken(folder, split, speakers, count, seed):
    """(signals, texts) of `count` composed utterances of each speaker."""
    made = digit_speech.utterances(folder, split, speakers, count=count, seed=seed)
    return [one.signal for one in made], [one.text for one in made]


def tuned(base, part, **changed):
    """A copy of the base after one epoch, at a rate that can go as far as the article's."""
    updates, article = -(-len(part[0]) // BATCH), -(-ARTICLE_ROWS // BATCH)
    model = copy.deepcopy(base)
    train(model, *part, Recipe(**{"rate": RATE * article / updates, "batch": BATCH} | changed))
    return model


def error_rate(model, part):
    """The word error rate in percent, decoded greedily."""
    heard = [ctc.greedy(found)[0] for found in recognise(model, part[0])]
    return 100 * jiwer.wer(part[1], heard)


def measured(base, folder, rows, fresh, seeds, side_by_side):
    """Error rates: {(recipe, seed): (accented, source, shared)}, the base's own under None, and
    {(speaker, seed): (base, voice seen, unseen)}."""
    accented = [name for name, accent in digit_speech.ACCENTS.items() if accent != "USA"]
    tests = [spoken(folder, "test", accented, fresh, 8)]
    tests += [spoken(folder, "test", ["jackson", "theo"], fresh, 8)]
    tests += [spoken(folder, "train", accented, fresh, 17)]  # the delivery's seed is 7
    parts = {name: spoken(folder, "train", [name], rows // 4, 7) for name in accented}
    own = {name: spoken(folder, "test", [name], fresh, 9) for name in accented}
    every = _joined(parts.values())

    def run(job):
        name, seed = job
        model = tuned(base, every, **RECIPES[name], seed=seed)
        return model, [error_rate(model, part) for part in tests]

    def leave_out(job):
        name, seed = job
        without = _joined(part for other, part in parts.items() if other != name)
        models = base, found["full", seed][0], tuned(base, without, seed=seed)
        return [error_rate(model, own[name]) for model in models]

    jobs = [(name, seed) for name in RECIPES for seed in range(seeds)]
    strangers = [(name, seed) for name in accented for seed in range(seeds)]
    with ThreadPoolExecutor(side_by_side) as pool:
        found = dict(zip(jobs, pool.map(run, jobs), strict=True))
        unseen = dict(zip(strangers, pool.map(leave_out, strangers), strict=True))
    rates = {job: told for job, (_, told) in found.items()}
    return rates | {None: [error_rate(base, part) for part in tests]}, unseen


def main(argv=None):
    """Train, measure, write the receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=300, help="training rows in all")
    parser.add_argument("--fresh", type=int, default=60, help="test utterances of each speaker")
    parser.add_argument("--side-by-side", type=int, default=device.cores())
    o = parser.parse_args(argv)
    torch.set_num_threads(1)
    receipt = receipts.start("asr_finetuning", device.tier("cpu"))
    sizes = {"rows": o.rows, "fresh": o.fresh, "seeds": o.seeds}
    base, folder = load_model(), data.fetch("fsdd")
    rates, unseen = measured(base, folder, **sizes, side_by_side=o.side_by_side)

    def record(name, values):
        spread = np.median(values), "%", min(values), max(values), len(values)
        receipt.record(f"study_{name}", *spread)

    for column, what in enumerate(("accented", "source", "shared")):
        receipt.record(f"study_base_{what}_wer", rates[None][column], "%")
        for name in RECIPES:
            own = np.array([rates[name, seed][column] for seed in range(o.seeds)])
            record(f"{name}_{what}_wer", own)
            if name == "full" and what != "source":
                record(f"wer_reduction_{what}", 100 * (1 - own / rates[None][column]))
    for speaker in dict.fromkeys(name for name, _ in unseen):
        start, seen, new = np.array([unseen[speaker, seed] for seed in range(o.seeds)]).T
        receipt.record(f"study_{speaker}_base_wer", start[0], "%")
        record(f"{speaker}_seen_wer", seen)
        record(f"{speaker}_unseen_wer", new)
    base_wer, *tuned_wer = np.array([*unseen.values()]).reshape(-1, o.seeds, 3).mean(0).T
    for what, values in zip(("seen", "unseen"), tuned_wer, strict=True):
        record(f"wer_reduction_{what}_voice", 100 * (1 - values / base_wer))
    receipt.sizes(**sizes)
    print(receipt.write(name="accents"))


def _joined(parts):
    signals, texts = zip(*parts, strict=True)
    return sum(signals, []), sum(texts, [])


if __name__ == "__main__":
    main()
