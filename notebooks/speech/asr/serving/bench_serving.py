"""The races of serving: variants of the network, chunks, streams that a machine holds, Triton.

    python -m serving.bench_serving            # ten minutes, a receipt

Crowds grow until p95 of the delay that a person feels has missed 300 ms, and are tried at 128
and 512 all the same. Server, workers and generator share the machine. What words cost is no
race's: see `streaming.study_context`. A part that fails is told; the others count."""

import argparse
import asyncio
import contextlib
import functools
import itertools
import math
import statistics
import time

import digit_speech
import psutil
import torch
from helpers import bench, check, data, device, receipts
from quartznet import load_model, variant
from streaming import StreamOptions

from .clients import RATE_HZ, load, percentiles
from .launch import Server, scrape
from .triton_backend import available

BUDGET_MS, RUNGS, RUNG_S = 300.0, (16, 32, 64, 128, 512), 14.0
KINDS = {"batched": {}, "two_fronts": {"fronts": 2}, "unbatched": {"max_batch": 1}}
VARIANTS = "plain", "folded", "linear", "int8"


def contestants(model, batch, names=VARIANTS, where="cpu"):
    """Functions that compute a batch, by variant; "one by one": the plain one, by windows."""
    shape = batch, 64, StreamOptions().window_frames
    seeded = torch.Generator(where).manual_seed(0)
    features_BFT = torch.randn(shape, generator=seeded, device=where)

    def call(made, *parts):
        with torch.inference_mode():
            return torch.cat([made(part)[0] for part in parts])

    found = {"one by one": lambda: call(model, *features_BFT.split(1))}
    for name in names:
        found[name] = functools.partial(call, variant(model, name), features_BFT)
    return found


def race(model, rounds=20, where="cpu", beside=()):
    """(Race, gain, name of the best): the gain is how many times as many windows per second the
    best of `VARIANTS` computes in batches of eight as the plain network one by one, in one run;
    variants `beside` do not count for it."""
    names = VARIANTS if str(where) == "cpu" else VARIANTS[:3]  # int8 is a CPU's
    rivals = contestants(model, 8, (*names, *beside), where)
    exact = torch.stack([rival() for name, rival in rivals.items() if name != "int8"])
    check.close(exact, exact[:1].expand_as(exact), rtol=1e-3, atol=1e-3, why="another order")
    found = bench.race(rivals, rounds, device=where)
    best = max(names, key=lambda name: found.ratios[name].median)
    return found, found.ratios[best], best


def raced(receipt, rounds, where, beside=()):
    """Records the gain, and what each variant brings for itself; of those `beside` that alone,
    with the time of the first call: last, for torch.compile takes as long as it likes."""
    model = load_model(device=where)
    for name in beside:
        began = time.perf_counter()
        contestants(model, 8, [name], where)[name]()
        receipt.record(f"{name}_first_call", time.perf_counter() - began, "s")
    found, gain, best = race(model, rounds, where, beside)
    print(found, flush=True)
    if not beside:
        receipt.record("optimised_gain", gain, note=f"{best}, by eight", device=where)
    for name in beside or found.ratios:
        receipt.record(f"gain_{name.replace(' ', '_')}", found.ratios[name])


def talkers(folder, count, seconds, seed=0):
    """(signals, texts): `count` streams of about so many seconds, US speakers of the test."""
    style = digit_speech.Style(digits=(int(1.6 * seconds), int(1.8 * seconds)))
    each, speakers = -(-count // 2), ("jackson", "theo")
    spoken = digit_speech.utterances(folder, "test", speakers, each, seed=seed, style=style)
    mixed = list(itertools.chain(*zip(spoken[:each], spoken[each:], strict=True)))[:count]
    return [one.signal for one in mixed], [one.text for one in mixed]


def cpu_seconds(servers):
    """Processor time that servers have used so far, in s: (without workers, with them)."""
    fronts = [psutil.Process(server.process.pid) for server in servers]
    workers = [one for front in fronts for one in front.children(recursive=True)]
    alone, rest = (sum(sum(p.cpu_times()[:2]) for p in group) for group in (fronts, workers))
    return alone, alone + rest


async def rung(servers, signals, packet_ms=20, limit_s=math.inf):
    """A dict: what so many streams felt on servers that share a port, the share of their chunks
    in budget, and the part of a core that each took: processor time over speech that was
    answered, infinite where none was. `limit_s` is what `load` makes of it."""
    before = cpu_seconds(servers)
    heard = await load(servers[0].address, signals, packet_ms, limit_s=limit_s)
    took = [b - a for a, b in zip(before, cpu_seconds(servers), strict=True)]
    shares = (sum(map(math.isfinite, one.felt_ms)) / len(one.felt_ms) for one in heard)
    answered = sum(len(s) * share for s, share in zip(signals, shares, strict=True)) / RATE_HZ
    spent = [one / answered if answered else math.inf for one in took]
    sizes = [size for one in heard for size in one.batches]
    felt = [ms for one in heard for ms in one.felt_ms]
    found = dict(zip(("front_per_stream", "cores_per_stream"), spent, strict=True))
    found |= {"response_ms": percentiles(heard, "responses_ms"), "heard": heard}
    found |= {"felt_ms": percentiles(heard, "felt_ms"), "streams": len(signals)}
    in_budget = sum(ms <= BUDGET_MS for ms in felt) / len(felt)
    return found | {"batch": sum(sizes) / max(1, len(sizes)), "in_budget": in_budget}


def served(folder, seconds, count, **options):
    """What `rung` found on a server of its own with these options; `texts`: what was heard."""
    signals, _ = talkers(folder, count, seconds)
    with Server(**options) as server:
        found = asyncio.run(rung([server], signals, limit_s=RUNG_S))
    found["texts"] = [one.text for one in found.pop("heard")]
    print(options, found, flush=True)
    return found


def variant_served(name, receipt, *common):
    """Records streams per core, which are also the real-time factor."""
    found = served(*common, 8, variant=name, max_batch=4, spares=0)
    receipt.record(f"served_{name}_streams_per_core", 1 / found["cores_per_stream"], "streams")


def chunks_swept(receipt, folder, seconds, count=8):
    """Records what other chunks take and cost; 100, 160 and 800 ms are usual for Riva."""
    rows = []
    for chunk_ms in (60, 100, 160, 800):
        found = served(folder, seconds, count, chunk_ms=chunk_ms, spares=0)
        times = found["response_ms"][1], found["felt_ms"][1]
        if math.isfinite(times[1]):
            rows.append((chunk_ms, *times, 1 / found["cores_per_stream"]))
    names = ("chunk_ms", "response_p95_ms", "felt_p95_ms", "streams_per_core")
    receipt.curve("chunks", **dict(zip(names, zip(*rows, strict=True), strict=True)))


def shared(stack, fronts=1, **options):
    """Servers that share a port, which the stack ends."""
    servers, options = [], {"max_streams": 1024, "spares": 0} | options
    for _ in range(fronts):
        servers.append(stack.enter_context(Server("serving.server", "--shared", **options)))
        options["port"] = servers[0].ports["port"]
    return servers


def crowds(receipt, folder, seconds, most, repeats=3):
    """Records for each of `KINDS` the largest crowd that kept the budget at p95 each time, and
    a curve of what `summed` makes of `repeats` crowds of a size; the kinds take turns."""
    rows, held, failed = {name: [] for name in KINDS}, dict.fromkeys(KINDS, 0), set()
    with contextlib.ExitStack() as stack:
        servers = {name: shared(stack, **how) for name, how in KINDS.items()}
        for count in (n for n in RUNGS if n <= most):
            signals, _ = talkers(folder, count, seconds)
            past = KINDS.keys() - {"unbatched"} if count >= 128 else set()
            found = {name: [] for name in KINDS if name in past or name not in failed}
            for name in [*found] * repeats:
                go = rung(servers[name], signals, packet_ms=60, limit_s=RUNG_S)
                found[name].append(asyncio.run(go))
                print(name, found[name][-1] | {"heard": count}, flush=True)
            for name, runs in found.items():
                if max(one["felt_ms"][1] for one in runs) > BUDGET_MS:
                    failed.add(name)
                held[name] = held[name] if name in failed else count
                row = summed(count, runs)
                rows[name] += [row] if math.isfinite(row[-1]) else []
    names = ("streams", "in_budget_percent", "in_budget_least", "in_budget_most")
    names += ("front_per_stream", "cores_per_stream")
    for name, found in rows.items():
        receipt.record(f"{name}_streams_in_budget", held[name], "streams")
        receipt.curve(name, **dict(zip(names, zip(*found, strict=True), strict=True)))


def summed(count, runs):
    """The row of a crowd: medians of its runs, and the ends of the chunks in budget."""
    shares = [100 * one["in_budget"] for one in runs]
    keys = "front_per_stream", "cores_per_stream"
    costs = (statistics.median(one[key] for one in runs) for key in keys)
    return count, statistics.median(shares), min(shares), max(shares), *costs


def behind_triton(receipt, folder, seconds, count=4):
    """Records what streams feel whose network runs in Triton, if they hear the same."""
    alone = served(folder, seconds, count)["texts"]
    with Server("serving.triton_backend") as triton:
        found = served(folder, seconds, count, backend=f"127.0.0.1:{triton.ports['grpc']}")
        series = scrape(f"127.0.0.1:{triton.ports['metrics']}")
    check.that(found["texts"] == alone, "Triton must hear the same")
    kept = "nv_inference_{}_total{{model=quartznet,version=1}}".format
    windows, calls = (series[kept(name)] for name in ("count", "exec_count"))
    receipt.record("triton_felt_p95_ms", found["felt_ms"][1], "ms")
    receipt.record("triton_batch", windows / calls, "windows per call")


def main(argv=None):
    """Race and write the receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1, help="of a variant; a worker has 1")
    parser.add_argument("--seconds", type=float, default=3, help="of speech for each stream")
    parser.add_argument("--most", type=int, default=512, help="streams; 0: none")
    o, tier, failed = parser.parse_args(argv), device.tier("auto"), []
    torch.set_num_threads(o.threads)  # a worker has one
    receipt = receipts.start("asr_streaming", tier, threads=o.threads)
    receipt.sizes(seconds=o.seconds, most=o.most)
    parts = {"variants": lambda: raced(receipt, o.rounds, tier.device)}
    if o.most:
        common = receipt, data.fetch("fsdd"), o.seconds
        parts["crowds"] = lambda: crowds(*common, o.most)
        parts["chunks"] = lambda: chunks_swept(*common)
        for name in ("folded", "linear", "int8"):
            parts[f"{name} served"] = functools.partial(variant_served, name, *common)
        parts |= {} if available() else {"triton": lambda: behind_triton(*common)}
        parts["compiled served"] = lambda: variant_served("compiled", *common)
    parts["compiled"] = lambda: raced(receipt, o.rounds, tier.device, ["compiled"])
    for name, part in parts.items():
        began = time.perf_counter()
        try:
            part()
        except Exception as error:
            failed.append(name)
            print(f"{name} failed: {type(error).__name__}: {str(error)[-400:]}", flush=True)
        print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)
        receipt.record("failed_parts", len(failed), "parts", note=", ".join(failed) or None)
        path = receipt.write(name="serving")  # a race that is ended early keeps what it found
    print(path, available())


if __name__ == "__main__":
    main()
