"""Gates see what they are named for, and forget what stays."""

import numpy as np
import pytest
import torch
from frame_gates import (
    GATES,
    PERSON,
    SQUARE,
    WARM,
    Background,
    Stream,
    _fullest,
    background,
    difference,
    every,
    person,
    turns,
)


def scene(length=60, cameras=1, seed=0):
    rng = torch.Generator().manual_seed(seed)
    return 120 + 5 * torch.randn((cameras, length, 48, 64), generator=rng)


def with_box(rows, columns, at=40, grey=50.0):
    frames = scene()
    frames[0, at:, 20 : 20 + rows, 30 : 30 + columns] += grey
    return frames


def test_a_still_scene_is_void_for_all_that_look():
    frames = scene()
    for gate in (background, person):
        assert float(gate(frames)[:, WARM:].max()) < 0.5
    assert float(difference(frames)[:, 1:].std()) < 0.2


@pytest.mark.parametrize(
    ("rows", "columns", "seen"), [(16, 6, True), (9, 4, True), (5, 11, False)]
)
def test_tall_shapes_are_persons_and_low_ones_are_not(rows, columns, seen):
    score = float(person(with_box(rows, columns))[0, 40])
    assert (score > 0.8) == seen
    assert float(background(with_box(rows, columns))[0, 40]) > 0.6


def test_a_small_thing_alone_is_seen_by_background_only():
    frames = with_box(6, 6)
    assert float(background(frames)[0, 40]) > 0.9 and float(person(frames)[0, 40]) < 0.8


def test_what_stays_becomes_background():
    frames = scene(600)
    frames[0, 40:, 20:26, 30:36] += 40
    score = background(frames)[0]
    assert score[41] > 0.9 and score[-1] < 0.5


def test_who_stands_still_is_seen_for_a_while():
    frames = scene(180)
    frames[0, 40:, 20:36, 30:36] += 50
    assert float(person(frames)[0, 160]) > 0.8


def test_a_cloud_is_no_event():
    frames = scene() + torch.linspace(0, 40, 60)[None, :, None, None]
    assert (
        float(background(frames).max()) < 0.5 and float(difference(frames)[0, 1:].std()) < 0.2
    )


def test_cameras_do_not_see_one_another():
    both = torch.cat([with_box(16, 6), scene(seed=1)])
    for name, gate in GATES.items():
        alone = torch.cat([gate(both[:1]), gate(both[1:])])
        assert torch.allclose(gate(both), alone, atol=1e-5), name


def test_a_score_is_that_of_the_frames_so_far_and_of_none_that_follow():
    frames = with_box(16, 6)
    other = frames.clone()
    other[:, 45:] = 200 - other[:, 45:]
    for gate in (background, person, difference):
        assert torch.equal(gate(frames)[:, :45], gate(other)[:, :45])


def test_the_gate_is_the_share_of_pixels_far_from_the_mean_so_far():
    frames = with_box(16, 6)
    model = Background(frames[:, :WARM].mean(1))
    moved = torch.stack([model.update(one) for one in frames.unbind(1)], 1).float()
    want = torch.nn.functional.avg_pool2d(moved, SQUARE[0], stride=1).flatten(2).amax(2)
    want[:, :WARM] = 0
    assert torch.allclose(background(frames), want, atol=1e-6)


def test_a_camera_that_changes_its_size_or_sends_no_numbers_is_refused():
    gate = Stream(SQUARE)
    for at in range(WARM + 2):
        gate.score(scene()[:, at])
    kept = gate.model.mean.clone()
    blind = scene()[:, 20].clone()
    blind[0, 3, 3] = float("nan")
    for bad in (blind, scene()[:, 20, :1], scene(cameras=2)[:, 20], scene()[0, 20]):
        with pytest.raises(ValueError, match=r"allowed|no number"):
            gate.score(bad)
    assert torch.equal(gate.model.mean, kept)


def test_bytes_and_floats_give_the_same():
    frames = with_box(16, 6).clamp(0, 255).to(torch.uint8)
    assert torch.equal(background(frames), background(frames.double()))


@pytest.mark.parametrize("box", [(1, 1), *SQUARE, *PERSON])
def test_the_fullest_box_is_what_trying_all_finds(box):
    mask = torch.rand((3, 17, 19), generator=torch.Generator().manual_seed(3)) < 0.3
    want = torch.nn.functional.avg_pool2d(mask.float(), box, stride=1).flatten(1).amax(1)
    assert torch.allclose(_fullest(mask, box), want, atol=1e-6)


@pytest.mark.parametrize("length", [1, 2, 37, 240])
def test_turns_lie_evenly_whatever_the_limit(length):
    order = turns(length)
    assert order.unique().numel() == length
    for count in (n for n in (2, 8, 16) if n <= length // 4):
        chosen = np.sort(order.argsort(descending=True)[:count].numpy())
        gaps = np.diff(np.r_[0, chosen, length])
        assert gaps.max() <= 3 * length / count


def test_every_looks_at_nothing():
    assert torch.equal(every(scene()), every(scene(seed=5)))


@pytest.mark.parametrize("shape", [(1, WARM, 8, 8), (20, 8, 8)])
def test_too_few_frames_are_refused(shape):
    with pytest.raises(ValueError, match="are allowed"):
        person(torch.zeros(shape))
