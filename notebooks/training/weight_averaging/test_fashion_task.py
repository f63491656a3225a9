"""Files are read byte by byte, broken ones refused; parts are balanced and repeatable."""

import copy
import gzip
import struct

import numpy as np
import pytest
import torch
from fashion_task import draw, load, read_idx, task_of, with_wrong_labels
from small_training import images, train


def idx(values, magic):
    return gzip.compress(
        struct.pack(f">{1 + values.ndim}I", magic, *values.shape) + values.tobytes()
    )


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    """Two threads would wait for each other in networks this small."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def folder(tmp_path):
    """Both files of both parts with 120 images of 4 x 5 pixels, twelve of each class."""
    pixels = np.random.default_rng(0).integers(0, 256, (120, 4, 5), dtype=np.uint8)
    labels = (np.arange(120) % 10).astype(np.uint8)
    for part in ("train", "t10k"):
        (tmp_path / f"{part}-images-idx3-ubyte.gz").write_bytes(idx(pixels, 0x803))
        (tmp_path / f"{part}-labels-idx1-ubyte.gz").write_bytes(idx(labels, 0x801))
    return tmp_path


def test_pixels_and_labels_come_as_they_stand_in_the_files(folder):
    data, bytes_of = load(folder, "train"), np.random.default_rng(0)
    assert data.pixels_NCHW.shape == (120, 1, 4, 5)
    wanted = bytes_of.integers(0, 256, (120, 4, 5), dtype=np.uint8)
    assert np.array_equal(data.pixels_NCHW[:, 0].numpy(), wanted)
    assert data.labels_N.tolist() == [number % 10 for number in range(120)]


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
    (folder / "train-labels-idx1-ubyte.gz").write_bytes(idx(np.zeros(119, np.uint8), 0x801))
    with pytest.raises(ValueError, match=r"N > 0"):
        load(folder, "train")


def test_a_draw_is_balanced_repeatable_and_without_repetition(folder):
    data = load(folder, "train")
    some, again, other = draw(data, 30, 1), draw(data, 30, 1), draw(data, 30, 2)
    assert some.labels_N.bincount().tolist() == [3] * 10
    assert torch.equal(some.pixels_NCHW, again.pixels_NCHW)
    assert not torch.equal(some.pixels_NCHW, other.pixels_NCHW)
    assert len(draw(data, 120).pixels_NCHW.flatten(1).unique(dim=0)) == 120


def test_classes_are_renumbered(folder):
    some = draw(load(folder, "train"), 6, classes=(7, 2, 5))
    assert sorted(some.labels_N.tolist()) == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize(
    ("count", "words"), [(15, "multiple"), (0, "multiple"), (130, "13 of each")]
)
def test_counts_that_cannot_be_drawn_are_refused(folder, count, words):
    with pytest.raises(ValueError, match=words):
        draw(load(folder, "train"), count)


@pytest.mark.parametrize("share", [0, 0.2, 1])
def test_the_share_of_wrong_labels_is_exact(share):
    labels = torch.arange(100) % 10
    data = images(torch.zeros(100, 1, 2, 2, dtype=torch.uint8), labels)
    noisy = with_wrong_labels(data, share)
    assert (noisy.labels_N != labels).sum() == round(100 * share)
    assert noisy.labels_N.min() >= 0 and noisy.labels_N.max() <= 9
    with pytest.raises(ValueError, match="share is 1.5"):
        with_wrong_labels(data, 1.5)


def test_a_task_holds_out_what_it_does_not_train_on(folder):
    task = task_of(folder, "cpu", 100, width=2, epochs=4, tested=3)
    sizes = task.train.count, task.held.count, task.test.count, task.classes, task.start
    assert sizes == (100, 10, 30, 10, 3)
    both = torch.cat([task.train.pixels_NCHW, task.held.pixels_NCHW]).flatten(1)
    assert len(both.unique(dim=0)) == 110  # no image in both
    assert torch.equal(task.test.mean, task.train.mean)


def test_pictures_to_train_on_come_mixed(folder):
    """Batches in order of the classes would have other variances than those of training."""
    labels = task_of(folder, "cpu", 100, width=2, epochs=4, tested=3).train.labels_N
    assert (labels.diff() < 0).any() and labels.bincount().tolist() == [10] * 10


def test_a_branch_goes_on_as_the_run_would_and_leaves_it_alone(folder):
    task = task_of(folder, "cpu", 50, width=2, epochs=4, tested=3)
    decays, stays = task.recipes(batch=10)
    run = task.begun(0, decays)
    before = copy.deepcopy((run.model.state_dict(), run.optimiser.state_dict()["state"]))
    task.branch(0, run, stays)  # another branch first: it must leave nothing behind
    branched = task.branch(0, run, decays)
    whole = train(task.network(0), task.train, decays).model
    for ours, theirs in zip(branched.parameters(), whole.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    after = run.model.state_dict(), run.optimiser.state_dict()["state"]
    torch.testing.assert_close(after, before, rtol=0, atol=0)
    assert [decays.rate_at(3), stays.rate_at(4)] == pytest.approx(
        [0.1 * (1 - 0.99 * 0.625), 0.05]
    )


def test_a_network_is_taken_at_the_end_of_each_cycle(folder):
    task = task_of(folder, "cpu", 50, width=2, epochs=4, tested=3)
    decays, _ = task.recipes(batch=10)
    run = task.begun(0, decays)
    ends = task.cycles(0, run, decays, members=2)
    weights = [next(end.parameters()) for end in ends]
    assert len(ends) == 2 and not torch.equal(*weights)
    assert not torch.equal(weights[0], next(run.model.parameters()))
