"""LZ4 blocks and raw Snappy: round trips, the rules of each format, and both ways with the C
and Rust libraries where those are installed."""

import contextlib

import lz4_block
import numpy as np
import pytest
import snappy_raw
from hypothesis import given, settings
from hypothesis import strategies as st

CODECS = [lz4_block, snappy_raw]
NOISE = np.random.default_rng(0).integers(0, 256, 5000, dtype=np.uint8).tobytes()
SAMPLES = [
    b"",
    b"a",
    b"a" * 12,
    b"a" * 13,
    b"abc" * 400,
    NOISE,
    NOISE * 2,
    b"xy" + bytes(70_000),
]
TEXTS = st.lists(st.sampled_from([b"a", b"bc", b"def", b"\0" * 9]), max_size=200).map(b"".join)


@pytest.mark.parametrize("codec", CODECS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("data", SAMPLES, ids=len)
def test_what_is_encoded_is_decoded(codec, data):
    block = codec.encode(data)
    assert codec.decode(block, len(data)) == data
    assert len(block) <= codec.max_encoded_bytes(len(data))


@settings(max_examples=100, deadline=None)
@given(TEXTS)
def test_any_repetitive_text_comes_back(data):
    for codec in CODECS:
        assert codec.decode(codec.encode(data), len(data)) == data


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60), st.integers(0, 300))
def test_random_bytes_give_an_error_or_the_size_asked_for(block, size):
    for codec in CODECS:
        with contextlib.suppress(ValueError):
            assert len(codec.decode(block, size)) == size


@settings(max_examples=60, deadline=None)
@given(TEXTS)
def test_the_libraries_read_ours_and_we_read_theirs(data):
    theirs = pytest.importorskip("lz4.block")
    cramjam = pytest.importorskip("cramjam")
    block = lz4_block.encode(data)
    assert theirs.decompress(block, uncompressed_size=len(data)) == data
    assert lz4_block.decode(theirs.compress(data, store_size=False), len(data)) == data
    assert bytes(cramjam.snappy.decompress_raw(snappy_raw.encode(data))) == data
    assert snappy_raw.decode(bytes(cramjam.snappy.compress_raw(data)), len(data)) == data


def test_mutated_blocks_that_we_and_a_library_read_hold_the_same_bytes():
    theirs = {
        lz4_block: pytest.importorskip("lz4.block").decompress,
        snappy_raw: pytest.importorskip("cramjam").snappy.decompress_raw,
    }
    rng, both = np.random.default_rng(3), dict.fromkeys(CODECS, 0)
    data = b"to be or not to be, that is the question " * 3 + NOISE[:20]
    for codec in CODECS:
        more = {"uncompressed_size": len(data)} if codec is lz4_block else {}
        good = codec.encode(data)
        for _ in range(600):
            block = bytearray(good)
            for _ in range(rng.integers(1, 3)):
                block[rng.integers(len(block))] = rng.integers(256)
            with contextlib.suppress(ValueError):
                ours = codec.decode(bytes(block), len(data))
                found = theirs[codec](bytes(block), **more)  # what we accept, it accepts
                assert bytes(found) == ours
                both[codec] += 1
    assert min(both.values()) > 50


def test_a_length_of_any_size_is_written_and_read():
    """LZ4 goes on after 15 and each 255; Snappy after 60 literals, 256, and copies of 64."""
    for codec in CODECS:
        for size in (*range(1, 150), *range(250, 280), *range(520, 530), 65_536, 65_540):
            for data in ((NOISE * 14)[:size], b"a" * size):
                assert codec.decode(codec.encode(data), size) == data, (codec.__name__, size)


@pytest.mark.parametrize(("offset", "size"), [(2047, 2), (2048, 3), (2049, 3)])
def test_a_short_copy_reaches_as_far_back_as_eleven_bits_say(offset, size):
    draw = np.random.default_rng(1).integers(0, 128, offset - 8, dtype=np.uint8)
    words, between = b"\1\3\5\7\11\13\15\17", (draw * 2).tobytes()  # odd ones, even ones
    block = snappy_raw.encode(words + between + words)
    assert snappy_raw.decode(block, offset + 8) == words + between + words
    assert len(block) == 2 + 3 + offset + size  # how long it is, a tag, literals, a copy


def test_no_bytes_are_one_zero_as_the_library_has_it():
    assert lz4_block.decode(b"\0", 0) == b""
    with pytest.raises(ValueError, match="one zero"):
        lz4_block.decode(b"\7", 0)


@pytest.mark.parametrize("codec", CODECS, ids=lambda c: c.__name__)
def test_every_truncation_and_another_size_are_refused(codec):
    data = b"one two one two one two three" + NOISE[:30]
    block = codec.encode(data)
    for length in range(len(block)):
        with pytest.raises(ValueError):
            codec.decode(block[:length], len(data))
    for size in (0, len(data) - 1, len(data) + 1, 1 << 45):
        with pytest.raises(ValueError):
            codec.decode(block, size)


def test_known_blocks_are_read():
    # four literals; a copy of eight from four back, which overlaps; five literals
    assert lz4_block.decode(b"\x44abcd\x04\x00\x50vwxyz", 17) == b"abcdabcdabcdvwxyz"
    # length 12; four literals; a copy of eight from four back, one-byte offset
    assert snappy_raw.decode(b"\x0c\x0cabcd\x11\x04", 12) == b"abcdabcdabcd"


def test_a_snappy_block_that_says_another_size_than_it_holds_is_refused():
    with pytest.raises(ValueError, match="says 13"):
        snappy_raw.decode(b"\x0d\x0cabcd\x11\x04", 12)


def test_a_snappy_copy_with_a_four_byte_offset_reaches_past_64_kib():
    # length 65,546; 65,536 literals; four more; a copy of four from 65,540 back; two literals
    far = b"abcd" + bytes(65_532)
    block = b"\x8a\x80\x04\xf4\xff\xff" + far + b"\x0cwxyz\x0f\x04\0\1\0\x04!!"
    assert snappy_raw.decode(block, 65_546) == far + b"wxyzabcd!!"


@pytest.mark.parametrize("offset", [260, 65_540, 16_777_220])  # of the low byte alone: 4
def test_each_byte_of_a_four_byte_offset_counts(offset):
    with pytest.raises(ValueError, match=f"from {offset} back"):
        snappy_raw.decode(b"\x0c\x0cabcd\x1f" + offset.to_bytes(4, "little"), 12)


@pytest.mark.parametrize(
    ("said", "element", "size"),
    [
        (b"\xc8\1", b"\xf0\xc7", 200),
        (b"\xe0\xd4\3", b"\xf4\x5f\xea", 60_000),
        (b"\xf0\xa2\4", b"\xf8\x6f\x11\1", 70_000),
        (b"\xf0\xa2\4", b"\xfc\x6f\x11\1\0", 70_000),
    ],
    ids=["one", "two", "three", "four"],
)
def test_snappy_literals_have_up_to_four_length_bytes(said, element, size):
    data = (NOISE * 14)[:size]
    assert snappy_raw.decode(said + element + data, size) == data


@pytest.mark.parametrize("length", [261, 65_541, 16_777_221])  # by the low byte alone: 5
def test_each_of_four_length_bytes_counts(length):
    element = b"\xfc" + (length - 1).to_bytes(4, "little")
    with pytest.raises(ValueError, match=f"{length} literals"):
        snappy_raw.decode(b"\5" + element + b"abcde", 5)


@pytest.mark.parametrize("offset", [b"\0\0", b"\x05\0", b"\xff\xff"])
def test_an_offset_out_of_range_is_refused(offset):
    with pytest.raises(ValueError, match="offset"):
        lz4_block.decode(b"\x44abcd" + offset + b"\x50vwxyz", 17)
    with pytest.raises(ValueError, match="back"):
        snappy_raw.decode(b"\x0c\x0cabcd\x1e" + offset, 12)


def test_the_last_five_bytes_of_a_block_are_literals():
    for size in range(13, 40):
        block = lz4_block.encode(b"a" * size)
        assert block.endswith(b"a" * 5)
    assert lz4_block.encode(b"a" * 12) == b"\xc0" + b"a" * 12
    with pytest.raises(ValueError, match="last five"):
        lz4_block.decode(b"\x44abcd\x04\x00\x40vwxy", 16)


@pytest.mark.parametrize(("gap", "found"), [(65_535, True), (65_536, False)])
def test_a_match_reaches_65535_bytes_back_and_no_further(gap, found):
    # noise of even bytes between two strings of odd ones: no other match is that long
    between = (
        np.random.default_rng(1).integers(0, 128, gap - 40, dtype=np.uint8) * 2
    ).tobytes()
    words = bytes(range(1, 81, 2))
    data = words + between + words + b"after"
    for codec in CODECS:
        block = codec.encode(data)
        assert codec.decode(block, len(data)) == data
    matches = lz4_block.sequences(data, 12, 5)
    assert any(length >= 40 for _, _, length in matches) == found


def test_a_length_of_many_bytes_writes_no_more_than_was_asked_for():
    with pytest.raises(ValueError):
        lz4_block.decode(b"\x1fa\x01\x00" + b"\xff" * 100_000, 1000)


def test_each_position_knows_its_nearest_earlier_twin():
    data = NOISE[:200] + NOISE[50:150] + bytes(20)
    for at, twin in enumerate(lz4_block.earlier_twins(data).tolist()):
        assert twin == data.rfind(data[at : at + 4], 0, at + 3)
