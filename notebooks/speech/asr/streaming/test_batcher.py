"""The batcher: full batches, short waits, every answer to its owner, failures to theirs."""

import asyncio
import threading
import time

import numpy as np
import pytest

from .batcher import Answer, Batcher, DeadlineMissed, QueueFull, WorkerFailed
from .windows import as_batch

PATIENCE_S = 60


def window(value, frames=10):
    return np.full((64, frames), value, np.float32)


def echo(batch_BFT, frames_B=None):
    """A network whose answer tells which window it got."""
    return batch_BFT[:, :1, ::2].transpose(0, 2, 1).repeat(29, 2)


def run(work, infer=echo, **options):
    async def go():
        batcher = Batcher(infer, **options).start()
        try:
            return await work(batcher), batcher.metrics.registry.get_sample_value
        finally:
            await batcher.stop()

    return asyncio.run(go())


def together(values, frames=None):
    async def work(batcher):
        frames_of = frames or [10] * len(values)
        tasks = (batcher.submit(window(v, t)) for v, t in zip(values, frames_of, strict=True))
        return await asyncio.gather(*tasks, return_exceptions=True)

    return work


def test_every_window_gets_its_own_answer():
    answers, _ = run(together(range(50), [10, 9, 8, 7, 10] * 10), max_batch=7)
    for value, answer in enumerate(answers):
        frames = [10, 9, 8, 7, 10][value % 5]
        assert answer.log_probs_SV.shape == (-(-frames // 2), 29)
        assert (answer.log_probs_SV == value).all()


@pytest.mark.parametrize("max_batch, batches", [(1, 12), (4, 3), (16, 1)])
def test_windows_that_wait_share_a_batch(max_batch, batches):
    answers, value = run(together(range(12)), max_batch=max_batch, max_delay_ms=50)
    assert value("asr_exec_count_total") == batches and value("asr_count_total") == 12
    assert {answer.batch for answer in answers} == {12 // batches}


def test_what_waited_while_the_network_was_busy_leaves_together_though_it_is_late():
    def slow(batch_BFT, frames_B):
        time.sleep(0.05)
        return echo(batch_BFT)

    answers, value = run(together(range(9)), slow, max_batch=8, max_delay_ms=0)
    assert value("asr_exec_count_total") == 2
    assert sorted(answer.batch for answer in answers) == [1] + [8] * 8


def test_a_lone_window_leaves_after_the_delay():
    answers, _ = run(together([1]), max_batch=8, max_delay_ms=30)
    assert answers[0].batch == 1 and 0.025 < answers[0].queue_s < PATIENCE_S / 2


def test_a_full_queue_refuses_and_counts():
    answers, value = run(together(range(5)), max_queue=3)
    assert [type(answer) for answer in answers[3:]] == [QueueFull] * 2
    assert value("asr_request_failure_total", {"reason": "queue_full"}) == 2
    assert value("asr_request_success_total") == 3


def test_windows_past_their_deadline_are_dropped():
    free, seen = threading.Event(), []

    def busy(batch_BFT, frames_B):
        seen.append(batch_BFT[0, 0, 0])
        free.wait(PATIENCE_S)
        return echo(batch_BFT)

    async def work(batcher):
        missed = await together([1, 2])(batcher)
        free.set()
        last = await batcher.submit(window(3))
        return *missed, last

    answers, value = run(work, busy, max_batch=1, deadline_ms=500)
    assert [type(answer) for answer in answers] == [DeadlineMissed, DeadlineMissed, Answer]
    assert seen == [1, 3], "nobody wants the second any more when its turn comes"
    assert value("asr_request_failure_total", {"reason": "deadline"}) == 2


def test_the_deadline_holds_while_the_network_hangs():
    free = threading.Event()

    async def work(batcher):
        answer, *_ = await together([1])(batcher)
        hangs = not free.is_set()
        free.set()
        return answer, hangs

    (answer, hangs), value = run(work, lambda *_: free.wait(PATIENCE_S), deadline_ms=100)
    assert isinstance(answer, DeadlineMissed) and hangs
    assert value("asr_request_failure_total", {"reason": "deadline"}) == 1


def test_a_poisonous_window_fails_alone():
    def picky(batch_BFT, frames_B):
        if (batch_BFT == 3).any():
            raise WorkerFailed("poison")
        return echo(batch_BFT)

    answers, value = run(together(range(6)), picky, max_batch=6, max_delay_ms=20)
    assert [n for n, a in enumerate(answers) if type(a) is WorkerFailed] == [3]
    assert value("asr_request_failure_total", {"reason": "inference"}) == 1


def test_stopping_fails_what_still_waits():
    async def work(batcher):
        task = asyncio.create_task(batcher.submit(window(1)))
        await asyncio.sleep(0)
        await batcher.stop()
        return await asyncio.gather(task, return_exceptions=True)

    (answer,), value = run(work)
    assert isinstance(answer, WorkerFailed)
    assert value("asr_request_failure_total", {"reason": "stopped"}) == 1


def test_unlike_lengths_are_padded_and_told():
    batch, frames = as_batch([window(1, 4), window(2, 6)])
    assert batch.shape == (2, 64, 6) and frames.tolist() == [4, 6] and not batch[0, :, 4:].any()
    assert as_batch([window(1), window(2)])[1] is None
    padded, frames = as_batch([window(1, 4)], pad_to=9)
    assert padded.shape == (1, 64, 9) and frames.tolist() == [4]


@pytest.mark.parametrize("bad", [{"max_batch": 0}, {"max_queue": 0}, {"deadline_ms": 0}])
def test_impossible_sizes_are_refused(bad):
    with pytest.raises(ValueError, match="at least"):
        Batcher(echo, **bad)
