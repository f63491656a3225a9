"""Each format read, every box kept, each problem told."""

import json
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

import annotations

VOC = (
    "<annotation><filename>{name}</filename><size><width>40</width><height>30</height></size>"
    "{objects}</annotation>"
)
BOX = (
    "<object><name>{}</name><bndbox><xmin>{}</xmin><ymin>{}</ymin><xmax>{}</xmax>"
    "<ymax>{}</ymax></bndbox></object>"
)


def photo(path, size=(40, 30)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, "white").save(path)
    return path


def kinds(dataset):
    return [one.kind for one in annotations.problems(dataset)]


def via(regions):
    return {"a": {"filename": "a.png", "regions": regions}}


POLYGON = {
    "shape_attributes": {
        "name": "polygon",
        "all_points_x": [2, 12, 7],
        "all_points_y": [3, 3, 9],
    },
    "region_attributes": {"kind": "cup"},
}
RECT = {
    "shape_attributes": {"name": "rect", "x": 1, "y": 2, "width": 5, "height": 6},
    "region_attributes": {},
}


@pytest.mark.parametrize("regions", [[POLYGON, RECT], {"0": POLYGON, "1": RECT}])
def test_via_is_read_in_its_old_and_its_new_form(tmp_path, regions):
    photo(tmp_path / "a.png")
    (tmp_path / "via.json").write_text(json.dumps(via(regions)))
    (one,) = annotations.read(tmp_path)
    assert one.boxes.tolist() == [[2, 3, 12, 9], [1, 2, 6, 8]]
    assert one.labels == ["cup", "object"] and one.size == (40, 30)
    np.testing.assert_array_equal(one.shapes[0][0], [[2, 3], [12, 3], [7, 9]])


def test_a_via_project_file_is_read_too(tmp_path):
    (tmp_path / "p.json").write_text(
        json.dumps({"_via_settings": {}, "_via_img_metadata": via([RECT])})
    )
    (one,) = annotations.read(tmp_path / "p.json")
    assert one.boxes.tolist() == [[1, 2, 6, 8]] and one.size is None


def test_via_s_circle_reaches_its_radius_and_a_point_is_told(tmp_path):
    circle = {
        "shape_attributes": {"name": "circle", "cx": 10, "cy": 12, "r": 4},
        "region_attributes": {},
    }
    point = {"shape_attributes": {"name": "point", "cx": 1, "cy": 1}}
    (tmp_path / "v.json").write_text(json.dumps(via([circle, point])))
    photo(tmp_path / "a.png")
    found = annotations.read(tmp_path)
    np.testing.assert_allclose(found[0].boxes, [[6, 8, 14, 16]], atol=1e-9)
    assert kinds(found) == ["unreadable region"]


def coco(**more):
    one = {"id": 1, "image_id": 7, "category_id": 3, "bbox": [2, 3, 10, 6], "iscrowd": 0}
    images = [{"id": 7, "file_name": "a.png", "width": 40, "height": 30}]
    return {
        "images": images,
        "categories": [{"id": 3, "name": "cup"}],
        "annotations": [one | more],
    }


def test_coco_s_box_becomes_corners_and_its_crowd_is_kept(tmp_path):
    photo(tmp_path / "images" / "a.png")
    (tmp_path / "instances_val2017.json").write_text(json.dumps(coco(iscrowd=1)))
    (one,) = annotations.read(tmp_path)
    assert one.boxes.tolist() == [[2, 3, 12, 9]] and one.labels == ["cup"]
    assert one.crowd.tolist() == [True] and one.split == "val" and one.file.is_file()


def test_coco_s_annotation_of_an_unknown_photo_is_kept_and_told(tmp_path):
    (tmp_path / "c.json").write_text(json.dumps(coco(image_id=8)))
    found = annotations.read(tmp_path / "c.json")
    assert sum(len(one.boxes) for one in found) == 1 and "unknown photo" in kinds(found)


def test_voc_keeps_a_box_without_area_and_tells_it(tmp_path):
    photo(tmp_path / "JPEGImages" / "a.png")
    (tmp_path / "Annotations").mkdir()
    text = VOC.format(
        name="a.png", objects=BOX.format("cup", 1, 2, 9, 8) + BOX.format("cup", 5, 5, 5, 5)
    )
    (tmp_path / "Annotations" / "a.xml").write_text(text)
    (tmp_path / "ImageSets" / "Main").mkdir(parents=True)
    (tmp_path / "ImageSets" / "Main" / "test.txt").write_text("a\n")
    (one,) = annotations.read(tmp_path)
    assert one.boxes.tolist() == [[1, 2, 9, 8], [5, 5, 5, 5]] and one.split == "test"
    assert kinds([one]) == ["box without area"]


def test_yolo_s_shares_become_pixels_and_a_photo_without_file_has_no_boxes(tmp_path):
    photo(tmp_path / "images" / "train" / "a.png")
    photo(tmp_path / "images" / "train" / "b.png")
    (tmp_path / "labels" / "train").mkdir(parents=True)
    (tmp_path / "labels" / "train" / "a.txt").write_text(
        "1 0.5 0.5 0.25 0.2\n0 0.1 0.1 0.4 0.1 0.2 0.6\nx\n"
    )
    (tmp_path / "data.yaml").write_text("names: [cup, can]\n")
    found = annotations.read(tmp_path)
    np.testing.assert_allclose(found[0].boxes, [[15, 12, 25, 18], [4, 3, 16, 18]])
    assert found[0].labels == ["can", "cup"] and found[0].split == "train"
    assert len(found) == 2 and kinds(found) == ["unreadable region", "no objects"]


def test_a_missing_photo_stays_in_the_list(tmp_path):
    (tmp_path / "v.json").write_text(json.dumps(via([RECT])))
    found = annotations.read(tmp_path)
    assert len(found) == 1 and len(found[0].boxes) == 1 and kinds(found) == ["missing photo"]


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"", "empty photo"),
        (b"no picture", "corrupt photo"),
        (b"\xff\xd8\xff\xe0" + bytes(40), "corrupt photo"),
    ],
)
def test_files_that_are_no_photo_are_told(tmp_path, content, kind):
    (tmp_path / "a.png").write_bytes(content)
    (tmp_path / "v.json").write_text(json.dumps(via([RECT])))
    assert kind in kinds(annotations.read(tmp_path))


def test_half_a_photo_is_told(tmp_path):
    whole = photo(tmp_path / "a.png", (400, 300)).read_bytes()
    (tmp_path / "a.png").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "v.json").write_text(json.dumps(via([RECT])))
    assert "corrupt photo" in kinds(annotations.read(tmp_path))


def test_a_decompression_bomb_is_told_from_its_header(tmp_path):
    def chunk(name, body):
        return (
            struct.pack(">I", len(body))
            + name
            + body
            + struct.pack(">I", zlib.crc32(name + body))
        )

    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    bomb = (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(bytes(1000)))
    )
    (tmp_path / "a.png").write_bytes(bomb)
    (tmp_path / "v.json").write_text(json.dumps(via([RECT])))
    assert "decompression bomb" in kinds(annotations.read(tmp_path))


@pytest.mark.parametrize(
    ("box", "kind"),
    [
        ((-5, 0, 9, 9), "box outside"),
        ((0, 0, 41, 9), "box outside"),
        ((9, 0, 5, 9), "box without area"),
    ],
)
def test_boxes_outside_and_turned_round_are_told(tmp_path, box, kind):
    file = photo(tmp_path / "a.png")
    one = annotations.Photo(file, (40, 30), [box], ["cup"])
    assert kind in kinds([one])


def test_a_polygon_of_two_points_and_a_box_twice_are_told(tmp_path):
    file = photo(tmp_path / "a.png")
    boxes = [[1, 1, 5, 5], [1, 1, 5, 5]]
    one = annotations.Photo(
        file, (40, 30), boxes, ["a", "b"], [[np.array([[1, 1], [5, 5]])], None]
    )
    assert kinds([one]) == ["box twice", "polygon too short"]


def test_the_tag_and_another_size_are_told(tmp_path):
    exif = Image.Exif()
    exif[274] = 6
    Image.new("RGB", (30, 40)).save(tmp_path / "a.jpg", exif=exif)
    one = annotations.Photo(
        tmp_path / "a.jpg", (30, 40), [[1, 1, 5, 5]], ["a"], stated=(40, 30)
    )
    assert kinds([one]) == ["EXIF rotation", "other size"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "latin-1"])
def test_other_encodings_are_read_and_told(tmp_path, encoding):
    photo(tmp_path / "a.png")
    text = VOC.format(name="a.png", objects=BOX.format("Käfer", 1, 2, 9, 8))
    (tmp_path / "a.xml").write_bytes(text.encode(encoding))
    (one,) = annotations.read(tmp_path)
    assert one.labels == ["Käfer"]
    assert kinds([one]) == ([] if encoding == "utf-8-sig" else ["encoding"])


def test_a_corrupt_file_among_good_ones_is_told_and_alone_is_refused(tmp_path):
    photo(tmp_path / "a.png")
    (tmp_path / "a.xml").write_text(
        VOC.format(name="a.png", objects=BOX.format("cup", 1, 2, 9, 8))
    )
    (tmp_path / "b.xml").write_text("<annotation><object>")
    assert kinds(annotations.read(tmp_path)) == ["unreadable annotation"]
    with pytest.raises(ValueError, match=r"b\.xml"):
        annotations.read(tmp_path / "b.xml")


def test_entities_are_refused(tmp_path):
    (tmp_path / "a.xml").write_text(
        '<!DOCTYPE a [<!ENTITY b "c">]><annotation>&b;</annotation>'
    )
    with pytest.raises(ValueError, match="entities"):
        annotations.read(tmp_path / "a.xml")


def test_a_name_that_climbs_out_of_the_folder_is_not_followed(tmp_path):
    photo(tmp_path / "secret.png")
    inner = tmp_path / "set" / "deep" / "deeper"
    inner.mkdir(parents=True)
    (inner / "a.xml").write_text(VOC.format(name="../../../secret.png", objects=""))
    (one,) = annotations.read(inner)
    assert one.file == inner / "secret.png"


def test_nothing_to_read_is_refused(tmp_path):
    with pytest.raises(ValueError, match="holds no annotations"):
        annotations.read(tmp_path)
    with pytest.raises(ValueError, match="does not exist"):
        annotations.read(tmp_path / "none")


def folder_of(tmp_path, **texts):
    """A folder of a photo and of texts by name (two underscores: a dot)."""
    photo(tmp_path / "a.png")
    for name, text in texts.items():
        (tmp_path / name.replace("__", ".")).write_text(
            text if isinstance(text, str) else json.dumps(text)
        )
    return annotations.read(tmp_path)


def boxes_of(found):
    return [box for one in found for box in one.boxes.tolist()]


GOOD = {"id": 2, "image_id": 7, "category_id": 3, "bbox": [1, 2, 3, 4]}


@pytest.mark.parametrize(
    ("bad", "kept", "kind"),
    [
        ({"bbox": ["2", "3", "10", "6"]}, [2, 3, 12, 9], None),  # texts are added as numbers
        ({"bbox": [1, 2, 3]}, None, "unreadable region"),
        ({"bbox": []}, None, "unreadable region"),
        ({"bbox": None, "segmentation": [[1, 2, 5, 2, 5, 9]]}, [1, 2, 5, 9], None),
        ({"segmentation": [[1, 2, 3]]}, [2, 3, 12, 9], "unreadable outline"),
        ({"category_id": 8}, [2, 3, 12, 9], "unknown class"),
        ({"area": "much"}, [2, 3, 12, 9], None),
        ({"segmentation": {"size": [3, 4], "counts": "0"}}, [2, 3, 12, 9], "mask of another"),
    ],
)
def test_a_bad_coco_annotation_takes_no_other_along(tmp_path, bad, kept, kind):
    given = coco(**bad)
    given["annotations"].append(GOOD)
    found = folder_of(tmp_path, c__json=given)
    assert boxes_of(found) == [one for one in (kept, [1, 2, 4, 6]) if one]
    assert [one for one in kinds(found) if not one.startswith(kind or "none")] == []
    assert len(kinds(found)) == bool(kind)


def test_coco_s_area_is_kept_and_an_image_id_twice_is_told(tmp_path):
    given = coco(area=7)
    given["images"] *= 2
    found = folder_of(tmp_path, c__json=given)
    assert found[0].areas.tolist() == [7] and len(found) == 2
    assert kinds(found).count("listed twice") == 2


@pytest.mark.parametrize(
    "entry", [7, {"regions": [POLYGON]}, {"filename": "b.png", "regions": 3}]
)
def test_a_bad_via_entry_takes_no_other_along(tmp_path, entry):
    found = folder_of(tmp_path, v__json=via([RECT]) | {"b": entry})
    assert [1, 2, 6, 8] in boxes_of(found) and len(found) == 2
    assert {"unknown photo", "unreadable region"} & {*kinds(found)}


@pytest.mark.parametrize("attributes", [["cup"], None, {"kind": {"can": False}}])
def test_a_via_region_without_a_name_is_an_object(tmp_path, attributes):
    region = RECT | {"region_attributes": attributes}
    assert folder_of(tmp_path, v__json=via([region]))[0].labels == ["object"]


def test_of_a_name_that_is_twice_in_a_file_the_lost_one_is_told(tmp_path):
    one = json.dumps(via([RECT]))[1:-1]
    assert kinds(folder_of(tmp_path, v__json="{" + one + "," + one + "}")) == ["name twice"]


@pytest.mark.parametrize("width", ["inf", "much", "nan", ""])
def test_a_voc_size_that_is_none_takes_no_box_along(tmp_path, width):
    text = VOC.format(name="a.png", objects=BOX.format("cup", 1, 2, 9, 8))
    found = folder_of(tmp_path, a__xml=text.replace(">40<", f">{width}<"))
    assert boxes_of(found) == [[1, 2, 9, 8]] and kinds(found) == []


def test_voc_s_parts_are_kept_and_its_lists_of_classes_are_no_splits(tmp_path):
    part = BOX.format("lid", 2, 2, 4, 4).replace("object", "part")
    whole = BOX.format("cup", 1, 2, 9, 8).replace("</object>", part + "</object>")
    lists = tmp_path / "ImageSets" / "Main"
    lists.mkdir(parents=True)
    for name in ("aeroplane_train", "train", "val", "trainval"):
        (lists / f"{name}.txt").write_text("a -1\n")
    (one,) = folder_of(tmp_path, a__xml=VOC.format(name="a.png", objects=whole))
    assert one.labels == ["cup", "lid"] and one.split == "train"
    assert kinds([one]) == ["in two splits"]


def test_yolo_beside_another_format_and_named_as_a_list_is_read(tmp_path):
    photo(tmp_path / "train.png")
    found = folder_of(
        tmp_path,
        settings__json="{}",
        train__txt="0 0.5 0.5 0.5 0.5\n",
        val__txt="train.png\n",
        obj__names="cup\n",
    )
    assert boxes_of(found) == [[10, 7.5, 30, 22.5]]
    assert sorted(kinds(found)) == ["no objects", "unreadable annotation"]


@pytest.mark.parametrize(
    ("names", "label"),
    [("{2: can, 0: cup}", "can"), ("{0: cup}", "2"), ("[cup, bin, can]", "can"), ("7", "2")],
)
def test_yolo_s_names_go_by_their_numbers_and_an_unknown_one_is_told(tmp_path, names, label):
    found = folder_of(tmp_path, a__txt="2 .5 .5 .5 .5\n", data__yaml=f"names: {names}\n")
    told = {"{0: cup}": ["unknown class"], "7": ["no class names"]}.get(names, [])
    assert found[0].labels == [label] and kinds(found) == told


def test_yolo_s_names_may_lie_with_the_labels_and_broken_ones_are_told(tmp_path):
    found = folder_of(tmp_path, a__txt="1 .5 .5 .5 .5\n", classes__txt="cup\n\ncan\n")
    assert found[0].labels == [""] or found[0].labels == ["1"], "an empty line is counted"
    (tmp_path / "classes.txt").unlink()
    (tmp_path / "data.yaml").write_text("names: [\n")
    assert "unreadable annotation" in kinds(annotations.read(tmp_path))


@pytest.mark.parametrize("text", ["[" * 50_000, "null", '{"images": [3]}', '{"images": [[]]}'])
def test_json_that_is_none_of_ours_is_told_and_alone_refused(tmp_path, text):
    assert "unreadable annotation" in kinds(folder_of(tmp_path, x__json=text))
    with pytest.raises(ValueError, match="is needed"):
        annotations.read(tmp_path / "x.json")


def test_scrambled_photos_are_told_or_right_and_never_stop_the_doctor(tmp_path):
    exif = Image.Exif()
    exif[274] = 6
    Image.effect_noise((40, 30), 60).save(tmp_path / "a.jpg", exif=exif)
    whole, draw = (tmp_path / "a.jpg").read_bytes(), np.random.default_rng(0)
    for _ in range(200):
        broken = bytearray(whole)
        for at in draw.integers(0, min(len(whole), 200), 4):
            broken[at] = draw.integers(0, 256)
        (tmp_path / "b.jpg").write_bytes(broken)
        annotations.problems([annotations.Photo(tmp_path / "b.jpg")])


def test_outlines_move_with_their_boxes():
    one = annotations.Photo("a.png", None, [[1, 2, 3, 4]], ["a"], [[np.array([[1.0, 2.0]])]])
    moved = one.moved(2, (5, 6))
    assert moved.boxes.tolist() == [[7, 10, 11, 14]] and moved.shapes[0][0].tolist() == [
        [7, 10]
    ]
