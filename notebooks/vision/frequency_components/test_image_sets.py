"""Reading: files made here, runs of numbers, parts that share nothing, and refusals."""

import gzip
import struct

import numpy as np
import pytest
import torch
from frequency_training import Images
from image_sets import by_signer, draw, fashion, read_idx, shuffled, signed_digits, signers
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
    found = fashion(tmp_path, "t10k")
    assert torch.equal(found.pixels_NCHW[:, 0], torch.from_numpy(pixels))
    assert found.labels_N.tolist() == [7, 0, 9]
    write_idx(tmp_path / "t10k-labels-idx1-ubyte.gz", np.array([7, 0], np.uint8), 0x801)
    with pytest.raises(ValueError, match="3 images and 2 labels"):
        fashion(tmp_path, "t10k")


def test_refuses_another_kind_and_a_cut_file(tmp_path):
    write_idx(tmp_path / "a.gz", np.zeros(4, np.uint8), 0x801)
    with pytest.raises(ValueError, match="a.gz starts with 00000801; images start with 00000803"):
        read_idx(tmp_path / "a.gz", "images")
    (tmp_path / "b.gz").write_bytes(gzip.compress(struct.pack(">II", 0x801, 9) + b"123"))
    with pytest.raises(ValueError, match="3 bytes of values"):
        read_idx(tmp_path / "b.gz", "labels")


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


def test_runs_of_numbers_are_signers():
    assert signers([1, 2, 4, 20, 21]) == [0, 0, 0, 1, 1]
    assert signers([21, 1, 20, 2]) == [1, 0, 1, 0]
    assert signers([5, 9]) == [0, 0] and signers([5, 10]) == [0, 1]


def test_photographs_become_grey_squares(tmp_path):
    for digit, number in ((3, 10), (4, 11), (3, 40)):
        (tmp_path / str(digit)).mkdir(exist_ok=True)
        grey = np.full((100, 100, 3), 10 * digit, np.uint8)
        Image.fromarray(grey).save(tmp_path / str(digit) / f"IMG_{number}.JPG", quality=95)
    images, which = signed_digits(tmp_path, side=32)
    assert images.pixels_NCHW.shape == (3, 1, 32, 32)
    assert images.labels_N.tolist() == [3, 3, 4] and which.tolist() == [0, 1, 0]
    assert (images.pixels_NCHW[0].float() - 30).abs().max() <= 2  # JPEG rounds


def test_signers_of_the_training_set_are_not_among_the_strangers():
    which = torch.arange(200) // 10
    images = Images(which.byte()[:, None, None, None].expand(200, 1, 2, 2), torch.arange(200) % 10)
    training, held, strange = (set(part.pixels_NCHW[:, 0, 0, 0].tolist()) for part in by_signer(images, which))
    assert len(strange) == 5 and not strange & training and held <= training
    assert sum(map(len, by_signer(images, which))) == 200
