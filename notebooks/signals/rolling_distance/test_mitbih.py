"""The reader of the MIT-BIH files, on closed answers and on records written here bit by
bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mitbih import read_annotations, read_record, unpack_212


def pack_212(samples):
    """The other direction, by the definition of format 212, for the tests alone."""
    bits = [int(s) & 0xFFF for s in samples] + [0] * (len(samples) % 2)
    pairs = zip(bits[::2], bits[1::2], strict=True)
    return b"".join(bytes([a & 0xFF, a >> 8 | (b >> 8) << 4, b & 0xFF]) for a, b in pairs)


def words(*values):
    return np.array(values, "<u2").tobytes()


@given(st.lists(st.integers(-2048, 2047), max_size=50))
def test_unpacks_what_was_packed(samples):
    assert unpack_212(pack_212(samples), len(samples)).tolist() == samples


def test_refuses_a_file_cut_short():
    with pytest.raises(ValueError, match="needs 6 bytes for 4 samples, got 5"):
        unpack_212(bytes(5), 4)


def test_reads_steps_long_intervals_and_texts():
    packed = (
        words(1 << 10 | 18, 59 << 10, 1, 4464, 5 << 10 | 2, 63 << 10 | 3)
        + b"(N\0\0"
        + words(60 << 10 | 1, 8 << 10, 0)
    )
    times, codes = read_annotations(packed)
    assert times.tolist() == [18, 18 + 70_000 + 2, 70_020] and codes.tolist() == [1, 5, 8]


def test_a_long_interval_may_go_back():
    assert read_annotations(words(1 << 10 | 100, 59 << 10, 0xFFFF, 0xFFF6, 1 << 10, 0))[
        0
    ].tolist() == [100, 90]


@pytest.mark.parametrize(
    "packed", [b"", words(1 << 10 | 5), words(59 << 10, 1), words(63 << 10 | 200, 0)]
)
def test_refuses_annotations_without_an_end(packed):
    with pytest.raises(ValueError, match="closing zero"):
        read_annotations(packed)


def write_record(folder, samples_2N, off=0, form="212", gain="200"):
    samples_2N = np.asarray(samples_2N)
    lines = [f"7 2 360 {samples_2N.shape[1]}"]
    for lead, name in zip(samples_2N, ("MLII", "V5"), strict=True):
        lines.append(
            f"7.dat {form} {gain} 11 1024 {lead[0]} {lead.sum() + off & 0xFFFF} 0 {name}"
        )
    (folder / "7.hea").write_text("\n".join(lines) + "\n# 69 M\n")
    (folder / "7.dat").write_bytes(pack_212(samples_2N.T.reshape(-1)))
    (folder / "7.atr").write_bytes(words(28 << 10 | 1, 1 << 10 | 1, 5 << 10 | 1, 0))


def test_reads_millivolts_and_beats(tmp_path):
    write_record(tmp_path, [[1024, 1224, 924], [1024, 1024, 0]])
    record = read_record(tmp_path, "7")
    assert record.rate_hz == 360 and record.leads_mv["MLII"].tolist() == [0, 1, -0.5]
    assert record.leads_mv["V5"].tolist() == [0, 0, -5.12]
    assert record.notes == "69 M"
    assert record.beat_samples.tolist() == [2, 3] and record.beat_labels.tolist() == [
        "N",
        "V",
    ]  # 28 marks no beat


def test_refuses_a_baseline_in_the_gain(tmp_path):
    write_record(tmp_path, [[0, 100], [0, 0]], gain="100(50)/mV")
    with pytest.raises(ValueError, match=r"gain 100\(50\)/mV; only"):
        read_record(tmp_path, "7")


def test_refuses_a_damaged_lead(tmp_path):
    write_record(tmp_path, [[1, 2], [3, 4]], off=1)
    with pytest.raises(ValueError, match="lead MLII: samples add up to 3, its header 4"):
        read_record(tmp_path, "7")


def test_refuses_another_format(tmp_path):
    write_record(tmp_path, [[1, 2], [3, 4]], form="16")
    with pytest.raises(ValueError, match="format 16, gain 200; only two leads of format 212"):
        read_record(tmp_path, "7")
