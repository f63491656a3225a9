"""The generator: what is removed gives the sentence back; rates and spans as documented."""

import disfl_labels as dl
import disfluency_generator as dg
import numpy as np
import pytest

TEXTS = [tuple(f"w{(i * j) % 17}" for j in range(1, 13)) for i in range(1, 40)]
OTHERS = dg.alternatives(TEXTS)


def said(rate=dg.RATE, count=2000, seed=0):
    rng = np.random.default_rng(seed)
    return [(w, dg.spoken(w, rng, OTHERS, rate=rate)) for w in TEXTS * (count // len(TEXTS))]


def test_removing_the_disfluent_words_gives_the_sentence_back():
    assert all(u.cleaned == words for words, u in said(rate=0.5))


def test_half_of_the_sentences_of_twelve_words_hold_one():
    share = np.mean([any(u.labels) for _, u in said()])
    wanted = 1 - 0.5 ** (12 / 11.5)
    assert share == pytest.approx(wanted, abs=0.04)  # four standard errors of 2,000 draws


def test_longer_sentences_hold_more():
    rng = np.random.default_rng(0)
    short, long = (
        np.mean([any(dg.spoken(["a"] * n, rng, {}).labels) for _ in range(600)])
        for n in (4, 30)
    )
    assert short < 0.35 < 0.7 < long


def test_labels_and_kinds_agree_and_all_kinds_occur():
    kinds = {kind for _, u in said() for kind in u.kinds}
    assert kinds == set(dl.KINDS)
    for _, u in said():
        assert len(u.words) == len(u.labels) == len(u.kinds)
        assert u.labels == tuple(int(kind in dl.DISFLUENT) for kind in u.kinds)


def test_a_reparandum_is_followed_by_its_repair():
    for _, u in said():
        for a, b in zip(u.kinds, u.kinds[1:], strict=False):
            assert a not in ("reparandum", "interregnum") or b in (
                a,
                "interregnum",
                "repair onset",
            )


def test_the_rate_is_a_probability_and_its_ends_work():
    assert all(not any(u.labels) for _, u in said(rate=0.0, count=40))
    assert all(any(u.labels) for _, u in said(rate=1.0, count=40))
    with pytest.raises(ValueError, match="0 to 1"):
        dg.spoken(("a",), np.random.default_rng(0), {}, rate=1.5)


def test_empty_and_single_words():
    rng = np.random.default_rng(0)
    assert dg.spoken((), rng, {}).words == ()
    assert all(dg.spoken(("a",), rng, {}, rate=1).cleaned == ("a",) for _ in range(50))


def test_german_sentences_have_german_fillers():
    rng = np.random.default_rng(0)
    texts = [dg.german(rng) for _ in range(300)]
    assert len(set(texts)) > 250 and all(6 <= len(words) <= 16 for words in texts)
    told = [dg.spoken(w, rng, dg.alternatives(texts), dg.GERMAN) for w in texts]
    heard = {
        w for u in told for w, kind in zip(u.words, u.kinds, strict=True) if kind == "edit"
    }
    allowed = {w for one in dg.GERMAN["fillers"] for w in one.split()}
    assert heard and heard <= allowed


def test_seeds_repeat():
    assert said(seed=3)[:50] == said(seed=3)[:50] != said(seed=4)[:50]
