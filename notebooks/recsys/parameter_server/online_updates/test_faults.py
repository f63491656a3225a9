"""What the faults' functions count, and that the judges see a wrong vector."""

import numpy as np
import pytest
import torch
from embedding_hierarchy import PowerLaw
from storage_tiers import RedisServer, RedisTier

from . import Broker, LiveReaders, Trainer, faults
from .trainer import versioned

ROWS, WIDTH = 2000, 4
LAW = PowerLaw(ROWS, 1.1)


def test_an_outage_of_redis_serves_nothing_wrong(tmp_path):
    if not RedisServer.there():
        pytest.skip("no redis-server here")
    with RedisServer() as redis:
        tier = RedisTier(redis.address, ROWS)
        with faults.node(tmp_path / "db", ROWS, WIDTH, tier) as server:
            readers, moments, seen = faults.redis_outage(server, LAW, redis, 0.3, 0.3, 0.9)
            hung = faults.redis_hang(server, LAW, redis, 0.4)
        tier.close()
    assert hung.wrong == 0 and hung.served > 500
    assert readers.wrong == 0 and readers.served > 500 and len(moments) == 2
    assert server.counts["volatile failed"] and seen[-1, 1] > seen[0, 1]


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
        counts, steps, wrong = faults.broker_outage(server, broker, trainer, 3, 2, 4)
        assert (
            wrong == 0
            and counts["applied"] == 7
            and counts["lost"] == 2
            and steps[-1] == (8, 8)
        )
        counts, changed = faults.strange_messages(server, broker, trainer)
        assert not changed and counts["bad"] == 2
        assert counts["filtered"] == counts["unknown table"] == 1


def test_a_node_recovered_from_a_copy_is_the_same_and_unknown_keys_get_the_default(tmp_path):
    assert faults.lost_node(tmp_path, ROWS, WIDTH)[0] == 0
    with faults.node(tmp_path / "db", ROWS, WIDTH, default=0.5) as server:
        table = server.tables[faults.TABLE]
        assert faults.strange_keys(table, ROWS) == 0
        assert torch.equal(table.default, torch.full((WIDTH,), 0.5))
