"""The race: decode each column by every codec, on the same bytes in the same run.

    python -m bench_compression               # this machine's size, 20 rounds; a receipt
    python -m bench_compression --rows 400000 --rounds 5 --threads 1

Rates are uncompressed bytes per second, from bytes in memory to bytes in memory; everybody's
result is allocated anew. Each peer gets its type size where it takes one: `blosc2` with
bitshuffle and zstd, and with LZ4; `pcodec` the array itself; zstd level 3. lz4, snappy, zstd
and pcodec take a column as one piece and one thread whatever `--threads` says, so `--threads 1`
is the race at equal threads; ours and blosc2 take as many as are given. Ours checks the frame
first, the peers check nothing; recorded is what share of its time that takes, and a plain copy.
Who is not installed is left out. Equality is checked before anything is timed."""

import argparse
import contextlib
import functools
import importlib

import cascaded
import columns
import frames
import torch
from helpers import bench, check, data, device, receipts


def all_columns(rows):
    """The columns by name, one-dimensional NumPy arrays; generated ones of `rows` rows."""
    sources, targets = columns.links(data.fetch("wikispeedia"))
    found = {"ECG": columns.ecg(data.fetch("mitbih"))}
    found["pixels"] = columns.pixels(data.fetch("fashion_mnist")).reshape(-1)
    found["text"] = columns.text(data.fetch("gsm8k"))
    found |= {"link source": sources, "link target": targets}
    return found | columns.generated(rows) | {"steps": columns.steps(rows)}


def peers(column, threads):
    """{name: (encode, decode of what it returned)} of the installed peers for one column."""
    raw, found, size = column.tobytes(), {}, column.itemsize
    ways = {
        "lz4": ("lz4.block", lambda m: (lambda: m.compress(raw), m.decompress)),
        "snappy": ("cramjam", lambda m: _snappy(m.snappy, raw)),
        "zstd-3": ("cramjam", lambda m: _zstd(m.zstd, raw)),
        "blosc2": ("blosc2", lambda m: (_blosc2(m, raw, size, threads, "ZSTD"), m.decompress2)),
        "blosc2-lz4": (
            "blosc2",
            lambda m: (_blosc2(m, raw, size, threads, "LZ4"), m.decompress2),
        ),
        "pcodec": ("pcodec", lambda m: _pcodec(column)),
    }
    for name, (module, make) in ways.items():
        with contextlib.suppress(ImportError):
            made = make(importlib.import_module(module))
            if made:
                found[name] = made
    return found


def _snappy(snappy, raw):
    return lambda: snappy.compress_raw(raw), snappy.decompress_raw


def _zstd(zstd, raw):
    return lambda: zstd.compress(raw, 3), functools.partial(
        zstd.decompress, output_len=len(raw)
    )


def _blosc2(blosc2, raw, size, threads, codec):
    blosc2.set_nthreads(threads)
    more = {"filters": [blosc2.Filter.BITSHUFFLE], "codec": blosc2.Codec[codec], "clevel": 5}
    return lambda: blosc2.compress2(raw, typesize=size, nthreads=threads, **more)


def _pcodec(column):
    from pcodec import ChunkConfig, standalone

    if column.itemsize < 2:
        return None  # integers of one byte are beyond it
    encode = functools.partial(standalone.simple_compress, column, ChunkConfig())
    return encode, standalone.simple_decompress


def race_column(name, column, args, where, receipt):
    """The decoding results; checks every codec on one column, times both ways, records ratios
    and rates."""
    values = torch.from_numpy(column.copy()).to(where)
    most = {"max_bytes": max(frames.MOST_BYTES, column.nbytes)}
    ours = functools.partial(cascaded.decompress, device=where, **most)
    ways = {"cascaded": (functools.partial(cascaded.compress, values), ours)}
    ways |= peers(column, args.threads)
    packed = {way: encode() for way, (encode, _) in ways.items()}
    frame = packed["cascaded"]
    check.that(torch.equal(ours(frame), values), f"{name}: ours differs")
    for way in [way for way in ways if way != "cascaded"]:
        got = bytes(memoryview(ways[way][1](packed[way])).cast("B"))
        check.that(got == column.tobytes(), f"{name}: {way} differs")
    decoders = {way: functools.partial(ways[way][1], packed[way]) for way in ways}
    decoders |= {"checks": functools.partial(frames.read, frame, **most), "copy": column.copy}
    decoded = bench.race(decoders, repeats=args.rounds, device=where)
    encoded = bench.race({way: encode for way, (encode, _) in ways.items()}, args.rounds)
    for way in ways:
        key = f"{name} {way}".lower().replace(" ", "_").replace("-", "_")
        receipt.record(f"{key}_ratio", column.nbytes / len(packed[way]), "×")
        for verb, timed in (("decode", decoded), ("encode", encoded)):
            result = timed.results[way]
            receipt.record(f"{key}_{verb}_rate", result, "B/s", count=column.nbytes)
    for part in ("checks", "copy"):
        share = bench.ratio(decoded.results[part], decoded.results["cascaded"])
        receipt.record(f"{name.lower().replace(' ', '_')}_cascaded_{part}_share", share)
    return decoded


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
    rows = args.rows or tier.pick(cpu=2_000_000, gpu=16_777_216, big=67_108_864)
    receipt.sizes(rows=rows, rounds=args.rounds)
    found = all_columns(rows)
    for name, column in found.items():
        decoded = race_column(name, column, args, tier.device, receipt)
        print(name, decoded, sep="\n", flush=True)
    result = decoded.results["cascaded"]  # of the last column, "steps", as on the page
    receipt.record("cascaded_decode_rate", result, "B/s", count=column.nbytes)
    print(receipt.write("race" if args.threads == device.cores() else f"race_{args.threads}"))


if __name__ == "__main__":
    main()
