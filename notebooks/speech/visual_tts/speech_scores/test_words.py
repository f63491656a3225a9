"""Words at known times: where a dub says them, which is nearest, and a recogniser beside it."""

import sys

import numpy as np
import pytest

from . import recogniser, share_understood, word_spans, words_heard

WORDS = {name: np.random.default_rng(n).normal(size=(20, 13)) for n, name in enumerate("abcd")}


def said(*what):
    """Cepstra of words and rests: a name of WORDS, or a number of silent steps."""
    parts = [np.zeros((one, 13)) if isinstance(one, int) else WORDS[one] for one in what]
    return np.concatenate(parts)


CLIP, TIMES = said(10, "a", 30, "b", 10), (("a", 0.1, 0.3), ("b", 0.6, 0.8))


def test_a_word_is_looked_for_where_the_dub_says_it():
    assert word_spans(CLIP, CLIP, TIMES) == [(10, 30), (60, 80)]
    late = said(40, "a", 5, "b", 20)
    assert word_spans(late, CLIP, TIMES) == [(40, 60), (65, 85)]


def test_what_was_said_is_heard_whenever_it_is_said():
    for dub in (CLIP, said(40, "a", 5, "b", 20)):
        assert words_heard(dub, CLIP, TIMES, WORDS) == ["a", "b"]


def test_another_word_in_its_place_is_heard_as_itself():
    assert words_heard(said(10, "a", 30, "c", 10), CLIP, TIMES, WORDS) == ["a", "c"]
    assert words_heard(said(10, "d", 30, "c", 10), CLIP, TIMES, WORDS) == ["d", "c"]


def test_a_word_beyond_the_last_step_is_cut_at_the_end():
    assert word_spans(said("a"), said("a"), (("a", 0.1, 0.2), ("b", 0.4, 0.5)))[1] == (19, 20)


@pytest.mark.parametrize(
    ("heard", "wanted"),
    [("abc", 1), ("acc", 2 / 3), ("bc", 2 / 3), ("cab", 2 / 3), ("", 0), ("aaaaa", 1 / 3)],
)
def test_a_recogniser_may_miss_a_word_and_still_have_heard_the_next(heard, wanted):
    assert share_understood(list(heard), ["a", "b", "c"]) == pytest.approx(wanted)


def test_a_recogniser_hears_what_is_said_and_not_what_another_clip_says():
    pytest.importorskip("pocketsphinx")
    from talking_faces import make_clips
    from talking_faces.clips import WORDS as known

    hear, clips = recogniser(known, 3), make_clips("test", 12, 7)
    heard = [hear(clip.sound_N) for clip in clips]
    assert hear(clips[0].sound_N) == heard[0] and {*sum(heard, [])} <= {*known}
    own, other = (
        np.mean(
            [share_understood(h, c.text.split()) for h, c in zip(heard, moved, strict=True)]
        )
        for moved in (clips, clips[1:] + clips[:1])
    )
    assert own > 0.6 > 0.4 > other


def test_without_the_peer_there_is_no_recogniser(monkeypatch):
    monkeypatch.setitem(sys.modules, "pocketsphinx", None)
    assert recogniser(("one",), 1) is None
