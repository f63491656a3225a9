"""The columns: what is generated keeps the rules it states, what is read keeps its sign."""

import gzip

import columns
import numpy as np
import pytest


def test_an_order_has_1_to_7_lines_each_as_often():
    _, lines = np.unique(columns.generated(20_000)["order key"], return_counts=True)
    often = np.bincount(lines[:-1])  # the table may cut the last order short
    assert often[0] == 0 and len(often) == 8
    wanted = often.sum() / 7
    assert (abs(often[1:] - wanted) < 5 * wanted**0.5).all()  # five standard deviations


def test_of_each_32_order_keys_the_first_8_are_used():
    keys = np.unique(columns.generated(1000)["order key"])
    every = np.arange(1, keys[-1] + 1)
    assert np.array_equal(keys, every[(every - 1) % 32 < 8])


def test_samples_of_an_ecg_keep_their_sign(tmp_path):
    # 12 bits each, the leads in turn: 0xfff 0x005, 0x007 0x800, 0x7ff 0xffd
    packed = bytes.fromhex("ff0f05 078000 fff7fd")
    (tmp_path / "7.dat").write_bytes(packed)
    found = columns.ecg(tmp_path, "7")
    assert found.dtype == np.int16
    assert found.tolist() == [-1, 7, 2047, 5, -2048, -3]


def test_generated_columns_keep_the_rules_that_are_stated():
    found = columns.generated(200_000)
    ship, flag, quantity = (found[n] for n in ("ship date", "return flag", "quantity"))
    assert 1 <= ship.min() < 9 and 2518 < ship.max() <= 2405 + 121  # days from 1992-01-01 on
    assert ship.dtype == quantity.dtype == np.int32
    assert np.array_equal(np.unique(quantity), np.arange(1, 51))
    assert abs(np.bincount(quantity)[1:] / 4000 - 1).max() < 0.1  # six deviations
    # received 1 to 30 days later, by day 1,263, 1995-06-17: a fair coin, else N
    kinds = dict(zip(*np.unique(flag[ship <= 1263 - 30], return_counts=True), strict=True))
    assert set(map(chr, kinds)) == {"A", "R"}
    assert abs(kinds[ord("A")] / kinds[ord("R")] - 1) < 0.05
    assert set(flag[ship >= 1263]) == {ord("N")}
    between = (flag[(ship > 1263 - 30) & (ship < 1263)] == ord("N")).mean()
    assert 0.4 < between < 0.6  # half of thirty days, on average


def test_lines_of_an_order_share_its_date_and_not_the_day_they_ship():
    found = columns.generated(200_000)
    same = found["order key"][1:] == found["order key"][:-1]
    apart = abs(np.diff(found["ship date"]))
    assert apart[same].max() == 121 - 1 and apart[~same].max() > 1000
    assert (
        apart[same].min() == 0 and 38 < apart[same].mean() < 43
    )  # a third of 121, by two draws


def test_clicks_come_in_order_and_pages_repeat():
    found = columns.generated(100_000)
    gaps, page = np.diff(found["click time"]), found["page shown"]
    assert gaps.min() >= 0 and abs(gaps.mean() / 40 - 1) < 0.02
    assert page.min() >= 0 and page.max() < 50_000
    runs = len(page) / (1 + (np.diff(page) != 0).sum())
    assert 6 < runs < 8  # 1 to 11 of a page, and the commonest one may follow itself


def test_steps_are_what_the_page_says():
    found = columns.steps(10_000)
    gaps = np.diff(found)
    assert found.dtype == np.int32 and gaps.min() == 0 and gaps.max() == 999


def test_links_are_numbered_by_title_and_sorted(tmp_path):
    text = "# a comment\n\nb\tc\na\tc\nb\ta\na\tb\n"
    (tmp_path / "links.tsv").write_text(text, encoding="utf-8")
    sources, targets = columns.links(tmp_path)
    assert sources.tolist() == [0, 0, 1, 1] and targets.tolist() == [1, 2, 0, 2]
    assert sources.dtype == targets.dtype == np.int32


def test_pixels_are_those_of_the_first_images_or_an_error(tmp_path):
    head, pixels = b"\0\0\x08\x03" + bytes(12), bytes(range(256)) * 7
    file = tmp_path / "t10k-images-idx3-ubyte.gz"
    file.write_bytes(gzip.compress(head + pixels[: 2 * 784]))
    found = columns.pixels(tmp_path, 2)
    assert found.shape == (2, 28, 28) and found.tobytes() == pixels[: 2 * 784]
    with pytest.raises(ValueError, match="3 images"):
        columns.pixels(tmp_path, 3)
    file.write_bytes(gzip.compress(b"\0\0\x08\x01" + bytes(12) + pixels))
    with pytest.raises(ValueError, match="idx3"):
        columns.pixels(tmp_path, 2)


def test_an_ecg_of_half_a_pair_is_refused(tmp_path):
    (tmp_path / "7.dat").write_bytes(bytes(4))
    with pytest.raises(ValueError, match="4 bytes"):
        columns.ecg(tmp_path, "7")
