"""Files are read byte by byte, broken ones refused; parts are balanced and repeatable."""

import gzip
import struct

import numpy as np
import pytest
import torch
from fashion_images import draw, load, read_idx, with_wrong_labels
from small_training import images


def idx(values, magic):
    return gzip.compress(struct.pack(f">{1 + values.ndim}I", magic, *values.shape) + values.tobytes())


@pytest.fixture
def folder(tmp_path):
    """Both files of a part with 60 images of 4 x 5 pixels, six of each class."""
    pixels = np.arange(60 * 20, dtype=np.uint32).astype(np.uint8).reshape(60, 4, 5)
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(idx(pixels, 0x803))
    labels = (np.arange(60) % 10).astype(np.uint8)
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(idx(labels, 0x801))
    return tmp_path


def test_pixels_and_labels_come_as_they_stand_in_the_files(folder):
    data = load(folder, "train")
    assert data.pixels_NCHW.shape == (60, 1, 4, 5) and data.pixels_NCHW[3, 0, 1, 2] == 3 * 20 + 7
    assert data.labels_N.tolist() == [number % 10 for number in range(60)]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "starts with nothing"),
        (struct.pack(">2I", 0x901, 3) + b"abc", "starts with 00000901"),
        (struct.pack(">2I", 0x801, 4) + b"abc", "holds 3 bytes; its header promises 4"),
        (struct.pack(">2I", 0x801, 2) + b"abc", "holds 3 bytes; its header promises 2"),
        (struct.pack(">2I", 0x803, 2), "ends within its header"),
    ],
)
def test_broken_files_are_refused(tmp_path, content, words):
    path = tmp_path / "broken.gz"
    path.write_bytes(gzip.compress(content))
    with pytest.raises(ValueError, match=words):
        read_idx(path)


def test_images_and_labels_of_different_numbers_are_refused(folder):
    (folder / "train-labels-idx1-ubyte.gz").write_bytes(idx(np.zeros(59, np.uint8), 0x801))
    with pytest.raises(ValueError, match=r"N > 0"):
        load(folder, "train")


def test_a_draw_is_balanced_repeatable_and_without_repetition(folder):
    data = load(folder, "train")
    some, again, other = draw(data, 30, 1), draw(data, 30, 1), draw(data, 30, 2)
    assert some.labels_N.bincount().tolist() == [3] * 10
    assert torch.equal(some.pixels_NCHW, again.pixels_NCHW)
    assert not torch.equal(some.pixels_NCHW, other.pixels_NCHW)
    assert len(draw(data, 60).pixels_NCHW.flatten(1).unique(dim=0)) == len(data.pixels_NCHW.flatten(1).unique(dim=0))


def test_classes_are_renumbered(folder):
    some = draw(load(folder, "train"), 6, classes=(7, 2, 5))
    assert sorted(some.labels_N.tolist()) == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize(("count", "words"), [(15, "multiple"), (0, "multiple"), (70, "7 of each")])
def test_counts_that_cannot_be_drawn_are_refused(folder, count, words):
    with pytest.raises(ValueError, match=words):
        draw(load(folder, "train"), count)


@pytest.mark.parametrize("share", [0, 0.2, 1])
def test_the_share_of_wrong_labels_is_exact(share):
    labels = torch.arange(100) % 10
    data = images(torch.zeros(100, 1, 2, 2, dtype=torch.uint8), labels)
    noisy = with_wrong_labels(data, share)
    assert (noisy.labels_N != labels).sum() == round(100 * share)
    assert 0 <= noisy.labels_N.min() and noisy.labels_N.max() <= 9
    with pytest.raises(ValueError, match="share is 1.5"):
        with_wrong_labels(data, 1.5)
