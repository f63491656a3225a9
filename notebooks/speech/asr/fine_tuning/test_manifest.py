"""Manifests come back as they were; what is wrong in one is named with its line."""

import json

import numpy as np
import pytest
import soundfile
import torch
from hypothesis import given
from hypothesis import strategies as st

from .manifest import read_manifest, read_sound, read_sounds, write_manifest


def entry(name="a.wav", duration=1.5, text="three one four", **more):
    return {"audio_filepath": name, "duration": duration, "text": text, **more}


def test_a_manifest_comes_back_as_it_was(tmp_path):
    entries = [
        entry(),
        entry("ü b.wav", speaker="ann", accent="GRC", words=[["one", 0.1, 0.2]]),
    ]
    path = write_manifest(entries, tmp_path / "new" / "m.jsonl")
    assert read_manifest(path, audio=False) == entries
    assert len(path.read_text(encoding="utf-8").splitlines()) == 2


@given(
    st.lists(
        st.builds(
            entry,
            st.text(min_size=1),
            st.floats(1e-3, 1e4),
            st.text("abc '", min_size=1).filter(str.strip),
        ),
        unique_by=lambda one: one["audio_filepath"],
    )
)
def test_any_good_manifest_comes_back(tmp_path_factory, entries):
    path = tmp_path_factory.mktemp("m") / "m.jsonl"
    assert read_manifest(write_manifest(entries, path), audio=False) == entries


BAD = [
    (entry(name=""), "audio_filepath ''"),
    (entry(duration=0), "duration 0"),
    (entry(duration=True), "duration True"),
    (entry(duration=float("nan")), "duration nan"),
    (entry(duration="1.5"), "duration '1.5'"),
    (entry(text=" "), "text ' '"),
    (entry(text="Three!"), r"text has \['!', 'T'\], which the model cannot spell"),
    (entry(speaker=7), "speaker 7"),
    ({"audio_filepath": "a.wav", "text": "a"}, "duration None"),
    ([1], "a JSON object is needed, got list"),
]


@pytest.mark.parametrize(("wrong", "said"), BAD)
def test_names_the_line_and_what_is_wrong_in_it(tmp_path, wrong, said):
    path = tmp_path / "m.jsonl"
    path.write_text(json.dumps(entry()) + "\n\n" + json.dumps(wrong) + "\n")
    with pytest.raises(ValueError, match=f"m.jsonl, line 3: {said}"):
        read_manifest(path, audio=False)


@pytest.mark.parametrize(("wrong", "said"), BAD)
def test_writes_nothing_that_cannot_be_read(tmp_path, wrong, said):
    with pytest.raises(ValueError, match=f"entry 2: {said}"):
        write_manifest([entry(), wrong], tmp_path / "m.jsonl")
    assert not list(tmp_path.iterdir())


def test_a_failed_write_leaves_the_old_manifest(tmp_path):
    path = write_manifest([entry()], tmp_path / "m.jsonl")
    with pytest.raises(ValueError, match="entry 1"):
        write_manifest([entry(text="")], path)
    assert read_manifest(path, audio=False) == [entry()]


@pytest.mark.parametrize("line", [b'{"a": ', b"\xff\xfe", b"[" * 100_000])
def test_a_line_that_is_no_json_is_named(tmp_path, line):
    (tmp_path / "m.jsonl").write_bytes(json.dumps(entry()).encode() + b"\n" + line + b"\n")
    with pytest.raises(ValueError, match="line 2: no JSON"):
        read_manifest(tmp_path / "m.jsonl", audio=False)


@pytest.mark.parametrize("name", ["x" * 9000, "a\0b", "no/such/file.wav"])
def test_an_impossible_name_is_no_file(tmp_path, name):
    path = write_manifest([entry(name)], tmp_path / "m.jsonl")
    assert read_manifest(path, audio=False)[0]["audio_filepath"] == name
    with pytest.raises(ValueError, match="line 1: no file"):
        read_manifest(path)


def test_a_file_twice_or_missing_is_named(tmp_path):
    path = write_manifest(
        [entry("a.wav"), entry("b.wav"), entry("a.wav")], tmp_path / "m.jsonl"
    )
    with pytest.raises(ValueError, match="line 3: a.wav stands in line 1 already"):
        read_manifest(path, audio=False)
    with pytest.raises(ValueError, match="line 1: no file a.wav"):
        read_manifest(path)


def test_a_relative_name_is_found_beside_the_manifest(tmp_path):
    (tmp_path / "a.wav").touch()
    found = read_manifest(write_manifest([entry()], tmp_path / "m.jsonl"))
    assert found[0]["audio_filepath"] == str(tmp_path / "a.wav")


def test_sounds_come_with_their_texts(tmp_path):
    wanted = torch.linspace(-0.5, 0.5, 1600)
    soundfile.write(tmp_path / "a.wav", wanted.numpy(), 16_000, subtype="FLOAT")
    signals, texts = read_sounds([entry(str(tmp_path / "a.wav"))])
    assert (
        torch.equal(signals[0], wanted)
        and signals[0].dtype == torch.float32
        and texts == ["three one four"]
    )


@pytest.mark.parametrize("rate_hz", [8_000, 11_025, 44_100])
def test_a_sound_at_another_rate_keeps_its_pitch_and_length(tmp_path, rate_hz):
    tone = np.sin(2 * np.pi * 1000 * np.arange(rate_hz) / rate_hz)
    soundfile.write(tmp_path / "a.wav", tone, rate_hz, subtype="FLOAT")
    found = read_sound(tmp_path / "a.wav")
    wanted = torch.sin(2 * torch.pi * 1000 * torch.arange(16_000) / 16_000)
    assert found.dtype == torch.float32 and found.shape == wanted.shape
    inside = slice(200, -200)  # the ends ring
    torch.testing.assert_close(found[inside], wanted[inside], rtol=0, atol=1e-2)


@pytest.mark.parametrize("sound, rate", [(np.zeros(800), 4000), (np.zeros((1600, 2)), 16_000)])
def test_a_sound_below_8_khz_or_of_two_channels_is_refused(tmp_path, sound, rate):
    soundfile.write(tmp_path / "a.wav", sound, rate)
    with pytest.raises(ValueError, match="one channel at 8000 Hz or more"):
        read_sounds([entry(str(tmp_path / "a.wav"))])
