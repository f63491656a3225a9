"""The proof: the tuner picks by the median, skips refusals, and survives a bad cache."""

import group_tuner
import pytest

A, B = (8, 4, 1), (4, 4, 2)


def test_one_shot_and_median_may_differ():
    seconds = {A: [1.0, 9.0, 9.0], B: [2.0, 2.0, 2.0]}
    assert group_tuner.choose(seconds, first=1) == A and group_tuner.choose(seconds) == B


def test_rounds_go_over_all_candidates_in_turn():
    order = []
    group_tuner.times(lambda g: order.append(g) or 1.0, [A, B], 2)
    assert order == [A, B, A, B]


def test_a_refused_candidate_is_left_out():
    def run(group):
        if group == A:
            raise RuntimeError("out of resources")
        return 1.0

    assert group_tuner.times(run, [A, B], 2) == {B: [1.0, 1.0]}


def test_all_refused_is_an_error():
    def run(group):
        raise RuntimeError

    with pytest.raises(ValueError, match="every candidate was refused"):
        group_tuner.times(run, [A], 1)


def test_the_spread_is_of_medians():
    found = group_tuner.spread({A: [1.0, 1.0, 50.0], B: [3.0, 3.0, 3.0]})
    assert found == {"best": 1.0, "mean": 2.0, "worst": 3.0, "near": 0.5}


def test_one_slow_moment_does_not_decide():
    assert group_tuner.choose({A: [1.0, 1.0, 50.0], B: [2.0, 2.0, 2.0]}) == A


def test_near_is_a_tenth():
    times = {(at, 1, 1): [one] for at, one in enumerate((1.0, 1.09, 1.11, 1.4), 1)}
    assert group_tuner.spread(times)["near"] == 0.5


def test_choices_come_back_from_the_cache(tmp_path):
    group_tuner.save(tmp_path / "c", "here", {"conv": A})
    assert group_tuner.load(tmp_path / "c", "here") == {"conv": A}


def test_a_foreign_cache_counts_as_absent(tmp_path):
    group_tuner.save(tmp_path / "c", "there", {"conv": A})
    assert group_tuner.load(tmp_path / "c", "here") == {}


@pytest.mark.parametrize(
    "text", ["", '{"device": "here"', "[]", '{"device": "here", "groups": 3}']
)
def test_a_torn_cache_counts_as_absent(tmp_path, text):
    (tmp_path / "c").write_text(text)
    assert group_tuner.load(tmp_path / "c", "here") == {}


def test_a_save_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    group_tuner.save(tmp_path / "c", "here", {"conv": A})

    def killed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(group_tuner.os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        group_tuner.save(tmp_path / "c", "here", {"conv": B})
    assert group_tuner.load(tmp_path / "c", "here") == {"conv": A}


def test_a_killed_tuner_goes_on_where_it_was(tmp_path):
    tried = []

    def task(key, killed=False):
        def run(group):
            if killed:
                raise KeyboardInterrupt
            tried.append(key)
            return 1.0

        return run, [A]

    with pytest.raises(KeyboardInterrupt):
        group_tuner.tune(tmp_path / "c", "here", {"a": task("a"), "b": task("b", True)}, 1)
    found = group_tuner.tune(tmp_path / "c", "here", {"a": task("a"), "b": task("b")}, 1)
    assert tried == ["a", "b"] and found == {"a": A, "b": A}


@pytest.mark.parametrize("kept", [[0, -4, 1], [8], [9, 9, 9]])
def test_a_kept_choice_that_is_no_candidate_is_tuned_again(tmp_path, kept):
    group_tuner.save(tmp_path / "c", "here", {"a": kept})
    seconds = {A: 2.0, B: 1.0}
    found = group_tuner.tune(tmp_path / "c", "here", {"a": (seconds.get, [A, B])}, 1)
    assert found == {"a": B} == group_tuner.load(tmp_path / "c", "here")
