"""Cascaded and its frame: round trips, known sizes, and bytes that somebody damaged or
forged."""

import struct
import zlib

import cascaded
import cascaded_chunks
import compiled_chunks
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
@pytest.mark.parametrize("codec", frames.CODECS)
def test_dtype_shape_and_bits_come_back(name, shape, codec):
    dtype, count = getattr(torch, name), int(np.prod(shape))
    bits = torch.arange(count * dtype.itemsize, dtype=torch.uint8)
    values = (bits % 2 if name == "bool" else bits * 37).view(dtype).view(shape)
    again = cascaded.decompress(cascaded.compress(values, codec=codec))
    assert again.dtype == dtype and again.shape == values.shape
    assert torch.equal(cascaded.as_signed(again), cascaded.as_signed(values))


def packed_and_back(values, lengths, layers):
    """The decoded values, and the width of each chunk's last stream: no chunk is stored."""
    chunks = cascaded_chunks.encode(values, lengths, layers)
    found, statuses = cascaded_chunks.decode(chunks, lengths, layers, values.dtype)
    assert not any(statuses)
    heads = [np.frombuffer(chunk[: layers.header_bytes], np.int64) for chunk in chunks]
    return found, [int(head[2 * layers.rles]) >> 32 for head in heads]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_every_width_is_packed_and_comes_back(dtype):
    bits = 8 * dtype.itemsize
    for width in range(bits + 1):
        noise = torch.randint(
            -(2**63), 2**63 - 1, (333,), generator=torch.Generator().manual_seed(width)
        )
        values = noise & ((1 << width) - 1) if width < 64 else noise
        values[:2] = torch.tensor([0, -1 if width == 64 else (1 << width) - 1])
        values = (values - 5).to(dtype)
        for layers in (Layers(0, 0), Layers(1, 1)):
            found, widths = packed_and_back(values, [200, 133], layers)
            assert torch.equal(found, values), (width, layers)
            assert layers.deltas or widths[0] == width


@settings(max_examples=40, deadline=None)
@given(st.data(), st.integers(0, 64), st.integers(-(2**63), 2**63 - 1))
def test_any_64_bit_values_come_back(data, width, base):
    steps = data.draw(st.lists(st.integers(0, 2**width - 1), min_size=2, max_size=90))
    layers = Layers(*data.draw(st.tuples(st.integers(0, 3), st.integers(0, 3))))
    wrapped = [(base + step + 2**63) % 2**64 - 2**63 for step in steps]
    values, cut = torch.tensor(wrapped), data.draw(st.integers(1, len(steps) - 1))
    found, _ = packed_and_back(values, [cut, len(steps) - cut], layers)
    assert torch.equal(found, values)


GOLDEN = {  # version 1 as it was first written: what is stored today must be read tomorrow
    (
        "41434631010004010101000000000100010000003500000000000000420000002e9f69793d52f4dc"
        "05000000060000000100000000000000050000000a000000d2feffffffffffff3301000000000000"
        "08100027000000bcf4d294000000000000000000000000000000"
    ): ("int32", "cascaded", (1, 1), [5] * 9 + [6, 7, 7, 300] + [-2] * 40),
    (
        "41434631010006010000000000000100010000002800000000000000d00000007e8eb29ed0108fc3"
        "28000000180000000000000000010000000000bcef1e00677b00f0ee16015705019c590403bfeb05"
        "c0bb075c9fc909f7150c70669e0ec76b11fcae17140f301b00ef1e7ccfeb2207262770559f2bb749"
        "30dc7b3a35dfeb3fc099451c7f854b97af51f0bb1658279f5e3cc06c652f1f7400bc7b3caf9683a7"
        "af8bf0990594176c9c1c7caea5ffc9b7000000000000000000000000000000000000000000000000"
        "00000000000000000000000000000000000000000000000000000000000000000000000000000000"
        "0000000000000000"
    ): ("int64", "cascaded", (0, 0), [2**40 + i * i * 7919 % 2**35 for i in range(40)]),
    (
        "41434631010001010001000000000100010000005a0000000000000018000000e30ccbdee91d1ecc"
        "5a000000000000000300000000000000fdffffffffffffff"
    ): ("uint8", "cascaded", (0, 1), [3 * i % 256 for i in range(90)]),
    (
        "41434631010002010202000000000100010000006300000000000000400000002cb271ab8da24b4d"
        "0b00000000000000090000000000000001000000000000000b000000000000000100000000000000"
        "0000000000000000ffffffffffffffff0100000000000000"
    ): ("int16", "cascaded", (2, 2), [i // 9 for i in range(99)]),
    (
        "4143463101010101000000000000010001000000210000000000000011000000d1a1d1f0fb64fed1"
        "3f616263030002902c2074686520656e64"
    ): ("uint8", "lz4", (0, 0), list(b"abcabcabcabcabcabcabcabc, the end")),
    (
        "4143463101020101000000000000010001000000210000000000000012000000c048498090f052eb"
        "2108616263520300202c2074686520656e64"
    ): ("uint8", "snappy", (0, 0), list(b"abcabcabcabcabcabcabcabc, the end")),
}


def test_the_codes_of_version_1_stay():
    names = "int8 uint8 int16 uint16 int32 uint32 int64 uint64 float16 bfloat16 float32 float64"
    assert names + " bool" == frames.NAMES and frames.CODECS == ("cascaded", "lz4", "snappy")


def test_truth_values_are_0_or_1():
    frame = bytearray(cascaded.compress(torch.arange(90, dtype=torch.uint8)))
    frame[6] = 12  # says bool
    with pytest.raises(cascaded.FrameError, match="truth values"):
        cascaded.decompress(forged(frame, lambda made: None))


@pytest.mark.parametrize("frame", GOLDEN, ids=range(len(GOLDEN)))
def test_frames_of_version_1_are_read(frame):
    name, codec, layers, values = GOLDEN[frame]
    wanted = torch.tensor(values, dtype=getattr(torch, name))
    found = cascaded.decompress(bytes.fromhex(frame))
    assert found.dtype == wanted.dtype and torch.equal(found, wanted)
    assert cascaded.compress(wanted, layers, codec).hex() == frame


def test_run_lengths_of_a_known_sequence():
    values, ends = np.array([3, 9, 9, 4, 4, 4] + [0] * 10 + [1] * 6), np.zeros(22, np.int64)
    assert compiled_chunks.runs(values, 22, ends) == 5
    assert values[:5].tolist() == [3, 9, 4, 0, 1] and ends[:5].tolist() == [1, 3, 6, 16, 22]


def test_no_run_and_no_difference_crosses_a_chunk():
    whole = torch.zeros(512, dtype=torch.int32)
    alone = cascaded_chunks.encode(whole[:128], [128], Layers(1, 1))
    assert cascaded_chunks.encode(whole, [128] * 4, Layers(1, 1)) == alone * 4


def test_differences_of_neighbours_take_no_bits():
    header = Layers(0, 1).header_bytes
    packed = cascaded_chunks.encode(torch.arange(4096) * 7, [4096], Layers(0, 1))
    assert len(packed[0]) == header


def test_a_base_is_written_as_a_number_of_the_column_s_own_type():
    """The steps wrap to 1 and -1, so that the base before the first value does, too."""
    values = torch.tensor([2**31 - 1, -(2**31)] * 4, dtype=torch.int32)
    [chunk] = cascaded_chunks.encode(values, [8], Layers(0, 1))
    assert np.frombuffer(chunk[:24], np.int64)[2] == -(2**31)


@pytest.mark.parametrize("values", [[127, -128] * 64, [-1, 0] * 64])
def test_the_narrower_of_signed_and_unsigned_counts(values):
    layers = Layers(0, 0)
    packed = cascaded_chunks.encode(torch.tensor(values, dtype=torch.int8), [128], layers)
    assert len(packed[0]) == layers.header_bytes + 128 // 8


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
    if len(made) < 20:
        return bytes(made)
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


@pytest.mark.parametrize(
    "shape", [(0, 2**63), (0, 2**64 - 1), (2**32, 0, 2**31), (2**40, 2**40)]
)
def test_a_shape_that_no_tensor_has_is_refused(shape):
    header = frames.Header("cascaded", torch.int8, shape, Layers(), 64)
    with pytest.raises(cascaded.FrameError, match="max_bytes"):
        cascaded.decompress(frames.write(header, []))


@pytest.mark.parametrize(
    ("at", "value"), [(5, 1), (10, 1), (11, 1), (12, 12), (14, 64), (8, 5)]
)
def test_a_header_that_nobody_writes_is_refused(at, value):
    made = bytearray(frame_of())
    made[at] = value
    with pytest.raises(cascaded.FrameError):
        cascaded.decompress(forged(made, lambda made: None))


def test_mutated_frames_with_right_checksums_give_an_error_or_a_bounded_array():
    rng, seeds = np.random.default_rng(7), []
    for layers in (Layers(0, 0), Layers(1, 1), Layers(2, 2), Layers(0, 2)):
        values = torch.from_numpy(np.repeat(rng.integers(-9, 99, 40), rng.integers(1, 9, 40)))
        seeds += [
            cascaded.compress(values.to(kind), layers, chunk_bytes=256) for kind in INTEGERS
        ]
    outcomes = {"refused": 0, "read": 0}
    for _ in range(900):
        made = bytearray(seeds[rng.integers(len(seeds))])
        for _ in range(rng.integers(1, 4)):
            at = int(rng.integers(len(made)))
            way = rng.integers(4)
            if way == 0:
                made[at] = rng.integers(256)
            elif way == 1:
                made[at] ^= 1 << int(rng.integers(8))
            elif way == 2:
                made[at : at + 4] = bytes(rng.choice([0, 1, 127, 128, 255], 4).tolist())
            else:
                del made[at : at + int(rng.integers(1, 9))]
        try:
            found = cascaded.decompress(forged(made, lambda made: None), max_bytes=1 << 16)
        except cascaded.FrameError:
            outcomes["refused"] += 1
        else:
            outcomes["read"] += 1
            assert found.nbytes <= 1 << 16
    assert min(outcomes.values()) > 50  # both ways are taken


@pytest.mark.parametrize("claim", [2**40, 2**63, 2**64 - 1])
def test_a_claim_of_terabytes_is_refused(claim):
    frame = forged(frame_of(), lambda f: struct.pack_into("<Q", f, 20, claim))
    with pytest.raises(cascaded.FrameError, match="max_bytes"):
        cascaded.decompress(frame)


@pytest.mark.parametrize(("more", "says"), [(0, "chunks for"), (4, "beyond max_bytes")])
def test_a_reader_who_allows_nothing_else_allows_256_mib(more, says):
    rows = (2**28 + more) // 4
    frame = forged(frame_of(), lambda f: struct.pack_into("<Q", f, 20, rows))
    with pytest.raises(cascaded.FrameError, match=says):
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


def test_a_bad_chunk_is_named_wherever_it_lies():
    values = torch.arange(192, dtype=torch.int32) // 3
    frame = cascaded.compress(values, Layers(1, 0), chunk_bytes=256)
    for k, (begin, _, as_is) in enumerate(frames.read(frame)[1]):
        made = bytearray(frame)
        made[begin + 8] += 1  # the minimum of the run lengths, as above
        assert not as_is
        with pytest.raises(cascaded.FrameError, match=f"chunk {k}: its run lengths"):
            cascaded.decompress(forged(made, lambda made: None))


def two_runs(counts, width=None):
    """A chunk of runs of 7 and of 8, whose counts take `width` bits, or as few as they need."""
    head, packed = np.zeros(4, np.int64), b""
    for s, (stream, wide) in enumerate([(counts, width), ([7, 8], None)]):
        values, words = np.array(stream), np.zeros(99, np.int64)
        low, least = compiled_chunks.narrowest(values, 2, -(1 << 31))
        head[2 * s : 2 * s + 2] = 2 | (wide or least) << 32, low
        out = np.zeros(compiled_chunks.packed_bytes(2, wide or least), np.uint8)
        compiled_chunks.pack(values, 2, low, wide or least, words, out)
        packed += out.tobytes()
    return head.tobytes() + packed


@pytest.mark.parametrize("counts", [[11, -1], [0, 10], [10, 10], [5, 4]])
def test_counts_that_are_not_positive_or_do_not_add_up_are_refused(counts):
    layers, chunk = Layers(1, 0), two_runs(counts)
    good = cascaded_chunks.encode(torch.tensor([7] * 9 + [8], dtype=torch.int32), [10], layers)
    for chunks in ([chunk], [chunk, *good]):
        found, statuses = cascaded_chunks.decode(
            chunks, [10] * len(chunks), layers, torch.int32
        )
        assert statuses[0] == cascaded_chunks.BAD_COUNTS and not any(statuses[1:])
        assert found[10:].tolist() == ([7] * 9 + [8]) * (len(chunks) - 1)


@pytest.mark.parametrize("width", [4, 32, 33, 64])
def test_counts_wider_than_32_bits_are_refused(width):
    chunk, layers = two_runs([9, 1], width), Layers(1, 0)  # right but for its width
    found, statuses = cascaded_chunks.decode([chunk], [10], layers, torch.int32)
    allowed = width <= 32
    assert statuses == [cascaded_chunks.OK if allowed else cascaded_chunks.BAD_STREAM]
    assert not allowed or found.tolist() == [7] * 9 + [8]


def sevens(count):
    """A frame of `count` sevens in 8 bytes each, whose one chunk is packed: 16 bytes."""
    layers = Layers(0, 0)
    chunks = cascaded_chunks.encode(torch.full((count,), 7), [count], layers)
    header = frames.Header("cascaded", torch.int64, (count,), layers, 64)
    return frames.write(header, [(chunks[0], False)])


@pytest.mark.parametrize("count", [1, 2])
def test_a_packed_chunk_that_is_no_shorter_than_its_values_is_refused(count):
    assert cascaded.decompress(sevens(3)).tolist() == [7] * 3  # 16 bytes for 24
    with pytest.raises(cascaded.FrameError, match=f"16 bytes for {8 * count}"):
        cascaded.decompress(sevens(count))
    stored = cascaded.compress(torch.full((count,), 7), Layers(0, 0))  # so nobody writes it
    assert cascaded.decompress(stored).tolist() == [7] * count


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
        (torch.zeros(3), {"chunk_bytes": 0}, "multiples of 8"),
        (torch.zeros(3), {"chunk_bytes": 2**20 + 8}, r"up to 2\^20"),
        (torch.zeros([1] * 9), {}, "9 axes"),
    ],
)
def test_bad_arguments_are_named(values, options, says):
    with pytest.raises(ValueError, match=says):
        cascaded.compress(values, **options)


def by_passes(chunks, lengths, layers, dtype):
    """What PyTorch's passes make of chunks whose headers are right: (values, statuses)."""
    sizes, lengths = np.array([len(chunk) for chunk in chunks]), np.array(lengths)
    heads = [np.frombuffer(chunk[: layers.header_bytes], np.int64) for chunk in chunks]
    streams = cascaded_chunks.Streams(sizes.cumsum() - sizes, np.stack(heads), layers)
    packed_B = torch.frombuffer(bytearray(b"".join(chunks)), dtype=torch.uint8)
    out_N = torch.zeros(int(lengths.sum()), dtype=dtype)
    places = lengths.cumsum() - lengths
    return out_N, cascaded_chunks.passes(out_N, packed_B, streams, lengths, places)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("layers", [Layers(0, n) for n in range(4)], ids=str)
def test_the_passes_of_a_device_without_triton_give_the_same_values(dtype, layers):
    for values in columns_of(dtype):
        cuts = [len(values)] if len(values) < 9 else [8, len(values) - 8]
        found, statuses = by_passes(
            cascaded_chunks.encode(values, cuts, layers), cuts, layers, dtype
        )
        assert torch.equal(found, values) and not statuses.any()


@pytest.mark.parametrize(
    ("dtype", "width"), [(torch.int32, 16), (torch.int64, 16), (torch.int64, 32)], ids=str
)
def test_the_passes_read_a_word_that_is_full_without_its_sign(dtype, width):
    values = torch.tensor([0, (1 << width) - 1] * 40).to(dtype)
    chunks = cascaded_chunks.encode(values - 5, [80], Layers(0, 0))
    assert torch.equal(by_passes(chunks, [80], Layers(0, 0), dtype)[0], values - 5)


def test_streams_of_one_width_and_length_are_unpacked_together():
    values = torch.arange(4096, dtype=torch.int32) % 100
    chunks = cascaded_chunks.encode(values, [1024] * 4, Layers(0, 0))
    assert torch.equal(by_passes(chunks, [1024] * 4, Layers(0, 0), torch.int32)[0], values)


@pytest.mark.parametrize("counts", [[11, -1], [10, 10], [2**31 - 1, 2**31 - 1], [1, 1]])
def test_nothing_is_written_beside_a_chunk_whatever_its_counts_say(counts):
    out_N = torch.full((30,), -1, dtype=torch.int32)
    chunk, where = np.frombuffer(two_runs(counts), np.uint8), np.array([10])
    given = (chunk, np.array([0]), np.array([len(chunk)]), np.array([10]), where)
    cascaded_chunks.decode_into(out_N, *given, Layers(1, 0))
    assert (out_N[:10] == -1).all() and (out_N[20:] == -1).all()


def test_a_second_thread_changes_nothing(monkeypatch):
    monkeypatch.setattr(cascaded_chunks, "ALONE", 1000)
    values = (torch.arange(50_000) // 3).to(torch.int32)
    frames_of = []
    for threads in (1, 2, 3):
        monkeypatch.setattr(torch, "get_num_threads", lambda count=threads: count)
        frames_of.append(cascaded.compress(values, Layers(1, 1)))
        assert torch.equal(cascaded.decompress(frames_of[-1]), values)
    assert len(set(frames_of)) == 1


def test_sizes_are_known_without_writing():
    values, layers = columns_of(torch.int16)[0], Layers(1, 1)
    cuts = [100, len(values) - 100]
    sizes = cascaded_chunks.encoded_bytes(values, cuts, layers)
    assert sizes.tolist() == list(map(len, cascaded_chunks.encode(values, cuts, layers)))


@pytest.mark.parametrize("spare", [-1, 0])
def test_a_chunk_that_needs_more_than_it_may_have_is_none(spare):
    values, layers = columns_of(torch.int16)[0], Layers(1, 1)
    (chunk,) = cascaded_chunks.encode(values, [len(values)], layers)
    found = cascaded_chunks.encode(values, [len(values)], layers, len(chunk) + spare)
    assert found == ([chunk] if spare == 0 else [None])


def test_a_frame_of_many_tiny_chunks_is_decoded_in_one_call(monkeypatch):
    """Stored and packed by turns, they once took a millisecond each."""
    calls, decode = [], compiled_chunks.decode
    monkeypatch.setattr(compiled_chunks, "decode", lambda *given: calls.append(decode(*given)))
    noise = torch.randint(0, 1 << 62, (1000, 3), generator=torch.Generator().manual_seed(0))
    noise[::2] = 7
    frame = cascaded.compress(noise, Layers(0, 0), chunk_bytes=24)
    ways = {as_is for _, _, as_is in frames.read(frame)[1]}
    assert torch.equal(cascaded.decompress(frame), noise)
    assert ways == {True, False} and len(calls) == 1


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_a_gpu_decodes_the_same():
    values = torch.arange(3000).repeat_interleave(7)
    for layers in (Layers(0, 0), Layers(1, 1)):
        again = cascaded.decompress(cascaded.compress(values, layers), "cuda")
        assert again.is_cuda and torch.equal(again.cpu(), values)
