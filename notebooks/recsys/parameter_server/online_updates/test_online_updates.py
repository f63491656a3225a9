"""Messages, the log, the reader: each message once, bad ones never, whoever dies in between."""

import contextlib
import time

import numpy as np
import pytest
import torch
from embedding_hierarchy import ParameterServer
from hypothesis import given, settings
from hypothesis import strategies as st
from storage_tiers import Rocks

from . import (
    BadMessage,
    Broker,
    Trainer,
    UpdateReader,
    kill_while_writing,
    pack,
    start_trainer,
    unpack,
)
from .trainer import versioned

ROWS, WIDTH, TABLE = 400, 4, "dlrm.ads"
KEYS = np.arange(ROWS)


@pytest.fixture(scope="module")
def broker():
    if not Broker.there():
        pytest.skip("no broker of the Kafka protocol here")
    with Broker("updates") as broker:
        yield broker


@contextlib.contextmanager
def node(folder):
    with Rocks(folder, {TABLE: WIDTH}) as persistent, ParameterServer(persistent) as server:
        if persistent.place() is None:
            persistent.load(TABLE, KEYS, versioned(KEYS, 0, WIDTH))
        server.deploy(TABLE, cache_rows=128).lookup(torch.from_numpy(KEYS))
        yield server


def read(reader, until, wait_s=20):
    ends = time.monotonic() + wait_s
    while not until() and time.monotonic() < ends:
        reader.poll(0.1)
    assert until(), dict(reader.counts)


def version_of(server):
    got = server.tables[TABLE].lookup(torch.from_numpy(KEYS)).numpy()
    versions = {v for v in range(16) if (got == versioned(KEYS, v, WIDTH)).all()}
    return versions.pop() if versions else None


@given(st.integers(0, 2**63), st.lists(st.integers(-(2**62), 2**62), max_size=9), st.data())
@settings(max_examples=50, deadline=None)
def test_a_message_comes_back_and_a_changed_byte_is_seen(sequence, keys, data):
    vectors = np.arange(len(keys) * 3, dtype=np.float32).reshape(-1, 3)
    message = pack((5, sequence), keys, vectors)
    got = unpack(message)
    assert (
        got[0] == (5, sequence) and got[1].tolist() == keys and np.array_equal(got[2], vectors)
    )
    at = data.draw(st.integers(0, len(message) - 1))
    changed = message[:at] + bytes([message[at] ^ 1]) + message[at + 1 :]
    with pytest.raises(BadMessage):
        unpack(changed)


@pytest.mark.parametrize(
    "message", [None, b"", b"EMB1", b"x" * 100, pack((1, 1), [1], [[1.0]])[:-1]]
)
def test_what_is_no_message_is_refused(message):
    with pytest.raises(BadMessage, match="came"):
        unpack(message)


def test_a_trainer_process_feeds_a_node_which_may_start_again(broker, tmp_path):
    trainer = start_trainer(
        address=broker.address,
        topic="updates",
        table=TABLE,
        rows=ROWS,
        width=WIDTH,
        versions=3,
        identity=7,
    )
    with node(tmp_path / "db") as server:
        reader = UpdateReader(broker.address, "updates", server, ["dlrm[.].*"])
        read(reader, lambda: reader.counts["applied"] >= 1)
        half = reader.last["7"]
        reader.close()
    assert trainer.wait(20) == 0
    trainer.stdout.close()
    with node(tmp_path / "db") as server:
        reader = UpdateReader(broker.address, "updates", server)
        assert reader.last == {"7": half}
        read(reader, lambda: reader.last["7"] == 11)
        assert reader.counts["applied"] == 11 - half and not reader.counts["lost"]
        assert version_of(server) == 3
        reader.close()


def test_bad_unknown_and_filtered_messages_change_nothing(broker, tmp_path):
    with node(tmp_path / "db") as server:
        server.persistent.write([], {"offset": 12, "last": {"7": 11}})
        trainer = Trainer(broker.address, "updates")
        new = versioned(KEYS, 5, WIDTH)
        trainer.send("other.table", KEYS, new)
        trainer.send("dlrm.nobody", KEYS, new)
        spoiled, reserved = new.copy(), KEYS.copy()
        spoiled[3, 1], reserved[3] = np.nan, -(2**63)
        trainer.send(TABLE, KEYS, spoiled)
        trainer.send(TABLE, KEYS, new[:, :2])
        trainer.send(TABLE, reserved, new)
        trainer.garbage(TABLE)
        assert trainer.flush() == 0
        reader = UpdateReader(broker.address, "updates", server, ["dlrm[.].*"])
        read(reader, lambda: reader.offset == 18)
        told = {name: count for name, count in reader.counts.items() if count}
        assert told == {"filtered": 1, "unknown table": 1, "bad": 4}
        for why in ("NaN", "needed", "reserved", "bytes came"):
            assert any(why in reason for reason in reader.reasons), why
        assert version_of(server) == 0
        trainer.send(TABLE, KEYS, versioned(KEYS, 1, WIDTH))
        trainer.flush()
        read(reader, lambda: reader.counts["applied"] == 1)
        assert version_of(server) == 1 and reader.counts["lost"] == 0
        reader.close()


def test_what_a_tier_refuses_is_left_out_and_does_not_come_for_ever(broker, tmp_path):
    """A number that the cache's dtype has not: it would be refused at each attempt."""
    with Broker("halves") as broker, Rocks(tmp_path / "db", {TABLE: WIDTH}) as persistent:
        persistent.load(TABLE, KEYS, versioned(KEYS, 0, WIDTH))
        with ParameterServer(persistent) as server:
            table = server.deploy(TABLE, cache_rows=512, dtype=torch.float16)
            trainer = Trainer(broker.address, "halves")
            trainer.send(TABLE, KEYS[:5], np.full((5, WIDTH), 1e6))
            trainer.send(TABLE, KEYS[:5], np.full((5, WIDTH), 7.0))
            trainer.flush()
            reader = UpdateReader(broker.address, "halves", server)
            read(reader, lambda: reader.offset == 2)
            assert (reader.counts["bad"], reader.counts["applied"]) == (1, 1)
            assert (table.lookup(torch.arange(5)) == 7).all()
            reader.close()


@pytest.mark.parametrize("later", [2, 9])
def test_a_broker_that_vanishes_loses_messages_and_the_reader_knows_how_many(tmp_path, later):
    if not Broker.there():
        pytest.skip("no broker of the Kafka protocol here")
    with Broker("updates") as broker, node(tmp_path / "db") as server:
        trainer = Trainer(broker.address, "updates")
        reader = UpdateReader(broker.address, "updates", server)
        for version in (1, 2, 3):
            trainer.send(TABLE, KEYS, versioned(KEYS, version, WIDTH))
        trainer.flush()
        read(reader, lambda: reader.counts["applied"] == 3)
        for version in (4, 5):  # in the log, not yet read
            trainer.send(TABLE, KEYS, versioned(KEYS, version, WIDTH))
        assert trainer.flush() == 0
        broker.kill()
        assert reader.poll(0.2) in (0, 2) and version_of(server) in (3, 5)
        read_before = reader.last[str(trainer.identity)]
        broker.start()
        for _ in range(later):  # shorter and longer than what was read
            trainer.send(TABLE, KEYS, versioned(KEYS, 6, WIDTH))
        assert trainer.flush(20) == 0
        read(reader, lambda: reader.last[str(trainer.identity)] == 4 + later, 30)
        assert reader.counts["lost"] == 4 - read_before and version_of(server) == 6
        reader.close()


def test_a_number_lost_before_a_bad_message_is_counted(broker, tmp_path):
    with Broker("gaps") as broker, node(tmp_path / "db") as server:
        trainer, other = (Trainer(broker.address, "gaps") for _ in range(2))
        reader = UpdateReader(broker.address, "gaps", server)
        trainer.send(TABLE, KEYS, versioned(KEYS, 1, WIDTH))
        trainer.sequence = 4  # 1 to 3 never come
        trainer.send(TABLE, KEYS, np.full((ROWS, WIDTH), np.nan))
        trainer.flush()
        other.send(TABLE, KEYS, versioned(KEYS, 2, WIDTH))  # another trainer counts from 0
        other.flush()
        read(reader, lambda: reader.counts["applied"] == 2)
        assert reader.counts["lost"] == 3 and reader.counts["bad"] == 1
        assert version_of(server) == 2
        reader.close()


def test_a_message_that_comes_again_is_not_applied_again(broker, tmp_path):
    with Broker("twice") as broker, node(tmp_path / "db") as server:
        trainer = Trainer(broker.address, "twice")
        for version in (1, 2):
            trainer.send(TABLE, KEYS, versioned(KEYS, version, WIDTH))
        trainer.sequence -= 2  # as one that was not told that they had come
        for version in (1, 2, 3):
            trainer.send(TABLE, KEYS, versioned(KEYS, version, WIDTH))
            trainer.flush()
        reader, seen = UpdateReader(broker.address, "twice", server), []
        apply = server.apply
        server.apply = lambda parts, place: seen.extend(parts) or apply(parts, place)
        read(reader, lambda: reader.offset == 5)
        versions = [
            (vectors == versioned(KEYS, v, WIDTH)).all()
            for v, (*_, vectors) in enumerate(seen, 1)
        ]
        assert versions == [True] * 3 and version_of(server) == 3
        told = {name: reader.counts[name] for name in ("applied", "old", "lost")}
        assert told == {"applied": 3, "old": 2, "lost": 0}
        reader.close()


def test_a_table_must_match_a_filter_wholly(broker, tmp_path):
    with Broker("filters") as broker, node(tmp_path / "db") as server:
        trainer = Trainer(broker.address, "filters")
        for name in ("my.dlrm.ads", "dlrm.ads.old", TABLE):
            trainer.send(name, KEYS, versioned(KEYS, 1, WIDTH))
        trainer.flush()
        reader = UpdateReader(broker.address, "filters", server, ["dlrm[.]ads"])
        read(reader, lambda: reader.offset == 3)
        told = {name: count for name, count in reader.counts.items() if count}
        assert told == {"filtered": 2, "applied": 1}
        reader.close()


def test_what_could_not_be_written_comes_again(broker, tmp_path, monkeypatch):
    with Broker("again") as broker, node(tmp_path / "db") as server:
        trainer = Trainer(broker.address, "again")
        reader = UpdateReader(broker.address, "again", server)
        with monkeypatch.context() as patched:
            patched.setattr(server, "apply", lambda *_: 1 / 0)
            trainer.send(TABLE, KEYS, versioned(KEYS, 1, WIDTH))
            trainer.flush()
            with pytest.raises(ZeroDivisionError):
                read(reader, lambda: False)
            trainer.sequence += 2  # two are lost on the way
            trainer.send(TABLE, KEYS, versioned(KEYS, 2, WIDTH))
            trainer.flush()
            with pytest.raises(ZeroDivisionError):
                read(reader, lambda: False)
        assert version_of(server) == 0
        read(reader, lambda: reader.counts["applied"] == 2)
        assert version_of(server) == 2 and reader.counts["lost"] == 2, "and counted once"
        reader.close()


def test_a_killed_writer_leaves_a_whole_batch_or_none(tmp_path):
    for turn, after_s in enumerate((0.003, 0.017)):
        assert kill_while_writing(tmp_path / "db", after_s) == (0, 0), turn


def test_the_naive_order_is_seen_to_tear(tmp_path):
    torn = [
        kill_while_writing(tmp_path / "db", t / 1000, 8000, batch=False)[0] for t in range(4)
    ]
    assert any(torn)


def test_no_broker_is_said(monkeypatch):
    monkeypatch.setattr(Broker, "there", staticmethod(lambda: False))
    with pytest.raises(RuntimeError, match="no broker here"):
        Broker("updates").start()
