"""Manifests, the normaliser and the splits."""

import json
from collections import Counter

import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st
from speech_manifest import (
    VOCABULARY,
    leaks,
    manifest_entries,
    normalise,
    random_split,
    read_manifest,
    speaker_split,
    write_manifest,
)


def entry(name="a.wav", duration=1.5, text="three one four", **more):
    return {"audio_filepath": name, "duration": duration, "text": text, **more}


def people(**rows):
    """`people(ann=3)`: three entries of ann."""
    names = [name for name, count in rows.items() for _ in range(count)]
    return [
        entry(f"{i}.wav", text="abcdefghij"[i % 10], speaker=n) for i, n in enumerate(names)
    ]


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


def test_numbers_are_said_as_one_asks():
    assert normalise("26 men", {"26": "twenty six"}.get).text == "twenty six men"


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


def test_rows_become_entries_or_are_reported(tmp_path):
    soundfile.write(tmp_path / "a.wav", [0.0] * 8000, 16_000)
    soundfile.write(tmp_path / "long.wav", [0.0] * 16_000 * 3, 16_000)
    prompts = [
        ("a.wav", "One, two."),
        ("a.wav", "5 €"),
        ("a.wav", "[b_s/] ..."),
        ("long.wav", "x"),
    ]
    prompts.append(("gone.wav", "one"))
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
    assert entries == [
        entry(str(tmp_path / "a.wav"), 0.5, "one two", speaker="7", accent="DEU")
    ]
    assert [(s.row, s.name) for s in skipped] == [(2, "1"), (3, "2"), (4, "3"), (5, "4")]
    reasons = [s.reason for s in skipped]
    assert "no spelling for {'€': 1}" in reasons[0] and "no words" in reasons[1]
    assert "gone.wav cannot be read" in reasons[3]
    assert "3.00 s long" in reasons[2] and skipped[0].content == rows[1]


@pytest.mark.parametrize(
    ("rows", "fraction", "count"), [(10, 0.1, 1), (5000, 0.1, 500), (11, 0.1, 2)]
)
def test_a_random_split_parts_all_rows(rows, fraction, count):
    entries = people(ann=rows)
    train, test = random_split(entries, fraction)
    assert len(test) == count and len(train) == rows - count
    names = [e["audio_filepath"] for e in train + test]
    assert sorted(names) == sorted(e["audio_filepath"] for e in entries)


def test_a_random_split_is_drawn_by_its_seed():
    entries = people(ann=50)
    assert random_split(entries) == random_split(entries)
    assert random_split(entries, seed=1) != random_split(entries, seed=2)
    assert random_split(entries, 0.5)[1] != entries[:25]


@given(
    st.dictionaries(st.sampled_from("abcdefg"), st.integers(1, 9), min_size=2),
    st.integers(0, 99),
)
def test_a_split_by_speakers_shares_none(rows, seed):
    entries = people(**rows)
    try:
        train, test = speaker_split(entries, test_fraction=0.3, seed=seed)
    except ValueError:  # the draws that reach 0.3 of the rows took everybody
        assert max(rows.values()) > 0.7 * len(entries) or len(rows) == 2
        return
    assert not leaks(train, test).speakers and len(train) + len(test) == len(entries)
    assert len(test) >= 0.3 * len(entries)


def test_named_speakers_are_the_test_part():
    train, test = speaker_split(people(ann=3, bob=2, eve=1), "bob")
    assert {e["speaker"] for e in test} == {"bob"} and len(train) == 4


@pytest.mark.parametrize("names", [["zoe"], ["ann", "bob"], []])
def test_refuses_speakers_that_leave_a_part_empty(names):
    with pytest.raises(ValueError, match="some, not all, of"):
        speaker_split(people(ann=2, bob=2), names)


@pytest.mark.parametrize("fraction", [0, 1, 1.5, 0.99, float("nan")])
def test_refuses_a_fraction_that_leaves_a_part_empty(fraction):
    with pytest.raises(ValueError, match="leaves a part empty"):
        random_split(people(ann=3), fraction)


def test_refuses_entries_without_a_speaker():
    with pytest.raises(ValueError, match=r"entries \[2\] have no speaker"):
        speaker_split([entry(speaker="ann"), entry()])


def test_counts_what_a_split_shares():
    train = [entry("a.wav", text="x", speaker="ann", recordings=["1", "2"])]
    train += [
        entry("b.wav", text="y", speaker="bob", recordings=["3"]),
        entry("e.wav", text="u"),
    ]
    test = [entry("a.wav", text="x", speaker="ann", recordings=["2", "9"])]
    test += [entry("c.wav", text="z", speaker="eve"), entry("d.wav", text="z")]
    told = leaks(train, test)
    assert told.speakers == ("ann",) and told.test_share == pytest.approx(1 / 3)
    assert (told.files, told.texts, told.recordings) == (1, 1, 1)
