"""Transcripts: what is normalised, dropped, reported; which rows become entries."""

from collections import Counter

import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st
from quartznet import VOCABULARY

from .transcripts import manifest_entries, normalise


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The Avengers' extinction.", "the avengers' extinction"),
        ("Don’t  stop!", "don't stop"),  # noqa: RUF001
        ("well-known\tfact — true", "well known fact true"),
        ("Café, naïve", "cafe naive"),
        ("[b_s/] yes [filler/][uni/] no", "yes no"),
        ("he [sic] said", "he sic said"),
        ("Call 0190", "call zero one nine zero"),
        ("B2B", "b two b"),
        ("", ""),
        ("...", ""),
    ],
)
def test_normalises_known_transcripts(text, normal):
    assert normalise(text).text == normal and not normalise(text).unknown


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("50 €", "€"),
        ("a & b", "&"),
        ("Straße", "ß"),
        ("3.5", "."),
        ("10:30", ":"),
        ("ok ✓", "✓"),
    ]
    + [("½", "½"), ("٣", "٣"), ("a\0b", "\0"), ("x²", "²")],
)
def test_reports_what_has_no_spelling(text, unknown):
    assert normalise(text).unknown == Counter({unknown: 1})


def test_counts_what_it_drops():
    told = normalise("Well, “é” [b_s/]!")
    assert (
        told.dropped == Counter([",", "“", "”", "\u0301", "[b_s/]", "!"]) and not told.unknown
    )


def test_refuses_a_transcript_that_is_none():
    with pytest.raises(TypeError, match="float: nan"):
        normalise(float("nan"))


@given(st.text())
def test_normal_text_can_be_spelled_and_is_normal(text):
    normal = normalise(text).text
    assert set(normal) <= set(VOCABULARY) and normalise(normal).text == normal
    assert normal == normal.strip() and "  " not in normal


@given(st.text(alphabet="ab'é.,!€ß&-[]()?✓ "))
def test_no_character_goes_without_a_trace(text):
    told = normalise(text)
    kept = sum(char in "ab'" for char in told.text) + told.text.count("e")
    accents = told.dropped.pop("\u0301", 0)
    assert accents == text.count("é") == told.text.count("e")
    parted = text.count("-") + text.count(" ")
    assert kept + parted + told.dropped.total() + told.unknown.total() == len(text)


def test_rows_become_entries_or_are_reported(tmp_path):
    soundfile.write(tmp_path / "a.wav", [0.0] * 8000, 16_000)
    soundfile.write(tmp_path / "long.wav", [0.0] * 16_000 * 3, 16_000)
    prompts = [
        ("a.wav", "One, two."),
        ("a.wav", "5 €"),
        ("a.wav", "[b_s/] ..."),
        ("long.wav", "x"),
    ]
    rows = [
        {
            "RelativeFileName": f,
            "Prompt": p,
            "RecordingId": str(i),
            "SpeakerId": "7",
            "Accent": "DEU",
        }
        for i, (f, p) in enumerate(prompts)
    ]
    entries, skipped = manifest_entries(rows, tmp_path, max_s=2)
    wanted = {"audio_filepath": str(tmp_path / "a.wav"), "duration": 0.5, "text": "one two"}
    assert entries == [wanted | {"speaker": "7", "accent": "DEU"}]
    assert [(s.row, s.name) for s in skipped] == [(2, "1"), (3, "2"), (4, "3")]
    reasons = [s.reason for s in skipped]
    assert "no spelling for {'€': 1}" in reasons[0] and "no words" in reasons[1]
    assert "3.00 s long" in reasons[2]
