"""Cascaded and its frame: round trips, known sizes, and bytes that somebody damaged or
forged."""

import struct
import zlib

import cascaded
import cascaded_chunks
import frames
import numpy as np
import pytest
import torch
from cascaded_chunks import Layers
from hypothesis import given, settings
from hypothesis import strategies as st

INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64)
LAYERS = [Layers(*x) for x in [(0, 0), (1, 1), (2, 2), (0, 1), (4, 4), (2, 0)]]


def columns_of(dtype):
    """Runs, extremes next to each other, one value, noise over all bits."""
    low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    noise = torch.randint(low, high, (777,), generator=torch.Generator().manual_seed(0))
    runs = torch.arange(90).repeat_interleave(torch.arange(90))
    return [x.to(dtype) for x in (runs, torch.tensor([low, high] * 40), runs[:1], noise)]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("layers", LAYERS, ids=str)
def test_every_setting_gives_the_same_values_back(dtype, layers):
    for values in columns_of(dtype):
        frame = cascaded.compress(values, layers, chunk_bytes=256)
        again = cascaded.decompress(frame)
        assert again.dtype == dtype and torch.equal(again, values)


@pytest.mark.parametrize("name", frames.NAMES.split())
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0, 2), (7, 11)])
def test_dtype_shape_and_bits_come_back(name, shape):
    dtype, count = getattr(torch, name), int(np.prod(shape))
    bits = torch.arange(count * dtype.itemsize, dtype=torch.uint8)
    values = (bits % 2 if name == "bool" else bits * 37).view(dtype).view(shape)
    again = cascaded.decompress(cascaded.compress(values))
    assert again.dtype == dtype and again.shape == values.shape
    assert torch.equal(cascaded.as_signed(again), cascaded.as_signed(values))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=120),
    st.tuples(st.integers(0, 3), st.integers(0, 3)),
)
def test_any_64_bit_values_come_back(values, layers):
    values = torch.tensor(values, dtype=torch.int64)
    frame = cascaded.compress(values, layers, chunk_bytes=64)
    assert torch.equal(cascaded.decompress(frame), values)


def test_run_lengths_of_a_known_sequence():
    values = torch.tensor([3, 9, 9, 4, 4, 4] + [0] * 10 + [1] * 6)
    found, counts, lengths = cascaded_chunks.run_lengths(values, [len(values)])
    assert found.tolist() == [3, 9, 4, 0, 1] and counts.tolist() == [1, 2, 3, 10, 6]
    assert lengths == [5]


def test_no_run_and_no_difference_crosses_a_chunk():
    whole = torch.zeros(512, dtype=torch.int32)
    alone = cascaded_chunks.encode(whole[:128], [128], Layers(1, 1))
    assert cascaded_chunks.encode(whole, [128] * 4, Layers(1, 1)) == alone * 4


def test_differences_of_neighbours_take_no_bits():
    header = cascaded_chunks.header_type(Layers(0, 1)).itemsize
    packed = cascaded_chunks.encode(torch.arange(4096) * 7, [4096], Layers(0, 1))
    assert len(packed[0]) == header


@pytest.mark.parametrize("values", [[127, -128] * 64, [-1, 0] * 64])
def test_the_narrower_of_signed_and_unsigned_counts(values):
    layers = Layers(0, 0)
    packed = cascaded_chunks.encode(torch.tensor(values, dtype=torch.int8), [128], layers)
    assert len(packed[0]) == cascaded_chunks.header_type(layers).itemsize + 128 // 8


def test_incompressible_chunks_are_stored_as_they_are():
    noise = torch.randint(-(2**62), 2**62, (1024,), generator=torch.Generator().manual_seed(0))
    frame = cascaded.compress(noise, Layers(2, 2))
    assert len(frame) < noise.nbytes + 64


def frame_of(values=(5, 5, 5, 6, 7, 7, 300, -2, -2)):
    return cascaded.compress(torch.tensor(values, dtype=torch.int32).repeat(4), Layers(1, 1))


def test_every_truncation_is_refused():
    frame = frame_of()
    for length in range(len(frame)):
        with pytest.raises(cascaded.FrameError):
            cascaded.decompress(frame[:length])
    with pytest.raises(cascaded.FrameError):
        cascaded.decompress(frame + b"\0")


def test_every_flipped_bit_is_refused():
    frame = bytearray(frame_of())
    for bit in range(8 * len(frame)):
        frame[bit // 8] ^= 1 << bit % 8
        with pytest.raises(cascaded.FrameError):
            cascaded.decompress(frame)
        frame[bit // 8] ^= 1 << bit % 8


def forged(frame, change):
    """The frame with bytes changed by `change(bytearray)` and all its checksums made right."""
    made = bytearray(frame)
    change(made)
    axes, count = made[7], struct.unpack_from("<I", made, 16)[0]
    end, entry = 20 + 8 * axes + 8 * count, 20 + 8 * axes
    at = end + 4
    for k in range(count if end + 4 <= len(made) else 0):
        size = struct.unpack_from("<I", made, entry + 8 * k)[0] & ~frames.AS_IS
        struct.pack_into("<I", made, entry + 8 * k + 4, zlib.crc32(made[at : at + size]))
        at += size
    if end + 4 <= len(made):
        struct.pack_into("<I", made, end, zlib.crc32(made[:end]))
    return bytes(made)


def test_forged_bytes_give_an_error_or_values_of_the_claimed_shape():
    frame, rng = frame_of(), np.random.default_rng(0)
    refused = 0
    for at in range(len(frame)):
        for value in (0, 1, 255, int(rng.integers(256))):
            try:
                found = cascaded.decompress(
                    forged(frame, lambda f, a=at, v=value: f.__setitem__(a, v)),
                    max_bytes=1 << 20,
                )
            except cascaded.FrameError:
                refused += 1
            else:
                assert found.numel() * found.element_size() <= 1 << 20
    assert refused > len(frame)


@pytest.mark.parametrize("claim", [2**40, 2**63, 2**64 - 1])
def test_a_claim_of_terabytes_is_refused(claim):
    frame = forged(frame_of(), lambda f: struct.pack_into("<Q", f, 20, claim))
    with pytest.raises(cascaded.FrameError, match="max_bytes"):
        cascaded.decompress(frame)


def test_a_true_bomb_is_refused_by_max_bytes():
    frame = cascaded.compress(torch.zeros(1 << 20, dtype=torch.int64))
    with pytest.raises(cascaded.FrameError, match="max_bytes"):
        cascaded.decompress(frame, max_bytes=1 << 22)


def test_one_bad_chunk_spoils_no_other():
    values = torch.arange(40, dtype=torch.int32) // 3
    layers = Layers(1, 0)
    chunks = cascaded_chunks.encode(values, [10] * 4, layers)
    chunks[1] = chunks[1][:-1]
    counts = bytearray(chunks[2])
    counts[8] += 1  # the minimum of the run lengths: they no longer add up
    chunks[2] = bytes(counts)
    chunks[3] = b"short"
    found, statuses = cascaded_chunks.decode(chunks, [10] * 4, layers, torch.int32)
    bad = [cascaded_chunks.BAD_STREAM, cascaded_chunks.BAD_COUNTS, cascaded_chunks.CUT_SHORT]
    assert statuses == [cascaded_chunks.OK, *bad]
    assert torch.equal(found[:10], values[:10])


@pytest.mark.parametrize("junk", [b"", b"ACF1", bytes(64), b"ACF1\1" + b"\xff" * 200])
def test_junk_is_refused(junk):
    with pytest.raises(cascaded.FrameError):
        cascaded.decompress(junk)


@pytest.mark.parametrize(
    ("values", "options", "says"),
    [
        (torch.zeros(3, dtype=torch.complex64), {}, "complex64"),
        (torch.zeros(3), {"codec": "zip"}, "codec 'zip'"),
        (torch.zeros(3), {"layers": (5, 0)}, "0 to 4"),
        (torch.zeros(3), {"layers": "best"}, "auto"),
        (torch.zeros(3), {"chunk_bytes": 12}, "multiples of 8"),
    ],
)
def test_bad_arguments_are_named(values, options, says):
    with pytest.raises(ValueError, match=says):
        cascaded.compress(values, **options)
