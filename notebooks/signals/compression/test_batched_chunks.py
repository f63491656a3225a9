"""The low-level interface: outputs of the caller, one size and one status for each chunk; and
the choice of layers."""

import batched_chunks
import cascaded
import cascaded_chunks
import numpy as np
import pytest
import torch

CODECS = ("cascaded", "lz4", "snappy")


def chunks_of(codec):
    kind = torch.int32 if codec == "cascaded" else torch.uint8
    return [(torch.arange(n) // 5 % 100).to(kind) for n in (1, 63, 64, 1000)]


def room(codec, chunks, wide=None):
    sizes, statuses = np.full(len(chunks), -1), np.full(len(chunks), -1)
    most = [
        batched_chunks.max_compressed_bytes(codec, c.numel() * c.element_size()) for c in chunks
    ]
    return torch.zeros(len(chunks), wide or max(most), dtype=torch.uint8), sizes, statuses


@pytest.mark.parametrize("codec", CODECS)
def test_chunks_come_back_into_the_callers_memory(codec):
    chunks = chunks_of(codec)
    out, sizes, statuses = room(codec, chunks)
    batched_chunks.compress(codec, chunks, out, sizes, statuses)
    assert statuses.tolist() == [0] * 4 and (sizes > 0).all()
    packed = [row[:size].numpy().tobytes() for row, size in zip(out, sizes, strict=True)]
    outs, given = [torch.zeros_like(c) for c in chunks], sizes.copy()
    batched_chunks.decompress(codec, packed, outs, given, statuses)
    assert statuses.tolist() == [0] * 4
    assert given.tolist() == [c.numel() * c.element_size() for c in chunks]
    assert all(map(torch.equal, outs, chunks))


@pytest.mark.parametrize("codec", CODECS)
def test_a_chunk_that_does_not_fit_says_so_and_the_others_are_there(codec):
    chunks = chunks_of(codec)
    chunks[1] = torch.randint(0, 100, (1000,)).to(chunks[1].dtype)
    out, sizes, statuses = room(codec, chunks, 600)
    batched_chunks.compress(codec, chunks, out, sizes, statuses)
    assert statuses.tolist() == [0, batched_chunks.TOO_SMALL, 0, 0] and sizes[1] == 0


@pytest.mark.parametrize("codec", CODECS)
def test_a_chunk_may_fill_its_output_to_the_last_byte(codec):
    [*_, chunk] = chunks_of(codec)
    out, sizes, statuses = room(codec, [chunk])
    batched_chunks.compress(codec, [chunk], out, sizes, statuses)
    for spare, status in ((0, batched_chunks.OK), (-1, batched_chunks.TOO_SMALL)):
        tight, found = torch.zeros(1, int(sizes[0]) + spare, dtype=torch.uint8), sizes.copy()
        batched_chunks.compress(codec, [chunk], tight, found, statuses)
        assert statuses.tolist() == [status] and (found == sizes).all() == (spare == 0)


def test_the_most_that_a_chunk_needs_is_what_both_libraries_say():
    """LZ4_compressBound and snappy's MaxCompressedLength."""
    assert batched_chunks.max_compressed_bytes("lz4", 65_536) == 65_536 + 257 + 16
    assert batched_chunks.max_compressed_bytes("snappy", 65_536) == 32 + 65_536 + 10_922


@pytest.mark.parametrize("codec", CODECS)
def test_a_damaged_chunk_gets_a_status_and_no_neighbour_does(codec):
    chunks = chunks_of(codec)
    out, sizes, statuses = room(codec, chunks)
    batched_chunks.compress(codec, chunks, out, sizes, statuses)
    packed = [row[:size].numpy().tobytes() for row, size in zip(out, sizes, strict=True)]
    packed[2] = packed[2][:-1]
    outs = [torch.zeros_like(c) for c in chunks]
    batched_chunks.decompress(codec, packed, outs, sizes, statuses)
    assert (statuses != 0).tolist() == [False, False, True, False] and sizes[2] == 0
    assert all(torch.equal(outs[k], chunks[k]) for k in (0, 1, 3))


def test_other_lengths_and_codecs_are_refused():
    with pytest.raises(ValueError, match="must be equal"):
        batched_chunks.compress("lz4", [], torch.zeros(1, 9), np.zeros(0), np.zeros(0))
    with pytest.raises(ValueError, match="allowed are cascaded"):
        batched_chunks.decompress("zip", [], [], np.zeros(0), np.zeros(0))


@pytest.mark.parametrize(
    ("codec", "kinds", "says"),
    [
        ("cascaded", [torch.float32], "float32"),
        ("cascaded", [torch.int32, torch.int8], "int8"),
        ("lz4", [torch.int32], "int32"),
    ],
)
def test_other_dtypes_are_refused_both_ways(codec, kinds, says):
    chunks = [torch.zeros(9, dtype=kind) for kind in kinds]
    sizes, statuses = np.zeros(len(chunks)), np.zeros(len(chunks))
    with pytest.raises(ValueError, match=says):
        batched_chunks.compress(codec, chunks, torch.zeros(len(chunks), 99), sizes, statuses)
    with pytest.raises(ValueError, match=says):
        batched_chunks.decompress(codec, [b""] * len(chunks), chunks, sizes, statuses)


@pytest.mark.parametrize("codec", CODECS)
def test_an_empty_chunk_is_refused(codec):
    empty = [chunks_of(codec)[0][:0]]
    with pytest.raises(ValueError, match="no values"):
        batched_chunks.compress(codec, empty, torch.zeros(1, 99), np.zeros(1), np.zeros(1))


@pytest.mark.parametrize("itemsize", [1, 2, 4, 8])
def test_what_a_chunk_needs_at_most_is_enough_for_noise(itemsize):
    kind = cascaded_chunks.SIGNED[itemsize]
    noise = torch.randint(-100, 100, (1000,), generator=torch.Generator().manual_seed(0))
    noise = (noise << (8 * itemsize - 8)).to(kind)
    most = batched_chunks.max_compressed_bytes("cascaded", noise.nbytes, itemsize=itemsize)
    out, sizes, statuses = room("cascaded", [noise], most)
    batched_chunks.compress("cascaded", [noise], out, sizes, statuses)
    assert statuses.tolist() == [0] and sizes[0] > noise.nbytes // 2


@pytest.mark.parametrize(
    ("values", "rles", "deltas"),
    [
        (torch.randint(0, 9, (500,)).repeat_interleave(200), 1, 0),
        (torch.arange(100_000) * 3, 0, 1),
        (torch.randint(0, 1000, (100_000,)), 0, 0),
    ],
)
def test_the_sampling_selector_finds_what_columns_are_made_of(values, rles, deltas):
    assert cascaded.sampled(values)[:2] == (rles, deltas)


def test_the_selector_does_not_count_the_headers_of_its_samples():
    """Three bytes for eight steps; a base takes eight, in a whole chunk as in this piece."""
    assert cascaded.sampled(torch.arange(8)) == (0, 1)


def test_the_selector_looks_at_more_than_the_beginning():
    ramp = torch.arange(2000) * 3
    runs = torch.randint(0, 9, (500,), generator=torch.Generator().manual_seed(0))
    column = torch.cat([ramp, runs.repeat_interleave(200)])
    assert cascaded.sampled(column).rles and not cascaded.sampled(column[:2000]).rles


@pytest.mark.parametrize(
    ("count", "looked_at"), [(500, 500), (1500, 1024), (40_960, 5 * 1024), (10**6, 100 * 1024)]
)
def test_the_selector_looks_at_an_eighth_at_most_and_at_100_samples(
    monkeypatch, count, looked_at
):
    seen, sizes = [], cascaded_chunks.encoded_bytes
    monkeypatch.setattr(
        cascaded_chunks,
        "encoded_bytes",
        lambda x, *more: seen.append(len(x)) or sizes(x, *more),
    )
    cascaded.sampled(torch.arange(count) % 9)
    assert seen == [looked_at] * len(cascaded.GRID)


def test_no_values_and_one_value_have_a_setting():
    for count in (0, 1):
        assert cascaded.sampled(torch.zeros(count, dtype=torch.int64)) in cascaded.GRID


def test_compression_pays_above_the_break_even_rate():
    plain = cascaded.transfer_seconds(1e9, 16e9)
    rate = cascaded.break_even_rate(4.0, 16e9)
    assert rate == pytest.approx(64e9 / 3)
    assert cascaded.transfer_seconds(1e9, 16e9, 4.0, rate) == pytest.approx(plain)
    assert cascaded.break_even_rate(1.0, 16e9) == float("inf")
    with pytest.raises(ValueError, match="positive"):
        cascaded.transfer_seconds(1e9, 0)
