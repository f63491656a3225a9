"""The races of serving: variants of the network, how many streams a machine holds, and the same
behind Triton.

    python -m streaming.bench_streaming            # from the slice's folder; minutes; a receipt
    python -m streaming.bench_streaming --most 0   # the variants alone

A ladder doubles the streams until p95 of the delay that a person feels misses 300 ms, with
batching and without. Server, worker and generator share the machine, so that one with more
cores holds more than twice as many. Triton (nvidia-pytriton) takes the place of our worker
where it is installed."""

import argparse
import asyncio
import time

import digit_speech
import psutil
import torch
from helpers import bench, check, data, device, receipts
from quartznet import load_model, variant

from .clients import RATE_HZ, load, percentiles
from .launch import Server, scrape
from .triton_backend import available

FRAMES = 90  # of a window: 660 ms of left context, 60 of chunk, 180 of right context
BUDGET_MS = 300.0


def variant_contestants(model, batch, names=("plain", "folded", "linear", "int8")):
    """Functions that compute one batch of windows, by the variant's name; raises where exact
    ones differ."""
    features_BFT = torch.randn(batch, 64, FRAMES, generator=torch.Generator().manual_seed(0))

    def call(made):
        with torch.inference_mode():
            return made(features_BFT)[0]

    made = {name: variant(model, name) for name in names}
    pairs = {name: lambda one=one: call(one) for name, one in made.items()}
    for exact in {"folded", "linear"} & pairs.keys():
        check.close(
            pairs[exact](), call(model), rtol=1e-3, atol=1e-3, why="float32, in another order"
        )
    return pairs


def compiled_beside_folded(receipt, batch=8, rounds=20):
    """Records what torch.compile costs and brings: seconds until the first answer, then the
    race."""
    pairs, began = (
        variant_contestants(load_model(), batch, ("folded", "compiled")),
        time.perf_counter(),
    )
    try:
        pairs["compiled"]()
    except (
        Exception
    ) as error:  # no C++ compiler here, or one that fails: the other numbers count all the same
        return print(f"torch.compile does not run here: {str(error)[:200]}")
    receipt.record("compiled_first_call", time.perf_counter() - began, "s")
    return receipt.record(
        "compiled_speedup", bench.race(pairs, rounds, device="cpu").ratios["compiled"]
    )


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
    before, seconds = cpu_seconds(server), sum(len(s) for s in signals) / RATE_HZ
    heard = await load(server.address, signals, packet_ms)
    response, felt = (percentiles(heard, k) for k in ("responses_ms", "felt_ms"))
    sizes = [size for one in heard for size in one.batches]
    cores = (cpu_seconds(server) - before) / seconds
    found = {"streams": len(signals), "response_ms": response, "felt_ms": felt}
    found |= {"batch": sum(sizes) / max(1, len(sizes)), "cores_per_stream": cores}
    return found | {"heard": heard}


def ladder(folder, max_batch, seconds, most):
    """The most streams, of 4, 8, 16 ..., whose p95 of the felt delay keeps the budget."""
    held, count = 0, 4
    with Server(max_batch=max_batch) as server:
        while count <= most:
            found = asyncio.run(rung(server, talkers(folder, count, seconds)[0]))
            print({key: value for key, value in found.items() if key != "heard"})
            if found["felt_ms"][1] > BUDGET_MS:
                break
            held, count = count, 2 * count
    return held


def behind_triton(receipt, folder, count, seconds):
    """Records what streams feel whose network runs in Triton, after a check that they hear the
    same."""
    signals, _ = talkers(folder, count, seconds)
    with Server() as server:
        alone = [one.text for one in asyncio.run(rung(server, signals))["heard"]]
    with Server("streaming.triton_backend") as triton:
        with Server(backend=f"127.0.0.1:{triton.ports['grpc']}") as front:
            found = asyncio.run(rung(front, signals))
        series = scrape(f"127.0.0.1:{triton.ports['metrics']}")
    check.that([one.text for one in found["heard"]] == alone, "Triton must hear the same")
    windows, calls = (
        series[f"nv_inference_{name}_total{{model=quartznet,version=1}}"]
        for name in ("count", "exec_count")
    )
    receipt.record("triton_felt_p95_ms", found["felt_ms"][1], "ms")
    receipt.record("triton_batch", windows / calls, "windows a call")


def main(argv=None):
    """Race and write the receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument(
        "--threads", type=int, default=device.cores(), help="of each variant of the network"
    )
    parser.add_argument("--seconds", type=float, default=8, help="of speech a stream")
    parser.add_argument("--most", type=int, default=64, help="streams; 0: none")
    args = parser.parse_args(argv)
    torch.set_num_threads(args.threads)
    receipt = receipts.start("asr_streaming", device.tier("cpu"), threads=args.threads)
    for batch in (1, 8):
        race = bench.race(variant_contestants(load_model(), batch), args.rounds, device="cpu")
        print(race)
        for name in ("folded", "linear", "int8"):
            receipt.record(f"{name}_speedup_batch_{batch}", race.ratios[name])
    compiled_beside_folded(receipt, rounds=args.rounds)
    if args.most:
        folder = data.fetch("fsdd")
        for name, max_batch in (("batched", 16), ("unbatched", 1)):
            receipt.record(
                f"{name}_streams_in_budget",
                ladder(folder, max_batch, args.seconds, args.most),
                "streams",
            )
        absent = available()
        print(f"Triton: {absent}") if absent else behind_triton(
            receipt, folder, 4, args.seconds
        )
    receipt.sizes(seconds=args.seconds, most=args.most)
    print(receipt.write(name="streaming"))


if __name__ == "__main__":
    main()
