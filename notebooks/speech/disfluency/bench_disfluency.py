"""The race: a causal network with cached keys and values against reading the prefix again, in
PyTorch and in ONNX Runtime, and a bidirectional one, which must read it again.

`--rounds 2 --words 12` is a short trial. Every contestant answers for each growing prefix of
the same words, one sentence at a time, as a caption does. The causal ways are checked to agree.
The networks are the size of the page's; time does not depend on what they learned."""

import argparse
import importlib.util

import disfl_labels as dl
import numpy as np
import prefix_network as pn
import strike_page
import study_disfluency as study
import torch
from helpers import bench, check, device, receipts

LENGTHS = (10, 30, dl.LONGEST)  # words: a sentence, a long one, the longest
GAINS = {
    "cache_speedup": ("prefix again", "cached"),
    "onnx_cache_speedup": ("onnx float32", "onnx cached"),
    "onnx_cache_over_int8": ("onnx int8", "onnx cached"),
}


@torch.inference_mode()
def cached(network: pn.PrefixNetwork, ids: torch.Tensor) -> list[torch.Tensor]:
    """The newest state's logits at each word, one row of work each."""
    found, cache = [], None
    for at in range(ids.shape[1]):
        logits, cache = network.step(ids[:, at : at + 1], cache, at)
        found.append(logits[0])
    return found


@torch.inference_mode()
def again(network: pn.PrefixNetwork, ids: torch.Tensor) -> list[torch.Tensor]:
    """The same from reading each prefix from its beginning."""
    return [network(ids[:, :end])[0][0, -1] for end in range(1, ids.shape[1] + 1)]


def session(content: bytes, threads: int):
    """An ONNX Runtime session of a file's bytes."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(content, options, ["CPUExecutionProvider"])


def in_onnx(network: pn.PrefixNetwork, ids: torch.Tensor, int8: bool, threads: int):
    """A function that reads each prefix in ONNX Runtime."""
    run, rows = session(strike_page.onnx(network, int8), threads).run, ids.numpy()
    return lambda: [run(None, {"ids": rows[:, :end]}) for end in range(1, rows.shape[1] + 1)]


def cached_in_onnx(network: pn.PrefixNetwork, ids: torch.Tensor, threads: int):
    """A function that takes one step a word in ONNX Runtime; logits as `cached` gives them."""
    made, width = session(strike_page.onnx_step(network), threads), network.word.weight.shape[1]
    names = [one.name for one in made.get_inputs()][2:]
    none = [np.zeros((1, network.heads, 0, width // network.heads), np.float32)] * len(names)

    def read():
        found, cache = [], none
        for at, word in enumerate(ids.numpy().T[..., None]):
            given = {"id": word, "at": np.array([at]), **dict(zip(names, cache, strict=True))}
            logits, *cache = made.run(None, given)
            found.append(torch.from_numpy(logits[0]))
        return found

    return read


def contestants(causal: pn.PrefixNetwork, both: pn.PrefixNetwork, ids, threads: int) -> dict:
    """Functions by name that answer for every prefix; those that must agree are checked."""
    alike = {"prefix again": lambda: again(causal, ids), "cached": lambda: cached(causal, ids)}
    others = {"bidirectional": lambda: again(both, ids)}
    if importlib.util.find_spec("onnxruntime"):
        alike["onnx cached"] = cached_in_onnx(causal, ids, threads)
        for name, int8 in (("onnx float32", False), ("onnx int8", True)):
            others[name] = in_onnx(both, ids, int8, threads)
    for run in alike.values():
        for one, other in zip(run(), again(causal, ids), strict=True):
            check.close(one, other, atol=1e-4, why="the same float32 sums in other blocks")
    return alike | others


def main(argv: list[str] | None = None) -> None:
    """Check, race, write the receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--words", type=int, nargs="+", default=LENGTHS)
    o = parser.parse_args(argv)
    torch.set_num_threads(o.threads)
    receipt = receipts.start("disfluency", device.tier("cpu"), threads=o.threads)
    torch.manual_seed(0)
    size = 2 + study.WORDS + study.BUCKETS
    causal, both = (pn.PrefixNetwork(size, causal=one).eval() for one in (True, False))
    for words in o.words:
        ids = torch.randint(2, size, (1, words))
        race = bench.race(contestants(causal, both, ids, o.threads), o.rounds)
        print(race)
        for name, found in race.results.items():
            each = bench.spread(1e3 / words * seconds for seconds in found.times_s)
            receipt.record(f"ms_per_word_{name}_{words}".replace(" ", "_"), each, "ms")
        for key, (slow, fast) in GAINS.items():
            if fast in race.results:
                gain = bench.ratio(race.results[slow], race.results[fast])
                receipt.record(f"{key}_{words}", gain)
    receipt.sizes(lengths=len(o.words), parameters=sum(p.numel() for p in both.parameters()))
    print(receipt.write(name="prefix"))


if __name__ == "__main__":
    main()
