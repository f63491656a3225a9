"""IDX files as they come and as they do not, batches by index, and the training loop."""

import gzip
import struct

import pytest
import torch

from helpers.images import Images, read_idx, train


def idx(path, magic, shape, values):
    path.write_bytes(gzip.compress(struct.pack(f">I{len(shape)}I", magic, *shape) + bytes(values)))
    return path


def test_pixels_and_labels_are_read(tmp_path):
    pixels = read_idx(idx(tmp_path / "pixels.gz", 0x803, (2, 2, 3), range(12)))
    assert pixels.shape == (2, 2, 3) and pixels.ravel().tolist() == list(range(12))
    assert read_idx(idx(tmp_path / "labels.gz", 0x801, (3,), [7, 0, 255])).tolist() == [7, 0, 255]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "starts with nothing"),
        (b"\x00\x00\x08", "000008"),
        (struct.pack(">II", 0xD01, 1) + b"1234", "00000d01; IDX of bytes: 00000801 or 00000803"),
        (struct.pack(">II", 0x803, 1), "within its header"),
        (struct.pack(">II", 0x801, 3) + b"12", "holds 2 bytes; its header promises 3"),
        (struct.pack(">II", 0x801, 3) + b"1234", "holds 4 bytes"),
    ],
)
def test_another_file_is_told(tmp_path, content, told):
    path = tmp_path / "file.gz"
    path.write_bytes(gzip.compress(content))
    with pytest.raises(ValueError, match=told):
        read_idx(path)


def some(count=12):
    drawn = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (count, 1, 2, 2), generator=drawn, dtype=torch.uint8)
    return Images(pixels, torch.arange(count) % 3)


def network():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3), torch.nn.Dropout(0.0))


def run(images, model, optimiser=None, **how):
    optimiser = optimiser or torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    return train(model, images, optimiser, **{"epochs": 4, "batch": 4} | how)


def test_a_batch_is_scaled_as_the_set_says():
    images = some()
    x_BCHW, labels_B = images.at(torch.tensor([3, 5]))
    assert x_BCHW.equal(images.pixels_NCHW[[3, 5]].float() / 255) and labels_B.tolist() == [0, 2]
    scaled = images._replace(mean=torch.full((1, 1, 1), 10.0), std=torch.full((1, 1, 1), 2.0))
    assert scaled.part(torch.tensor([4])).at(slice(None))[0].equal((images.pixels_NCHW[[4]].float() - 10) / 2)
    assert torch.cat(list(images.batches(5))).equal(images.at(slice(None))[0])


def test_a_run_is_plain_gradient_descent_in_the_seed_s_order():
    images, model, own = some(8), network(), network()
    losses = run(images, model, epochs=1, seed=3).losses
    order = torch.randperm(8, generator=torch.Generator().manual_seed(3))
    optimiser, found = torch.optim.SGD(own.parameters(), lr=0.5, momentum=0.9), []
    for index in order.split(4):
        x_BCHW, labels_B = images.at(index)
        loss = torch.nn.functional.cross_entropy(own(x_BCHW), labels_B)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        found.append(loss.item())
    assert losses == pytest.approx([sum(found) / 2])
    assert all(one.equal(other) for one, other in zip(model.parameters(), own.parameters(), strict=True))


def test_a_run_in_two_parts_is_the_run_in_one():
    images, whole, parts = some(), network(), network()
    rate = lambda epoch: 0.5 / (1 + epoch)  # noqa: E731
    losses = run(images, whole, rate=rate).losses
    first = run(images, parts, rate=rate, epochs=2)
    second = run(images, parts, first.optimiser, rate=rate, first=2)
    assert first.losses + second.losses == losses
    assert all(one.equal(other) for one, other in zip(whole.parameters(), parts.parameters(), strict=True))


def test_the_rate_is_asked_before_every_step_and_each_call_comes():
    rates, steps, epochs, images, model = [], [], [], some(10), network()
    run(
        images,
        model,
        epochs=2,
        rate=lambda epoch: rates.append(epoch) or 0.1,
        at_step=lambda done, of: steps.append((done, of.training)),
        at_epoch=lambda done, of: epochs.append((done, of.training)),
    )
    assert rates == [0, 0.5, 1, 1.5]  # ten images are two batches of four, and two wait
    assert steps == [(one, True) for one in (1, 2, 3, 4)] and epochs == [(1, False), (2, False)]


def test_what_changes_a_batch_is_trained_on_and_leaves_the_order_alone():
    images, seen = some(), []
    none = lambda model, x_BCHW, labels_B, drawn: seen.append(torch.rand(1, generator=drawn)) or (x_BCHW, labels_B)  # noqa: E731
    plain, changed, other = network(), network(), network()
    run(images, plain)
    run(images, changed, change=none)
    run(images, other, change=lambda model, x_BCHW, labels_B, drawn: (1 - x_BCHW, labels_B))
    weights = [one[1].weight for one in (plain, changed, other)]
    assert weights[0].equal(weights[1]) and not weights[0].equal(weights[2]) and len(seen) == 12


def test_a_penalty_counts():
    images, plain, held = some(), network(), network()
    without = run(images, plain).losses[0]
    assert run(images, held, penalty=lambda model: model[1].weight.square().sum()).losses[0] > without
    assert held[1].weight.norm() < plain[1].weight.norm()


@pytest.mark.parametrize("batch", [0, 13])
def test_a_batch_that_no_set_has_is_refused(batch):
    with pytest.raises(ValueError, match="between 1 and 12"):
        run(some(), network(), batch=batch)


def test_a_loss_that_is_not_finite_is_told():
    with pytest.raises(FloatingPointError, match="lower the rate"):
        run(some(), network(), epochs=3, rate=lambda epoch: float("inf"))
