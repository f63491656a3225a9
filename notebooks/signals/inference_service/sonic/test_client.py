"""SONIC against servers that are well, and through networks that are not."""

import time
from dataclasses import replace

import numpy as np
import pytest
from service import EmbeddedServer
from service.embedded import Handler

from .client import Model, Refused, Sonic, Unanswered
from .faults import Fault
from .kserve import unpack

ROWS = Model("halves", "rows", (3, 2), {"mean": (1,), "half": (3, 2)})


class Halves:
    """A model of known answers; `slow_s` holds it up."""

    inputs = {"rows": (np.float32, (3, 2))}
    outputs = {"mean": (np.float32, (1,)), "half": (np.float32, (3, 2))}
    slow_s = 0.0

    def __call__(self, arrays):
        time.sleep(self.slow_s)
        rows = arrays["rows"]
        if (rows == 666).any():
            raise ArithmeticError("out of range")
        return {"mean": rows.mean((1, 2), keepdims=True)[:, 0], "half": rows / 2}


class Filled(Halves):
    """The right shape and no data: what Triton's stub did under NumPy 2."""

    def __init__(self, value):
        self.value = np.float32(value)

    def __call__(self, arrays):
        found = super().__call__(arrays)
        return {name: np.full_like(values, self.value) for name, values in found.items()}


class OnceBusy(Halves):
    """Fails at its first request."""

    def __init__(self):
        self.asked = 0

    def __call__(self, arrays):
        self.asked += 1
        if self.asked == 1:
            raise ArithmeticError("busy")
        return super().__call__(arrays)


class Clock:
    """Moves while somebody sleeps, and for how long each time is kept."""

    def __init__(self):
        self.now, self.slept = 0.0, []

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("sonic.client.time", clock)
    return clock


@pytest.fixture(scope="module")
def server():
    with EmbeddedServer(
        {"halves": Halves(), "nan": Filled(np.nan), "zeros": Filled(0), "ones": Filled(1)},
        max_batch=64,
        delay_us=0,
    ) as server:
        yield server


def rows(count, seed=0):
    return np.random.default_rng(seed).standard_normal((count, 3, 2)).astype(np.float32)


def local(block):
    return block.mean((1, 2))[:, None], block / 2


def right(found, sent):
    np.testing.assert_allclose(found[1], sent / 2)
    np.testing.assert_allclose(found[0][:, 0], sent.mean((1, 2)), atol=1e-6)


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 50])
def test_blocks_come_back_in_order(server, count):
    with Sonic([server.address], ROWS, batch=8, in_flight=3) as sonic:
        sent = rows(count)
        right(sonic(sent), sent)
        assert sonic.report.blocks == -(-count // 8) and sonic.report.retries == 0


def test_several_events_are_under_way_at_once(server):
    with Sonic([server.address], ROWS, batch=4) as sonic:
        sent = [rows(9, seed) for seed in range(5)]
        for pending, one in zip([sonic.acquire(s) for s in sent], sent, strict=True):
            right(pending.result(), one)


def test_a_wrong_request_is_refused_at_once(server):
    with (
        Sonic([server.address], ROWS, batch=100) as sonic,
        pytest.raises(Refused, match="1 to 64"),
    ):
        sonic(rows(100))
    other = Model("halves", "rows", (2, 3), ROWS.outputs)
    with (
        Sonic([server.address], other) as sonic,
        pytest.raises(Refused, match=r"\(rows, 3, 2\)"),
    ):
        sonic(np.zeros((1, 2, 3), np.float32))


def test_a_server_without_the_model_is_passed_over_and_all_without_it_refuse(server):
    with EmbeddedServer({"other": Halves()}) as coming:
        with Sonic([coming.address, server.address], ROWS, wait_s=0) as sonic:
            sent = rows(5)
            right(sonic(sent), sent)
            assert sonic.report.retries == 1 and "404" in sonic.report.failures[0]
        with (
            Sonic([coming.address], ROWS, wait_s=0.01) as sonic,
            pytest.raises(Refused, match="'halves' is unknown"),
        ):
            sonic(rows(1))


def test_who_was_refused_once_and_then_not_answered_is_not_refused():
    with (
        EmbeddedServer({"other": Halves()}) as coming,
        Sonic([coming.address, "127.0.0.1:9"], ROWS, tries=2, wait_s=0) as sonic,
        pytest.raises(Unanswered, match="ConnectionRefused"),
    ):
        sonic(rows(1))


LARGE = Model("halves", "rows", (100, 100), {"mean": (1,)})  # 40 kB a row


@pytest.mark.parametrize("model", ["other", "halves"])
def test_a_refusal_reaches_who_still_sends_a_large_body(server, model):
    """A missing model, and rows of another shape, of 10 MB: more than sockets hold."""
    sent, asked = np.ones((256, 100, 100), np.float32), replace(LARGE, name=model)
    for _ in range(5):
        with (
            Sonic([server.address], asked, tries=2, wait_s=0) as sonic,
            pytest.raises(Refused, match="unknown" if model == "other" else r"rows, 3, 2"),
        ):
            sonic(sent)


def test_a_body_above_the_limit_is_refused_and_not_cut_off(server, monkeypatch):
    monkeypatch.setattr("service.embedded.MOST_BYTES", 2**20)
    with (
        Sonic([server.address], LARGE) as sonic,
        pytest.raises(Refused, match="1 to 1048576 are allowed"),
    ):
        sonic(np.ones((256, 100, 100), np.float32))


def test_numbers_do_for_a_server_that_reads_nothing_else(server):
    with Sonic([server.address], ROWS, batch=8, binary=False) as sonic:
        sent = rows(20)
        right(sonic(sent), sent)
        assert sonic.report.retries == 0 and sonic.report.sent_bytes > 4 * sent.size


@pytest.mark.parametrize("status", [408, 425, 429])
def test_a_server_that_says_not_now_is_asked_again(monkeypatch, status):
    monkeypatch.setattr("service.embedded.STATUS", {RuntimeError: status})
    with (
        EmbeddedServer({"halves": OnceBusy()}) as busy,
        Sonic([busy.address], ROWS, tries=2, wait_s=0) as sonic,
    ):
        sent = rows(5)
        right(sonic(sent), sent)
        assert sonic.report.retries == 1 and f"status {status}" in sonic.report.failures[0]


@pytest.mark.parametrize("bad", [np.zeros((2, 3, 2)), np.zeros((2, 2, 3), np.float32)])
def test_rows_of_another_kind_never_leave(server, bad):
    with Sonic([server.address], ROWS) as sonic, pytest.raises(ValueError, match="is needed"):
        sonic(bad)


def test_a_server_that_was_down_at_the_start_is_tried_again_elsewhere(server):
    with Sonic(["127.0.0.1:9", server.address], ROWS, batch=4, wait_s=0) as sonic:
        sent = rows(20)
        right(sonic(sent), sent)
        assert sonic.report.retries == len(sonic.report.failures) >= 1


def test_a_server_that_failed_rests_for_a_second(server, clock):
    with Sonic(["127.0.0.1:9", server.address], ROWS, 1, in_flight=1, wait_s=0) as sonic:
        for now, failures in ((0.0, 1), (0.9, 0), (1.1, 1)):
            clock.now = now
            sonic(rows(6))  # three of these begin with the one that is down
            assert len(sonic.report.failures) == failures, now


def test_pauses_between_tries_double_and_half_of_each_is_drawn(clock):
    with (
        Sonic(["127.0.0.1:9"], ROWS, tries=5, wait_s=0.5) as sonic,
        pytest.raises(Unanswered),
    ):
        sonic(rows(1))
    most = np.array([0.5, 1, 2, 4])
    assert len(clock.slept) == 4
    assert (most / 2 <= clock.slept).all() and (clock.slept <= most).all()


def test_without_a_server_the_fallback_computes(server):
    with Sonic(["127.0.0.1:9"], ROWS, batch=4, tries=2, wait_s=0, fallback=local) as sonic:
        sent = rows(6)
        right(sonic(sent), sent)
        assert sonic.report.fallbacks == 2 and len(sonic.report.failures) == 4
    with (
        Sonic(["127.0.0.1:9"], ROWS, tries=2, wait_s=0) as sonic,
        pytest.raises(Unanswered, match="ConnectionRefused"),
    ):
        sonic(rows(1))


def test_a_slow_answer_misses_the_deadline(server):
    with (
        Fault(server.address, delay_s=3) as fault,
        Sonic([fault.address], ROWS, deadline_s=0.3, tries=5) as sonic,
    ):
        began = time.monotonic()
        with pytest.raises(Unanswered, match="0.3 s"):
            sonic(rows(1))
        assert time.monotonic() - began < 2


def test_an_answer_that_trickles_misses_the_deadline_too(server):
    with (
        Fault(server.address, bytes_per_s=4000) as fault,  # half a second each way
        Sonic([fault.address], ROWS, deadline_s=0.6, tries=1) as sonic,
    ):
        began = time.monotonic()
        with pytest.raises(Unanswered):
            sonic(rows(60))
        assert time.monotonic() - began < 2.5


def test_all_connections_share_one_link(server):
    rate = 20_000
    with (
        Fault(server.address, bytes_per_s=rate) as link,
        Sonic([link.address], ROWS, batch=60, in_flight=2) as sonic,
    ):
        sent, began = rows(120), time.monotonic()
        right(sonic(sent), sent)
        bytes_ = sonic.report.sent_bytes + sonic.report.received_bytes
        assert time.monotonic() - began > 0.9 * bytes_ / rate > 0.25


@pytest.mark.parametrize("cut_after", [0, 10, 200])
def test_a_cut_answer_is_asked_again(server, cut_after):
    with (
        Fault(server.address, cut_after=cut_after) as fault,
        Sonic([fault.address, server.address], ROWS, batch=30, wait_s=0) as sonic,
    ):
        sent, began = rows(30), time.monotonic()
        right(sonic(sent), sent)
        assert sonic.report.retries == 1 and len(sonic.report.failures) == 1
        assert time.monotonic() - began < 3  # the end of a connection is noticed at once


def test_a_server_that_hangs_costs_no_event_where_there_is_another(server):
    with (
        Fault(server.address, delay_s=20) as hangs,
        Sonic([hangs.address, server.address], ROWS, deadline_s=3, wait_s=0) as sonic,
    ):
        sent = rows(5)
        right(sonic(sent), sent)
        assert sonic.report.retries == 1


@pytest.mark.parametrize(
    "name, shares, words",
    [
        ("nan", ("half",), "not finite"),
        ("zeros", ("half",), "all are zero"),
        ("zeros", (), "all are zero"),  # a model without probabilities, such as the jets'
        ("ones", ("half",), "sum to"),
    ],
)
def test_an_answer_without_data_is_no_answer(server, name, shares, words):
    empty = Model(name, "rows", (3, 2), {"half": (3, 2)}, shares)
    with (
        Sonic([server.address], empty, tries=2, wait_s=0) as sonic,
        pytest.raises(Unanswered, match=words),
    ):
        sonic(rows(2))


@pytest.mark.parametrize("value", [-0.1, 1.1])
def test_a_probability_alone_lies_between_0_and_1(value):
    """One column has no sum to check."""
    alone = Model("halves", "rows", (3, 2), {"mean": (1,)}, ("mean",))
    with (
        EmbeddedServer({"halves": Filled(value)}) as odd,
        Sonic([odd.address], alone, tries=1) as sonic,
        pytest.raises(Unanswered, match="no probabilities"),
    ):
        sonic(rows(2))


def test_the_answer_to_another_block_is_no_answer(server, monkeypatch):
    monkeypatch.setattr(
        "service.embedded.unpack", lambda *args: (unpack(*args)[0], {"id": "x"})
    )
    with (
        Sonic([server.address], ROWS, tries=1) as sonic,
        pytest.raises(Unanswered, match="answer to 'x' came"),
    ):
        sonic(rows(2))


def test_a_deadline_is_the_event_s_and_then_the_fallback_computes_at_once(server):
    with (
        Fault(server.address, delay_s=20) as hangs,
        Sonic([hangs.address], ROWS, 2, deadline_s=0.5, tries=2, fallback=local) as sonic,
    ):
        sent, began = rows(20), time.monotonic()
        right(sonic(sent), sent)
        assert sonic.report.fallbacks == 10 and time.monotonic() - began < 3


def test_small_answers_need_no_acknowledgement_first(server):
    assert Handler.disable_nagle_algorithm  # a second write waits for it otherwise


def test_a_model_that_fails_is_tried_again_and_then_told(server):
    with Sonic([server.address], ROWS, tries=2, wait_s=0) as sonic:
        with pytest.raises(Unanswered, match="out of range"):
            sonic(np.full((1, 3, 2), 666, np.float32))
        right(sonic(rows(1)), rows(1))  # the server lives


def test_an_option_that_is_none_is_refused():
    with pytest.raises(ValueError, match="'retries'"):
        Sonic(["127.0.0.1:9"], ROWS, retries=3)


@pytest.mark.parametrize("bad", [{"batch": 0}, {"deadline_s": 0}, {"tries": 0}, {"wait_s": -1}])
def test_options_out_of_range_are_refused(bad):
    with pytest.raises(ValueError, match="counts from 1"):
        Sonic(["127.0.0.1:9"], ROWS, **bad)
    with pytest.raises(ValueError, match="one address"):
        Sonic([], ROWS)
