"""The loop learns, repeats itself, goes on where it stopped, and says what it refuses."""

import itertools
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_training import SGD, Recipe, annealed, images, logits_of, train
from torch import nn

PLACES = ["cpu"]
PLACES += [
    pytest.param(
        "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
    )
]


def two_kinds(count=101, device="cpu"):
    """Dark and bright images of 4 x 4 pixels, in turn."""
    drawn = torch.Generator().manual_seed(0)
    labels = torch.arange(count) % 2
    pixels = (
        torch.randint(0, 128, (count, 1, 4, 4), generator=drawn)
        + 100 * labels[:, None, None, None]
    )
    return images(pixels.to(torch.uint8).to(device), labels.to(device))


def network(device="cpu"):
    torch.manual_seed(0)
    layers = nn.Flatten(), nn.Linear(16, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2)
    return nn.Sequential(*layers).to(device)


def same(first, second):
    pairs = zip(first.state_dict().values(), second.state_dict().values(), strict=True)
    return all(torch.equal(*pair) for pair in pairs)


@pytest.mark.parametrize("device", PLACES)
def test_it_learns_what_is_easy(device):
    data = two_kinds(device=device)
    run = train(network(device), data, Recipe(epochs=8, batch=16, rate=0.05))
    answers = logits_of(run.model.eval(), data).argmax(1)
    assert (answers == data.labels_N).float().mean() > 0.95 and run.losses[-1] < run.losses[0]
    assert len(run.losses) == 8


def test_the_seed_decides_and_nothing_else():
    recipe = Recipe(epochs=2, batch=16)
    runs = [train(network(), two_kinds(), recipe, seed=seed).model for seed in (3, 3, 4)]
    assert same(runs[0], runs[1]) and not same(runs[0], runs[2])


@pytest.mark.parametrize("optimiser", [SGD, torch.optim.AdamW])
def test_a_run_in_two_parts_is_the_run_in_one(optimiser):
    recipe = Recipe(epochs=4, batch=16, rate=annealed(0.05, 4), optimiser=optimiser)
    whole, model = train(network(), two_kinds(), recipe), network()
    first = train(model, two_kinds(), recipe, last=2)
    state = first.optimiser.state_dict()
    second = train(model, two_kinds(), recipe, first=2, state=state)
    assert same(whole.model, second.model) and whole.losses == first.losses + second.losses


def test_each_step_equals_a_plain_loop():
    data, recipe = two_kinds(32), Recipe(epochs=1, batch=8, rate=0.1, optimiser=torch.optim.SGD)
    run, model = train(network(), data, recipe, seed=5), network()
    order = torch.randperm(32, generator=torch.Generator().manual_seed(5))
    values = data.pixels_NCHW.float()
    values = (values - values.mean()) / values.std(correction=0)
    optimiser = torch.optim.SGD(model.parameters(), 0.1)
    for some in order.split(8):
        loss = nn.functional.cross_entropy(model(values[some]), data.labels_N[some])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    for ours, plain in zip(run.model.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(ours, plain)


def test_what_is_called_is_told_where_it_is():
    steps, epochs = [], []
    calls = {"at_step": lambda step, model: steps.append(step)}
    calls["at_epoch"] = lambda epoch, model: epochs.append(epoch)
    train(network(), two_kinds(101), Recipe(epochs=2, batch=50), **calls)
    assert (steps, epochs) == ([1, 2, 3, 4], [1, 2])


def test_images_are_read_with_the_scaling_of_the_training_set():
    train_set = two_kinds(100)
    x_BCHW = torch.cat(list(train_set.batches(33)))
    assert abs(x_BCHW.mean()) < 1e-5 and abs(x_BCHW.std(correction=0) - 1) < 1e-5
    other = images(train_set.pixels_NCHW[:7] // 2, train_set.labels_N[:7]).scaled_as(train_set)
    wanted = ((train_set.pixels_NCHW[:7] // 2).float() - train_set.mean) / train_set.std
    assert torch.equal(other.at(torch.arange(7))[0], wanted)
    part = train_set.part(torch.tensor([4, 2]))
    assert part.count == 2 and torch.equal(part.mean, train_set.mean)


def test_a_constant_channel_is_read_as_zeros():
    flat = images(
        torch.full((3, 2, 4, 4), 9, dtype=torch.uint8), torch.zeros(3, dtype=torch.int64)
    )
    assert torch.equal(flat.at(torch.arange(3))[0], torch.zeros(3, 2, 4, 4))


@given(st.floats(1e-3, 10), st.integers(1, 50))
def test_the_annealed_rate_never_rises_and_ends_at_its_share(rate, epochs):
    values = [annealed(rate, epochs, low=0.1)(epochs * share / 20) for share in range(21)]
    assert values[0] == values[10] == pytest.approx(rate)
    assert values[-1] == pytest.approx(0.1 * rate)
    assert all(a >= b for a, b in itertools.pairwise(values))


@pytest.mark.parametrize("batch", [0, 102, -1])
def test_a_batch_that_does_not_fit_is_refused(batch):
    with pytest.raises(ValueError, match=f"batch is {batch}; with 101 images"):
        train(network(), two_kinds(), Recipe(batch=batch))


def test_a_loss_that_is_not_finite_stops_the_run():
    wild = partial(torch.optim.SGD, momentum=0.9)
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
    with pytest.raises(FloatingPointError, match="lower the rate, which began with 1e"):
        train(net, two_kinds(), Recipe(epochs=3, batch=16, rate=1e38, optimiser=wild))


@pytest.mark.parametrize(
    ("pixels", "labels", "words"),
    [
        (torch.zeros(2, 1, 4, 4), torch.zeros(2, dtype=torch.int64), "uint8 and int64"),
        (torch.zeros(2, 4, 4, dtype=torch.uint8), torch.zeros(2, dtype=torch.int64), "N > 0"),
        (
            torch.zeros(2, 1, 4, 4, dtype=torch.uint8),
            torch.zeros(3, dtype=torch.int64),
            "N > 0",
        ),
        (
            torch.zeros(0, 1, 4, 4, dtype=torch.uint8),
            torch.zeros(0, dtype=torch.int64),
            "N > 0",
        ),
    ],
)
def test_images_of_another_kind_are_refused(pixels, labels, words):
    with pytest.raises(ValueError, match=words):
        images(pixels, labels)
