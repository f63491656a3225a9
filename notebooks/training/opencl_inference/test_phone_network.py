"""The proof: the networks have their shapes, and boxes are decoded and thinned right."""

import phone_network as pn
import pytest
import torch


def test_the_full_classifier_has_the_published_size():
    network = pn.Classifier()
    weights = sum(one.numel() for one in network.parameters())
    assert weights == 3_504_872  # MobileNet v2 at width 1, as torchvision counts it


@pytest.mark.parametrize("size", [64, 96])
def test_the_detector_answers_for_each_anchor(size):
    network = pn.Detector(0.1, classes=5).eval()
    with torch.no_grad():
        found = network(torch.rand(1, 3, size, size))
    assert found.shape == (pn.ANCHORS * ((size // 16) ** 2 + (size // 32) ** 2), 4 + 5)
    assert torch.allclose(found[:, 4:].sum(1), torch.ones(len(found)))


def test_zero_offsets_are_the_anchors():
    maps = [torch.zeros(1, pn.ANCHORS * n, 2, 3) for n in (4, 2)]
    found = pn.Decode()(*maps)
    assert torch.allclose(found[:, :4], pn.anchors_of(2, 3))
    assert torch.allclose(found[0, :2], torch.tensor([1 / 6, 1 / 4])), "x, then y"
    assert torch.allclose(found[pn.ANCHORS, :2], torch.tensor([3 / 6, 1 / 4])), "row by row"


def test_offsets_move_and_stretch_the_anchor_they_belong_to():
    offsets = torch.zeros(1, pn.ANCHORS * 4, 1, 1)
    offsets[0, 4:8, 0, 0] = torch.tensor([10.0, 0, 5.0, 0])  # of the second anchor
    found = pn.Decode()(offsets, torch.zeros(1, pn.ANCHORS * 2, 1, 1))[:, :4]
    anchors = pn.anchors_of(1, 1)
    assert torch.allclose(found[0], anchors[0])
    assert found[1, 0] == pytest.approx(float(anchors[1, 0] + anchors[1, 2]))
    assert found[1, 2] == pytest.approx(float(anchors[1, 2]) * 2.718282, rel=1e-5)


def rows(*boxes):
    """Rows of centre, size, background and one class."""
    return torch.tensor([[*box, 1 - score, score] for box, score in boxes])


def test_of_overlapping_boxes_the_likeliest_stays():
    found = rows(
        ((0.5, 0.5, 0.2, 0.2), 0.6), ((0.51, 0.5, 0.2, 0.2), 0.9), ((0.1, 0.1, 0.1, 0.1), 0.5)
    )
    assert [round(float(one[5]), 2) for one in pn.distinct(found)] == [0.9, 0.5]


def test_a_box_that_overlaps_half_stays_at_a_higher_limit():
    found = rows(((0.5, 0.5, 0.2, 0.2), 0.9), ((0.56, 0.5, 0.2, 0.2), 0.8))  # IoU 14/26
    assert len(pn.distinct(found)) == 1 and len(pn.distinct(found, overlap=0.55)) == 2


def test_unlikely_boxes_go_and_none_is_no_error():
    found = rows(((0.5, 0.5, 0.2, 0.2), 0.05))
    assert pn.distinct(found).shape == (0, 6)
    many = rows(*(((0.1 * at, 0.5, 0.01, 0.01), 0.5) for at in range(9)))
    assert len(pn.distinct(many, most=4)) == 4


def test_drawn_twice_is_the_same_and_activations_keep_their_size():
    one, other = (pn.drawn(pn.Classifier(0.1), 64, seed=3) for _ in range(2))
    image = torch.rand(1, 3, 64, 64)
    with torch.no_grad():
        assert torch.equal(one(image), other(image))
        assert 0.05 < float(one.features(image).std()) < 3
