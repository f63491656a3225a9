"""The race: a causal network with cached keys and values against reading the prefix again,
and a bidirectional one, which must read it again; float32 and int8 in ONNX Runtime.

`--rounds 2 --words 12` is a short trial. Every contestant answers for each growing prefix of
the same words, one sentence at a time, as a caption does. The two causal ways are checked to
agree. The networks are the size of the page's; time does not depend on what they learned."""

import argparse
import importlib.util

import disfl_labels as dl
import numpy as np
import prefix_network as pn
import strike_page
import study_disfluency as study
import torch
from helpers import bench, check, device, receipts


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


def in_onnx(network: pn.PrefixNetwork, ids: torch.Tensor, int8: bool, threads: int):
    """A function that reads each prefix in ONNX Runtime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    made = strike_page.onnx(network, int8)
    session = onnxruntime.InferenceSession(made, options, ["CPUExecutionProvider"])
    rows = ids.numpy().astype(np.int64)
    return lambda: [
        session.run(None, {"ids": rows[:, :end]}) for end in range(1, rows.shape[1] + 1)
    ]


def main(argv: list[str] | None = None) -> None:
    """Check, race, write the receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--words", type=int, default=30)
    o = parser.parse_args(argv)
    torch.set_num_threads(o.threads)
    receipt = receipts.start("disfluency", device.tier("cpu"), threads=o.threads)
    torch.manual_seed(0)
    size = 2 + study.WORDS + study.BUCKETS
    causal, both = (pn.PrefixNetwork(size, causal=one).eval() for one in (True, False))
    ids = torch.randint(2, size, (1, min(o.words, dl.LONGEST)))
    why = "the same float32 sums in other blocks"
    for one, other in zip(cached(causal, ids), again(causal, ids), strict=True):
        check.close(one, other, atol=1e-4, why=why)
    runs = {
        "prefix again": lambda: again(causal, ids),
        "cached": lambda: cached(causal, ids),
        "bidirectional": lambda: again(both, ids),
    }
    if importlib.util.find_spec("onnxruntime"):
        for name, int8 in (("onnx float32", False), ("onnx int8", True)):
            runs[name] = in_onnx(both, ids, int8, o.threads)
    race = bench.race(runs, o.rounds, reference="prefix again")
    print(race)
    for name, found in race.results.items():
        key = name.replace(" ", "_")
        each = bench.spread(1e3 / ids.shape[1] * seconds for seconds in found.times_s)
        receipt.record(f"ms_per_word_{key}", each, "ms")
    receipt.record("cache_speedup", race.ratios["cached"])
    receipt.sizes(words=ids.shape[1], parameters=sum(p.numel() for p in both.parameters()))
    print(receipt.write(name="prefix"))


if __name__ == "__main__":
    main()
