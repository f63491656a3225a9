"""The race: decode each column by every codec, on the same bytes in the same run.

    python -m bench_compression               # this machine's size, 20 rounds; a receipt
    python -m bench_compression --rows 400000 --rounds 5 --threads 1

Rates are uncompressed bytes per second, from packed bytes in memory to the array in memory.
Each peer gets its type size where it takes one: `blosc2` with bitshuffle and zstd, `pcodec` the
array itself, zstd level 3. LZ4 and Snappy are the C and Rust libraries on chunks as large as
they like; ours in plain Python are timed once, on one chunk. A peer that is not installed is
left out, and said. Equality is checked before anything is timed."""

import argparse
import functools
import importlib
import time

import cascaded
import columns
import lz4_block
import numpy as np
import snappy_raw
import torch
from helpers import bench, check, data, device, receipts


def all_columns(rows):
    """The columns by name, one-dimensional NumPy arrays; generated ones of `rows` rows."""
    sources, targets = columns.links(data.fetch("wikispeedia"))
    found = {"ECG": columns.ecg(data.fetch("mitbih"))}
    found["pixels"] = columns.pixels(data.fetch("fashion_mnist")).reshape(-1)
    found["text"] = columns.text(data.fetch("gsm8k"))
    found |= {"link source": sources, "link target": targets}
    return found | columns.generated(rows)


def peers(column):
    """{name: (packed bytes, decode)} of the installed peers for one column."""
    raw, found, size = column.tobytes(), {}, column.itemsize
    ways = {
        "lz4": ("lz4.block", lambda m: (m.compress(raw), m.decompress)),
        "snappy": (
            "cramjam",
            lambda m: (bytes(m.snappy.compress_raw(raw)), m.snappy.decompress_raw),
        ),
        "zstd-3": ("zstandard", lambda m: (m.compress(raw, 3), m.decompress)),
        "blosc2": ("blosc2", lambda m: (_blosc2(m, raw, size), m.decompress2)),
        "pcodec": ("pcodec", lambda m: _pcodec(m, column)),
    }
    for name, (module, make) in ways.items():
        try:
            module = importlib.import_module(module)
        except ImportError:
            continue
        made = make(module)
        if made:
            found[name] = (made[0], functools.partial(made[1], made[0]))
    return found


def _blosc2(blosc2, raw, size):
    filters, codec = [blosc2.Filter.BITSHUFFLE], blosc2.Codec.ZSTD
    return blosc2.compress2(raw, typesize=size, filters=filters, codec=codec, clevel=5)


def _pcodec(_, column):
    from pcodec import ChunkConfig, standalone

    if column.itemsize < 2:
        return None  # integers of one byte are beyond it
    return standalone.simple_compress(column, ChunkConfig()), standalone.simple_decompress


def race_column(name, column, rounds, where, receipt):
    """None; checks every codec on one column, times decoding, and records ratios and rates."""
    values = torch.from_numpy(column.copy()).to(where)
    frame, slug = cascaded.compress(values), name.lower().replace(" ", "_")
    check.that(torch.equal(cascaded.decompress(frame, where), values), f"{name}: ours differs")
    ways = {"cascaded": functools.partial(cascaded.decompress, frame, where)}
    packed = {"cascaded": frame}
    for peer, (made, decode) in peers(column).items():
        check.that(bytes(memoryview(decode())) == column.tobytes(), f"{name}: {peer} differs")
        ways[peer], packed[peer] = decode, made
    timed = bench.race(ways, repeats=rounds, device=where)
    for way, result in timed.results.items():
        key = f"{slug}_{way.replace('-', '_')}"
        receipt.record(f"{key}_ratio", column.nbytes / len(packed[way]), "×")
        receipt.record(f"{key}_decode_rate", result, "B/s", count=column.nbytes)
    return timed, column.nbytes / len(frame)


def plain_python(column, receipt):
    """None; records our LZ4 and Snappy on the first 64 KiB of a column, timed once each."""
    raw = column.tobytes()[: 1 << 16]
    for name, codec in (("lz4", lz4_block), ("snappy", snappy_raw)):
        block = codec.encode(raw)
        begin = time.perf_counter()
        check.that(codec.decode(block, len(raw)) == raw, f"{name} differs")
        seconds = time.perf_counter() - begin
        receipt.record(f"{name}_decode_rate", len(raw) / seconds, "B/s", device="cpu")


def main(argv=None):
    """Check, race and write the receipt."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rows", type=int, help="of the generated columns")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=device.cores())
    args = parser.parse_args(argv)
    torch.set_num_threads(args.threads)
    tier = device.tier()
    receipt = receipts.start("compression", tier, args.threads)
    rows = args.rows or tier.pick(cpu=6_000_000, gpu=20_000_000, big=60_000_000)
    receipt.sizes(rows=rows, rounds=args.rounds)
    found = all_columns(rows)
    ratios, rates = [], []
    for name, column in found.items():
        timed, ratio = race_column(name, column, args.rounds, tier.device, receipt)
        print(name, timed, sep="\n")
        ratios.append(ratio)
        rates.append(column.nbytes / timed.results["cascaded"].median_s)
    receipt.record("best_cascaded_ratio", max(ratios), "×")
    receipt.record("cascaded_decode_rate", float(np.max(rates)), "B/s", device=tier.device)
    plain_python(found["text"], receipt)
    print(receipt.write("race" if args.threads == device.cores() else f"race_{args.threads}"))


if __name__ == "__main__":
    main()
