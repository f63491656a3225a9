"""The races of serving: variants of the network, chunks, streams that a machine holds, Triton.

    python -m streaming.bench_streaming            # from the slice's folder; minutes; a receipt
    python -m streaming.bench_streaming --most 0   # the variants alone

A ladder doubles the streams until p95 of the delay that a person feels misses 300 ms. Server,
workers and generator share the machine, so that one with more cores holds more than twice as
many. Triton (nvidia-pytriton) takes the place of our worker where it is installed. Other
recognisers that stream (`sherpa-onnx`, `vosk`) come without a model in their packages, so that
none stands beside ours."""

import argparse
import asyncio
import contextlib
import functools
import itertools
import math
import time

import digit_speech
import jiwer
import psutil
import torch
from helpers import bench, check, data, device, receipts
from quartznet import load_model, variant

from .clients import RATE_HZ, load, percentiles
from .launch import Server, scrape
from .triton_backend import available
from .windows import StreamOptions

BUDGET_MS, VARIANTS = 300.0, ("plain", "folded", "linear", "int8")
FRAMES = StreamOptions().window_frames  # 660 ms of left context, 60 of chunk, 180 of right


def contestants(model, batch, names=VARIANTS, where="cpu"):
    """Functions that compute one batch of windows, by the variant's name, before them "one by
    one": the plain network, window by window. Raises where exact ones differ."""
    features_BFT = torch.randn(batch, 64, FRAMES, generator=torch.Generator().manual_seed(0))
    features_BFT = features_BFT.to(where)

    def call(made, *parts):
        with torch.inference_mode():
            return torch.cat([made(part)[0] for part in parts])

    found = {"one by one": lambda: call(model, *features_BFT.split(1))}
    for name in names:
        made = variant(model, name)
        found[name] = functools.partial(call, made, features_BFT)
        if name != "int8":
            why = "float32, in another order"
            check.close(found[name](), found["one by one"](), rtol=1e-3, atol=1e-3, why=why)
    return found


def race(model, batch=8, names=None, rounds=20, where="cpu"):
    """(Race, gain, name of the best): the gain is how many times as many windows a second the
    best variant computes in batches as the plain network one by one, in this one run."""
    names = names or (VARIANTS if str(where) == "cpu" else VARIANTS[:3])  # int8 is a CPU's
    found = bench.race(contestants(model, batch, names, where), rounds, device=where)
    best = max(names, key=lambda name: found.ratios[name].median)
    return found, found.ratios[best], best


def raced(receipt, model, rounds, where):
    """Records the gain at two sizes of batch, and what torch.compile costs and brings."""
    for batch, used in itertools.product((1, 8), sorted({1, torch.get_num_threads()})):
        torch.set_num_threads(used)
        found, gain, best = race(model, batch, None, rounds, where)
        print(found)
        note = f"{best}, over one by one"
        receipt.record(f"gain_batch_{batch}_threads_{used}", gain, note=note)
    began = time.perf_counter()
    try:
        contestants(model, 8, ["compiled"], where)
        receipt.record("compiled_first_call", time.perf_counter() - began, "s")
        found, _, _ = race(model, 8, ("folded", "compiled"), rounds, where)
        receipt.record("compiled_gain", found.ratios["compiled"])
    except Exception as error:  # no C++ compiler here, or one that fails
        print(f"torch.compile does not run here: {str(error)[:200]}")


def talkers(folder, count, seconds, seed=0):
    """(signals, texts): `count` streams of about so many seconds, US speakers of the test."""
    style = digit_speech.Style(digits=(int(1.6 * seconds), int(1.8 * seconds)))
    each, speakers = -(-count // 2), ("jackson", "theo")
    spoken = digit_speech.utterances(folder, "test", speakers, each, seed=seed, style=style)
    mixed = list(itertools.chain(*zip(spoken[:each], spoken[each:], strict=True)))[:count]
    return [one.signal for one in mixed], [one.text for one in mixed]


def cpu_seconds(servers):
    """Processor time that servers have used so far, in s: (without workers, with them)."""
    fronts, total = 0.0, 0.0
    for parent in (psutil.Process(server.process.pid) for server in servers):
        for one in (parent, *parent.children(recursive=True)):
            spent = sum(one.cpu_times()[:2])  # user, system
            total += spent
            fronts += spent * (one == parent)
    return fronts, total


async def rung(server, signals, packet_ms=20, beside=()):
    """A dict: what `len(signals)` streams felt, and the core share that each of them took;
    `beside`: servers that share the port."""
    servers, seconds = (server, *beside), sum(len(s) for s in signals) / RATE_HZ
    before = cpu_seconds(servers)
    heard = await load(server.address, signals, packet_ms)
    spent = [(b - a) / seconds for a, b in zip(before, cpu_seconds(servers), strict=True)]
    sizes = [size for one in heard for size in one.batches]
    found = {
        "streams": len(signals),
        "front_per_stream": spent[0],
        "cores_per_stream": spent[1],
    }
    found |= {"response_ms": percentiles(heard, "responses_ms"), "heard": heard}
    found |= {"felt_ms": percentiles(heard, "felt_ms")}
    return found | {"batch": sum(sizes) / max(1, len(sizes))}


def served(folder, count, seconds, **options):
    """What `rung` found on a server of its own with these options, and the word error rate."""
    signals, texts = talkers(folder, count, seconds)
    with Server(**options) as server:
        found = asyncio.run(rung(server, signals))
    found["wer"] = 100 * jiwer.wer(texts, [one.text for one in found["heard"]])
    print(
        options, {name: value for name, value in found.items() if name != "heard"}, flush=True
    )
    return found


def variants_served(receipt, folder, seconds, count=8):
    """Records what a stream costs in processor time by variant: its inverse is both streams a
    core and the real-time factor, seconds of speech for a second of one core."""
    for name in ("folded", "linear", "int8", "compiled"):
        try:
            found = served(folder, count, seconds, variant=name, max_batch=8, spares=0)
        except (
            RuntimeError
        ) as error:  # no C++ compiler here: the other numbers count all the same
            print(f"{name} does not serve here: {str(error)[-200:]}")
            continue
        receipt.record(
            f"served_{name}_streams_a_core", 1 / found["cores_per_stream"], "streams"
        )
        receipt.record(f"served_{name}_wer", found["wer"], "%")


def chunks_swept(receipt, folder, seconds, count=8):
    """Records what other chunks cost and bring; 100, 160 and 800 ms are usual for Riva."""
    rows = []
    for chunk_ms in (60, 100, 160, 800):
        found = served(folder, count, seconds, chunk_ms=chunk_ms, spares=0)
        streams = 1 / found["cores_per_stream"]
        rows.append(
            (chunk_ms, found["response_ms"][1], found["felt_ms"][1], streams, found["wer"])
        )
    names = ("chunk_ms", "response_p95_ms", "felt_p95_ms", "streams_a_core", "wer")
    receipt.curve("chunks", **dict(zip(names, zip(*rows, strict=True), strict=True)))


def ladder(name, receipt, folder, seconds, most, fronts=1, **options):
    """Records the most streams, of 8, 16, 32 ..., whose p95 of the felt delay keeps the budget,
    and the curve up to there."""
    rows, held, options = [], 0, {"max_streams": 1024, "spares": 0} | options
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(Server("streaming.server", "--shared", **options))
        same = {"port": first.ports["port"]} | options
        beside = [Server("streaming.server", "--shared", **same) for _ in range(fronts - 1)]
        beside = [stack.enter_context(one) for one in beside]
        for count in (8 * 2**n for n in range(10) if 8 * 2**n <= most):
            signals, _ = talkers(folder, count, seconds)
            found = asyncio.run(rung(first, signals, beside=beside))
            print(
                name, {key: value for key, value in found.items() if key != "heard"}, flush=True
            )
            felt = found["felt_ms"][1]
            if math.isfinite(felt):
                rows.append((count, felt, found["front_per_stream"], found["cores_per_stream"]))
            if felt > BUDGET_MS:
                break
            held = count
    receipt.record(f"{name}_streams_in_budget", held, "streams")
    names = ("streams", "felt_p95_ms", "front_per_stream", "cores_per_stream")
    receipt.curve(name, **dict(zip(names, zip(*rows, strict=True), strict=True)))


def behind_triton(receipt, folder, seconds, count=4):
    """Records what streams feel whose network runs in Triton, after a check that they hear the
    same."""
    alone = [one.text for one in served(folder, count, seconds)["heard"]]
    with Server("streaming.triton_backend") as triton:
        found = served(folder, count, seconds, backend=f"127.0.0.1:{triton.ports['grpc']}")
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
    parser.add_argument("--threads", type=int, default=device.cores(), help="of each variant")
    parser.add_argument("--seconds", type=float, default=4, help="of speech a stream")
    parser.add_argument("--most", type=int, default=512, help="streams; 0: none")
    o = parser.parse_args(argv)
    torch.set_num_threads(o.threads)
    tier = device.tier("auto")
    receipt = receipts.start("asr_streaming", tier, threads=o.threads)
    receipt.sizes(seconds=o.seconds, most=o.most)
    parts = [lambda: raced(receipt, load_model(device=tier.device), o.rounds, tier.device)]
    if o.most:
        common = receipt, data.fetch("fsdd"), o.seconds
        parts += [lambda: variants_served(*common), lambda: chunks_swept(*common)]
        for name, more in (("batched", {}), ("two_fronts", {"fronts": 2})):
            parts.append(functools.partial(ladder, name, *common, o.most, **more))
        parts.append(functools.partial(ladder, "unbatched", *common, o.most, max_batch=1))
        parts += [] if available() else [lambda: behind_triton(*common)]
    for part in parts:
        part()
        path = receipt.write(name="streaming")  # a race that is ended early keeps what it found
    print(path, available())


if __name__ == "__main__":
    main()
