"""Clients as processes: every event is answered once and rightly, also when a server dies."""

import threading

import numpy as np
import pytest
from service import EmbeddedServer

from .loads import knee, load, save_events
from .test_client import ROWS, Halves, rows


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    sent = rows(10)
    outputs = Halves()({"rows": sent})
    return save_events(
        tmp_path_factory.mktemp("load") / "events.npz", ROWS, sent, list(outputs.values())
    )


def test_no_event_is_lost_or_wrong_when_one_of_two_servers_ends(events):
    with EmbeddedServer({"halves": Halves()}) as stays:
        ends = EmbeddedServer({"halves": Halves()}).__enter__()
        stopper = threading.Timer(2.0, ends.__exit__, (None, None, None))
        stopper.start()
        found = load([ends.address, stays.address], events, 2, 1.5, rest_s=0.01)
        stopper.join()
    assert found["lost"] == found["wrong"] == 0
    assert found["events"] == len(found["latency_s"]) > 10
    assert found["patches_per_s"] == pytest.approx(10 * found["events_per_s"])


def test_wrong_answers_are_counted(events, tmp_path):
    outputs = [np.zeros((10, 1), np.float32), np.zeros((10, 3, 2), np.float32)]
    other = save_events(tmp_path / "other.npz", ROWS, rows(10), outputs)
    with EmbeddedServer({"halves": Halves()}) as server:
        found = load([server.address], other, 1, 0.2)
    assert found["wrong"] > 0 and found["events"] == 0


def test_the_knee_is_where_the_rate_stops_growing():
    assert knee([1, 2, 4, 8, 16], [10, 20, 37, 40, 39]) == 4
    assert knee([1, 2], [10, 20]) == 2
