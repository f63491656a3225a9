"""Labels in 32 bits, stacks without a bottom, longest prefixes, and traces through four
routers."""

import dpkt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from . import (
    Entry,
    Hop,
    Router,
    RouteTable,
    label_table,
    longest_prefix_reference,
    pack_label,
    read_stack,
    swap_batch,
    unpack_label,
    write_stack,
)
from .labels import DEEPEST, EXPLICIT_NULL, IMPLICIT_NULL

ENTRY = st.builds(
    Entry, st.integers(0, 2**20 - 1), st.integers(0, 7), st.booleans(), st.integers(0, 255)
)


def packet(ttl=64, to=b"\x0a\x09\x00\x01", data=b"hello") -> bytes:
    return bytes(dpkt.ip.IP(src=b"\x0a\x01\x00\x01", dst=to, ttl=ttl, p=253, data=data))


def path(last_label=IMPLICIT_NULL) -> dict[str, Router]:
    """Four routers in a row, labels 100, 200 and the last one's wish towards 10.9/16."""
    routes = RouteTable([(0x0A090000, 16, 0)])
    return {
        "a": Router("a", [Hop("b", 100)], routes),
        "b": Router("b", [Hop("c", 200)], routes, {100: 0}),
        "c": Router("c", [Hop("d", last_label)], routes, {200: 0}),
        "d": Router("d", [Hop("local")], routes, {300: 0}),
    }


def trace(routers: dict[str, Router], frame: bytes) -> list[tuple[str, list]]:
    """Who got it, with which labels."""
    at, labelled, made = "a", False, []
    for _ in range(20):
        entries = read_stack(frame)[0] if labelled else []
        made.append((at, [(entry.label, entry.ttl) for entry in entries]))
        out = routers[at].forward(frame, labelled)
        if out is None:
            break
        at, labelled, frame = out
    return made


def test_an_entry_is_what_the_standard_says():
    assert pack_label(0xABCDE, 5, True, 0x42) == 0xABCDEB42
    assert pack_label(3, 0, 0, 255) == 0x30FF


@settings(max_examples=40, deadline=None)
@given(ENTRY)
def test_packing_loses_nothing_and_dpkt_reads_the_same(entry):
    word = pack_label(*entry)
    assert unpack_label(word) == entry
    seen = dpkt.ethernet.MPLSlabel(word.to_bytes(4, "big") * 2)
    assert (seen.val, seen.exp, bool(seen.s), seen.ttl) == entry


@pytest.mark.parametrize(
    "bad", [(2**20, 0, 0, 0), (-1, 0, 0, 0), (0, 8, 0, 0), (0, 0, 2, 0), (0, 0, 0, 256)]
)
def test_a_field_that_does_not_fit_is_refused(bad):
    with pytest.raises(ValueError):
        pack_label(*bad)
    with pytest.raises(ValueError):
        unpack_label(2**32)


@settings(max_examples=40, deadline=None)
@given(st.lists(ENTRY, min_size=1, max_size=DEEPEST), st.binary(max_size=9))
def test_a_stack_is_read_as_it_was_written(entries, payload):
    made, rest = read_stack(write_stack(entries, payload))
    assert rest == payload and [e.bottom for e in made] == [False] * (len(entries) - 1) + [True]
    assert [e._replace(bottom=False) for e in made] == [
        e._replace(bottom=False) for e in entries
    ]


@given(st.binary(max_size=120))
def test_any_bytes_are_a_stack_or_refused(frame):
    try:
        entries, rest = read_stack(frame)
    except ValueError:
        return
    assert len(frame) == 4 * len(entries) + len(rest)


def test_a_stack_without_a_bottom_is_dropped_and_counted():
    router = Router("a")
    assert router.forward(pack_label(16, 0, False, 9).to_bytes(4, "big") * 9000, True) is None
    assert router.forward(pack_label(16, 0, False, 9).to_bytes(4, "big"), True) is None
    assert router.counts == {"stacks without a bottom": 2} and not router.slow_path


def test_the_last_but_one_pops_and_the_time_to_live_comes_out():
    routers = path()
    assert trace(routers, packet(64)) == [
        ("a", []),
        ("b", [(100, 63)]),
        ("c", [(200, 62)]),
        ("d", []),
    ]
    arrived = dpkt.ip.IP(routers["d"].arrived[0])
    assert (arrived.ttl, bytes(arrived.data)) == (61, b"hello")
    arrived.sum, stated = 0, arrived.sum
    assert dpkt.ip.IP(bytes(arrived)).sum == stated
    assert [routers[n].counts for n in "abc"] == [{"pushed": 1}, {"swapped": 1}, {"popped": 1}]


def test_explicit_null_reaches_the_last_router_with_its_class():
    routers = path(EXPLICIT_NULL)
    assert trace(routers, packet(64))[-1] == ("d", [(EXPLICIT_NULL, 61)])
    assert len(routers["d"].arrived) == 1


def test_a_label_of_the_last_router_ends_there():
    routers = path(300)
    assert trace(routers, packet(64))[-1] == ("d", [(300, 61)]) and routers["d"].arrived


@pytest.mark.parametrize("label", [IMPLICIT_NULL, EXPLICIT_NULL, 300])
@pytest.mark.parametrize(("ttl", "last"), [(1, "a"), (2, "b"), (3, "c"), (4, "d"), (64, "d")])
def test_the_time_to_live_ends_where_it_would_without_labels(ttl, last, label):
    routers = path(label)
    assert trace(routers, packet(ttl))[-1][0] == last
    assert [one[8] for one in routers["d"].arrived] == [ttl - 3] * (ttl > 3)


def test_a_label_that_has_no_time_left_does_not_arrive():
    last = path()["d"]
    last.forward(write_stack([Entry(300, 0, True, 0)], packet()), True)
    assert last.counts == {"time to live used up": 1} and not last.arrived


def test_a_header_with_a_wrong_checksum_or_length_goes_no_further():
    for place, value in ((16, 11), (10, 1), (3, 8)):
        wrong = bytearray(packet())
        wrong[place] ^= value
        router = path()["a"]
        assert router.forward(bytes(wrong), False) is None
        assert router.counts == {"no IPv4 packet": 1}


def test_a_loop_of_labels_ends():
    routers = {
        "a": Router("a", [Hop("b", 20)], RouteTable([(0, 0, 0)]), {21: 0}),
        "b": Router("b", [Hop("a", 21)], labels={20: 0}),
    }
    assert len(trace(routers, packet(9))) == 9
    assert sum(r.counts["time to live used up"] for r in routers.values()) == 1


def test_a_popped_outer_label_shows_the_inner_one():
    routers = path()
    frame = write_stack([Entry(200, 0, False, 9), Entry(300, 0, True, 40)], packet())
    out = routers["c"].forward(frame, True)
    assert out.labelled and read_stack(out.packet)[0] == [Entry(300, 0, True, 8)]


def test_misses_go_the_slow_path_until_it_is_full():
    router = Router("a", most_waiting=3)
    for _ in range(5):
        assert router.forward(packet(), False) is None
    assert router.counts == {"sent the slow path": 3, "dropped before the slow path": 2}
    assert router.forward(write_stack([Entry(77, 0, True, 9)], packet()), True) is None


@pytest.mark.parametrize("cut", [0, 1, 19, 22])
def test_truncated_packets_and_lengths_that_lie_are_counted(cut):
    router = path()["a"]
    assert router.forward(packet()[:cut], False) is None
    assert router.counts == {"no IPv4 packet": 1}


def prefix(address: int, length: int) -> int:
    return address >> (32 - length) << (32 - length)


ROUTE = st.builds(
    lambda address, length, hop: (prefix(address, length), length, hop),
    st.sampled_from([0, 2**32 - 1, 0x0A000000, 0x0A0000FF, 0xC0A80101])
    | st.integers(0, 2**32 - 1),
    st.integers(0, 32),
    st.integers(0, 9),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(ROUTE, max_size=12))
def test_the_batch_finds_the_longest_prefix(routes):
    edges = {0, 2**32 - 1}
    for start, length, _ in routes:
        end = start + (1 << 32 - length)
        edges |= {start, max(start - 1, 0), end - 1, min(end, 2**32 - 1)}
    asked = sorted(edges)
    found = RouteTable(routes).lookup(torch.tensor(asked)).tolist()
    assert found == [longest_prefix_reference(routes, address) for address in asked]


def test_ten_thousand_routes_in_one_batch():
    make = torch.Generator().manual_seed(0)
    lengths = torch.randint(8, 33, (10_000,), generator=make).tolist()
    starts = torch.randint(0, 2**32, (10_000,), generator=make).tolist()
    routes = [
        (prefix(a, n), n, i) for i, (a, n) in enumerate(zip(starts, lengths, strict=True))
    ]
    asked = torch.randint(0, 2**32, (100, 100), generator=make)
    asked[0, :50] = torch.tensor(starts[:50])
    found = RouteTable(routes).lookup(asked)
    assert found.shape == asked.shape
    for address, hop in list(
        zip(asked.flatten().tolist(), found.flatten().tolist(), strict=True)
    )[:100]:
        assert hop == longest_prefix_reference(routes, address)


@pytest.mark.parametrize("route", [(1, 8, 0), (0, 33, 0), (0, 0, -1), (2**32, 32, 0)])
def test_a_route_that_cannot_be_is_refused(route):
    with pytest.raises(ValueError):
        RouteTable([route])


def test_addresses_of_another_type_are_refused():
    with pytest.raises(ValueError, match=r"torch\.int64 is allowed"):
        RouteTable([]).lookup(torch.tensor([-1], dtype=torch.int32))


def test_the_batch_lets_nothing_go_without_time_to_live():
    words = torch.tensor([pack_label(16, 5, 1, ttl) for ttl in (0, 1, 2, 255)])
    made = swap_batch(words, label_table({16: 0}), torch.tensor([99])).tolist()
    assert made == [-1, -1, pack_label(99, 5, 1, 1), pack_label(99, 5, 1, 254)]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(ENTRY, min_size=1, max_size=20),
    st.dictionaries(st.integers(16, 2**20 - 1), st.integers(0, 2), max_size=5),
)
def test_the_batch_swaps_as_the_router_does(entries, labels):
    hops, known = [Hop("x", 500), Hop("y", IMPLICIT_NULL), Hop("z", 2**20 - 1)], list(labels)
    entries = [
        e._replace(label=known[i % len(known)]) if known and i % 2 else e
        for i, e in enumerate(entries)
    ]
    words = torch.tensor([pack_label(*e) for e in entries])
    out = torch.tensor([hop.label for hop in hops])
    made = swap_batch(words, label_table(labels), out).tolist()
    router = Router("a", hops, labels=labels)
    for entry, word in zip(entries, made, strict=True):
        alone = router.forward(write_stack([entry], packet()), True)
        swapped = alone is not None and alone.labelled
        assert (word != -1) == swapped
        if swapped:
            assert unpack_label(word)._replace(bottom=True) == read_stack(alone.packet)[0][0]
