"""The map and its loss, augmentation, tiles: known answers, invariants, refused inputs."""

import numpy as np
import pytest
import torch

import cell_detector as cd

from . import augment, network, tiling, training
from .bench_tiling import record, rows_of

BOXES = torch.tensor([[16.0, 24.0, 56.0, 48.0], [80.0, 10.0, 92.0, 22.0]])
LABELS = torch.tensor([0, 2])


def test_what_the_map_should_say_is_decoded_to_the_same_boxes():
    heat, sides, weight = network.targets([BOXES], [LABELS], 3, (12, 16))
    (found,) = network.decode((heat * 20 - 10), sides, floor=0.9)
    order = found.boxes[:, 0].argsort()
    torch.testing.assert_close(found.boxes[order], BOXES)
    assert found.labels[order].tolist() == [0, 2]
    assert weight.max() == 1 and (heat == 1).sum() == 2


def test_a_box_without_area_and_no_box_teach_nothing():
    flat = torch.tensor([[5.0, 5.0, 5.0, 9.0]])
    for boxes, labels in (
        (flat, torch.tensor([0])),
        (torch.zeros(0, 4), torch.zeros(0, dtype=torch.long)),
    ):
        heat, sides, weight = network.targets([boxes], [labels], 3, (4, 4))
        assert not heat.any() and not sides.any() and not weight.any()


def test_of_two_objects_in_a_place_the_smaller_gives_its_sides():
    both = torch.tensor([[0.0, 0.0, 64.0, 64.0], [28.0, 28.0, 40.0, 40.0]])
    _, sides, _ = network.targets([both], [torch.tensor([0, 0])], 1, (8, 8))
    assert sides[0, :, 4, 4].tolist() == [8, 8, 4, 4]


def test_the_loss_is_least_for_the_truth():
    wanted = network.targets([BOXES], [LABELS], 3, (12, 16))
    right = network.loss_of(wanted[0] * 20 - 10, wanted[1].clamp(min=0.5), wanted)
    wrong = network.loss_of(wanted[0] * 20 - 10, wanted[1].clamp(min=0.5) + 5, wanted)
    blind = network.loss_of(torch.full_like(wanted[0], -10.0), wanted[1].clamp(min=0.5), wanted)
    assert right < wrong and right < blind


def test_a_few_steps_on_one_photo_lower_the_loss_and_a_seed_repeats_them():
    photo = torch.full((3, 150, 200), 230, dtype=torch.uint8)
    photo[:, 40:80, 50:90] = 90
    one = training.Sample(photo, torch.tensor([[50.0, 40.0, 90.0, 80.0]]), torch.tensor([0]))
    runs = []
    for _ in range(2):
        losses = []
        training.train(
            [one] * 4,
            training.Settings(epochs=6, batch=2, width=4),
            told=lambda _, x, to=losses: to.append(x),
        )
        runs.append(losses)
    assert runs[0][-1] < runs[0][0] and runs[0] == runs[1]


def test_scaling_moves_boxes_with_the_pixels_and_unknown_labels_go():
    made = training.sample(
        np.zeros((60, 80, 3), np.uint8), [[8, 6, 40, 30], [0, 0, 9, 9]], ["RBC", "fly"], side=40
    )
    assert made.pixels.shape == (3, 30, 40) and made.boxes.tolist() == [[4, 3, 20, 15]]
    assert made.scale == 0.5 and made.labels.tolist() == [0]


def test_a_decompression_bomb_is_never_decoded(tmp_path, monkeypatch):
    from PIL import Image

    Image.new("1", (2000, 1000)).save(tmp_path / "a.png")
    assert cd.pixels(tmp_path / "a.png").shape == (1000, 2000, 3)
    monkeypatch.setattr("annotations.records.MOST_PIXELS", 1_000_000)
    monkeypatch.setattr(Image.Image, "load", lambda *_: pytest.fail("it was decoded"))
    with pytest.raises(ValueError, match="2000 × 1000"):
        cd.pixels(tmp_path / "a.png")


@pytest.mark.parametrize(
    ("flip", "turn"),
    [(False, 0), (True, 0), (False, 90), (True, 90), (False, 180), (True, 270)],
)
@pytest.mark.parametrize("scale", [1, 2])
def test_boxes_and_masks_move_with_the_photo(flip, turn, scale):
    picture = torch.zeros(1, 20, 30)
    picture[0, 4:9, 6:16] = 1
    moved = augment.matrix((30, 20), flip, turn, scale)
    size = augment.turned_size((30, 20), turn, scale)
    made = augment.pixels(picture, moved, size, "nearest")[0]
    outline = [np.array([[6, 4], [16, 4], [16, 9], [6, 9]])]
    rows, columns = made.nonzero(as_tuple=True)
    seen = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
    for found in (
        augment.boxes([[6, 4, 16, 9]], moved),
        augment.boxes([[0, 0, 1, 1]], moved, [outline]),
    ):
        torch.testing.assert_close(
            found[0], torch.tensor([float(one) for one in seen], dtype=torch.float64)
        )
    assert made.sum() == 50 * scale**2


def test_a_crop_cuts_boxes_and_drops_those_that_are_mostly_outside():
    moved = augment.matrix((100, 100), crop=(10, 0))
    cut, kept = augment.clipped(
        augment.boxes([[0, 0, 40, 10], [0, 0, 11, 10]], moved), (50, 50)
    )
    assert cut[0].tolist() == [0, 0, 30, 10] and kept.tolist() == [True, False]


def test_a_box_turned_askew_is_tighter_from_its_outline():
    moved = augment.matrix((100, 100), turn=45)
    disc = np.stack(
        [
            50 + 20 * np.cos(np.linspace(0, 6.28, 60)),
            50 + 20 * np.sin(np.linspace(0, 6.28, 60)),
        ],
        1,
    )
    tight, loose = (
        augment.boxes([[30, 30, 70, 70]], moved, shapes) for shapes in ([[disc]], None)
    )
    assert (tight[0, 2] - tight[0, 0]) == pytest.approx(40, abs=0.3)
    assert (loose[0, 2] - loose[0, 0]) == pytest.approx(40 * 2**0.5)


@pytest.mark.parametrize("size", [(192, 144), (500, 300), (193, 145), (100, 80)])
def test_tiles_cover_the_photo_and_are_of_full_size(size):
    tile, seen = (192, 144), np.zeros(size, bool)
    for x0, y0, x1, y1 in tiling.slices(size, tile):
        seen[x0:x1, y0:y1] = True
        assert (x1 - x0, y1 - y0) == tuple(map(min, tile, size))
    assert seen.all()


@pytest.mark.parametrize("given", [((0, 9), (4, 4), 0.2), ((9, 9), (4, 4), 1.0)])
def test_tiles_that_never_end_are_refused(given):
    with pytest.raises(ValueError, match="allowed"):
        tiling.slices(*given)


def test_a_part_goes_by_the_smaller_and_stays_by_the_union():
    boxes = torch.tensor(
        [[0.0, 0.0, 30.0, 30.0], [0.0, 0.0, 10.0, 30.0], [50.0, 50.0, 60.0, 60.0]]
    )
    scores, labels = torch.tensor([0.9, 0.5, 0.7]), torch.tensor([0, 0, 0])
    assert tiling.merge(boxes, scores, labels).scores.tolist() == pytest.approx([0.9, 0.7])
    assert len(tiling.merge(boxes, scores, labels, by="union").boxes) == 3
    assert len(tiling.merge(boxes, scores, torch.tensor([0, 1, 0])).boxes) == 3, (
        "of another class"
    )
    with pytest.raises(ValueError, match="union"):
        tiling.merge(boxes, scores, labels, by="area")


@pytest.mark.parametrize("by", ["smaller", "union"])
def test_what_a_sweep_merges_is_what_all_pairs_merge(by):
    torch.manual_seed(3)
    corner = torch.rand(300, 2) * 90
    boxes = torch.cat(
        [corner, corner + torch.rand(300, 2) * 20], 1
    ).round()  # some without area
    scores, labels = torch.rand(300).mul(20).round() / 20, torch.randint(0, 2, (300,))
    found = tiling.merge(boxes, scores, labels, by=by)
    rank = [(-scores[at].item(), *boxes[at].tolist(), at) for at in range(300)]
    clash = (cd.network.iou(boxes, boxes, by) >= 0.5) & (labels[:, None] == labels)
    kept = []
    for *_, at in sorted(rank):
        if not any(clash[at, one] for one in kept):
            kept.append(at)
    assert 20 < len(kept) < 290
    assert found.scores.tolist() == scores[kept].tolist()
    assert found.boxes.tolist() == boxes[kept].tolist()
    with pytest.raises(ValueError, match="overlap 0"):
        tiling.merge(boxes, scores, labels, 0.0)


def test_a_photo_of_one_tile_is_answered_as_it_is_whole():
    torch.manual_seed(0)
    net = cd.Detector(width=4).eval()
    torch.nn.init.normal_(net.heat.weight, std=2.0)
    torch.nn.init.zeros_(net.heat.bias)
    one = training.Sample(
        (torch.rand(3, 144, 192) * 255).byte(),
        torch.zeros(0, 4),
        torch.zeros(0, dtype=torch.long),
    )
    (whole,) = training.detect(net, [one])
    tiled = tiling.tiled(net, one, 192)
    assert len(tiled.boxes) and set(tiled.scores.tolist()) <= set(whole.scores.tolist())


def test_the_race_s_ratio_is_above_one_where_ours_is_sooner():
    from helpers import bench, receipts

    def took(seconds):
        return bench.Measurement(*[seconds] * 3, (seconds,) * 6, None, "cpu")

    results = {"ours": took(0.5), "whole photo": took(1.0), "sahi": took(2.0)}
    ratios = {name: bench.ratio(results["sahi"], one) for name, one in results.items()}
    receipt = receipts.start("custom_detection", "cpu", 1)
    record(receipt, bench.Race(results, ratios, "sahi"), 0.0, 7)
    told = {name: one["value"] for name, one in receipt.metrics.items()}
    assert told["tiling_speedup"] == 4 and told["tiling_speedup_whole"] == 2


def test_each_is_raced_with_its_own_quickest_batch(monkeypatch):
    import time

    from .bench_tiling import quickest

    clock = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])

    def slow(batch):
        clock[0] += 1 + abs(batch - 4)

    assert quickest(slow) == 4


def test_batches_and_tiles_give_the_same_boxes():
    torch.manual_seed(0)
    net = cd.Detector(width=4).eval()
    torch.nn.init.normal_(net.heat.weight, std=2.0)
    photo = (torch.rand(3, 300, 400) * 255).byte()
    one = training.Sample(photo, torch.zeros(0, 4), torch.zeros(0, dtype=torch.long))
    alone, many = (tiling.tiled(net, one, 192, batch=size) for size in (1, 32))
    torch.testing.assert_close(alone.boxes, many.boxes, atol=1e-3, rtol=0)


def test_rows_are_equal_whatever_the_order():
    one = rows_of([[0, 0, 1, 1], [2, 2, 3, 3]], [0.5, 0.6], [0, 1])
    other = rows_of([[2, 2, 3, 3], [0, 0, 1, 1]], [0.6, 0.5], [1, 0])
    np.testing.assert_array_equal(one, other)


def test_ours_finds_sahi_s_boxes():
    pytest.importorskip("sahi")
    from .bench_tiling import FLOOR, TILE, WEIGHTS, mosaic, peer

    net, sample = cd.opened(WEIGHTS), mosaic(2)
    own = rows_of(*(one.numpy() for one in tiling.tiled(net, sample, TILE[0], floor=FLOOR)))
    np.testing.assert_allclose(own, rows_of(*zip(*peer(net, sample)(), strict=True)), atol=1e-3)


def test_a_peer_that_waits_makes_ours_sooner_in_the_race(monkeypatch, tmp_path):
    import json
    import time

    from . import bench_tiling

    photo = training.Sample(
        torch.zeros(3, 300, 400, dtype=torch.uint8),
        torch.zeros(0, 4),
        torch.zeros(0, dtype=torch.long),
    )

    def peer(net, sample):
        def run(batch=8):
            time.sleep(1.0)
            found = tiling.tiled(net, sample, training.SIDE, floor=bench_tiling.FLOOR)
            return list(zip(*(one.tolist() for one in found), strict=True))

        return run

    monkeypatch.setenv("REBUILT_RECEIPTS", str(tmp_path))
    monkeypatch.setattr(bench_tiling, "mosaic", lambda grid: photo)
    monkeypatch.setattr(bench_tiling, "peer", peer)
    monkeypatch.setattr(bench_tiling, "BATCHES", (8,))
    bench_tiling.main(["--rounds", "3", "--threads", "1", "--grid", "1"])
    (path,) = tmp_path.glob("*.json")
    told = json.loads(path.read_text())["metrics"]
    assert told["tiling_speedup"]["value"] > 1.5
    assert told["tiling_seconds_sahi"]["value"] > 1 > told["tiling_seconds_ours"]["value"]


@pytest.mark.parametrize("kind", ["blurred", "squeezed"])
def test_half_of_the_crops_are_worn_where_the_settings_say_so_and_none_else(kind):
    photo = torch.rand(3, 32, 32, generator=torch.Generator().manual_seed(0))
    for settings in (training.Settings(colour=0, **{kind: True}), training.Settings(colour=0)):
        generator = torch.Generator().manual_seed(0)
        made = [training.disturbed(photo, settings, generator) for _ in range(40)]
        worn = sum(float((one - photo).abs().mean()) > 0.02 for one in made)
        assert 10 < worn < 30 if getattr(settings, kind) else worn == 0


def test_the_shipped_network_learns_from_the_training_split_alone(monkeypatch, tmp_path):
    from . import train_detector

    asked = []
    monkeypatch.setattr(
        train_detector, "splits", lambda: {"train": [1], "val": [2], "test": [3]}
    )
    monkeypatch.setattr(train_detector.loading, "samples", lambda own: own)
    monkeypatch.setattr(
        train_detector.training, "train", lambda own, *_, **__: asked.append(own)
    )
    with pytest.raises(AttributeError):  # what was trained here is nothing
        train_detector.main(["--into", str(tmp_path)])
    assert asked == [[1]]
