"""Hand-made cases for each of the five scores, and laws that hold for all predictions."""

import math

import pytest
import streaming_scores as ss
from disfl_labels import Utterance
from hypothesis import given
from hypothesis import strategies as st

GOLD = [1, 0, 0]
LATE = [[0], [0, 0], [1, 0, 0]]  # the first word is called disfluent at the third
WAIT = [[None], [None, None], [1, 0, 0]]


def test_perfect_labels_score_one_and_change_nothing():
    right = [[1], [1, 0], [1, 0, 0]]
    assert ss.streaming_f1(right, GOLD) == 1
    assert ss.edit_overhead(right, GOLD) == 0
    assert ss.time_to_detection(right, GOLD) == 0
    assert ss.average_waiting_time(right, GOLD) == 0
    assert ss.first_time_detection(right, GOLD) == 0


def test_f1_counts_every_prefix():
    assert ss.counts(LATE, GOLD) == (1, 0, 2, 6, 6)
    assert ss.streaming_f1(LATE, GOLD) == pytest.approx(2 / (2 + 2))


def test_waits_fall_out_of_f1_and_stay_in_the_coverage():
    assert ss.counts(WAIT, GOLD) == (1, 0, 0, 3, 6)
    assert ss.streaming_f1(WAIT, GOLD) == 1


def test_wrongly_removed_words_lower_the_precision():
    assert ss.counts([[1], [1, 1]], [0, 1]) == (1, 2, 0, 3, 3)


def test_edit_overhead_is_changes_per_word():
    assert ss.edit_overhead(LATE, GOLD) == pytest.approx(1 / 3)


def test_a_first_label_is_no_edit_and_a_label_taken_back_is_one():
    assert ss.edit_overhead(WAIT, GOLD) == 0
    assert ss.edit_overhead([[0], [None, 0], [0, 0, 0]], GOLD) == pytest.approx(1 / 3)


def test_time_to_detection_counts_words_after_the_word_itself():
    assert ss.time_to_detection(LATE, GOLD) == 2
    assert ss.time_to_detection([[0], [0, 0], [0, 1, 0]], [1, 1, 0]) == 1


def test_time_to_detection_takes_the_first_detection_also_if_it_is_taken_back():
    assert ss.time_to_detection([[1], [0, 0], [1, 0, 0]], GOLD) == 0


def test_a_fluent_word_that_is_struck_out_is_no_detection():
    assert ss.detection_times([[1], [1, 0], [1, 1, 0]], GOLD) == [0]


def test_no_detection_has_no_time():
    assert math.isnan(ss.time_to_detection([[0]], [1]))
    assert math.isnan(ss.first_time_detection([[0]], [1]))
    assert math.isnan(ss.average_waiting_time([[None]], [1]))
    assert math.isnan(ss.streaming_f1([[0]], [0]))


def test_average_waiting_time_is_over_labelled_words():
    assert ss.average_waiting_time(WAIT, GOLD) == pytest.approx((2 + 1 + 0) / 3)
    assert ss.waiting_times([[None], [0, None]], [0, 0]) == [1, None]


def test_first_time_detection_starts_at_the_repairs_onset():
    assert ss.first_time_detection(LATE, GOLD) == 1  # onset is word 1, noticed at word 2
    assert ss.first_time_detection([[1], [1, 0], [0, 0, 0]], GOLD) == 0  # noticed before it


def test_first_time_detection_needs_a_word_behind_the_edit():
    assert math.isnan(ss.first_time_detection([[0], [0, 1]], [0, 1]))


def test_first_time_detection_is_the_first_word_of_the_run_that_is_noticed():
    late = [[0], [0, 0], [0, 0, 0], [0, 1, 0, 0]]
    assert ss.onset_times(late, [1, 1, 0, 0]) == [1]


labelled = st.lists(st.integers(0, 1), min_size=1, max_size=7).flatmap(
    lambda gold: st.tuples(
        st.just(gold),
        st.tuples(
            *[
                st.lists(st.sampled_from([0, 1, None]), min_size=n, max_size=n)
                for n in range(1, len(gold) + 1)
            ]
        ),
    )
)


@given(labelled)
def test_laws_of_all_predictions(case):
    gold, found = case
    size = len(gold)
    assert 0 <= ss.edit_overhead(found, gold) <= (size - 1) / 2
    for time in (ss.detection_times, ss.onset_times):
        assert all(0 <= t < size for t in time(found, gold))
    hit, wrong, missed, given_, possible = ss.counts(found, gold)
    assert hit + wrong + missed <= given_ <= possible
    assert all(t is None or t + k < size for k, t in enumerate(ss.waiting_times(found, gold)))


@given(labelled)
def test_one_utterance_scores_as_the_functions_say(case):
    gold, found = case
    kinds = tuple("reparandum" if y else "fluent" for y in gold)
    told = ss.score([found], [Utterance(tuple("abcdefg"[: len(gold)]), tuple(gold), kinds)])
    for name, fn in (
        ("f1", ss.streaming_f1),
        ("edit_overhead", ss.edit_overhead),
        ("time_to_detection", ss.time_to_detection),
        ("waiting", ss.average_waiting_time),
        ("first_time", ss.first_time_detection),
    ):
        assert getattr(told, name) == pytest.approx(fn(found, gold), nan_ok=True)


def test_strict_f1_counts_waits_as_misses_and_final_f1_reads_the_last_prefix():
    told = ss.score(
        [WAIT], [Utterance(("a", "b", "c"), (1, 0, 0), ("edit", "fluent", "fluent"))]
    )
    assert (told.f1, told.coverage, told.final_f1) == (1, 0.5, 1)
    assert told.strict_f1 == pytest.approx(2 / (2 + 2))
    assert told.waits == {"edit": 2, "fluent": 0.5}


def test_edits_are_a_mean_over_utterances_and_times_a_mean_over_words():
    short = Utterance(("uh",), (1,), ("edit",))
    long = Utterance(("a", "b", "c"), (1, 0, 0), ("edit", "fluent", "fluent"))
    told = ss.score([[[1]], LATE], [short, long])
    assert told.edit_overhead == pytest.approx((0 + 1 / 3) / 2)  # 1 / 4 if words were pooled
    told = ss.score([[[1]], WAIT], [short, long])
    assert told.waiting == pytest.approx(3 / 4)  # 1 / 2 as a mean of the utterances' means
    assert told.waits == {"edit": 1, "fluent": 0.5}
    assert told.time_to_detection == 1


def test_the_interval_holds_the_score():
    gold = [Utterance(("a", "b", "c"), (1, 0, 0), ("edit", "fluent", "fluent"))] * 6
    found = [LATE, WAIT] * 3
    low, high = ss.f1_interval(found, gold)
    assert low < ss.score(found, gold).f1 < high


@pytest.mark.parametrize(
    ("found", "gold", "words"),
    [
        ([[0], [0]], [0, 0], "one list for each word"),
        ([[0]], [0, 0], "1, 2 ... 2"),
        ([[2]], [0], "0 and 1 are allowed"),
        ([[0]], [None], "0 and 1 are allowed"),
    ],
)
def test_what_is_no_prediction_is_refused(found, gold, words):
    with pytest.raises(ValueError, match=words):
        ss.streaming_f1(found, gold)


def test_as_many_predictions_as_utterances():
    with pytest.raises(ValueError, match="one each"):
        ss.score([], [])
