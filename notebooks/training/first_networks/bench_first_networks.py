"""The race: who answers soonest, at equal answers.

The page's network by NumPy, by PyTorch and by onnxruntime, its graph exported by PyTorch: one
picture after the other, as a camera sends them, and all test pictures at once. Then naive Bayes
beside scikit-learn's. All in float32 but for naive Bayes; the log-probabilities must agree
before anything is timed. PyTorch's model is traced, frozen and optimised for answering, its
fastest way here. One thread each unless `--threads` says otherwise: the work is small.
"""

import argparse
import importlib.util
import io

import digit_network as dn
import digit_pictures as dp
import naive_bayes as nb
import numpy as np
import torch
import torch_networks as tn
from helpers import bench, check, device, receipts

CLOSE = 2e-4  # of log-probabilities in float32: sums of 64 products in another order


def answers(net, threads: int) -> dict:
    """{name: function from pictures (N, 64) float32 to log-probabilities (N, 10)}."""
    small = {name: value.astype(np.float32) for name, value in net.items()}
    model = torch.nn.Sequential(tn.as_torch(net).float(), torch.nn.LogSoftmax(dim=1)).eval()

    traced = torch.jit.freeze(torch.jit.trace(model, torch.zeros(1, 64)))
    fast = torch.jit.optimize_for_inference(traced)

    @torch.inference_mode()
    def by_torch(x):
        return fast(torch.from_numpy(x)).numpy()

    found = {"NumPy": lambda x: dn.forward(small, x)[1], "PyTorch": by_torch}
    if peer("onnxruntime") and peer("onnx"):
        found["onnxruntime"] = by_onnxruntime(model, threads)
    return found


def by_onnxruntime(model, threads: int):
    """The same network in onnxruntime, all its optimisations on."""
    import onnxruntime

    file, options = io.BytesIO(), onnxruntime.SessionOptions()
    names = {"input_names": ["x"], "output_names": ["log_p"], "dynamic_axes": {"x": {0: "n"}}}
    torch.onnx.export(model, torch.zeros(1, 64), file, dynamo=False, opset_version=17, **names)
    options.intra_op_num_threads = threads
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = onnxruntime.InferenceSession(
        file.getvalue(), options, providers=["CPUExecutionProvider"]
    )
    return lambda x: session.run(None, {"x": x})[0]


def peer(name: str) -> bool:
    """Whether a peer is there; said where it is left out."""
    there = importlib.util.find_spec(name) is not None
    if not there:
        print(f"left out: {name} is not installed")
    return there


def bayes(counts, digits, learn) -> dict:
    """{name: function from counts to log-probabilities} of both naive Bayes."""
    from sklearn.naive_bayes import GaussianNB

    ours = nb.GaussianNaiveBayes().fit(counts[learn], digits[learn])
    theirs = GaussianNB().fit(counts[learn], digits[learn])
    return {"ours": ours.log_posterior, "scikit-learn": theirs.predict_log_proba}


def one_by_one(answer, x):
    """A function that answers the pictures as a camera sends them."""
    return lambda: [answer(x[at : at + 1]) for at in range(len(x))]


def agree(found: dict, x, close: float) -> float:
    """The largest gap between the first contestant's log-probabilities and the others', as a
    share of those beyond 1 nat; the race stops where it is not small, or a class differs."""
    (name, first), *others = found.items()
    wanted, gap = first(x), 0.0
    for other, answer in others:
        got = answer(x)
        gap = max(gap, float((abs(got - wanted) / np.maximum(1, abs(wanted))).max()))
        same = (got.argmax(1) == wanted.argmax(1)).all()
        check.that(gap <= close and same, f"{other} answers as {name} does")
    return gap


def record(receipt, race, key: str, names: dict) -> None:
    """Milliseconds of each contestant, and how many times as fast the first one is."""
    for name, found in race.results.items():
        took = bench.spread(1e3 * one for one in found.times_s)
        receipt.record(f"{key}_ms_{names[name]}", took, "ms")
    first, *others = race.results
    for name in others:
        ratio = bench.ratio(race.results[name], race.results[first])
        receipt.record(f"{key}_{names[first]}_over_{names[name]}", ratio)


def main(argv: list[str] | None = None) -> None:
    """Check, race, write the receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=60, help="of the network's training")
    o = parser.parse_args(argv)
    torch.set_num_threads(o.threads)
    receipt = receipts.start("first_networks", device.tier("cpu"), threads=o.threads)
    counts, digits = dp.load()
    learn, test = dp.split(digits, seed=0)
    net, _ = dn.train(
        dn.network(64, 32, 10), counts[learn] / 16, digits[learn], epochs=o.epochs
    )
    x = (counts[test] / 16).astype(np.float32)
    found = answers(net, o.threads)
    receipt.record("largest_gap", agree(found, x, CLOSE), "", interval="exact")
    names = {"NumPy": "numpy", "PyTorch": "pytorch", "onnxruntime": "onnxruntime"}
    receipt.sizes(pictures=len(x))
    one = bench.race({name: one_by_one(each, x) for name, each in found.items()}, o.rounds)
    all_at_once = bench.race(
        {name: lambda each=each: each(x) for name, each in found.items()}, o.rounds
    )
    rivals = bayes(counts, digits, learn)
    agree(rivals, counts[test], 1e-6)
    both = bench.race(
        {name: lambda each=each: each(counts[test]) for name, each in rivals.items()}, o.rounds
    )
    for race, key in ((one, "one"), (all_at_once, "all")):
        print(race)
        record(receipt, race, key, names)
    print(both)
    record(receipt, both, "bayes", {"ours": "ours", "scikit-learn": "scikit_learn"})
    print(receipt.write(name="race"))


if __name__ == "__main__":
    main()
