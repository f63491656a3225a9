"""Splits: every row in one part, what is shared is counted."""

import pytest

from .transcripts import leaks, random_split, speaker_split


def entry(name="a.wav", **more):
    return {"audio_filepath": name, "duration": 1.5, "text": "three one four", **more}


def people(**rows):
    """`people(ann=3)`: three entries of ann."""
    names = [name for name, count in rows.items() for _ in range(count)]
    return [entry(f"{number}.wav", speaker=name) for number, name in enumerate(names)]


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


def test_named_speakers_are_the_test_part():
    entries = people(ann=3, bob=2, eve=1)
    train, test = speaker_split(entries, ["bob", "eve"])
    assert [e["speaker"] for e in test] == ["bob", "bob", "eve"] and train == entries[:3]
    assert not leaks(train, test).speakers


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
        speaker_split([entry(speaker="ann"), entry()], ["ann"])


def test_counts_what_a_split_shares():
    train = [entry("a.wav", speaker="ann"), entry("e.wav"), entry("b.wav", speaker="bob")]
    test = [entry("a.wav", speaker="ann"), entry("c.wav", speaker="eve"), entry("d.wav")]
    told = leaks(train, test)
    assert told.speakers == ("ann",) and told.test_share == pytest.approx(1 / 3)
    assert leaks(train, []).test_share == 0
