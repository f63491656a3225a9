import os

import limited_child
import pytest
from limited_child import forked, prove_batch, search
from step_timeline import largest_batch
from tutorial_network import classifier

SIDE, ROOM = 32, 40_000_000


@pytest.fixture(scope="module")
def proof():
    guess = largest_batch(classifier(SIDE), (1, 3, SIDE, SIDE), "adam", ROOM)
    return guess, prove_batch(guess, SIDE, ROOM)


@pytest.mark.parametrize("most", [0, 1, 6, 17, 40])
@pytest.mark.parametrize("guess", [1, 5, 17, 30])
def test_the_search_ends_at_the_last_batch_that_fits(most, guess):
    assert search(guess, lambda batch: batch <= most) == most


def test_a_good_guess_needs_two_tries():
    asked = []
    search(17, lambda batch: asked.append(batch) or batch <= 17)
    assert asked == [17, 18]


def test_the_batch_was_tried_and_fits(proof):
    assert [one.fits for one in proof[1].tries if one.batch == proof[1].batch] == [True]


def test_the_next_batch_was_tried_and_its_error_caught(proof):
    (after,) = [one for one in proof[1].tries if one.batch == proof[1].batch + 1]
    assert not after.fits and any(word in after.error for word in limited_child.SHORT)


def test_the_prediction_is_near_what_is_proved(proof):
    # a convolution's scratch is left out of the prediction
    assert proof[1].batch == pytest.approx(proof[0], rel=0.02)


def test_a_killed_fork_is_no_proof(monkeypatch):
    monkeypatch.setattr(limited_child, "limited", lambda *all: os.kill(os.getpid(), 9))
    with pytest.raises(RuntimeError, match="no error was caught"):
        forked(1, 32, 1, "none")


def test_an_error_that_is_not_memorys_is_no_proof(monkeypatch):
    def fail(*settings):
        if steps := limits:
            raise RuntimeError(f"shapes do not match after {len(steps)}")

    limits = []
    monkeypatch.setattr(limited_child, "train", fail)
    monkeypatch.setattr(limited_child.resource, "setrlimit", lambda *all: limits.append(all))
    with pytest.raises(RuntimeError, match="shapes do not match"):
        limited_child.limited(1, 32, 10**9, "none")


def test_a_batch_of_nothing_is_refused():
    with pytest.raises(ValueError, match="1 or more"):
        prove_batch(0, 32, 1)
