"""The data plane of a label-switching router: what happens to one packet.

An address enters at the edge: its longest prefix names what to push. Inside, the top label
alone decides: swap, pop, or pop one router early (penultimate hop, where the next one asked for
'implicit null'). TTL is copied in at the push and out at the pop, so labels hide no loop
(RFC 3443's uniform model). What the tables do not know goes the slow path, a queue that is full
at some point; everything not forwarded is counted.
"""

import struct
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from .labels import (
    EXPLICIT_NULL,
    FIRST_FREE,
    IMPLICIT_NULL,
    LABELS,
    Entry,
    read_stack,
    write_stack,
)  # fmt: skip
from .routes import MISS, RouteTable


class Hop(NamedTuple):
    """Where a packet goes next, and the label that it bears there; None: no label is"""

    neighbour: str
    label: int | None = None


class Out(NamedTuple):
    """A packet that leaves: to whom, with labels or bare, its bytes."""

    neighbour: str
    labelled: bool
    packet: bytes


@dataclass
class Router:
    """`forward(packet, labelled)` returns an `Out`; None where the packet stays or is dropped.

    `hops` are numbered; `routes` gives a number for an address, `labels` one for a label that
    came in. A number whose hop is `Hop("local")` ends here.
    """

    name: str
    hops: list[Hop] = field(default_factory=list)
    routes: RouteTable = field(default_factory=lambda: RouteTable([]))
    labels: dict[int, int] = field(default_factory=dict)
    most_waiting: int = 64
    counts: Counter = field(default_factory=Counter)
    slow_path: deque = field(default_factory=deque)
    arrived: list[bytes] = field(default_factory=list)

    def install(self, hops: list[Hop], routes: list[tuple], labels: dict[int, int]) -> None:
        """The tables that the control plane made, all at once."""
        self.hops, self.routes, self.labels = hops, RouteTable(routes), labels

    def forward(self, packet: bytes, labelled: bool) -> Out | None:
        if not labelled:
            return self._route(packet, None)
        try:
            (top, *rest), payload = read_stack(packet)
        except ValueError:
            return self._count("stacks without a bottom")
        ttl, number = top.ttl - 1, self.labels.get(top.label)
        hop = None if number is None else self.hops[number]
        if top.label == EXPLICIT_NULL:  # it only carries class and TTL to the last router
            hop = Hop("local")
        if ttl < (not hop or hop.neighbour != "local"):  # 1 is enough to arrive with
            return self._count("time to live used up")
        if hop and hop.neighbour == "local":
            return self._below(rest, payload, ttl)
        if hop is None or hop.label is None:
            return self._slow(packet, labelled)
        if hop.label == IMPLICIT_NULL:
            return self._pop(hop, rest, payload, ttl)
        self.counts["swapped"] += 1
        entries = [Entry(hop.label, top.traffic_class, top.bottom, ttl), *rest]
        return Out(hop.neighbour, True, write_stack(entries, payload))

    def _pop(self, hop: Hop, rest: list[Entry], payload: bytes, ttl: int) -> Out | None:
        self.counts["popped"] += 1
        if rest:
            entries = [rest[0]._replace(ttl=min(ttl, rest[0].ttl)), *rest[1:]]
            return Out(hop.neighbour, True, write_stack(entries, payload))
        inner = read_address(payload)
        if inner is None:
            return self._count("no IPv4 packet")
        return Out(hop.neighbour, False, with_ttl(payload, min(ttl, inner[1])))

    def _below(self, rest: list[Entry], payload: bytes, ttl: int) -> Out | None:
        """The label ended here: what lies under it is looked at, without a second decrement."""
        self.counts["popped"] += 1
        if rest:
            entry = rest[0]._replace(ttl=min(ttl + 1, rest[0].ttl))
            return self.forward(write_stack([entry, *rest[1:]], payload), True)
        return self._route(payload, ttl)

    def _route(self, packet: bytes, ttl: int | None) -> Out | None:
        inner = read_address(packet)
        if inner is None:
            return self._count("no IPv4 packet")
        address, own = inner
        number = int(self.routes.lookup(torch.tensor([address]))[0])
        if number == MISS:
            return self._slow(packet, False)
        hop = self.hops[number]
        left = own - 1 if ttl is None else min(own, ttl)
        if hop.neighbour == "local":  # whoever takes it in does not count down
            self.arrived.append(packet if ttl is None else with_ttl(packet, min(own, ttl + 1)))
            return None
        if left < 1:
            return self._count("time to live used up")
        packet = with_ttl(packet, left)
        if hop.label in (None, IMPLICIT_NULL):
            self.counts["routed"] += 1
            return Out(hop.neighbour, False, packet)
        self.counts["pushed"] += 1
        entry = Entry(hop.label, packet[1] >> 5, True, left)
        return Out(hop.neighbour, True, write_stack([entry], packet))

    def _slow(self, packet: bytes, labelled: bool) -> None:
        if len(self.slow_path) >= self.most_waiting:
            return self._count("dropped before the slow path")
        self.slow_path.append((packet, labelled))
        return self._count("sent the slow path")

    def _count(self, reason: str) -> None:
        self.counts[reason] += 1


def read_address(packet: bytes) -> tuple[int, int] | None:
    """Destination and TTL of an IPv4 packet; None for what is none, is cut short, or has
    another checksum (a router that wrote a new one over it would hide the fault)."""
    if len(packet) < 20 or packet[0] >> 4 != 4 or packet[0] & 15 < 5:
        return None
    length, total = 4 * (packet[0] & 15), int.from_bytes(packet[2:4], "big")
    if not length <= total <= len(packet) or checksum(packet[:length]):
        return None
    return int.from_bytes(packet[16:20], "big"), packet[8]


def checksum(head: bytes) -> int:
    """The checksum of a header without one; 0 for a header that bears its own."""
    total = sum(struct.unpack(f"!{len(head) // 2}H", head))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def with_ttl(packet: bytes, ttl: int) -> bytes:
    """The packet with another TTL, and the checksum that belongs to it."""
    length = 4 * (packet[0] & 15)
    head = bytearray(packet[:length])
    head[8], head[10:12] = ttl, b"\x00\x00"
    head[10:12] = checksum(bytes(head)).to_bytes(2, "big")
    return bytes(head) + packet[length:]


def label_table(labels: dict[int, int], device=None) -> torch.Tensor:
    """The table of incoming labels for `swap_batch`: 2²⁰ numbers of hops, `MISS` elsewhere."""
    table = torch.full((LABELS,), MISS, dtype=torch.int32, device=device)
    if labels:
        keys = torch.tensor(list(labels), device=device)
        if int(keys.min()) < FIRST_FREE or int(keys.max()) >= LABELS:
            raise ValueError(f"labels {FIRST_FREE} to {LABELS - 1} may be given out")
        table[keys] = torch.tensor(list(labels.values()), dtype=torch.int32, device=device)
    return table


def swap_batch(words: torch.Tensor, table: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """The new top entries of many packets, int64; `MISS` where a packet goes another way.

    `out` has for each hop the label to swap to; below `FIRST_FREE` nothing is swapped. One
    read of each table an entry, no loop: the form that a card takes.
    """
    number = table[words >> 12].long()
    label, ttl = out[number.clamp(min=0)], words & 255
    new = label << 12 | words & 0xF00 | (ttl - 1)
    return torch.where((number != MISS) & (label >= FIRST_FREE) & (ttl > 1), new, MISS)
