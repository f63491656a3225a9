"""Shards on real processes equal one process; predicted bytes; and nothing stays behind when
one fails.
"""

import multiprocessing
import os
import time

import implicit_als as als
import pytest
import sharded_als
import torch
from implicit_als import Precision, Settings
from link_graph import community_graph
from sharded_als import Job

GRAPH = community_graph(31, 300, 3, seed=4)  # no multiple of the processes


SETTINGS = Settings(length=4, batch=40)


def job(graph=GRAPH, factors=6, settings=SETTINGS, **more):
    items = als.first_tables(graph.shape, factors)[1]
    about = Job(graph.shape, items, 0.2, 0.05, 2, settings)._replace(**more)
    return graph.rows, graph.cols, about


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_shards_on_processes_equal_one_process_and_send_what_was_predicted(processes):
    users, items, shares = sharded_als.fit_sharded(processes, *job())
    alone = als.fit(GRAPH.rows, GRAPH.cols, GRAPH.shape, 6, 0.2, 0.05, 2, settings=SETTINGS)
    torch.testing.assert_close(users, alone.users, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(items, alone.items, rtol=1e-4, atol=1e-5)
    predicted = sharded_als.predicted_bytes(processes, *job())
    assert (predicted == 0) == (processes == 1)
    for share in shares:
        if share.sent_bytes is not None and processes > 1:  # small messages: the frames weigh
            assert predicted <= share.sent_bytes < 1.5 * predicted


def test_plain_penalties_and_empty_shards_work_too():
    few = community_graph(3, 6, 1)
    users, items, _ = sharded_als.fit_sharded(4, *job(few, 2, Settings(scaled=False)))
    alone = als.fit(
        few.rows, few.cols, few.shape, 2, 0.2, 0.05, 2, settings=Settings(scaled=False)
    )
    torch.testing.assert_close(users, alone.users, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(items, alone.items, rtol=1e-4, atol=1e-5)


def test_a_pass_s_bytes_by_the_formula():
    # one batch of 10 places and 3 owners, 2 factors, 2 processes
    gather = 10 * 4 + 2 * 1 * (2 * 10 * 2 * 4) // 2
    scatter = 3 * 2 * 4 + 3 * 4
    assert sharded_als.pass_bytes(2, 1, 10, 3, 2) == gather + scatter + 2 * 4 * 4 // 2
    assert sharded_als.pass_bytes(1, 5, 10, 3, 2) == 0


def test_a_shard_holds_one_row_more_than_fit_evenly():
    assert [sharded_als.shard_size(8, count) for count in (1, 3, 4)] == [9, 3, 3]


def test_a_process_that_fails_is_told_and_none_stays_behind():
    bad = torch.full((31, 6), float("nan"))  # no matrix is positive definite then
    with pytest.raises(RuntimeError, match="of 2 failed; all were ended"):
        sharded_als.fit_sharded(2, *job(items=bad))
    assert not multiprocessing.active_children()


def test_a_process_that_hears_nothing_gives_up_in_time(monkeypatch):
    monkeypatch.setattr(sharded_als, "_work", _silent)
    began = time.monotonic()
    with pytest.raises(RuntimeError, match="2 of 2 processes did not answer in time"):
        sharded_als.fit_sharded(2, *job(timeout_s=0.05))
    assert time.monotonic() - began < 10
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("rank", [0, 1])
def test_a_process_that_dies_without_a_word_is_told_at_once(monkeypatch, rank):
    monkeypatch.setattr(sharded_als, "_work", [_first_dies, _second_dies][rank])
    began = time.monotonic()
    with pytest.raises(RuntimeError, match="died without a word"):
        sharded_als.fit_sharded(2, *job(timeout_s=1))  # ten seconds for all
    assert time.monotonic() - began < 9 and not multiprocessing.active_children()


def test_a_history_longer_than_a_batch_gets_a_larger_batch():
    short = Settings(length=1, batch=2)
    users, _, _ = sharded_als.fit_sharded(2, *job(settings=short))
    alone = als.fit(GRAPH.rows, GRAPH.cols, GRAPH.shape, 6, 0.2, 0.05, 2, settings=short)
    torch.testing.assert_close(users, alone.users, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"shape": (31, 30)}, "columns 0 to 30"),
        ({"iterations": 0}, "iterations 1 or more"),
        ({"settings": Settings(precision=Precision(storage=torch.bfloat16))}, "float32 alone"),
        ({"items": torch.zeros(30, 6)}, "31 items"),
    ],
)
def test_what_has_no_answer_is_refused(more, words):
    with pytest.raises(ValueError, match=words):
        sharded_als.fit_sharded(2, *job(**more))


@pytest.mark.parametrize("processes", [0, 65])
def test_an_impossible_number_of_processes_is_refused(processes):
    with pytest.raises(ValueError, match="allowed are 1 to 64"):
        sharded_als.fit_sharded(processes, *job())


def _silent(*_):
    time.sleep(60)


def _first_dies(rank, *_):
    os._exit(3) if rank == 0 else time.sleep(60)


def _second_dies(rank, *_):
    os._exit(3) if rank == 1 else time.sleep(60)
