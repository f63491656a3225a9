"""Clients as processes: every event is answered once and rightly, also when a server dies."""

import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from service import EmbeddedServer

from . import loads
from .loads import knee, load, mean_value, save_events
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


def test_a_client_that_ends_badly_is_told(events):
    with pytest.raises(RuntimeError, match="ended with 1"):
        load(["127.0.0.1:9"], events, 3, 1, 0.1, tries=1)


class Naps:
    """Sleep that takes no time, and is written down; the clock follows it."""

    def __init__(self):
        self.slept = []

    def sleep(self, seconds):
        self.slept.append(seconds)

    def monotonic(self):
        return time.monotonic() + sum(self.slept)


def test_rests_are_drawn_at_random_about_their_mean(events, monkeypatch):
    naps = Naps()
    draw = np.random.default_rng(0)
    monkeypatch.setattr(loads, "time", naps)
    monkeypatch.setattr(loads.np.random, "default_rng", lambda: draw)
    monkeypatch.setattr(loads, "MEET", SimpleNamespace(wait=lambda _: None), raising=False)
    with EmbeddedServer({"halves": Halves()}, delay_us=0) as server:
        one = loads.one_client(3, [server.address], events, 5, 0.5, 100, {}, 4)
    assert len(one["ended"]) == len(naps.slept) > 120 and not one["wrong"] + one["lost"]
    assert np.mean(naps.slept) == pytest.approx(0.5, rel=0.25)
    assert np.std(naps.slept) == pytest.approx(0.5, rel=0.3)  # an exponential law's


def test_clients_begin_at_different_patches_and_go_round(events, monkeypatch):
    asked = []

    class Watched(Halves):
        def __call__(self, arrays):
            asked.append(arrays["rows"][:, 0, 0].tolist())
            return super().__call__(arrays)

    monkeypatch.setattr(loads, "MEET", SimpleNamespace(wait=lambda _: None), raising=False)
    with EmbeddedServer({"halves": Watched()}, delay_us=0) as server:
        loads.one_client(3, [server.address], events, 7, 0.0, 0.1, {}, 4)
    first = rows(40)[:, 0, 0]
    wanted = [first[:7], first[30:37], [*first[37:], *first[:4]]]  # one to warm up
    np.testing.assert_array_equal(asked[:3], wanted)


def test_the_knee_lies_where_each_gets_four_fifths_of_what_one_gets_alone():
    assert knee([1, 2, 4], [10, 20, 24], 10) == pytest.approx(3)
    assert knee([2, 4], [12, 20], 10) == 2  # less than that from the first on
    assert knee([1, 2], [10, 17], 10) == np.inf  # never that little
    assert knee([1, 2, 3, 4], [10, 15, 27, 20], 10) == pytest.approx(1.8)  # a lucky third point
    late = knee([1, 2, 3, 4, 5], [10, 14, 28.5, 36, 42.5], 10)  # and lucky ones ever after
    assert late == pytest.approx(1 + 2 / 3)
    bound = np.minimum(np.arange(1, 30), 10)
    assert knee(range(1, 30), bound, 1) == pytest.approx(12.5, rel=0.01)  # 10 / 0.8


def test_bounds_hold_and_chance_keeps_clients_below_them():
    rates = mean_value(200, rest_s=0.9, busy_s=0.1)
    assert rates[0] == pytest.approx(1) and rates[-1] == pytest.approx(10, rel=1e-3)
    assert (rates <= np.minimum(np.arange(1, 201), 10) + 1e-9).all()
    assert rates[9] < 8.5  # ten clients are N*: chance keeps them below the bound
