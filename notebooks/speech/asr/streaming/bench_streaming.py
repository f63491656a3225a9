"""The races of serving: variants of the network, and how many streams two cores hold.

    python bench_streaming.py                       # variants, then a ladder of streams
    python bench_streaming.py --only compiled       # torch.compile alone, as one line of JSON

The ladder doubles the streams until p95 of the delay that a person feels misses 300 ms, with
batching and without. Server, worker and generator share the machine, so that a machine with
more cores holds more than twice as many.
"""

import argparse
import asyncio
import json
import os
import time

import asr_load
import digit_speech
import psutil
import torch
from helpers import bench, data, device, receipts, root
from quartznet_files import load_model
from quartznet_variants import variant

FRAMES = 90  # of a window: 660 ms of left context, 60 of chunk, 180 of right context
BUDGET_MS = 300.0


def variant_contestants(model, batch, names=("plain", "folded", "linear", "int8")):
    """Functions that compute one batch of windows, by the variant's name."""
    features_BFT = torch.randn(batch, 64, FRAMES, generator=torch.Generator().manual_seed(0))

    def call(made):
        with torch.inference_mode():
            return made(features_BFT)[0]

    made = {name: variant(model, name) for name in names}
    return {name: lambda m=m: call(m) for name, m in made.items()}


def compiled_beside_folded(batch=8, repeats=20):
    """What torch.compile costs and brings: seconds until the first answer, then the race."""
    torch.set_num_threads(1)
    pairs = variant_contestants(load_model(), batch, ("folded", "compiled"))
    began = time.perf_counter()
    pairs["compiled"]()
    first_s = time.perf_counter() - began
    ratio = bench.race(pairs, repeats, device="cpu").ratios["compiled"]
    return {"first_call_s": first_s, "speedup": list(ratio)}


def cpu_seconds(server):
    """Processor time that a server and its workers have used so far, in s."""
    parent = psutil.Process(server.process.pid)
    times = [one.cpu_times() for one in (parent, *parent.children(recursive=True))]
    return sum(one.user + one.system for one in times)


def talkers(folder, count, seconds, seed=0):
    """(signals, texts): `count` streams of about so many seconds, US speakers of the test."""
    style = digit_speech.Style(digits=(int(1.6 * seconds), int(1.8 * seconds)))
    per_speaker = -(-count // 2)
    spoken = digit_speech.utterances(
        folder, "test", ["jackson", "theo"], per_speaker, seed=seed, style=style
    )
    spoken = [
        one
        for pair in zip(spoken[:per_speaker], spoken[per_speaker:], strict=True)
        for one in pair
    ]
    return [one.signal for one in spoken[:count]], [one.text for one in spoken[:count]]


async def rung(server, signals, packet_ms=20):
    """A dict: what `len(signals)` streams felt, and the core share that each of them took."""
    before, seconds = cpu_seconds(server), sum(len(s) for s in signals) / asr_load.RATE_HZ
    heard = await asr_load.load(server.address, signals, packet_ms)
    response, felt = (asr_load.percentiles(heard, k) for k in ("responses_ms", "felt_ms"))
    sizes = [size for one in heard for size in one.batches]
    cores = (cpu_seconds(server) - before) / seconds
    found = {"streams": len(signals), "response_ms": response, "felt_ms": felt}
    found |= {"batch": sum(sizes) / max(1, len(sizes)), "cores_per_stream": cores}
    return found | {"heard": heard}


def main(argv=None):
    """Race and write the receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", choices=["compiled"])
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--most", type=int, default=64)
    args = parser.parse_args(argv)
    if args.only:
        return print(json.dumps(compiled_beside_folded()))
    torch.set_num_threads(1)
    os.environ.setdefault("REBUILT_RECEIPTS", str(root() / "_build" / "receipts" / "bench"))
    receipt = receipts.start("asr_streaming", device.tier("cpu"))
    for batch in (1, 8):
        print(bench.race(variant_contestants(load_model(), batch), device="cpu"))
    folder = data.fetch("fsdd")
    for name, max_batch in (("batched", 16), ("unbatched", 1)):
        held = ladder(folder, max_batch, args.seconds, args.most)
        receipt.record(f"{name}_streams_in_budget", held, "streams")
    return print(receipt.write())


def ladder(folder, max_batch, seconds, most):
    """The most streams, of 4, 8, 16 ..., whose p95 of the felt delay keeps the budget."""
    held, count = 0, 4
    with asr_load.Server(max_batch=max_batch) as server:
        while count <= most:
            found = asyncio.run(rung(server, talkers(folder, count, seconds)[0]))
            print({key: value for key, value in found.items() if key != "heard"})
            if found["felt_ms"][1] > BUDGET_MS:
                break
            held, count = count, 2 * count
    return held


if __name__ == "__main__":
    main()
