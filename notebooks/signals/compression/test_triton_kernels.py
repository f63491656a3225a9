"""The kernels equal the torch path, on a GPU or in Triton's interpreter; skipped without
Triton."""

import os

import bit_packing
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


@pytest.mark.parametrize("width", [1, 7, 8, 17, 31, 32])
@pytest.mark.parametrize("lanes", [1, 129])
def test_unpacking_equals_the_torch_path(width, lanes):
    words = noise(width, lanes)
    assert torch.equal(
        triton_kernels.unpack_rows(words, width), bit_packing.unpack_rows(words, width)
    )


@pytest.mark.parametrize("length", [1, 256, 257, 600])
def test_prefix_sums_wrap_as_the_torch_path_does(length):
    values, bases = noise(3, length), noise(3)
    wanted = values.cumsum(1, dtype=torch.int32) + bases[:, None]
    assert torch.equal(triton_kernels.prefix_sums(values, bases), wanted)


def test_nothing_gives_nothing():
    empty = torch.empty(2, 0, dtype=torch.int32, device=DEVICE)
    assert triton_kernels.prefix_sums(empty, noise(2)).shape == (2, 0)
    assert triton_kernels.unpack_rows(empty, 2).shape == (32, 0)


def test_other_dtypes_and_shapes_are_refused():
    with pytest.raises(ValueError, match="int32 of shape"):
        triton_kernels.unpack_rows(noise(3, 4).long(), 3)
    with pytest.raises(ValueError, match="needed"):
        triton_kernels.prefix_sums(noise(2, 4), noise(3))
