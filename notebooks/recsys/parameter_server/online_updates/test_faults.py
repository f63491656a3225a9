"""What the faults' functions count, and that the judges see a wrong vector."""

import numpy as np
import pytest
import torch
from embedding_hierarchy import PowerLaw
from storage_tiers import RedisServer, RedisTier, Rocks

from . import Broker, Trainer, faults
from .faults import LiveReaders
from .trainer import versioned

ROWS, WIDTH = 2000, 4
LAW = PowerLaw(ROWS, 1.1)


@pytest.fixture
def redis():
    if not RedisServer.there():
        pytest.skip("no redis-server here")
    with RedisServer() as redis:
        yield redis


def test_an_outage_of_redis_serves_nothing_wrong(tmp_path, redis):
    tier = RedisTier(redis.address, ROWS)
    with faults.node(tmp_path / "db", ROWS, WIDTH, tier) as server:
        readers, moments, seen = faults.redis_outage(server, LAW, redis, 0.3, 0.3, 0.9)
    tier.close()
    assert readers.wrong == 0 and readers.served > 500 and len(moments) == 2
    assert server.counts["volatile failed"] and seen[-1, 1] > seen[0, 1]


@pytest.mark.parametrize("fault", [faults.hangs_through_an_update, faults.killed_between_tiers])
def test_a_node_that_starts_again_beside_a_redis_that_lived_on_is_right(tmp_path, redis, fault):
    assert fault(tmp_path / "db", redis, ROWS, WIDTH) == (0, ROWS)


def test_a_node_that_believed_its_old_redis_would_be_seen(tmp_path, redis, monkeypatch):
    get = RedisTier.get

    def gullible(self, table, keys, stamp, width):
        there = self.client.hget(self.prefix + table, "stamp")
        return get(self, table, keys, there or stamp, width)

    monkeypatch.setattr(RedisTier, "get", gullible)
    monkeypatch.setattr(RedisTier, "refresh", lambda *_: None)  # nor what lay in the socket
    wrong, held = faults.hangs_through_an_update(tmp_path / "db", redis, ROWS, WIDTH)
    assert (wrong, held) == (ROWS, ROWS)


@pytest.mark.parametrize("kind", ["torn", "old", "other key"])
def test_the_judges_see_what_is_wrong(tmp_path, kind):
    with faults.node(tmp_path / "db", ROWS, WIDTH) as server:
        table = server.tables[faults.TABLE]
        keys = np.arange(ROWS)
        if kind == "old":
            server.apply([(faults.TABLE, keys, versioned(keys, 5, WIDTH))])
        with LiveReaders(table, LAW, instances=1) as readers:
            assert readers.until(lambda: readers.served > 3000) and readers.wrong == 0
            spoiled = versioned(keys, 4, WIDTH)
            if kind == "torn":
                spoiled[:, 1] += 2.0**20
            if kind == "other key":
                spoiled = versioned(keys[::-1], 7, WIDTH) + 0.5
            server.apply([(faults.TABLE, keys, spoiled)])
            assert readers.until(lambda: readers.wrong > 0)


def test_a_judge_that_fails_says_so(tmp_path):
    with faults.node(tmp_path / "db", ROWS, WIDTH) as server:
        table = server.tables[faults.TABLE]
        table.answer = lambda keys: 1 / 0
        with pytest.raises(ZeroDivisionError), LiveReaders(table, LAW) as readers:
            readers.until(lambda: readers.errors, 5)


def test_messages_lost_with_a_broker_are_counted_and_strange_ones_left_out(tmp_path):
    if not Broker.there():
        pytest.skip("no broker of the Kafka protocol here")
    with Broker("faults") as broker, faults.node(tmp_path / "db", ROWS, WIDTH) as server:
        trainer = Trainer(broker.address, "faults")
        counts, steps, wrong = faults.broker_outage(server, broker, trainer, 4, 2, 4)
    assert wrong == 0 and steps[-1] == (12, 12)
    told = {name: counts[name] for name in ("applied", "lost", "bad", "filtered", "old")}
    assert told == {"applied": 8, "lost": 2, "bad": 2, "filtered": 1, "old": 0}
    assert counts["unknown table"] == 1


def test_a_node_recovered_from_a_copy_is_the_same(tmp_path, monkeypatch):
    assert faults.lost_node(tmp_path, ROWS, WIDTH) == 0
    (tmp_path / "again").mkdir()
    monkeypatch.setattr(Rocks, "copy_to", lambda self, folder: None)  # an empty node
    assert faults.lost_node(tmp_path / "again", ROWS, WIDTH) > ROWS / 4


def test_a_key_never_seen_gets_the_default(tmp_path):
    with faults.node(tmp_path / "db", ROWS, WIDTH, default=0.5) as server:
        got = server.tables[faults.TABLE].lookup(torch.arange(ROWS, ROWS + 50))
        assert (got == 0.5).all() and len(server.tables[faults.TABLE].cache.dump()) == 0
