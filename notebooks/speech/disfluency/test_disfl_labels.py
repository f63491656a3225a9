"""Alignment, kinds, word numbers and hostile files."""

import json

import disfl_labels as dl
import pytest
from helpers import data
from hypothesis import given
from hypothesis import strategies as st

SAID = "But that's it's not, it's not, it's, uh, it's a word play on what you just said."
MEANT = "But it's a word play on what you just said."


def test_the_articles_sentence():
    said, meant = dl.words_of(SAID), dl.words_of(MEANT)
    labels = dl.aligned(meant, said)
    assert [w for w, bad in zip(said, labels, strict=True) if bad] == (
        ["that's", "it's", "not", "it's", "not", "it's", "uh"]
    )


def test_matching_from_the_right_keeps_the_repair():
    said = ["who", "did", "no", "what", "did", "they", "want"]
    assert dl.aligned(["what", "did", "they", "want"], said) == (1, 1, 1, 0, 0, 0, 0)
    assert dl.aligned(["a", "b"], ["a", "no", "a", "b"]) == (1, 1, 0, 0)


def test_no_subsequence_has_no_labels():
    assert dl.aligned(["a", "b"], ["b", "a"]) is None
    assert dl.aligned(["a"], []) is None


words = st.lists(st.sampled_from("abc"), max_size=8)


@given(words, words)
def test_removing_the_labelled_words_gives_the_original_or_nothing_does(original, said):
    labels = dl.aligned(original, said)
    if labels is not None:
        assert [w for w, bad in zip(said, labels, strict=True) if not bad] == original
    else:
        rest = iter(said)
        assert not all(word in rest for word in original)


def test_runs_are_maximal():
    assert dl.runs([1, 1, 0, 1]) == [(0, 2), (3, 4)]
    assert dl.runs([]) == dl.runs([0]) == []


def test_kinds_by_cues():
    said, labels = ["who", "did", "no", "wait", "what", "uh", "now"], (1, 1, 1, 1, 0, 1, 0)
    kinds = ("reparandum",) * 2 + ("interregnum",) * 2 + ("repair onset", "edit", "fluent")
    assert dl.kinds_by_cues(said, labels) == kinds


@pytest.mark.parametrize(("part", "count"), [("train", 5919), ("dev", 819), ("test", 2812)])
def test_how_many_questions_are_labelled(part, count):
    try:
        folder = data.fetch("disfl_qa", [f"{part}.json"])
    except data.DataError as error:
        pytest.skip(f"the data set cannot be had: {error}")
    labelled, originals, without = dl.read(folder / f"{part}.json")
    assert len(labelled) == len(originals) == count
    assert all(u.cleaned == o for u, o in zip(labelled, originals, strict=True))
    assert without > 0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "[1]",
        '{"a": 1}',
        '{"a": {"original": "x"}}',
        '{"a": {"original": 1, "disfluent": "x"}}',
    ],
)
def test_a_broken_file_is_refused(tmp_path, text):
    if text == "[]":
        text = "[1, 2]"
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(ValueError, match="Disfl-QA|JSON"):
        dl.read(tmp_path / "x.json")


def test_a_row_without_alignment_is_counted(tmp_path):
    rows = {
        "1": {"original": "a b", "disfluent": "b a"},
        "2": {"original": "a", "disfluent": "uh a"},
    }
    (tmp_path / "x.json").write_text(json.dumps(rows))
    labelled, originals, without = dl.read(tmp_path / "x.json")
    assert (len(labelled), originals, without) == (1, [("a",)], 1)


def test_frequent_words_have_numbers_and_rare_ones_share_buckets():
    vocabulary = dl.Vocabulary.of([["b", "a", "a"], ["b", "c"]], 2, buckets=5)
    assert vocabulary(["a", "b"]) == [2, 3]
    assert vocabulary(["zebra", "zebra"])[0] == vocabulary(["zebra"])[0] >= 4
    assert max(vocabulary(list("cdefghijklmnop"))) < len(vocabulary) == 9


def test_fnv1a_is_the_published_hash():
    assert (dl.fnv1a(""), dl.fnv1a("a"), dl.fnv1a("foobar")) == (
        0x811C9DC5,
        0xE40C292C,
        0xBF9CF968,
    )


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ([], "1 to 96"),
        (["a"] * 97, "1 to 96"),
        ("who", "list of words"),
        ([1], "list of words"),
        ([""], "list"),
    ],
)
def test_what_has_no_numbers_is_refused(bad, words):
    with pytest.raises(ValueError, match=words):
        dl.Vocabulary(["a"])(bad)


def test_text_is_text():
    assert dl.words_of("It's, uh, FINE.\n") == ("it's", "uh", "fine")
    assert dl.words_of("") == ()
    with pytest.raises(ValueError, match="text is needed"):
        dl.words_of(None)
