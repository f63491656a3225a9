"""Decoding: equal to the sum over all alignments, and clear refusals."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from .beam import ALPHA, BETA, PrefixBeam, beam_search, beam_search_reference
from .best_path import collapse, greedy
from .phrases import PhraseBoost, boosted_counts
from .word_model import WordNGram

LETTERS = ("a", "b", " ")
SENTENCES = ["a ab", "ab b", "a ab b", "b"]
EXACT = -math.inf, -math.inf
DEVICES = [
    "cpu",
    pytest.param(
        "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
    ),
]


def bonus(boost, text):
    """What a whole text earns, by walking it once."""
    state, total = boost.start(), 0.0
    for letter in text:
        state, change = boost.step(state, letter)
        total += change
    return total + boost.end(state)


def random_log_probs(steps, letters=3, seed=0, sharp=1.0):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(steps, letters + 1, generator=generator, dtype=torch.float64) * sharp
    return logits.log_softmax(1)


def exact_beam(log_probs, width=10_000, **options):
    beam = PrefixBeam(width, vocabulary=LETTERS, floors=EXACT, **options)
    beam.advance(log_probs)
    return beam


@pytest.mark.parametrize("steps", [0, 1, 2, 5])
@pytest.mark.parametrize("seed", [0, 1])
def test_wide_beam_equals_the_sum_over_all_alignments(steps, seed):
    log_probs = random_log_probs(steps, seed=seed)
    wanted = beam_search_reference(log_probs, vocabulary=LETTERS)
    got = dict(exact_beam(log_probs).finish())
    assert got == pytest.approx(wanted, abs=1e-9) and len(got) == len(wanted)


def test_word_model_and_phrases_add_what_the_text_alone_earns():
    model = WordNGram([*SENTENCES, "bba"], order=2)  # "bb" is cut: letters of a word, and none
    boost = PhraseBoost(["ab", "b a"], weight=0.7)

    def extra(text):
        state, total = model.start(), 0.0
        for word in text.split():
            score, state = model.score(state, word)
            total += ALPHA * score + BETA + model.unknown_score * (word not in model.words)
        return total + ALPHA * model.end(state) + bonus(boost, text)

    log_probs = random_log_probs(6, seed=3)
    wanted = beam_search_reference(log_probs, extra, LETTERS)
    got = dict(exact_beam(log_probs, language_model=model, boost=boost).finish())
    assert got == pytest.approx(wanted, abs=1e-9) and len(got) == len(wanted)


@pytest.mark.parametrize("seed", range(5))
def test_scores_of_the_best_never_exceed_the_exact_sum(seed):
    log_probs = random_log_probs(6, seed=seed, sharp=3)
    exact = beam_search_reference(log_probs, vocabulary=LETTERS)
    beam = PrefixBeam(width=4, vocabulary=LETTERS)
    beam.advance(log_probs)
    text, score = beam.finish()[0]
    assert score <= exact[text] + 1e-9 and exact[text] > max(exact.values()) - 0.5


def test_probabilities_of_all_texts_sum_to_one():
    found = exact_beam(random_log_probs(6, seed=2)).finish()
    assert sum(math.exp(score) for _, score in found) == pytest.approx(1, abs=1e-9)


def test_scaling_survives_ten_thousand_steps():
    beam = PrefixBeam(width=5, vocabulary=LETTERS)
    beam.advance(torch.full((10_000, 4), 0.25).log())
    text, score = beam.finish()[0]
    assert math.isfinite(score) and text


def test_beam_finds_the_text_that_greedy_misses():
    log_probs = torch.tensor([[0.4, 0.6], [0.4, 0.6]]).log()
    assert greedy(log_probs, vocabulary=("a",)) == [""]
    assert beam_search(log_probs, vocabulary=("a",)) == ["a"]


@pytest.mark.parametrize("cut", [0, 1, 3, 7])
def test_a_beam_goes_on_where_the_last_chunk_ended(cut):
    log_probs = random_log_probs(7, seed=4)
    whole, parts = exact_beam(log_probs, 16), exact_beam(log_probs[:cut], 16)
    parts.advance(log_probs[cut:])
    assert parts.finish() == whole.finish()


def test_reading_the_best_leaves_the_beam_as_it_was():
    log_probs = random_log_probs(6, seed=5)
    beam = exact_beam(log_probs[:3], language_model=WordNGram(SENTENCES))
    beam.best(), beam.finish()
    beam.advance(log_probs[3:])
    whole = exact_beam(log_probs, language_model=WordNGram(SENTENCES))
    assert beam.finish() == whole.finish()


def spike(letters, device="cpu"):
    ids = torch.tensor(letters, device=device)
    return torch.nn.functional.one_hot(ids, 4).double().mul(20).log_softmax(1)[None]


@pytest.mark.parametrize("device", DEVICES)
def test_greedy_drops_repeats_then_blanks(device):
    assert greedy(spike([0, 0, 3, 0, 1, 1, 2, 3, 3], device), vocabulary=LETTERS) == ["aab "]


def test_greedy_stops_at_each_length():
    both = spike([0, 1, 1, 2]).repeat(2, 1, 1)
    assert greedy(both, torch.tensor([1, 3]), LETTERS) == ["a", "ab"]


@given(st.lists(st.integers(0, 3), max_size=12))
@settings(deadline=None, max_examples=60)
def test_collapse_equals_its_words(ids):
    wanted = [i for i, _ in itertools.groupby(ids)]
    assert collapse(ids, blank=3) == [i for i in wanted if i != 3]


@pytest.mark.parametrize(
    "bad, words",
    [
        (torch.zeros(3, 5), "must be"),
        (torch.zeros(4), "must be"),
        ("text", "must be"),
        (torch.full((2, 4), torch.nan), "NaN"),
    ],
)
def test_other_shapes_and_nan_are_refused(bad, words):
    for decode in (greedy, beam_search):
        with pytest.raises(ValueError, match=words):
            decode(bad, vocabulary=LETTERS)


def test_lengths_beyond_the_steps_are_refused():
    with pytest.raises(ValueError, match="0...2"):
        greedy(torch.zeros(1, 2, 4), [3], LETTERS)


def test_a_beam_of_no_width_is_refused():
    with pytest.raises(ValueError, match="at least one prefix"):
        PrefixBeam(0)


def test_words_the_end_and_the_unknown_sum_to_one():
    model = WordNGram(SENTENCES, order=3)
    for history in [(), ("a",), ("<s>", "a"), ("never", "seen")]:
        words = [*model.words, "</s>", "?"]
        assert sum(model.probability(history, w) for w in words) == pytest.approx(1)


def test_arpa_gives_kenlm_the_same_model(tmp_path):
    kenlm = pytest.importorskip("kenlm", reason="kenlm is not installed here")
    model = WordNGram(SENTENCES, order=3)
    theirs = kenlm.Model(str(model.write_arpa(tmp_path / "words.arpa")))
    for text in ["a ab", "b b b", "a never ab"]:
        state, total = model.start(), 0.0
        for word in text.split():
            score, state = model.score(state, word)
            total += score
        wanted = theirs.score(text) * math.log(10)
        assert total + model.end(state) == pytest.approx(wanted, abs=1e-4)


def test_phrases_count_as_whole_words_only():
    boost = PhraseBoost(["six", "one two"], weight=2.0)
    assert bonus(boost, "six one six") == 12 and bonus(boost, "sixty") == 0
    assert bonus(boost, "one one two") == 14, "the second one begins the phrase"
    assert bonus(boost, "one") == bonus(boost, "the six-pack") == 0


def test_a_negative_weight_counts_at_the_end_of_the_phrase():
    boost = PhraseBoost({"six": -1.0})
    state, before = boost.start(), []
    for letter in "six":
        state, change = boost.step(state, letter)
        before.append(change)
    assert before == [0, 0, 0] and boost.end(state) == -3


def test_a_short_phrase_leaves_the_long_one_its_bonus():
    long, both = PhraseBoost(["new york"]), PhraseBoost(["new", "new york"])
    assert bonus(long, "new york") == 8 and bonus(both, "new york") == 8 + 3
    assert bonus(both, "a new yorker") == bonus(both, "new") == 3


@given(st.text("ab ", max_size=14))
@settings(deadline=None, max_examples=100)
def test_bonus_is_found_by_plain_search(text):
    weights = {"ab": 1.0, "ab a": 0.5, "a": -0.25}
    wanted = sum(
        weight * len(phrase)
        for phrase, weight in weights.items()
        for at in range(len(text))
        if f" {text} "[at:].startswith(f" {phrase} ")
    )
    assert bonus(PhraseBoost(weights), text) == wanted


@pytest.mark.parametrize("phrases", [[], [" "]])
def test_empty_phrases_are_refused(phrases):
    with pytest.raises(ValueError, match="phrase"):
        PhraseBoost(phrases)


@pytest.mark.parametrize("sentences, order", [([], 2), (["  "], 2), (["a"], 0)])
def test_a_model_of_nothing_is_refused(sentences, order):
    with pytest.raises(ValueError, match="word"):
        WordNGram(sentences, order)


def test_boosting_lifts_a_word_over_its_rival():
    step = np.log([[0.45, 0.55, 1e-9, 1e-9]])  # "a" or "b"
    assert beam_search(torch.tensor(step), vocabulary=LETTERS) == ["b"]
    boosted = beam_search(torch.tensor(step), boost=PhraseBoost(["a"]), vocabulary=LETTERS)
    assert boosted == ["a"]


def test_boosted_words_are_found_or_false_utterance_by_utterance():
    said, heard = ["nine one", "two"], ["one one", "nine two"]
    assert boosted_counts(said, heard, ["nine"]) == (1, 0, 1)
    assert boosted_counts(said, heard, ["one", "two"]) == (2, 2, 1)
