"""The kernels equal the torch path, on a GPU or in Triton's interpreter; skipped without
Triton."""

import os

import bit_packing
import lz4_block
import numpy as np
import pytest
import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when the kernels are defined
pytest.importorskip("triton")
import triton_kernels  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def noise(*shape):
    made = torch.Generator().manual_seed(sum(shape))
    values = torch.randint(-(2**31), 2**31, shape, generator=made)
    return values.to(torch.int32).to(DEVICE)


@pytest.mark.parametrize("width", [1, 3, 7, 8, 11, 16, 17, 31, 32])
@pytest.mark.parametrize("lanes", [1, 129])
def test_unpacking_equals_the_torch_path(width, lanes):
    words = noise(width, lanes).to(bit_packing.WORDS[bit_packing.ROWS[width]])
    found, wanted = (
        triton_kernels.unpack_rows(words, width),
        bit_packing.unpack_rows(words, width),
    )
    assert torch.equal(found, wanted.int() & (-1 if width == 32 else (1 << width) - 1))


LZ4_DATA = [b"abc" * 50 + b"tail!", b"a" * 300, bytes(range(256)) * 2, b"short", b""]


def test_a_program_decodes_each_lz4_block():
    blocks, sizes = [lz4_block.encode(d) for d in LZ4_DATA], [len(d) for d in LZ4_DATA]
    out, statuses = triton_kernels.lz4_decode(blocks, sizes, DEVICE)
    assert statuses.tolist() == [0] * len(blocks)
    for row, data in zip(out.cpu(), LZ4_DATA, strict=True):
        assert row[: len(data)].numpy().tobytes() == data


def test_the_lz4_kernel_refuses_what_the_decoder_refuses():
    rng, good = np.random.default_rng(0), lz4_block.encode(LZ4_DATA[0])
    blocks = [good[:cut] for cut in range(1, len(good))]
    for _ in range(60):
        bad = bytearray(good)
        bad[rng.integers(len(bad))] = rng.integers(256)
        blocks.append(bytes(bad))
    size = len(LZ4_DATA[0])
    out, statuses = triton_kernels.lz4_decode(blocks, [size] * len(blocks), DEVICE)
    for block, row, status in zip(blocks, out.cpu(), statuses.tolist(), strict=True):
        try:
            wanted = lz4_block.decode(block, size)
        except ValueError:
            assert status == 17
        else:
            assert status == 0 and row.numpy().tobytes() == wanted


@pytest.mark.parametrize("length", [1, 256, 257, 600])
def test_prefix_sums_wrap_as_the_torch_path_does(length):
    values, bases = noise(3, length), noise(3)
    wanted = values.cumsum(1, dtype=torch.int32) + bases[:, None]
    assert torch.equal(triton_kernels.prefix_sums(values, bases), wanted)


def test_nothing_gives_nothing():
    empty = torch.empty(2, 0, dtype=torch.int32, device=DEVICE)
    assert triton_kernels.prefix_sums(empty, noise(2)).shape == (2, 0)
    assert triton_kernels.unpack_rows(empty.to(torch.uint8), 2).shape == (8, 0)


def test_other_dtypes_and_shapes_are_refused():
    with pytest.raises(ValueError, match="uint8 of shape"):
        triton_kernels.unpack_rows(noise(3, 4).long(), 3)
    with pytest.raises(ValueError, match="needed"):
        triton_kernels.prefix_sums(noise(2, 4), noise(3))
