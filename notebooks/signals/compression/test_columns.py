"""The columns: what is generated keeps the rules it states, what is read keeps its sign."""

import columns
import numpy as np


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
