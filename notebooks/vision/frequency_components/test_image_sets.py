"""Reading: files made here, runs of numbers, parts that share nothing, and refusals."""

import gzip
import struct

import numpy as np
import pytest
import torch
from helpers.images import Images
from image_sets import by_signer, draw, fingerprints, load, shuffled, signed_digits
from PIL import Image


def write_idx(path, values, magic):
    head = struct.pack(f">I{values.ndim}I", magic, *values.shape)
    path.write_bytes(gzip.compress(head + values.tobytes()))


def some(count=50):
    pixels = torch.arange(count, dtype=torch.uint8)[:, None, None, None].expand(count, 1, 2, 2)
    return Images(pixels, torch.arange(count) % 10)


def test_reads_images_and_labels(tmp_path):
    pixels = np.arange(3 * 28 * 28, dtype=np.uint8).reshape(3, 28, 28)
    write_idx(tmp_path / "t10k-images-idx3-ubyte.gz", pixels, 0x803)
    write_idx(tmp_path / "t10k-labels-idx1-ubyte.gz", np.array([7, 0, 9], np.uint8), 0x801)
    found = load(tmp_path, "t10k")
    assert torch.equal(found.pixels_NCHW[:, 0], torch.from_numpy(pixels))
    assert found.labels_N.tolist() == [7, 0, 9]
    write_idx(tmp_path / "t10k-labels-idx1-ubyte.gz", np.array([7, 0], np.uint8), 0x801)
    with pytest.raises(ValueError, match=r"pixels \(3, 28, 28\) and labels \(2,\)"):
        load(tmp_path, "t10k")
    write_idx(tmp_path / "t10k-images-idx3-ubyte.gz", np.array([7, 0], np.uint8), 0x801)
    with pytest.raises(ValueError, match=r"pixels \(2,\) and"):  # labels where pixels belong
        load(tmp_path, "t10k")


def test_draws_each_image_once_and_repeats():
    first, again = draw(some(), 20, seed=1), draw(some(), 20, seed=1)
    assert torch.equal(first.pixels_NCHW, again.pixels_NCHW)
    assert len(first.pixels_NCHW[:, 0, 0, 0].unique()) == 20
    with pytest.raises(ValueError, match="51 of 50"):
        draw(some(), 51)


def test_shuffling_moves_labels_and_keeps_their_counts():
    images = shuffled(some(), 1)
    assert torch.equal(images.pixels_NCHW, some().pixels_NCHW)
    assert not torch.equal(images.labels_N, some().labels_N)
    assert torch.equal(images.labels_N.bincount(), some().labels_N.bincount())


def test_photographs_become_small_squares_in_their_colours(tmp_path):
    for digit, number in ((3, 10), (4, 11), (3, 40)):
        (tmp_path / str(digit)).mkdir(exist_ok=True)
        halves = np.full((100, 100, 3), (10 * digit, 60, 200), np.uint8)
        halves[:, 50:] = (10 * digit, 60, 100)  # less blue at the right
        Image.fromarray(halves).save(tmp_path / str(digit) / f"IMG_{number}.JPG", quality=95)
    images, numbers = signed_digits(tmp_path, side=32)
    assert images.pixels_NCHW.shape == (3, 3, 32, 32) and images.pixels_NCHW.is_contiguous()
    assert images.labels_N.tolist() == [3, 3, 4] and numbers.tolist() == [10, 40, 11]
    for blue, half in (
        (200, images.pixels_NCHW[0, ..., :12]),
        (100, images.pixels_NCHW[0, ..., 20:]),
    ):
        colour = torch.tensor([30.0, 60, blue])[:, None, None]
        assert (half.float() - colour).abs().max() <= 4  # JPEG rounds


def test_nobody_stands_on_both_sides():
    numbers = torch.arange(1100, 1900)
    learnt_N, held_out_N, other_N = by_signer(numbers)
    assert numbers[other_N].tolist() == [*range(1100, 1200), *range(1500, 1600)]
    own_N = learnt_N | held_out_N
    distances = (numbers[own_N][:, None] - numbers[other_N]).abs()
    assert distances.min() > 10  # ten numbers are one person's
    assert not (learnt_N & held_out_N).any() and 30 < held_out_N.sum() < 140


def test_everybody_is_another_signer_once():
    numbers = torch.arange(1100, 1900)
    others = torch.stack([by_signer(numbers, offset)[2] for offset in range(4)])
    assert others.sum(0).tolist() == [1] * 800 and others.sum(1).tolist() == [200] * 4
    with pytest.raises(ValueError, match="offset is 4; 0, 1, 2 and 3"):
        by_signer(numbers, 4)


def test_a_fingerprint_is_that_of_the_pixels_wherever_they_lie():
    images, other = some(), some(3)
    assert (
        fingerprints(images)[:3] == fingerprints(other) and len({*fingerprints(images)}) == 50
    )
    turned = Images(other.pixels_NCHW, 9 - other.labels_N)
    assert fingerprints(turned) == fingerprints(other)
    assert fingerprints(images.part(torch.tensor([4, 1]))) == [
        fingerprints(images)[4],
        fingerprints(images)[1],
    ]
