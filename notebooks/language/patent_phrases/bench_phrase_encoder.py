"""The races: phrases encoded by ours and by sentence-transformers; phrases searched by `search`
and by bm25s, with one thread and with all; and what both searches find. `--rounds 3 --phrases
100 --queries 20` is a short trial.

Both encoders run the same packaged weights in float32 on the same threads and give equal
vectors. The library's best batch size counts; its ONNX and OpenVINO backends, which need more
packages, are not tried. A search takes a text and gives phrases, with a filter and without; the
parts of ours, encoding and product, are timed beside it. bm25s runs in its fast backend, finds
the stems of the query's words in its time, and filters by its mask of documents. What is found
is judged on held-out anchors; the encoder is untrained. Tokenisers get as many threads as all
else.
"""

import argparse
import importlib.util
import os
from collections.abc import Callable
from functools import partial

import numpy as np
import patent_pairs as pp
import phrase_encoder as pe
import phrase_search as ps
import rating_metrics as rm
import study_patent_phrases as study
import threadpoolctl
import torch
from helpers import bench, check, data, device, receipts

BATCHES = (32, 128, 512)
QUERY = "spherical recreation device"


def encoders(phrases: list[str], ours: pe.Encoder) -> dict:
    """Functions that return the vectors of all phrases, by name; the library where it is
    installed."""
    found = {"ours": lambda: pe.encode(phrases, ours)}
    if importlib.util.find_spec("sentence_transformers"):
        from sentence_transformers import SentenceTransformer

        model = str(pe.packaged("model.safetensors").parent)
        run = SentenceTransformer(model, device=str(device.device())).encode
        names = {f"sentence-transformers, batch {n}": n for n in BATCHES}
        found |= {name: partial(run, phrases, batch_size=n) for name, n in names.items()}
    return found


def race_encoders(receipt, made: dict, count: int, rounds: int, threads: int) -> None:
    """Race all encoders on so many threads; record ours, and over the library's best batch."""
    race = bench.race(made, rounds, warmup=1, reference=list(made)[-1])
    print(race)
    at, (ours, *others) = f"{threads}_threads", (race.results[name] for name in made)
    receipt.record(
        f"phrases_per_s_{at}", ours, "phrases/s", count=count, device=device.device()
    )
    if others:
        best = min(others, key=lambda one: one.median_s)
        receipt.record(f"encoder_speedup_{at}", bench.ratio(best, ours))


def by_words(held: ps.Index) -> Callable:
    """As `search`, by bm25s with stems; phrases without a word of the query are not found."""
    import bm25s
    import Stemmer

    how = {"stemmer": Stemmer.Stemmer("english"), "return_ids": False, "show_progress": False}
    read, made = partial(bm25s.tokenize, **how), bm25s.BM25(backend="numba")
    made.index(read(held.phrases.tolist()), show_progress=False)

    def find(query: str, held: ps.Index, count: int, contexts: list[str]) -> list:
        if not (words := read([query]))[0]:
            return []
        mask = {"weight_mask": held.inside(contexts).astype(np.float32)} if contexts else {}
        how = {"k": min(count, len(held.phrases)), "show_progress": False, **mask}
        rows, scores = made.retrieve(words, **how)
        found = zip(held.phrases[rows[0]].tolist(), scores[0].tolist(), strict=True)
        return [(phrase, score) for phrase, score in found if score > 0]

    return find


def race_searches(receipt, held: ps.Index, finds: dict, parts: dict, rounds, threads) -> None:
    """Race one query, everywhere and in the context with most phrases, and parts of ours."""
    most = list(pp.titles())[int(held.contexts.sum(0).argmax())]
    asked = {"": (QUERY, held, 10, []), "_filtered": (QUERY, held, 10, [most])}
    made = {name + how: partial(finds[name], *asked[how]) for how in asked for name in finds}
    race = bench.race(made | parts, rounds, reference="search")
    print(race)
    for name, result in race.results.items():
        receipt.record(f"{name}_time_{threads}_threads", result)


def judge_searches(receipt, held: ps.Index, finds: dict, asked: list[ps.Query]) -> None:
    """Record recall and the mean reciprocal rank among ten, everywhere and in the query's
    context, and what `search` has more; intervals over anchors."""
    anchors, note = [one.anchor for one in asked], "95 % interval over anchors"
    for where, inside in (("", False), ("_filtered", True)):
        found = {name: ps.quality(find, held, asked, inside) for name, find in finds.items()}
        ours = found["search"]
        found |= {f"search_over_{name}": ours - found[name] for name in [*found][1:]}
        for name, columns in found.items():
            for metric, column in zip(("recall", "mrr"), columns.T, strict=True):
                value, low, high = rm.share_interval(column, anchors)
                ends = {"interval": "95 %", "note": note}
                receipt.record(f"{name}_{metric}{where}", value, "share", low, high, **ends)


def main(argv: list[str] | None = None) -> None:
    """Check, race, write the receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=device.cores())
    parser.add_argument("--phrases", type=int, default=500)
    parser.add_argument("--queries", type=int)
    o = parser.parse_args(argv)
    torch.set_num_threads(o.threads)
    receipt = receipts.start("patent_phrases", device.tier("auto"), threads=o.threads)
    pairs, ours = pp.read(data.fetch("patent_phrases") / "train.csv"), pe.load(device.device())
    held = ps.index(pairs, partial(pe.encode, encoder=ours))
    random, count = np.random.default_rng(0), min(o.phrases, len(held.phrases))
    phrases = random.choice(held.phrases, count, replace=False).tolist()
    made, finds = encoders(phrases, ours), {"search": partial(ps.search, encoder=ours)}
    parts = {"encoding": partial(pe.encode, [QUERY], ours)}
    parts["product"] = partial(ps.nearest, parts["encoding"]()[0], held.vectors, 10)
    for name, encode in made.items():
        check.close(made["ours"](), encode(), atol=1e-5, why=f"float32, the weights of {name}")
    if importlib.util.find_spec("bm25s"):
        finds["bm25s"] = by_words(held)
    part = pp.split_by_anchor(pairs.anchor, study.TEST, study.VALIDATION)
    asked = ps.queries(pairs[part == "test"])
    asked = [asked[at] for at in random.permutation(len(asked))[: o.queries]]
    judge_searches(receipt, held, finds, asked)
    for threads in sorted({1, o.threads}):
        torch.set_num_threads(threads)
        os.environ["TOKENIZERS_PARALLELISM"] = "true" if threads > 1 else "false"
        with threadpoolctl.threadpool_limits(threads):
            race_encoders(receipt, made, count, o.rounds, threads)
            race_searches(receipt, held, finds, parts, o.rounds, threads)
    receipt.sizes(phrases=count, targets=len(held.phrases), queries=len(asked))
    print(receipt.write(name="encoder"))


if __name__ == "__main__":
    main()
