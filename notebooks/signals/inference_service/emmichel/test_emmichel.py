"""The network: its size, its outputs, what it learns, and the file that servers load."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from lartpc import PROTODUNE, Detector, draw_primaries, simulate
from reconstruction import (
    deconvolve,
    hit_truth,
    kinds_of,
    prepare,
    quality,
    remove_shared_noise,
)
from reconstruction.waveforms import find_hits

from . import training
from .network import EmMichelTrack, full_size, infer, parameters, save_onnx
from .rehearsed_inference_service import PATCHES
from .training import NONE, Examples, load_network, loss_of, train


def test_the_published_network_has_11_900_420_parameters():
    with torch.device("meta"):
        network = EmMichelTrack()
    by_hand = 48 * 25 + 48 + 48 * 44 * 44 * 128 + 128 + 128 * 32 + 32 + 32 * 3 + 3 + 32 + 1
    assert parameters(network) == by_hand == 11_900_420


PLACES = {3: Detector(), 20: Detector(assemblies=3), max(PATCHES): PROTODUNE}


@pytest.mark.parametrize("tracks", PATCHES)
def test_an_event_of_each_tier_has_the_patches_that_are_predicted(tracks):
    """Of the event that the page draws there, a patch for each hit; the article has 55,000."""
    place, rng = PLACES[tracks], np.random.default_rng(0)
    drawn = draw_primaries(place, rng, muons=tracks, stopping=tracks, showers=2)
    waves = simulate(drawn, place, rng).waves
    quiet = [deconvolve(remove_shared_noise(wave), at % 3) for at, wave in enumerate(waves)]
    patches = sum(len(find_hits(charge).wire) for charge in quiet)
    assert patches == pytest.approx(PATCHES[tracks], rel=0.005)  # of sums in another order
    if place is PROTODUNE:
        assert len(waves) == 18 and patches == pytest.approx(55_000, rel=0.05)


def test_outputs_are_probabilities_of_any_number_of_patches():
    network = EmMichelTrack(filters=2, pool=4)
    for count in (0, 1, 5):
        three, one = infer(network, torch.randn(count, 48, 48), batch=2)
        assert three.shape == (count, 3) and one.shape == (count, 1)
        np.testing.assert_allclose(three.sum(1), 1, rtol=1e-5)
    assert network.training  # as it was


def test_the_large_network_computes_what_the_small_one_does():
    torch.manual_seed(0)
    small = EmMichelTrack(filters=3, pool=2)
    large = full_size(small, filters=6)
    patches = torch.randn(7, 48, 48)
    for got, want in zip(infer(large, patches), infer(small, patches), strict=True):
        np.testing.assert_allclose(got, want, atol=1e-6)  # sums in another order
    with pytest.raises(ValueError, match="must divide"):
        full_size(small, filters=7)


@pytest.mark.parametrize("shape", [(2, 48, 44), (48, 48), (1, 1, 48, 48)])
def test_patches_of_another_shape_are_refused(shape):
    with pytest.raises(ValueError, match="are needed"):
        EmMichelTrack(filters=2, pool=4)(torch.zeros(shape))


def test_the_loss_is_the_published_one():
    network = EmMichelTrack(filters=2, pool=4).eval()
    patches, kinds = torch.randn(4, 48, 48), torch.tensor([0, 1, 2, NONE])
    three, one = network(patches)
    wanted = torch.nn.functional.cross_entropy(three, torch.tensor([0, 1, 1, 2])) * 0.1
    wanted += ((one.sigmoid()[:, 0] - torch.tensor([0.0, 0, 1, 0])) ** 2).mean()
    torch.testing.assert_close(loss_of(network, patches, kinds), wanted)


def test_of_each_kind_a_share_is_learned_from_and_empty_patches_are_none(monkeypatch):
    truth, asked = np.repeat([0, 1, 2, -1], 400), []
    patches = torch.arange(1600.0)[:, None, None].expand(1600, 48, 48)

    def drawn(place, rng, **counts):
        asked.append((rng.random(), counts))

    monkeypatch.setattr(training, "draw_primaries", drawn)
    monkeypatch.setattr(training, "simulate", lambda *_: SimpleNamespace(truth=[truth]))
    monkeypatch.setattr(training, "prepare", lambda _: (None, [None], patches))
    monkeypatch.setattr(training, "hit_truth", lambda _, one: one)
    seen = training.examples(1, seed=7, muons=5)
    assert asked == [(np.random.default_rng(7).random(), {"muons": 5})]
    empty = seen.patches[:, 0, 0] != seen.patches[:, 0, 1]  # noise; a hit's patch is flat here
    own = seen.patches[~empty][:, 0, 0].long() // 400
    assert torch.equal(seen.kinds[~empty], own)  # each patch has its own hit's kind
    shares = torch.bincount(own, minlength=4) / 400
    np.testing.assert_allclose(shares, [0.3, 0.5, 1, 1], atol=0.08)
    assert (seen.kinds[empty] == NONE).all() and empty.sum() == int(0.05 * len(own))


class Descent:
    """Adam without its memory. Making one of torch's optimizers imports a compiler: seconds."""

    def __init__(self, weights, rate):
        self.weights, self.rate = list(weights), rate

    def zero_grad(self):
        for weight in self.weights:
            weight.grad = None

    def step(self):
        for weight in self.weights:
            weight.data -= self.rate * weight.grad.sign()


def test_it_learns_lines_from_blobs(monkeypatch):
    monkeypatch.setattr(torch.optim, "Adam", Descent)
    seeded = torch.Generator().manual_seed(0)
    patches = 0.05 * torch.randn(64, 48, 48, generator=seeded)
    patches[:32, 24, :] += 1  # a track
    patches[32:, 18:30, 18:30] += torch.rand(32, 12, 12, generator=seeded)  # a shower
    kinds = torch.arange(64) // 32
    torch.manual_seed(0)
    network = EmMichelTrack(filters=2, pool=4)
    seen = Examples(patches, kinds)
    losses = [train(network, seen, 3e-3, batch=8, seed=epoch) for epoch in range(8)]
    assert losses[-1] < 0.8 * losses[0]
    three, _ = infer(network, patches)
    assert (three[:, :2].argmax(1) == kinds.numpy()).mean() > 0.9
    with pytest.raises(ValueError, match="no examples"):
        train(network, Examples(patches[:0], kinds[:0]), 1e-3)


def test_the_file_computes_what_the_network_does(tmp_path):
    from service.onnx_model import OnnxModel

    network = EmMichelTrack(filters=2, pool=4)
    model = OnnxModel(save_onnx(network, tmp_path / "small.onnx"))
    patches = torch.randn(5, 48, 48)
    got = model({"patches": patches.numpy()})
    for name, want in zip(model.outputs, infer(network, patches), strict=True):
        np.testing.assert_allclose(got[name], want, atol=1e-6)


CROSSING = ("muon", 4000.0, (20, 44, 20), (0.4, -0.8, 0.5))
SHOWER = ("electron", 400.0, (30, 20, 8), (0, 0.1, 1))


@pytest.mark.parametrize(
    "primaries, least",
    [
        ([CROSSING], {"track": 0.8}),  # of the muon's own hits; its delta rays are showers
        (
            [CROSSING, SHOWER],
            {"track": 0.55, "shower": 0.75},
        ),  # some hits are both
    ],
)
def test_the_shipped_weights_know_tracks_from_showers(primaries, least):
    small, found = load_network(large=False), []
    place = Detector(wires=96, height_cm=45, drift_cm=60)
    for seed in range(3):  # events that it has not seen
        event = simulate(primaries, place, np.random.default_rng(seed))
        _, hits, patches = prepare(event)
        true = np.concatenate(list(map(hit_truth, hits, event.truth)))
        found.append((kinds_of(*infer(small, patches)), true))
    rows = quality(*(np.concatenate(one) for one in zip(*found, strict=True)))
    for kind, share in least.items():
        assert rows[kind][0] > share, kind


def test_the_shipped_weights_say_how_they_were_made():
    large, small = load_network(), load_network(large=False)
    assert parameters(large) == 11_900_420 and not large.training
    for kind in ("track", "shower"):
        efficiency, purity, hits = small.notes["efficiency, purity, hits"][kind]
        assert min(efficiency, purity) > 0.75 and hits > 500
