"""The race: both networks at full size, an image in and an answer out, by naive kernels, by
kernels with tuned groups, by those with the clamp fused, by onnxruntime, and by LiteRT.

    python -m bench_opencl_inference --rounds 20 --threads 2

`--small` is a short trial. Equality with PyTorch first. Naive: plain channels, the default
group, the clamp apart. Tuned: slices of four, weights in constant memory by the rule, each
layer's group the best of a shortlist by the median, the clamp apart. onnxruntime and LiteRT run
on one thread and on all; decoding the boxes is PyTorch's for all. The first and the second
start run in processes of their own with an empty driver's cache.
"""

import argparse
import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import time

import graph_cut
import group_tuner
import phone_network
import slice_kernels
import torch
import work_groups
from helpers import bench, check, device, receipts

WHY = "float32 sums of up to 1,280 products in another order, 60 layers deep"
ROUNDS = 5  # of the tuner
STARTS = 3
START_LIMIT_S = 180  # of a start in a process of its own; more is a hang


class Maps(torch.nn.Module):
    """A detector up to its maps: what a peer's file holds."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, image):
        return self.network.maps(image)


def tuned(steps, opencl, image, candidates=work_groups.shortlist):
    """{step: group}: of each kind of layer the candidate with the smallest median."""
    plan = graph_cut.Plan(steps, opencl)
    known, groups = {}, {}
    for one in plan.run(image)[1]:
        if one.form == "add":
            continue
        layer = plan.layers[one.name]
        key = (one.form, layer.shape, layer.stride, one.grid)
        if key not in known:
            shape = _input_shape(layer, one.grid)
            held = opencl.put(torch.rand(shape), layer.precision, layer.form)
            limit = min(256, opencl.max_size)
            found = group_tuner.times(
                lambda group, layer=layer, held=held: opencl.run(layer, held, group)[1](),
                candidates(one.grid, limit),
                ROUNDS + 1,
            )
            known[key] = group_tuner.choose({g: s[1:] for g, s in found.items()})
        groups[one.name] = known[key]
    return groups


def _input_shape(layer, grid):
    channels = layer.shape[0] if "depthwise" in layer.form else layer.shape[1]
    return channels, grid[1] * layer.stride, grid[0] * layer.stride


def ours(steps, opencl, image):
    """{contestant: (function, its plan)} of our three."""
    groups = tuned(steps, opencl, image)
    plans = {
        "naive": {"plain": True, "activation": "apart", "groups": "default"},
        "tuned": {"activation": "apart", "groups": groups},
        "fused": {"groups": groups},
    }
    plans = {name: graph_cut.Plan(steps, opencl, **how) for name, how in plans.items()}
    return {name: (lambda plan=plan: plan.run(image)[0], plan) for name, plan in plans.items()}


def onnx(network, image, threads):
    """A function that answers by onnxruntime on so many threads."""
    import onnxruntime

    inner = Maps(network) if hasattr(network, "maps") else network
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        torch.onnx.export(inner, (image[None],), file.name, dynamo=False)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(
            file.name, options, providers=["CPUExecutionProvider"]
        )
    name = session.get_inputs()[0].name
    given = {name: image[None].numpy()}
    return lambda: _answer(network, [torch.from_numpy(a) for a in session.run(None, given)])


def litert(network, steps, image, threads):
    """A function that answers by LiteRT on so many threads."""
    import litert_model
    from ai_edge_litert.interpreter import Interpreter

    inner = [one for one in steps if one.kind != "Decode"]
    content = litert_model.written(inner, image.shape[1])
    found = Interpreter(model_content=content, num_threads=threads)
    found.allocate_tensors()
    (entry,), outputs = found.get_input_details(), found.get_output_details()

    def call():
        found.set_tensor(entry["index"], image[None].permute(0, 2, 3, 1).contiguous().numpy())
        found.invoke()
        answers = [torch.from_numpy(found.get_tensor(one["index"])) for one in outputs]
        return _answer(network, [one.permute(0, 3, 1, 2).contiguous() for one in answers])

    return call


def _answer(network, outputs):
    return network.decode(*outputs) if hasattr(network, "decode") else outputs[0]


def raced(name, network, size, opencl, o, receipt):
    """Check all contestants, race them, record."""
    steps = graph_cut.steps(network)
    image = torch.rand(3, size, size, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        wanted = network(image[None])
        runs = {key: run for key, (run, _) in ours(steps, opencl, image).items()}
        for word, count in {"one": 1, "all": o.threads}.items():
            runs[f"onnxruntime {word}"] = onnx(network, image, count)
            if importlib.util.find_spec("ai_edge_litert"):
                runs[f"litert {word}"] = litert(network, steps, image, count)
            else:
                print("left out: ai-edge-litert is not installed")
        gaps = {
            key: check.close(run(), wanted, rtol=1e-3, atol=1e-3, why=WHY)
            for key, run in runs.items()
        }
        receipt.record(f"{name}_gap", max(gaps.values()), "")
        found = bench.race(runs, o.rounds, reference="naive")
    print(found)
    record(receipt, name, found)
    return found


def record(receipt, name, found):
    """Milliseconds of each contestant, and how many times as fast as the naive kernels; fused
    over tuned and over the peers.
    """
    for who, one in found.results.items():
        key = f"{name}_{who.replace(' ', '_')}"
        receipt.record(f"{key}_ms", bench.spread(1e3 * t for t in one.times_s), "ms")
        if who != "naive":
            receipt.record(f"{key}_over_naive", found.ratios[who])
    fused = found.results["fused"]
    for who, one in found.results.items():
        if who not in ("naive", "fused"):
            key = f"{name}_fused_over_{who.replace(' ', '_')}"
            receipt.record(key, bench.ratio(one, fused))


def larger(detector, classifier):
    """The Ratio of two gains; its ends are the widest that theirs allow."""
    ends = detector.low / classifier.high, detector.high / classifier.low
    return bench.Ratio(detector.median / classifier.median, *ends, detector.repeats, "range")


def start(folder):
    """Print the seconds from an open device to its first answer, with that cache."""
    opencl = slice_kernels.OpenCLDevice(folder)
    network = phone_network.drawn(phone_network.Classifier(0.35))
    steps, image = graph_cut.steps(network), torch.zeros(3, 64, 64)
    began = time.perf_counter()
    graph_cut.Plan(steps, opencl).run(image)
    print(time.perf_counter() - began)
    opencl.keep()


def starts(receipt, count=STARTS):
    """Record first and second starts, and their ratio, from empty caches, each a process."""
    pairs = []
    for _ in range(count):
        with tempfile.TemporaryDirectory() as folder:
            pairs.append([_started(folder) for _ in range(2)])
    for name, values in zip(("first", "second"), zip(*pairs, strict=True), strict=True):
        receipt.record(f"{name}_start_s", bench.spread(values), "s")
    receipt.record("second_start_gain", bench.Ratio(*bench.spread(a / b for a, b in pairs)))


def _started(folder, limit_s=START_LIMIT_S):
    """The seconds of a start in a process of its own, which goes with all that it began.

    Raises RuntimeError where it takes longer than the limit, or fails, with its last words.
    """
    command = [sys.executable, "-m", "bench_opencl_inference", "--start", folder]
    with contextlib.ExitStack() as held:
        empty = held.enter_context(tempfile.TemporaryDirectory())
        # Files, since a pipe may stay open after a kill.
        out, err = (held.enter_context(tempfile.TemporaryFile("w+")) for _ in range(2))
        environment = os.environ | {"POCL_CACHE_DIR": empty}
        child = subprocess.Popen(
            command, env=environment, stdout=out, stderr=err, start_new_session=True
        )
        try:
            code = child.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"a start took over {limit_s:g} s and was ended") from None
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
        told = [one.seek(0) or one.read() for one in (out, err)]
    if code or not told[0].split():
        raise RuntimeError(f"a start ended with {code}: {told[1].strip()[-500:] or 'no words'}")
    return float(told[0].split()[-1])


def main(argv: list[str] | None = None) -> None:
    """Check, tune, race both networks, start twice, write the receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=device.cores())
    parser.add_argument("--small", action="store_true", help="narrow networks, 64 pixels")
    parser.add_argument("--start", help="a folder: print the seconds of one start, no more")
    o = parser.parse_args(argv)
    if o.start:
        return start(o.start)
    os.environ["POCL_MAX_PTHREAD_COUNT"] = str(o.threads)  # before its first device
    torch.set_num_threads(o.threads)
    receipt = receipts.start("opencl_inference", device.tier("cpu"), threads=o.threads)
    opencl, why = slice_kernels.open_device()
    if why:
        raise SystemExit(f"{why}: nothing to race")
    kinds = {"classifier": phone_network.Classifier, "detector": phone_network.Detector}
    found = {}
    for name, kind in kinds.items():
        size, width = (64, 0.35) if o.small else (phone_network.SIZES[name], 1.0)
        receipt.sizes(**{f"{name}_pixels": size})
        found[name] = raced(name, phone_network.drawn(kind(width)), size, opencl, o, receipt)
    gains = (found[name].ratios["fused"] for name in ("detector", "classifier"))
    receipt.record("larger_over_smaller", larger(*gains))
    starts(receipt, 1 if o.small else STARTS)
    print(receipt.write(name="race"))
    return None


if __name__ == "__main__":
    main()
