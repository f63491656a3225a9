"""The vectorised cache equals the loops, call by call; its laws; and what it refuses."""

import threading
import time

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from . import DeviceCache, ReferenceCache, mix
from .set_associative import EMPTY, PART

DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()


def vectors(keys, version=0, width=3):
    """The vector of each key and version, so that a wrong one is seen."""
    keys = torch.as_tensor(keys)
    return torch.stack([keys % 997 + 1000.0 * version] * width, 1)


def filled(keys, capacity=64, width=3, device="cpu"):
    cache = DeviceCache(capacity, width, device)
    cache.replace(torch.as_tensor(keys), vectors(keys, width=width))
    return cache


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("capacity", "slabs"), [(1, 1), (64, 2), (65, 2), (300, 3)])
def test_equals_the_reference_call_by_call(device, capacity, slabs):
    rng = torch.Generator().manual_seed(capacity)
    fast, plain = DeviceCache(capacity, 3, device, slabs=slabs), ReferenceCache(capacity, slabs)
    for turn in range(40):
        keys = (torch.rand(37, generator=rng) ** 3 * 900).long() - 50
        found, want = fast.query(keys.unique()), plain.query(keys.unique().tolist())
        there = torch.ones(len(keys.unique()), dtype=torch.bool)
        there[found.missing.cpu()] = False
        assert keys.unique()[there].tolist() == sorted(want)
        for key, vector in zip(
            keys.unique()[there].tolist(), found.vectors.cpu()[there], strict=True
        ):
            assert vector.tolist() == want[key].tolist()
        assert not found.vectors.cpu()[~there].any(), "an absent key's row is zero"
        keys = keys + 5 * (turn % 2)  # some were just asked for, some not
        new = vectors(keys, turn)
        new[:, 1] += torch.arange(37)  # equal keys, different vectors
        kind = turn % 3
        (fast.update if kind == 2 else fast.replace)(keys, new)
        (plain.update if kind == 2 else plain.replace)(keys.tolist(), new)
        assert fast.dump().tolist() == plain.dump()
        counters = [slot[1] for _, slot in sorted(plain.slots.items())]
        assert fast.counters_S[:-1][fast.keys_S != EMPTY].tolist() == counters
    everything = fast.query(fast.dump())
    assert everything.vectors.cpu().tolist() == [
        slot[2].tolist() for _, slot in sorted(plain.slots.items())
    ]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(-(2**63) + 1, 2**63 - 1), max_size=80), st.integers(1, 100))
def test_any_keys_are_as_in_the_reference(keys, capacity):
    fast, plain = DeviceCache(capacity, 1), ReferenceCache(capacity)
    tensor = torch.tensor(keys, dtype=torch.int64)
    fast.replace(tensor, torch.zeros(len(keys), 1))
    plain.replace(keys, torch.zeros(len(keys), 1))
    assert fast.dump().tolist() == plain.dump()


def test_the_mix_is_murmurs():
    assert mix(1) % 2**64 == 0xB456BCFC34C2CB2C  # fmix64(1) of Appleby's MurmurHash3.cpp
    assert mix(torch.tensor([0, 1, -5])).tolist() == [0, mix(1), mix(-5)]


def test_a_right_guess_needs_no_search_and_a_search_mends_it(monkeypatch):
    searched, search = [], DeviceCache._search
    watched = lambda *a: searched.append(len(a[1])) or search(*a)  # noqa: E731
    monkeypatch.setattr(DeviceCache, "_search", watched)
    cache = filled(torch.arange(5))
    searched.clear()
    cache.query(torch.arange(5))
    assert not searched
    cache.guesses[:] = 63
    assert len(cache.query(torch.arange(5)).missing) == 0 and searched == [5]
    cache.query(torch.arange(5))
    assert searched == [5]


def test_a_query_counts_distinct_present_keys_and_names_all_absent_places():
    cache = filled(torch.arange(5))
    found = cache.query(torch.tensor([4, 9, 4, 0, 9, 7, 0, 0]))
    assert found.present == 2 and found.missing.tolist() == [1, 4, 5]
    assert found.vectors[:, 0].tolist() == [4, 0, 4, 0, 0, 0, 0, 0]
    assert cache.query(torch.tensor([9, 9])).present == 0
    assert cache.query(torch.arange(5)).present == 5
    assert cache.query(torch.zeros(0, dtype=torch.int64)).present == 0


def test_a_full_set_loses_its_least_recent_key():
    cache = filled(torch.arange(64))
    cache.query(torch.arange(1, 64))
    cache.replace(torch.tensor([1000]), vectors([1000]))
    assert 0 not in cache.dump() and 1000 in cache.dump() and len(cache.dump()) == 64


def test_replace_refreshes_a_present_key_and_keeps_its_vector():
    cache = filled(torch.arange(64))
    cache.query(torch.arange(1, 64))
    cache.replace(torch.tensor([0]), vectors([0], version=9))
    assert cache.query(torch.tensor([0])).vectors[0, 0] == 0
    cache.query(torch.arange(1, 64))
    cache.replace(torch.tensor([0]), vectors([0]))  # as recent as the others now
    cache.query(torch.arange(2, 64))
    cache.replace(torch.tensor([1000]), vectors([1000]))
    assert {0, 1} - set(cache.dump().tolist()), "one of the two least recent went"


def test_update_leaves_recency_alone_and_brings_nothing_in():
    cache = filled(torch.arange(64))
    cache.query(torch.arange(1, 64))
    cache.update(torch.tensor([0, 500]), vectors([0, 500], version=2))
    assert cache.query(torch.tensor([0])).vectors[0, 0] == 2000 and 500 not in cache.dump()
    cache = filled(torch.arange(64))
    cache.query(torch.arange(1, 64))
    cache.update(torch.tensor([0]), vectors([0], version=2))
    cache.replace(torch.tensor([1000]), vectors([1000]))
    assert 0 not in cache.dump()


def test_of_more_new_keys_than_a_set_has_slots_the_first_come_in(monkeypatch):
    turns, insert = [], DeviceCache._insert
    monkeypatch.setattr(DeviceCache, "_insert", lambda *a: turns.append(1) or insert(*a))
    cache = filled(torch.arange(1000), capacity=64)
    assert sorted(cache.dump().tolist()) == list(range(64)) and len(turns) == 64


def test_no_keys_are_no_work():
    cache = filled(torch.arange(3))
    none = torch.zeros(0, dtype=torch.int64)
    assert cache.query(none).vectors.shape == (0, 3)
    cache.replace(none, torch.zeros(0, 3))
    cache.update(none, torch.zeros(0, 3))
    assert sorted(cache.dump().tolist()) == [0, 1, 2]


def test_a_hit_comes_between_the_rows_of_a_large_update(monkeypatch):
    """Each part takes 10 ms here, all of them 0.6 s: a hit waits for one or two."""
    cache, locate, writer = filled(torch.arange(64)), DeviceCache.locate, []

    def slow(self, keys):
        time.sleep(0.01 * (threading.current_thread() in writer))
        return locate(self, keys)

    monkeypatch.setattr(DeviceCache, "locate", slow)
    keys = torch.arange(60 * PART)
    writer.append(threading.Thread(target=cache.update, args=(keys, vectors(keys, 1))))
    writer[0].start()
    waits = []
    while writer[0].is_alive() and len(waits) < 6:
        began = time.perf_counter()
        cache.query(torch.arange(64))
        waits.append(time.perf_counter() - began)
    assert writer[0].is_alive(), "the hits were there before the update was through"
    assert len(waits) == 6 and sorted(waits)[3] < 0.15
    writer[0].join()
    assert torch.equal(cache.query(torch.arange(64)).vectors, vectors(torch.arange(64), 1))


def test_no_hit_sees_a_torn_row_or_another_keys():
    """While rows are rewritten and keys evict each other in one set."""
    cache, keys, done, wrong = DeviceCache(64, 256), torch.arange(200), threading.Event(), []

    def rewrite():
        rng = torch.Generator().manual_seed(0)
        for version in range(60):
            some = torch.randperm(200, generator=rng)[:64]
            cache.query(some[:9])
            cache.replace(some, vectors(some, version % 8, 256))
            cache.update(some, vectors(some, (version + 1) % 8, 256))
        done.set()

    writer = threading.Thread(target=rewrite)
    writer.start()
    while not done.is_set():
        found = cache.query(keys)
        there = torch.ones(200, dtype=torch.bool)
        there[found.missing] = False
        got = found.vectors[there]
        off = (got != got[:, :1]).any(1) | (got[:, 0] % 1000 != keys[there])
        wrong.append(int(off.sum()))
    writer.join()
    assert len(wrong) > 5 and not any(wrong)


def test_a_cache_that_forgets_has_nothing_and_takes_new_keys():
    cache = filled(torch.arange(40))
    cache.clear()
    assert len(cache.dump()) == 0 and len(cache.query(torch.arange(40)).missing) == 40
    cache.replace(torch.arange(64), vectors(torch.arange(64), 3))
    assert cache.query(torch.arange(64)).vectors[:, 0].tolist() == [
        3000.0 + k for k in range(64)
    ]


def test_what_overflows_the_caches_dtype_is_refused():
    cache = DeviceCache(64, 2, dtype=torch.float16)
    with pytest.raises(ValueError, match="NaN or infinity"):
        cache.replace(torch.tensor([1]), torch.full((1, 2), 70_000.0))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("call", ["replace", "update"])
def test_a_vector_that_is_no_number_is_refused(call, bad):
    cache, spoiled = filled(torch.arange(3)), torch.ones(1, 3)
    spoiled[0, 1] = bad
    with pytest.raises(ValueError, match="NaN or infinity"):
        getattr(cache, call)(torch.tensor([1]), spoiled)
    assert torch.isfinite(cache.query(torch.arange(3)).vectors).all()


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (torch.tensor([[1]]), "one axis of torch.int64"),
        (torch.tensor([1.0]), "one axis of torch.int64"),
        (torch.tensor([1], dtype=torch.int32), "one axis of torch.int64"),
        (torch.tensor([EMPTY]), "reserved"),
    ],
)
def test_keys_that_no_table_has_are_refused(keys, said):
    with pytest.raises(ValueError, match=said):
        filled(torch.arange(3)).query(keys)


def test_vectors_of_another_shape_are_refused():
    with pytest.raises(ValueError, match=r"\(1, 3\) is needed"):
        filled(torch.arange(3)).replace(torch.tensor([1]), torch.ones(1, 4))
    with pytest.raises(ValueError, match="each must be 1 or more"):
        DeviceCache(0, 4)
    with pytest.raises(ValueError, match="8 at most"):
        DeviceCache(1000, 4, slabs=9)
