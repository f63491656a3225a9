"""COCO's score: closed answers, the reference's numbers, refused inputs; equal to
pycocotools where it is installed.
"""

from types import SimpleNamespace

import numpy as np
import pytest

import average_precision

from .bench_average_precision import KINDS, hostile, peer, record, scene


def truth(boxes, labels=None, **more):
    return SimpleNamespace(boxes=boxes, labels=labels or ["a"] * len(boxes), **more)


def seen(boxes, scores, labels=None, **more):
    return SimpleNamespace(
        boxes=boxes, scores=scores, labels=labels or ["a"] * len(boxes), **more
    )


BOX, OTHER = [0, 0, 40, 40], [100, 100, 140, 140]


def test_what_is_right_has_one():
    found = average_precision.evaluate([truth([BOX, OTHER])], [seen([OTHER, BOX], [0.9, 0.2])])
    assert (
        found["AP"] == pytest.approx(1) and found["AR100"] == 1 and float(found) == found["AP"]
    )
    assert (
        found["AR1"] == 0.5 and found["APs"] == -1 and found.by_class == {"a": pytest.approx(1)}
    )


def test_a_duplicate_counts_against_and_half_an_overlap_for_one_threshold():
    better = average_precision.evaluate(
        [truth([BOX, OTHER])], [seen([BOX, BOX, OTHER], [0.9, 0.8, 0.7])]
    )
    # precision is 1 up to a recall of one half (51 of 101), then 2/3
    assert better["AP"] == pytest.approx((51 + 50 * 2 / 3) / 101)
    half = average_precision.evaluate([truth([BOX])], [seen([[0, 0, 40, 21]], [0.9])])
    assert half["AP50"] == pytest.approx(1) and half["AP"] == pytest.approx(0.1)


def test_a_wrong_name_is_no_hit_and_an_empty_photo_hurts_only_by_false_ones():
    assert average_precision.evaluate([truth([BOX])], [seen([BOX], [0.9], ["b"])])["AP"] == 0
    none = [truth([]), truth([BOX])]
    assert average_precision.evaluate(none, [seen([], []), seen([BOX], [0.5])])[
        "AP"
    ] == pytest.approx(1)
    found = average_precision.evaluate(none, [seen([BOX], [0.9]), seen([BOX], [0.5])])
    assert found["AP"] == pytest.approx(0.5)


def test_dicts_and_numbers_as_labels_do():
    own = {"boxes": np.array([BOX]), "labels": np.array([3])}
    found = {"boxes": np.array([BOX]), "labels": np.array([3]), "scores": np.array([0.5])}
    assert average_precision.evaluate([own], [found])["AP"] == pytest.approx(1)


def test_masks_decide_where_they_are_asked_for():
    mask = np.zeros((1, 50, 50), bool)
    mask[0, :20, :20] = True
    own, found = truth([BOX], masks=mask), seen([BOX], [0.9], masks=np.roll(mask, 25, 1))
    assert average_precision.evaluate([own], [found])["AP"] == pytest.approx(1)
    assert average_precision.evaluate([own], [found], masks=True)["AP"] == 0


def test_an_object_is_as_large_as_its_stated_area_and_else_as_its_box():
    own = truth([BOX, OTHER], areas=[100.0, np.nan])
    found = average_precision.evaluate([own], [seen([BOX], [0.9])])
    assert found["APs"] == pytest.approx(1) and found["APm"] == 0 and found["APl"] == -1


def test_crowds_are_matched_again_and_again_and_never_missed():
    own = truth([[0, 0, 100, 100]], crowd=[True])
    inside = seen([BOX, [50, 50, 90, 90], [0, 0, 9, 9]], [0.9, 0.8, 0.7])
    whole = [truth([BOX]), own], [seen([BOX], [0.5]), inside]
    assert average_precision.evaluate(*whole)["AP"] == pytest.approx(1)
    assert average_precision.evaluate([own], [inside])["AP"] == -1


def test_outlines_of_the_truth_become_masks():
    corners = np.array([[0, 0], [20, 0], [20, 20], [0, 20]])
    mask = average_precision.polygon_mask(corners, (50, 40))
    assert mask.shape == (40, 50) and mask.sum() == 400
    own = truth([[0, 0, 20, 20]], shapes=[[corners]], size=(50, 40))
    assert average_precision.evaluate(
        [own], [seen([BOX], [0.9], masks=mask[None])], masks=True
    )["AP"] == pytest.approx(1)


def test_run_lengths_go_there_and_back():
    mask = np.random.default_rng(0).random((7, 11)) < 0.4
    told = average_precision.run_lengths(mask)
    np.testing.assert_array_equal(average_precision.mask_of(told, (11, 7)), mask)
    # the letters are what COCO's own tool writes for these counts
    packed = {"size": [3, 4], "counts": "2420"}
    expected = [2, 4, 2, 4]
    np.testing.assert_array_equal(
        average_precision.mask_of(packed, (4, 3)),
        average_precision.mask_of({"size": [3, 4], "counts": expected}, (4, 3)),
    )


@pytest.mark.parametrize(
    ("own", "found", "said"),
    [
        ([truth([BOX])], [], "1 photos and 0"),
        ([truth([BOX])], [seen([BOX], [0.1, 0.2])], "scores"),
        ([truth([BOX])], [seen([BOX], [np.nan])], "not finite"),
        ([truth([BOX], ["a", "b"])], [seen([], [])], "labels"),
        ([truth([[0, 0, np.inf, 1]])], [seen([], [])], "not finite"),
        ([truth([BOX], areas=[1, 2])], [seen([], [])], "areas"),
    ],
)
def test_what_contradicts_itself_is_refused(own, found, said):
    with pytest.raises(ValueError, match=said):
        average_precision.evaluate(own, found)


@pytest.mark.parametrize("counts", ["!", "0000", [1, 2], [-1, 13]])
def test_broken_run_lengths_are_refused(counts):
    with pytest.raises(ValueError, match="run lengths"):
        average_precision.mask_of({"size": [3, 4], "counts": counts}, (4, 3))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_equal_to_pycocotools(kind, seed):
    pytest.importorskip("pycocotools")
    own, found = hostile(scene(20, seed), kind)
    numbers = [*average_precision.evaluate(own, found, masks=kind == "masks").values()]
    theirs = peer(own, found, masks=kind == "masks")(summary=True)
    np.testing.assert_allclose(numbers, theirs, atol=1e-12)


def test_what_is_hostile_has_crowds_ties_flat_boxes_stated_areas_and_masks():
    own, found = hostile(scene(6), "masks")
    assert any(one.crowd.any() for one in own) and any((one.areas > 0).any() for one in own)
    assert any(len(set(one.scores)) < len(one.scores) for one in found)
    flat = (one.boxes[:, 2] == one.boxes[:, 0] for one in found)
    assert any(one.any() for one in flat) and all(len(one.masks) for one in own)


def test_a_polygon_of_no_points_is_no_pixel():
    assert not average_precision.polygon_mask(np.zeros((0, 2)), (4, 3)).any()


def test_the_reference_s_numbers_on_a_fixed_scene():
    # what pycocotools 2.0.11 gives for `scene(12, seed=5)`
    own, found = scene(12, seed=5)
    numbers = [*average_precision.evaluate(own, found).values()]
    np.testing.assert_allclose(numbers, PEER, atol=1e-9)


def test_the_race_s_ratio_is_above_one_where_ours_is_sooner():
    from helpers import bench, receipts

    def took(seconds):
        return bench.Measurement(*[seconds] * 3, (seconds,) * 6, None, "cpu")

    results = {"ours": took(0.5), "pycocotools": took(2.0)}
    ratios = {name: bench.ratio(results["pycocotools"], one) for name, one in results.items()}
    receipt = receipts.start("custom_detection", "cpu", 1)
    record(receipt, bench.Race(results, ratios, "pycocotools"), 0.0)
    assert receipt.metrics["ap_speedup"]["value"] == 4


PEER = (
    0.30435876767820547,
    0.4441154302643752,
    0.4111062090451459,
    0.42588555051190935,
    0.20245819348784935,
    0.4113430834682485,
    0.10324447612259444,
    0.4527911617961511,
    0.5638736041815159,
    0.596328502415459,
    0.5629901960784313,
    0.5480237154150198,
)
