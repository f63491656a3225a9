"""The race: lookups of 4,096 distinct keys, the hierarchy beside its own tiers alone.

    python -m embedding_hierarchy.bench_lookup              # 20 rounds at one and two threads
    python -m embedding_hierarchy.bench_lookup --rounds 3 --rows 200000

A memory budget holds the vectors of a third of the table. The hierarchy has it for its cache,
with 28 bytes a slot beside the vector, for the index of its packed file, and for RocksDB's
blocks; Redis alone as `maxmemory` beyond what it takes without a key; RocksDB alone for its
blocks. Hot keys are so few that all three hold them, 65 % of the hierarchy's slots. Of each
request's keys 95 % are hot, drawn evenly, 5 % are others: no cache has an easy part. Redis
answers for what it holds and is not asked for the rest elsewhere, which is in its favour. Files
lie in the page cache, which counts as nobody's. Two contestants have the whole table in memory,
as the limit: a gather from `np.memmap`, and `torch.nn.EmbeddingBag`. All answers are compared
before the clock starts; requests of hits alone say what misses cost.
"""

import argparse
import contextlib
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import redis
import torch
from helpers import bench, check, device, receipts
from storage_tiers import RedisServer, Rocks

from .parameter_server import ParameterServer

HITS, HOT = 0.95, 0.65  # share of a request's keys that are hot; hot keys for each slot
BELOW = 32  # of the hierarchy's budget one part in so many is for RocksDB's blocks
ALONE = ", hits alone"  # the same contestant, asked for hot keys
CALL, CHECKED, TABLE = 16, 3, "bench.all"  # requests in a timed call; compared before


class Field:
    """Table, requests and contestants: `with Field(rows=…, width=…, calls=…) as field`.

    `calls`: of each contestant, so that no request comes twice: a race takes its rounds and
    two, and one is for the check and the parts of a request.
    """

    def __init__(self, rows=1_000_000, width=128, keys=4096, share=1 / 3, calls=8, seed=0):
        rng = np.random.default_rng(seed)
        self.table = rng.standard_normal((rows, width), np.float32)
        self.order = rng.permutation(rows)
        self.budget = int(rows * share) * width * 4
        # all that the hierarchy holds: RocksDB's blocks, the index, vectors, 28 bytes a slot
        left = self.budget * (BELOW - 1) // BELOW - 8 * rows
        self.slots = left // (4 * width + 28)
        hot, cold = np.split(self.order, [int(self.slots * HOT)])
        many = round(keys * HITS)
        self.requests = []
        for _ in range(calls * CALL):
            both = (rng.choice(hot, many, replace=False), rng.choice(cold, keys - many))
            self.requests.append(np.unique(np.concatenate(both)))
            rng.shuffle(self.requests[-1])
        self.hits = [rng.choice(hot, keys, replace=False) for _ in self.requests]
        self.times_ms, self.turn, self.answered = {}, {}, {}
        self.lines = contextlib.ExitStack()

    def __enter__(self):
        folder = Path(self.lines.enter_context(tempfile.TemporaryDirectory()))
        self.table.tofile(folder / "table.f32")
        mapped = np.memmap(folder / "table.f32", np.float32, "r", shape=self.table.shape)
        bag = torch.nn.EmbeddingBag.from_pretrained(torch.from_numpy(self.table), mode="sum")
        alone = self._tier(folder / "alone", self.budget, packed=False)
        self.ways = {
            "memmap": lambda keys: mapped[keys],
            "EmbeddingBag": lambda keys: bag(torch.from_numpy(keys)[:, None]),
            "RocksDB alone": lambda keys: alone.get(TABLE, keys)[0],
            "hierarchy": self._all(folder),
        }
        self.ways |= {name + ALONE: self.ways[name] for name in ("memmap", "hierarchy")}
        if RedisServer.there():
            self.ways["Redis alone"] = self._redis()
        return self

    def __exit__(self, *_):
        self.lines.close()

    def contestants(self):
        """The functions to race: each looks up the next 16 requests."""
        return {name: lambda name=name: self._call(name) for name in self.ways}

    def agree(self):
        """None; AssertionError where a contestant's vectors are not the table's."""
        for keys in self.requests[-CHECKED:]:
            for name, way in self.ways.items():
                got = np.asarray(way(keys))
                there = got.any(1) if name == "Redis alone" else np.ones(len(keys), bool)
                self.answered[name] = float(there.mean())
                check.that(there.mean() > 0.3, f"{name} must answer for most keys")
                check.close(got[there], self.table[keys[there]])

    def _call(self, name):
        turn = self.turn[name] = self.turn.get(name, -1) + 1
        times = self.times_ms.setdefault(name, [])
        for step in range(CALL):
            requests = self.hits if name.endswith(ALONE) else self.requests
            keys = requests[turn * CALL + step]
            began = time.perf_counter()
            self.ways[name](keys)
            times.append(1e3 * (time.perf_counter() - began))

    def _tier(self, folder, cache_bytes, packed):
        tier = Rocks(folder, {TABLE: self.table.shape[1]}, cache_bytes / 2**20, packed=packed)
        tier.load(TABLE, np.arange(len(self.table)), self.table)
        return self.lines.enter_context(tier)

    def _all(self, folder):
        tier = self._tier(folder / "below", self.budget / BELOW, packed=True)
        server = self.lines.enter_context(ParameterServer(tier))
        self.deployed = server.deploy(TABLE, cache_rows=self.slots, threshold=1.1)
        for part in np.array_split(self.order[: int(self.slots * HOT)], 40):
            rows = torch.from_numpy(self.table[part])
            self.deployed.cache.replace(torch.from_numpy(part), rows)
        return lambda keys: self.deployed.lookup(torch.from_numpy(keys))

    def _redis(self):
        server = self.lines.enter_context(RedisServer("--maxmemory-policy", "allkeys-lru"))
        host, port = server.address.split(":")
        client = self.lines.enter_context(redis.Redis(host, int(port), protocol=2))
        empty_bytes = client.info("memory")["used_memory"]  # what it takes without any key
        client.config_set("maxmemory", empty_bytes + self.budget)
        width, empty = self.table.shape[1], bytes(4 * self.table.shape[1])
        for part in np.array_split(self.order[: int(self.slots * HOT)], 40):
            client.mset({key.tobytes(): self.table[key].tobytes() for key in part})

        def way(keys):
            packed = keys.tobytes()
            held = client.mget([packed[at : at + 8] for at in range(0, len(packed), 8)])
            joined = b"".join(empty if value is None else value for value in held)
            return np.frombuffer(joined, np.float32).reshape(-1, width)

        return way


def race(field, rounds, threads):
    """The Race of all contestants at this many threads of torch; `field.times_ms` is new."""
    torch.set_num_threads(threads)
    pairs = field.contestants()
    for call in pairs.values():
        call()
    field.times_ms = {}
    field.deployed.counts.clear()
    return bench.race(pairs, rounds, warmup=1, reference="hierarchy")


def parts_ms(field):
    """{part of a request: its median in milliseconds}, over requests that came never before."""
    cache, server, took = field.deployed.cache, field.deployed.server, defaultdict(list)

    def timed(part, work, *arguments):
        began = time.perf_counter()
        done = work(*arguments)
        took[part].append(1e3 * (time.perf_counter() - began))
        return done

    for keys in map(torch.from_numpy, field.requests[-CALL:-CHECKED]):
        slots = timed("find", cache.locate, keys)[0]
        timed("gather", cache.vectors_SW.index_select, 0, slots)
        absent = keys[cache.absent(slots)]
        vectors, _ = timed("below", server.fetch, TABLE, absent.numpy())
        timed("insert", cache.replace, absent, torch.from_numpy(vectors))
    return {part: float(np.median(times)) for part, times in took.items()}


def main(arguments=None):
    """Check, race, print the tables and the receipt's path."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    for name, default in (("rounds", 20), ("threads", device.cores()), ("rows", 1_000_000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args(arguments)
    receipt = receipts.start("parameter_server", device.tier(), threads=options.threads)
    with Field(options.rows, calls=2 * (options.rounds + 2) + 1) as field:
        field.agree()
        for threads in dict.fromkeys((1, options.threads)):
            found = race(field, options.rounds, threads)
            print(found, f"\n{threads} thread(s), {CALL} requests a call\n")
            record(receipt, field, found, threads)
        torch.set_num_threads(1)
        for part, took in parts_ms(field).items():
            receipt.record(f"part_{part}_ms", took, "ms")
        torch.set_num_threads(options.threads)  # the receipt's; the parts are one thread's
        rows, width = field.table.shape
        receipt.sizes(rows=rows, width=width, keys=len(field.requests[0]), call=CALL)
        receipt.sizes(budget_mb=field.budget >> 20, slots=field.slots)
    print(receipt.write(name="lookup"))


def record(receipt, field, found, threads):
    """None; medians, 99th percentiles and the goals' ratios."""
    for name, result in found.results.items():
        short = f"{name.lower().replace(',', '').replace(' ', '_')}_threads{threads}"
        receipt.record(f"{short}_ms", result.median_s / CALL * 1e3, "ms")
        worst = float(np.percentile(field.times_ms[name], 99))
        receipt.record(f"{short}_p99_ms", worst, "ms")
    counts = field.deployed.counts
    hot = sum(map(len, field.hits[: len(field.times_ms["memmap"])]))  # one call was before
    hit_rate = (counts["hits"] - hot) / (counts["keys"] - hot)
    check.that(abs(hit_rate - HITS) < 0.02, f"a hit rate of {HITS} was meant, {hit_rate} came")
    receipt.record(f"hit_rate_threads{threads}", hit_rate * 100, "%")
    if threads == 1:
        hits, gather = (found.results[name + ALONE] for name in ("hierarchy", "memmap"))
        receipt.record("times_memmap", found.ratios["memmap"])
        receipt.record("hits_over_gather", bench.ratio(hits, gather))
        if "Redis alone" in found.ratios:
            receipt.record("redis_holds", field.answered["Redis alone"] * 100, "%")
            redis, ours = found.results["Redis alone"], found.results["hierarchy"]
            receipt.record("faster_than_redis", bench.ratio(redis, ours))


if __name__ == "__main__":
    main()
