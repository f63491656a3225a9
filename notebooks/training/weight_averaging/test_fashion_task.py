"""Files become images, broken ones are refused; parts are balanced and repeatable; runs share
their beginning."""

import copy
import gzip
import itertools
import struct

import numpy as np
import pytest
import torch
from averaging import recompute_batch_norm
from fashion_task import (
    ADAM,
    annealed,
    draw,
    fingerprints,
    load,
    logits_of,
    scaled,
    task_of,
    with_wrong_labels,
)
from helpers.images import Run, train
from hypothesis import given
from hypothesis import strategies as st


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


def test_images_are_read_with_their_own_moments_or_those_of_others(folder):
    data = load(folder, "train")
    one = draw(data, 30, 1)
    x_BCHW = torch.cat(list(one.batches(7)))
    assert abs(x_BCHW.mean()) < 1e-5 and abs(x_BCHW.std(correction=0) - 1) < 1e-5
    other = draw(data, 20, 2, like=one)
    wanted = (other.pixels_NCHW.float() - one.mean) / one.std
    assert torch.equal(other.at(torch.arange(20))[0], wanted)
    assert torch.equal(other.pixels_NCHW, draw(data, 20, 2).pixels_NCHW)


def test_a_constant_channel_is_read_as_zeros():
    pixels = torch.full((3, 2, 4, 4), 9, dtype=torch.uint8)
    flat = scaled(pixels, torch.zeros(3, dtype=torch.int64))
    assert torch.equal(flat.at(torch.arange(3))[0], torch.zeros(3, 2, 4, 4))


BYTES, WHOLE = {"dtype": torch.uint8}, {"dtype": torch.int64}


@pytest.mark.parametrize(
    ("pixels", "labels"),
    [
        (torch.zeros(2, 1, 4, 4), torch.zeros(2, **WHOLE)),
        (torch.zeros(2, 1, 4, 4, **BYTES), torch.zeros(2)),
        (torch.zeros(2, 4, 4, **BYTES), torch.zeros(2, **WHOLE)),
        (torch.zeros(2, 1, 4, 4, **BYTES), torch.zeros(3, **WHOLE)),
        (torch.zeros(0, 1, 4, 4, **BYTES), torch.zeros(0, **WHOLE)),
    ],
)
def test_images_of_another_kind_are_refused(pixels, labels):
    with pytest.raises(ValueError, match=r"allowed: uint8 \(N, C, H, W\), int64 \(N,\), N > 0"):
        scaled(pixels, labels)


def test_a_fingerprint_tells_pixels_and_nothing_else(folder):
    data = load(folder, "train")
    prints = fingerprints(data)
    assert len(set(prints)) == 120 and fingerprints(data.part(torch.tensor([7]))) == [prints[7]]


@given(st.floats(1e-3, 10), st.integers(1, 50))
def test_the_annealed_rate_never_rises_and_ends_at_its_share(rate, epochs):
    values = [annealed(rate, epochs, low=0.1)(epochs * share / 20) for share in range(21)]
    assert values[0] == values[10] == pytest.approx(rate)
    assert values[-1] == pytest.approx(0.1 * rate)
    assert all(a >= b for a, b in itertools.pairwise(values))


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
    data = scaled(torch.zeros(100, 1, 2, 2, dtype=torch.uint8), labels)
    noisy = with_wrong_labels(data, share)
    assert (noisy.labels_N != labels).sum() == round(100 * share)
    assert noisy.labels_N.min() >= 0 and noisy.labels_N.max() <= 9
    with pytest.raises(ValueError, match="share is 1.5"):
        with_wrong_labels(data, 1.5)


def test_a_task_holds_out_what_it_does_not_train_on(folder):
    task = task_of(folder, "cpu", 100, width=2, epochs=16, tested=3)
    sizes = task.train.count, task.held.count, task.test.count, task.classes, task.start
    assert sizes == (100, 10, 30, 10, 9)
    both = torch.cat([task.train.pixels_NCHW, task.held.pixels_NCHW]).flatten(1)
    assert len(both.unique(dim=0)) == 110  # no image in both
    assert torch.equal(task.test.mean, task.train.mean)
    again = task_of(folder, "cpu", 100, width=2, epochs=16, tested=3, seed=1)
    for name in ("train", "test"):  # each seed draws images of its own, to test on, too
        mine, other = (set(fingerprints(getattr(one, name))) for one in (task, again))
        assert mine != other


def test_pictures_to_train_on_come_mixed(folder):
    """Batches in order of the classes would have other variances than those of training."""
    labels = task_of(folder, "cpu", 100, width=2, epochs=4, tested=3).train.labels_N
    assert (labels.diff() < 0).any() and labels.bincount().tolist() == [10] * 10


@pytest.mark.parametrize("own", [{}, {"optimiser": ADAM}])
def test_a_branch_goes_on_as_the_run_would_and_leaves_it_alone(folder, own):
    task = task_of(folder, "cpu", 50, width=2, epochs=4, tested=3)
    decays, stays = task.recipes(batch=10, **own)
    run = task.begun(0, decays)
    assert len(run.losses) == task.start == 2
    before = copy.deepcopy((run.model.state_dict(), run.optimiser.state_dict()["state"]))
    task.branch(0, run, stays)  # another branch first: it must leave nothing behind
    branched = task.branch(0, run, decays)
    model = task.network(0)
    optimiser = decays.optimiser(model.parameters(), lr=0.1)
    whole = train(model, task.train, optimiser, epochs=4, batch=10, rate=decays.rate).model
    for ours, theirs in zip(branched.parameters(), whole.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    after = run.model.state_dict(), run.optimiser.state_dict()["state"]
    torch.testing.assert_close(after, before, rtol=0, atol=0)


def test_a_run_goes_on_from_the_network_that_it_is_given(folder):
    task = task_of(folder, "cpu", 50, width=2, epochs=4, tested=3)
    recipe, _ = task.recipes(batch=10)
    model = task.network(5)
    assert task.begun(0, recipe, model).model is model
    drawn = task.begun(0, recipe).model
    assert not torch.equal(next(model.parameters()), next(drawn.parameters()))


def test_rates_fall_to_the_end_stay_high_or_have_settled_before(folder):
    task = task_of(folder, "cpu", 50, width=2, epochs=16, tested=3)
    falls, stays = task.recipes(0.1, 0.05)
    assert [falls.rate(epoch) for epoch in (8, 9, 16)] == pytest.approx(
        [0.1, 0.08453125, 0.001]
    )
    assert [stays.rate(epoch) for epoch in (8, 8.9, 9, 16)] == pytest.approx(
        [0.1, falls.rate(8.9), 0.05, 0.05]
    )
    settled, high = task.recipes(0.1, 0.01, settles=True)
    assert [settled.rate(epoch) for epoch in (4.5, 8.1, 16)] == pytest.approx(
        [0.1, 0.001, 0.001]
    )
    assert [high.rate(epoch) for epoch in (8.1, 9, 16)] == pytest.approx([0.001, 0.01, 0.01])


def test_a_network_is_taken_at_the_end_of_each_cycle(folder):
    task = task_of(folder, "cpu", 50, width=2, epochs=4, tested=3)
    decays, _ = task.recipes(batch=10)
    run = task.begun(0, decays)
    ends = task.cycles(0, run, decays, members=2)
    weights = [next(end.parameters()) for end in ends]
    assert len(ends) == 2 and not torch.equal(*weights)
    assert not torch.equal(weights[0], next(run.model.parameters()))


def test_a_cycle_ends_after_the_step_of_its_least_rate(folder, monkeypatch):
    """A training that moves nothing but writes the rate of each step into the weights."""

    def writes(model, images, optimiser, *, epochs, rate, batch, first, at_step, **_):
        steps = images.count // batch
        for step in range(first * steps, epochs * steps):
            torch.nn.init.constant_(next(model.parameters()), rate(step / steps))
            at_step(step + 1, model)
        return Run(model, [], optimiser)

    monkeypatch.setattr("fashion_task.train", writes)
    task = task_of(folder, "cpu", 50, width=2, epochs=4, tested=3)
    decays, _ = task.recipes(batch=10)
    ends = task.cycles(0, Run(task.network(0), [], None), decays, members=2)
    found = [next(end.parameters()).flatten()[0].item() for end in ends]
    assert found == pytest.approx([0.05 - 0.049 * 4 / 5] * 2)  # four of five steps down


def test_batch_norms_are_refreshed_by_all_training_images(folder):
    task = task_of(folder, "cpu", 50, width=2, epochs=4, tested=3)
    ours, theirs = task.network(0), task.network(0)
    assert task.refreshed(ours) is ours
    recompute_batch_norm(theirs, task.train.batches())
    assert torch.equal(ours.norm.running_mean, theirs.norm.running_mean)
    recompute_batch_norm(theirs, task.train.batches(25))
    assert not torch.equal(ours.norm.running_mean, theirs.norm.running_mean)


def test_logits_come_in_the_order_of_the_images(folder):
    task = task_of(folder, "cpu", 50, width=2, epochs=4, tested=3)
    model = task.network(0).eval()
    torch.testing.assert_close(logits_of(model, task.test), model(task.test.at(slice(None))[0]))
