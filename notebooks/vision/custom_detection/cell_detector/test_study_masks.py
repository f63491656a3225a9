"""The study of masks: who is learnt from, which pixels each rival gives, and equal boxes."""

import numpy as np
import pytest
import torch
from annotations import Photo
from helpers import receipts
from PIL import Image, ImageDraw
from press.study import hold, record

from . import network, training
from . import study_masks as study


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Eight photos of a dark disc each, and one that is missing."""
    folder, made = tmp_path_factory.mktemp("discs"), []
    for at in range(9):
        picture, (x, y, r) = Image.new("RGB", (192, 144), "white"), (60 + 8 * at, 70, 30)
        ImageDraw.Draw(picture).ellipse((x - r, y - r, x + r, y + r), fill="black")
        turn = np.linspace(0, 2 * np.pi, 48, endpoint=False)
        outline = np.stack([x + r * np.cos(turn), y + r * np.sin(turn)], 1)
        if at < 8:
            picture.save(folder / f"{at}.png")
        box = [x - r, y - r, x + r, y + r]
        made.append(Photo(folder / f"{at}.png", (192, 144), [box], ["object"], [[outline]]))
    return made


@pytest.fixture(scope="module")
def seen(photos):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study.data, "fetch", lambda name: name)
        patch.setattr(study.annotations, "read", lambda name: photos)
        yield hold(study.STUDY)


def test_what_is_learnt_from_is_not_the_test_and_what_is_missing_is_neither(seen):
    for seed in (1, 2):
        own, test = seen["trained", seed].job.train, seen["trained", seed].tests["test"]
        files = [{photo.file for photo in side} for side in (own, test)]
        assert len(files[0]) == 4 and len(files[1]) == 2 and not files[0] & files[1]
        assert all(one.is_file() for one in files[0] | files[1])


def test_the_rivals_fill_the_box_and_its_ellipse(photos):
    (one,) = study.loading.samples(photos[:1], classes=study.CLASSES)
    boxes = torch.from_numpy(photos[0].boxes)
    box, ellipse = (
        study.masks_of(kind, None, None, one, boxes)[0] for kind in ("box", "ellipse")
    )
    assert box.sum() == 60 * 60 and ellipse.sum() == pytest.approx(np.pi * 30**2, rel=0.01)
    wanted = study.average_precision.mask_of(photos[0].shapes[0], (192, 144))
    assert (ellipse & wanted).sum() / (ellipse | wanted).sum() > 0.95


def test_a_head_learns_dark_discs_and_says_nothing_outside_its_box(photos):
    torch.manual_seed(0)
    net = network.Detector(1, 8).eval()
    samples = study.loading.samples(photos[:6], classes=study.CLASSES)
    masks = [study.average_precision.mask_of(one.shapes[0], one.size) for one in photos[:6]]
    head = study.head_of(net, samples, masks, 25)
    found = study.masks_of("head", net, head, samples[0], torch.from_numpy(photos[0].boxes))[0]
    assert (found & masks[0]).sum() / (found | masks[0]).sum() > 0.8
    half = torch.from_numpy(photos[0].boxes) * torch.tensor([1, 1, 0.5, 1])
    part = study.masks_of("head", net, head, samples[0], half)[0]
    assert not part[:, 60:].any() and part.any()


def test_all_are_judged_on_the_same_boxes_at_the_network_s_size(monkeypatch, photos, seen):
    big = [one.moved(2).but(size=(384, 288)) for one in photos[:2]]
    monkeypatch.setattr(
        study.loading,
        "samples",
        lambda own, classes: [
            training.Sample(torch.zeros(3, 144, 192, dtype=torch.uint8), None, None, 0.5)
            for _ in own
        ],
    )
    found = network.Found(
        torch.tensor([[30.0, 40, 90, 100]]), torch.tensor([0.9]), torch.tensor([0])
    )
    monkeypatch.setattr(study.training, "detect", lambda net, samples: [found])
    told = {
        kind: study.judge((None, None), big[:1], seen[kind, 1].job)
        for kind in ("box", "ellipse")
    }
    assert told["box"]["ap_boxes"] == told["ellipse"]["ap_boxes"] == pytest.approx(1)
    assert told["ellipse"]["ap"] == pytest.approx(1) and told["box"]["ap"] < 0.7
    assert told["ellipse"]["overlap"] > 0.95 and told["box"]["overlap"] == pytest.approx(
        0.785, abs=0.02
    )


def test_what_is_recorded_points_the_right_way():
    value = {"trained": 0.0, "box": 0.7, "ellipse": 0.8, "head": 0.9}
    found = {
        name: {
            seed: {"test": {"ap": own, "ap_boxes": 0.5, "overlap": own}}
            for seed in study.STUDY.seeds
        }
        for name, own in value.items()
    }
    receipt = receipts.start("custom_detection", "cpu")
    record(study.STUDY, receipt, found)
    assert receipt.metrics["study_head_over_ellipse"]["value"] == pytest.approx(0.1)
    assert receipt.metrics["study_head_over_box"]["value"] == pytest.approx(0.2)
