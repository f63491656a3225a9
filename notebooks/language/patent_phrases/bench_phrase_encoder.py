"""The races: phrases encoded by ours and by sentence-transformers; phrases searched by vectors
and by bm25s. `--rounds 3 --phrases 100` is a short trial.

Both encoders run the same packaged weights in float32 on the same threads and give equal
vectors. The reference library is timed with several batch sizes, and its best counts; its ONNX
and OpenVINO backends, which need more packages, are not tried. The search is timed with the
query's vector at hand and with its encoding; bm25s answers by words: it finds other things, and
only its time stands beside ours.
"""

import argparse
import importlib.util
from pathlib import Path

import numpy as np
import patent_pairs as pp
import phrase_encoder as pe
import phrase_search
import torch
from helpers import bench, check, data, device, receipts

BATCHES = (32, 128, 512)


def reference_library():
    """The packaged model in sentence-transformers, or None where that is not installed."""
    if importlib.util.find_spec("sentence_transformers") is None:
        return None
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(
        str(pe.packaged("model.safetensors").parent), device=str(device.device())
    )


def write_reference(phrases: tuple[str, ...], path: Path) -> None:
    """Write the library's vectors of these phrases, each encoded alone, for the tests."""
    from safetensors.numpy import save_file

    library = reference_library()
    save_file({"vectors": np.concatenate([library.encode([one]) for one in phrases])}, path)


def encoders(phrases: list[str], ours: pe.Encoder) -> dict:
    """Functions that return the vectors of all phrases, by name; the library where it is
    installed."""
    found, library = {"ours": lambda: pe.encode(phrases, ours)}, reference_library()
    for size in BATCHES if library else ():
        name = f"sentence-transformers, batch {size}"
        found[name] = lambda n=size: library.encode(phrases, batch_size=n)
    return found


def searches(targets: list[str], vectors: np.ndarray, query: str, ours: pe.Encoder) -> dict:
    """Functions that return the ten best rows for one query, by name; bm25s where it is
    installed."""
    encoded, near = (lambda: pe.encode([query], ours)[0]), phrase_search.nearest
    vector = encoded()
    found = {
        "vectors": lambda: near(vector, vectors, 10)[0],
        "vectors, query encoded": lambda: near(encoded(), vectors, 10)[0],
    }
    if importlib.util.find_spec("bm25s"):
        import bm25s

        index = bm25s.BM25(backend="numba")  # its own fast path
        index.index(bm25s.tokenize(targets, show_progress=False), show_progress=False)
        words = bm25s.tokenize([query], show_progress=False)
        found["bm25s"] = lambda: index.retrieve(words, k=10, show_progress=False)[0][0]
    return found


def race_searches(
    receipt: receipts.Receipt, targets: list[str], ours: pe.Encoder, rounds: int
) -> None:
    """Race one search; the vectors are random, which does not change the time."""
    vectors = np.random.default_rng(1).standard_normal((len(targets), pe.WIDTH), np.float32)
    made = searches(targets, vectors, "spherical recreation device", ours)
    found = bench.race(made, rounds, reference="vectors")
    print(found)
    for name, result in found.results.items():
        metric = f"search_{name.replace(', ', '_').replace(' ', '_')}_time"
        receipt.record(metric, result)


def main(argv: list[str] | None = None) -> None:
    """Check, race, write the receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=device.cores())
    parser.add_argument("--phrases", type=int, default=500)
    o = parser.parse_args(argv)
    torch.set_num_threads(o.threads)
    receipt = receipts.start("patent_phrases", device.tier("auto"), threads=o.threads)
    pairs = pp.read(data.fetch("patent_phrases") / "train.csv")
    targets, ours = list(dict.fromkeys(pairs.target)), pe.load(device.device())
    phrases = np.random.default_rng(0).choice(targets, o.phrases, replace=False).tolist()
    made = encoders(phrases, ours)
    for name, encode in made.items():
        check.close(made["ours"](), encode(), atol=1e-5, why=f"float32, the weights of {name}")
    names = list(made)
    race = bench.race(made, repeats=o.rounds, warmup=1, reference=names[-1])
    print(race)
    rate, where = race.results["ours"], device.device()
    receipt.record("phrases_per_s", rate, "phrases/s", count=o.phrases, device=where)
    if len(names) > 1:
        best = min(names[1:], key=lambda name: race.results[name].median_s)
        receipt.record("encoder_speedup", bench.ratio(race.results[best], rate))
    race_searches(receipt, targets, ours, o.rounds)
    receipt.sizes(phrases=o.phrases, targets=len(targets))
    print(receipt.write(name="encoder"))


if __name__ == "__main__":
    main()
