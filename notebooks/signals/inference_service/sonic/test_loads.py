"""Clients as processes: every event is answered once and rightly, also when a server dies."""

import threading

import numpy as np
import pytest
from service import EmbeddedServer

from .loads import crossing, load, mean_value, save_events
from .test_client import ROWS, Halves, rows


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    sent = rows(40)
    outputs = Halves()({"rows": sent})
    folder = tmp_path_factory.mktemp("load")
    return save_events(folder / "events.npz", ROWS, sent, list(outputs.values()))


def test_no_event_is_lost_or_wrong_when_one_of_two_servers_ends(events):
    with EmbeddedServer({"halves": Halves()}) as stays:
        ends = EmbeddedServer({"halves": Halves()}).__enter__()
        stopper = threading.Timer(2.0, ends.__exit__)
        stopper.start()
        found = load([ends.address, stays.address], events, 10, 2, 1.5, rest_s=0.01)
        stopper.join()
    assert found["lost"] == found["wrong"] == 0
    assert found["answered"] >= found["events"] > 10
    assert found["patches_per_s"] == pytest.approx(10 * found["events_per_s"])


def test_a_server_never_gets_more_done_than_its_time_allows(events):
    slow = Halves()
    slow.slow_s = 0.05
    with EmbeddedServer({"halves": slow}, no_batching=True) as server:
        found = load([server.address], events, 3, 4, 1.0)
    assert 10 < found["events_per_s"] <= 1 / slow.slow_s


def test_wrong_answers_are_counted(tmp_path):
    outputs = [np.zeros((10, 1), np.float32), np.zeros((10, 3, 2), np.float32)]
    other = save_events(tmp_path / "other.npz", ROWS, rows(10), outputs)
    with EmbeddedServer({"halves": Halves()}) as server:
        found = load([server.address], other, 5, 1, 0.2)
    assert found["wrong"] > 0 and found["events"] == found["answered"] == 0


def test_bounds_cross_where_one_line_meets_the_other():
    assert crossing([1, 2, 4, 8], [10, 20, 38, 40]) == 4
    rates = mean_value(200, rest_s=0.9, busy_s=0.1)
    assert rates[0] == pytest.approx(1) and rates[-1] == pytest.approx(10, rel=1e-3)
    assert (rates <= np.minimum(np.arange(1, 201), 10) + 1e-9).all()
    assert rates[9] < 8.5  # ten clients are N*: chance keeps them below the bound
