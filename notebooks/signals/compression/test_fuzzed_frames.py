"""Bytes that a fuzzer makes up give an error, or what the claim was: no crash, nothing larger,
and of a block what the usual library reads.

The suite tries a few by a seeded generator. The coverage-guided run, in which compiled loops
look at every index:

    pip install atheris==3.0.0 lz4==4.4.5 cramjam==2.14.0
    NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(mktemp -d) python test_fuzzed_frames.py -runs=300000
"""

import contextlib
import importlib
import sys
import tempfile
from pathlib import Path

if __name__ == "__main__":
    import atheris

    with atheris.instrument_imports(include=["cascaded", "frames", "lz4_block", "snappy_raw"]):
        import cascaded
import cascaded
import lz4_block
import numpy as np
import pytest
import snappy_raw
import torch
from cascaded_chunks import Layers
from test_cascaded import GOLDEN, forged

MOST = 1 << 16
TEXT = b"to be or not to be, that is the question " * 3
THEIRS = {
    lz4_block: ("lz4.block", "decompress"),
    snappy_raw: ("cramjam", "snappy.decompress_raw"),
}


def seeds():
    """Inputs to begin with: a byte for what it is, then frames, or sizes and blocks."""
    runs = torch.arange(40).repeat_interleave(torch.arange(40) % 7)
    made = [
        cascaded.compress(runs.to(kind), Layers(*counts), chunk_bytes=128)
        for kind in (torch.int8, torch.int32, torch.int64)
        for counts in ((0, 0), (1, 1), (2, 2), (0, 2))
    ]
    found = [b"\0" + frame for frame in [*made, *map(bytes.fromhex, GOLDEN)]]
    for which, codec in enumerate((lz4_block, snappy_raw), 1):
        found.append(bytes([which]) + len(TEXT).to_bytes(2, "little") + codec.encode(TEXT))
    return found


def one_input(data):
    """Whether it was read; AssertionError for what must not be."""
    if len(data) < 3 or data[0] % 3 == 0:
        return frame_input(data[1:])
    return block_input(
        (lz4_block, snappy_raw)[data[0] % 3 - 1], data[3:], int.from_bytes(data[1:3], "little")
    )


def frame_input(data):
    try:
        found = cascaded.decompress(forged(data, lambda made: None), max_bytes=MOST)
    except cascaded.FrameError:
        return False
    assert found.nbytes <= MOST
    return True


def block_input(codec, block, size):
    try:
        ours = codec.decode(block, size)
    except ValueError:
        return False
    assert len(ours) == size
    with contextlib.suppress(ImportError):
        name, path = THEIRS[codec]
        decode = importlib.import_module(name)
        for part in path.split("."):
            decode = getattr(decode, part)
        more = {"uncompressed_size": size} if codec is lz4_block else {}
        assert bytes(decode(block, **more)) == ours
    return True


def test_mutated_seeds_give_an_error_or_what_was_claimed():
    rng, inputs, read = np.random.default_rng(5), seeds(), 0
    assert all(map(one_input, inputs))
    for turn in range(600):
        made = bytearray(inputs[turn % len(inputs)])
        for at in rng.integers(1, len(made), rng.integers(1, 4)):
            made[at] = rng.integers(256)
        read += one_input(bytes(made))
    assert 30 < read < 570  # both ways are taken


@pytest.mark.parametrize("wrong", [b"", TEXT[:-1]])
def test_a_decoder_that_returns_other_sizes_is_seen(monkeypatch, wrong):
    monkeypatch.setattr(lz4_block, "decode", lambda block, size: wrong)
    with pytest.raises(AssertionError):
        one_input(seeds()[-2])


def test_an_array_beyond_the_limit_is_seen(monkeypatch):
    monkeypatch.setattr(
        cascaded, "decompress", lambda frame, max_bytes: torch.zeros(MOST + 1, dtype=torch.int8)
    )
    with pytest.raises(AssertionError):
        one_input(seeds()[0])


if __name__ == "__main__":
    corpus = Path(tempfile.mkdtemp())
    for number, seed in enumerate(seeds()):
        (corpus / str(number)).write_bytes(seed)
    atheris.Setup([*sys.argv, str(corpus)], one_input)
    atheris.Fuzz()
