"""Two protocols find the ways, one table serves two data planes; frames cross namespaces."""

import random

import dpkt
import pytest
import torch

from . import (
    MISS,
    BatchPlane,
    Control,
    DistanceVector,
    LinkState,
    Router,
    converge,
    exchange_labels,
    pack_label,
)
from . import namespaces as ns


def ip_packet(address):
    return bytes(dpkt.ip.IP(src=b"\x0a\x01\x00\x01", dst=address.to_bytes(4, "big"), p=253))


NET = (0x0A090000, 16)
SQUARE = {
    "a": {"b": 1, "d": 5},
    "b": {"a": 1, "c": 1},
    "c": {"b": 1, "d": 1},
    "d": {"a": 5, "c": 1},
}


def speakers(kind, links, prefixes):
    return {n: kind(n, dict(links[n]), prefixes.get(n, {})) for n in links}


def by_trying_all_ways(links, start, end):
    """The least cost of a way, by Floyd and Warshall."""
    inf = float("inf")
    cost = {(a, b): 0 if a == b else links[a].get(b, inf) for a in links for b in links}
    for m in links:
        for a in links:
            for b in links:
                cost[a, b] = min(cost[a, b], cost[a, m] + cost[m, b])
    return cost[start, end]


@pytest.mark.parametrize("kind", [LinkState, DistanceVector])
@pytest.mark.parametrize("seed", range(4))
def test_both_find_the_cheapest_ways_of_drawn_networks(kind, seed):
    rng, names = random.Random(seed), "abcdefg"
    links = {name: {} for name in names}
    for at in range(1, 7):  # connected, with some circles
        for other in {rng.randrange(at), rng.randrange(at)}:
            cost = rng.randrange(1, 3)
            links[names[at]][names[other]] = links[names[other]][names[at]] = cost
    made = speakers(kind, links, {n: {(i << 24, 8): "local"} for i, n in enumerate(names)})
    converge([*made.values()])
    for name in names:
        found = {p: c for p, (c, _) in made[name].routes().items()}
        assert found == {
            (i << 24, 8): by_trying_all_ways(links, name, o) for i, o in enumerate(names)
        }


@pytest.mark.parametrize("kind", [LinkState, DistanceVector])
def test_a_lost_link_is_gone_round_and_a_lost_network_is_forgotten(kind):
    made = speakers(kind, SQUARE, {"d": {NET: "local"}})
    converge([*made.values()])
    assert made["a"].routes()[NET] == (3, "b")
    made["c"].lose("d"), made["d"].lose("c")
    converge([*made.values()])
    assert made["a"].routes()[NET] == (5, "d") and made["c"].routes()[NET] == (7, "b")
    made["a"].lose("d"), made["d"].lose("a")
    assert converge([*made.values()]) < 64
    assert NET not in made["a"].routes()


def test_a_link_that_one_end_alone_claims_is_not_used():
    made = speakers(LinkState, SQUARE, {"d": {NET: "local"}})
    made["d"].lose("c")
    converge([*made.values()])
    assert made["a"].routes()[NET] == (5, "d")


def test_older_news_of_a_router_do_not_replace_newer():
    one = LinkState("a", {"b": 1}, {})
    one.hears("b", {"c": (3, {"b": 1}, {}), "a": (9, {}, {})})
    one.hears("b", {"c": (2, {}, {})})
    one.hears("d", {"c": (3, {}, {})})
    assert one.known["c"] == (3, {"b": 1}, {}) and one.known["a"][0] == 0


def test_distances_do_not_go_back_to_where_they_came_from():
    one = DistanceVector("a", {"b": 1, "c": 1}, {})
    one.hears("b", {NET: 2})
    assert one.says("b") == {NET: 16} and one.says("c") == {NET: 3}


def test_who_never_settles_is_told():
    class Fickle(LinkState):
        def says(self, neighbour):
            self.known["x"] = (len(self.known) + self.known.get("x", (0,))[0], {}, {})
            return dict(self.known)

    with pytest.raises(ValueError, match="still change"):
        converge([Fickle("a", {"b": 1}, {}), Fickle("b", {"a": 1}, {})])


def controls_of(preferred, other):
    """Controls of the square: each protocol has its own networks."""
    one = speakers(LinkState, SQUARE, preferred)
    two = speakers(DistanceVector, SQUARE, other)
    converge([*one.values()])
    converge([*two.values()])
    made = {n: Control(n, [two[n], one[n]]) for n in SQUARE}
    exchange_labels([*made.values()])
    return made


def test_the_preferred_protocol_counts_and_the_other_fills_in():
    more = (0x0B000000, 8)
    made = controls_of({"d": {NET: "local"}}, {"b": {NET: "local"}, "c": {more: "local"}})
    best = made["a"].best()
    assert best[NET] == "b" and best[more] == "b"
    assert made["c"].best()[NET] == "d", "two links by distance vector, one by link state"


def planes(controls):
    made = {}
    for name, control in controls.items():
        made[name] = Router(name), BatchPlane()
        control.install(*made[name])
    return made


def test_labels_lead_to_the_network_and_are_popped_one_router_early():
    made = planes(controls_of({"d": {NET: "local"}}, {}))
    at, labelled, packet, way = "a", False, ip_packet(0x0A090001), []
    while at:
        way.append((at, labelled))
        out = made[at][0].forward(packet, labelled)
        at, labelled, packet = out or (None, False, b"")
    assert way == [("a", False), ("b", True), ("c", True), ("d", False)]
    assert len(made["d"][0].arrived) == 1


def test_a_prefix_keeps_its_label_when_its_way_changes():
    one = Control("a", [LinkState("a", {}, {})])
    one.protocols[0].known["a"] = (0, {"b": 1}, {})
    one.protocols[0].known["b"] = (0, {"a": 1}, {NET: "local"})
    first = one.labels()[NET]
    one.protocols[0].known["b"] = (1, {"a": 1}, {NET: "local", (0, 8): "local"})
    assert one.labels()[NET] == first and len({*one.labels().values()}) == 2


def test_both_planes_do_the_same_with_every_label_and_address():
    nets = {(i << 24, 8): "local" for i in range(1, 20)}
    made = planes(controls_of({"d": nets}, {"c": {(9 << 24 | 1 << 16, 16): "local"}}))
    for router, batch in made.values():
        words = torch.tensor(
            [pack_label(n, 3, True, ttl) for n in range(16, 50) for ttl in (1, 2, 9)]
        )
        for word, got in zip(words.tolist(), batch.swap(words).tolist(), strict=True):
            out = router.forward(word.to_bytes(4, "big") + ip_packet(1 << 24), True)
            swapped = int.from_bytes(out.packet[:4], "big") if out and out.labelled else MISS
            assert got == swapped
        addresses = torch.tensor([i << 24 | 1 << 16 for i in range(25)])
        for address, got in zip(
            addresses.tolist(), batch.push(addresses, 64).tolist(), strict=True
        ):
            out = router.forward(ip_packet(address), False)
            pushed = int.from_bytes(out.packet[:4], "big") if out and out.labelled else MISS
            assert got == pushed


def test_real_frames_pass_four_routers_in_namespaces():
    found = ns.trace()
    if found is None:
        pytest.skip("this machine forbids network namespaces or raw sockets")
    (_, _, _), (_, (first,), _), (_, (second,), _), _ = found["seen"]
    assert [one[::2] for one in found["seen"]] == [
        ["edge", 64], ["second", 63], ["third", 62], ["last", 61]
    ]  # fmt: skip
    assert found["seen"][0][1] == found["seen"][3][1] == [] and min(first, second) >= 16
    assert found["received"] == ["through four routers", 60]


@pytest.mark.parametrize(
    ("code", "means"),
    [("exit 77", None), ("echo unshare: no >&2; exit 1", None), ("exit 3", "raises")],
)
def test_what_is_forbidden_is_no_failure_and_a_failure_is_not_hidden(code, means):
    command = ("sh", "-c", code)
    if means is None:
        assert ns.trace(command) is None
    else:
        with pytest.raises(RuntimeError, match="routers failed"):
            ns.trace(command)


def test_a_machine_without_the_tool_says_so():
    assert ns.trace(("no_such_tool_here",)) is None
