"""The scores equal their definitions, known answers and what SciPy computes."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from predictive_scores import best_temperature, detection_auroc, entropies, scores


def test_known_scores():
    probs = torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.3, 0.7]])
    found = scores(probs, torch.tensor([0, 1, 1, 1]))
    assert found.accuracy == 0.75
    assert found.nll == pytest.approx(-sum(map(math.log, (0.9, 0.4, 0.8, 0.7))) / 4)
    # four bins of one prediction: |1 - .9| + |0 - .6| + |1 - .8| + |1 - .7|
    assert found.ece == pytest.approx((0.1 + 0.6 + 0.2 + 0.3) / 4)


def test_predictions_of_one_bin_balance():
    probs = torch.tensor([[0.75, 0.25]]).repeat(4, 1)
    assert scores(probs, torch.tensor([0, 0, 0, 1])).ece == pytest.approx(0)


def test_certainty_and_its_failure_stay_finite():
    probs, labels = torch.eye(3), torch.tensor([0, 1, 2])
    assert scores(probs, labels) == (1.0, 0.0, 0.0)
    assert 600 < scores(probs, labels.roll(1)).nll < 700


@pytest.mark.parametrize(
    ("probs", "labels", "words"),
    [
        (torch.zeros(0, 2), torch.zeros(0, dtype=torch.int64), "N > 0"),
        (torch.ones(2), torch.zeros(2, dtype=torch.int64), "N > 0"),
        (torch.tensor([[0.5, 0.6]]), torch.tensor([0]), "softmax"),
        (torch.tensor([[1.5, -0.5]]), torch.tensor([0]), "softmax"),
        (torch.tensor([[float("nan"), 1.0]]), torch.tensor([0]), "softmax"),
    ],
)
def test_what_is_refused(probs, labels, words):
    with pytest.raises(ValueError, match=words):
        scores(probs, labels)


def test_the_entropy_lies_between_none_and_that_of_a_guess():
    probs = torch.tensor([[1.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3]])
    torch.testing.assert_close(entropies(probs), torch.tensor([0, math.log(3)]).double())


@given(st.lists(st.integers(0, 5), min_size=1), st.lists(st.integers(0, 5), min_size=1))
def test_the_auroc_is_the_share_of_pairs_in_order(known, unknown):
    pairs = [(u > k) + 0.5 * (u == k) for k in known for u in unknown]
    found = detection_auroc(torch.tensor(known), torch.tensor(unknown))
    assert found == pytest.approx(sum(pairs) / len(pairs))


def test_an_auroc_of_nothing_is_refused():
    with pytest.raises(ValueError, match="0 known and 1 unknown"):
        detection_auroc(torch.zeros(0), torch.zeros(1))


@pytest.mark.parametrize("at", [0, 1])
def test_an_auroc_with_a_nan_is_refused(at):
    both = [torch.tensor([0.0, 1.0]), torch.tensor([0.0, 1.0])]
    both[at][1] = float("nan")
    with pytest.raises(ValueError, match="none may be NaN"):
        detection_auroc(*both)


def test_the_temperature_undoes_a_factor():
    """Labels drawn from softmax(logits) and logits made three times too large."""
    drawn = torch.Generator().manual_seed(0)
    logits = torch.randn(20_000, 5, generator=drawn)
    labels = torch.multinomial(logits.softmax(1), 1, generator=drawn)[:, 0]
    assert best_temperature(3 * logits, labels) == pytest.approx(3, rel=0.05)
