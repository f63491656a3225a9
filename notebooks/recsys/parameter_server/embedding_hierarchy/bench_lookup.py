"""The race: lookups of 4,096 distinct keys, the hierarchy beside its own tiers alone.

    python -m embedding_hierarchy.bench_lookup              # 20 rounds at one and two threads
    python -m embedding_hierarchy.bench_lookup --rounds 3 --rows 200000

A memory budget holds the vectors of a third of the table. The hierarchy has it for its cache,
with keys, counters and guesses, and for RocksDB's blocks below it; Redis alone as `maxmemory`
beyond what it takes without a key; RocksDB alone for its blocks. Hot keys are so few that all
three hold them, 65 % of the hierarchy's slots. Of each request's keys 95 % are hot, drawn
evenly, 5 % are others: no cache has an easy part. Redis answers for what it holds and is not
asked for the rest elsewhere, which is in its favour. Files lie in the page cache, which counts
as nobody's. Two contestants have the whole table in memory, as the limit: a gather from
`np.memmap`, and `torch.nn.EmbeddingBag`. All answers are compared before the clock starts.
"""

import argparse
import contextlib
import tempfile
import time
from pathlib import Path

import numpy as np
import redis
import torch
from helpers import bench, check, device, receipts
from storage_tiers import RedisServer, Rocks

from .parameter_server import ParameterServer

HITS, HOT = 0.95, 0.65  # share of a request's keys that are hot; hot keys for each slot
BELOW = 32  # of the hierarchy's budget one part in so many is for RocksDB's blocks
HITS_ALONE = "hierarchy, hits alone"  # the same table, asked for hot keys: what misses cost
CALL, TABLE = 16, "bench.all"  # requests in a timed call


class Field:
    """Table, requests and contestants: `with Field(rows=…, width=…, calls=…) as field`.

    `calls`: of each contestant, so that no request comes twice: a race takes its rounds and
    two.
    """

    def __init__(self, rows=1_000_000, width=128, keys=4096, share=1 / 3, calls=8, seed=0):
        rng = np.random.default_rng(seed)
        self.table = rng.standard_normal((rows, width), np.float32)
        self.order = rng.permutation(rows)
        self.budget = int(rows * share) * width * 4
        # all that the hierarchy holds: vectors, 24 bytes a slot, and RocksDB's blocks
        self.slots = self.budget * (BELOW - 1) // BELOW // (4 * width + 24)
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
        self.ways = {"memmap": self._memmap(folder), "EmbeddingBag": self._bag()}
        self.ways |= {
            "RocksDB alone": self._rocks(folder),
            "hierarchy": self._hierarchy(folder),
        }
        self.ways[HITS_ALONE] = self.ways["hierarchy"]
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
        for keys in self.requests[-3:]:
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
            requests = self.hits if name == HITS_ALONE else self.requests
            keys = requests[turn * CALL + step]
            began = time.perf_counter()
            self.ways[name](keys)
            times.append(1e3 * (time.perf_counter() - began))

    def _memmap(self, folder):
        path = folder / "table.f32"
        self.table.tofile(path)
        table = np.memmap(path, np.float32, "r", shape=self.table.shape)
        return lambda keys: table[keys]

    def _bag(self):
        bag = torch.nn.EmbeddingBag.from_pretrained(torch.from_numpy(self.table), mode="sum")
        return lambda keys: bag(torch.from_numpy(keys)[:, None])

    def _rocks(self, folder):
        where, widths = folder / "alone", {TABLE: self.table.shape[1]}
        tier = self.lines.enter_context(Rocks(where, widths, cache_mb=self.budget >> 20))
        tier.load(TABLE, np.arange(len(self.table)), self.table)
        return lambda keys: tier.get(TABLE, keys)[0]

    def _hierarchy(self, folder):
        widths = {TABLE: self.table.shape[1]}
        tier = self.lines.enter_context(
            Rocks(folder / "below", widths, self.budget / BELOW / 2**20)
        )
        tier.load(TABLE, np.arange(len(self.table)), self.table)
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


def main(arguments=None):
    """Check, race, print the tables and the receipt's path."""
    options = _options(arguments)
    receipt = receipts.start("parameter_server", device.tier(), threads=options.threads)
    shape, calls = (options.rows, options.width, options.keys), 2 * (options.rounds + 2) + 1
    with Field(*shape, calls=calls) as field:
        field.agree()
        for threads in dict.fromkeys((1, options.threads)):
            found = race(field, options.rounds, threads)
            print(found, f"\n{threads} thread(s), {CALL} requests a call\n")
            record(receipt, field, found, threads)
        receipt.sizes(rows=options.rows, width=options.width, keys=options.keys, call=CALL)
        receipt.sizes(budget_mb=field.budget >> 20, slots=field.slots)
    print(receipt.write(name="lookup"))


def record(receipt, field, found, threads):
    """None; medians, 99th percentiles and the two goals' ratios."""
    names = list(found.results)
    p99 = [float(np.percentile(field.times_ms[name], 99)) for name in names]
    for name, worst in zip(names, p99, strict=True):
        short = f"{name.lower().replace(',', '').replace(' ', '_')}_threads{threads}"
        receipt.record(f"{short}_ms", found.results[name].median_s / CALL * 1e3, "ms")
        receipt.record(f"{short}_p99_ms", worst, "ms")
    counts = field.deployed.counts
    hot = sum(map(len, field.hits[: len(field.times_ms["memmap"])]))  # one call was before
    hit_rate = (counts["hits"] - hot) / (counts["keys"] - hot)
    check.that(abs(hit_rate - HITS) < 0.02, f"a hit rate of {HITS} was meant, {hit_rate} came")
    receipt.record(f"hit_rate_threads{threads}", hit_rate * 100, "%")
    if threads == 1:
        if "Redis alone" in field.answered:
            receipt.record("redis_holds", field.answered["Redis alone"] * 100, "%")
        receipt.record("times_memmap", found.ratios["memmap"])
        if "Redis alone" in found.ratios:
            redis, ours = found.results["Redis alone"], found.results["hierarchy"]
            receipt.record("faster_than_redis", bench.ratio(redis, ours))


def _options(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=device.cores())
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--keys", type=int, default=4096)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
