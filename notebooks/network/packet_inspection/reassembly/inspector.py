"""A frame goes in, what the rules say of it comes out: firewall, reassembly, files, signatures.

Two kinds of rule on one stream. A *firewall* rule sees a packet's addresses and ports, and
drops it before anything is kept of it. A *storage* rule sees files: each response body runs
through a matcher of its own. All that is kept has a bound, and what is not understood is
counted.
"""

import ipaddress
from collections import Counter, OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

import dpkt

from .fragments import Fragments
from .http_files import HEADER_BYTES, MOST_ASKED, HttpFiles
from .streams import TcpStream


@dataclass(frozen=True)
class FirewallRule:
    """Drops a packet from `source` to `target` (networks such as 10.0.0.0/8) on `port`, if
    given."""

    source: str = "0.0.0.0/0"
    target: str = "0.0.0.0/0"
    port: int | None = None

    def __post_init__(self):  # a network that is none is told here, not with the first packet
        object.__setattr__(
            self, "networks", tuple(map(ipaddress.IPv4Network, (self.source, self.target)))
        )

    def fits(self, source: bytes, target: bytes, port: int) -> bool:
        pairs = zip((source, target), self.networks, strict=True)
        return self.port in (None, port) and all(
            ipaddress.IPv4Address(a) in n for a, n in pairs
        )


@dataclass
class Connection:
    """Both directions of a connection, by who sends: `client` sent the SYN without ACK."""

    client: tuple
    streams: dict[tuple, TcpStream]
    matcher: object
    files: HttpFiles = field(default_factory=HttpFiles)

    def state_bytes(self) -> int:
        parts = [*self.streams.values(), self.files, self.matcher]
        return sum(part.state_bytes() for part in parts)


class Inspector:
    """`frame(bytes)` returns the names of the storage rules that this frame decides.

    `policy` says which of two overlapping segments counts; `most_flows` connections are kept,
    the one that was silent longest goes first.
    """

    def __init__(self, matcher, firewall: Iterable[FirewallRule] = (), policy: str = "first",
                 window: int = 1 << 16, most_flows: int = 1024):  # fmt: skip
        self.matcher, self.firewall = matcher, list(firewall)
        self.policy, self.window, self.most_flows = policy, window, most_flows
        self.flows: OrderedDict[frozenset, Connection] = OrderedDict()
        self.fragments, self.own_counts = Fragments(), Counter()

    def frame(self, raw: bytes) -> list[str]:
        self.own_counts["frames"] += 1
        self.own_counts["bytes"] += len(raw)
        packet = self._packet(raw)
        if packet is None:
            return []
        source, target, segment = packet
        if any(rule.fits(source, target, segment.dport) for rule in self.firewall):
            return self._count("frames that the firewall drops")
        return self._segment((source, segment.sport), (target, segment.dport), segment)

    def _count(self, reason: str) -> list:
        self.own_counts[reason] += 1
        return []

    def _packet(self, raw: bytes) -> tuple[bytes, bytes, dpkt.tcp.TCP] | None:
        """Source, target and TCP segment; None, counted, for what is none or does not add
        up."""
        try:
            if int.from_bytes(raw[12:14], "big") != dpkt.ethernet.ETH_TYPE_IP:
                return self._count("frames without IPv4") or None
            whole = raw[14:]
            length, total = 4 * (whole[0] & 15), int.from_bytes(whole[2:4], "big")
            if whole[0] >> 4 != 4 or length < 20 or not length <= total <= len(whole):
                return self._count("lengths that lie") or None
            if dpkt.in_cksum(whole[:length]):
                return self._count("wrong checksums") or None
            data, source, target = whole[length:total], whole[12:16], whole[16:20]
            place = int.from_bytes(whole[6:8], "big")
            if place & 0x3FFF:
                key = (source, target, whole[9], whole[4:6])
                data = self.fragments.add(key, (place & 0x1FFF) * 8, bool(place & 0x2000), data)
            if data is None or whole[9] != dpkt.ip.IP_PROTO_TCP:
                return None if data is None else self._count("packets without TCP") or None
            return self._tcp(source, target, data)
        except (dpkt.UnpackError, IndexError):
            return self._count("truncated packets") or None

    def _tcp(self, source: bytes, target: bytes, data: bytes):
        if len(data) < 20 or not 20 <= 4 * (data[12] >> 4) <= len(data):
            return self._count("lengths that lie") or None
        pseudo = source + target + bytes([0, 6]) + len(data).to_bytes(2, "big")
        if dpkt.in_cksum(pseudo + data):  # the host would not take it either
            return self._count("wrong checksums") or None
        return source, target, dpkt.tcp.TCP(data)

    def _segment(self, sender: tuple, receiver: tuple, segment: dpkt.tcp.TCP) -> list[str]:
        key, syn = frozenset((sender, receiver)), bool(segment.flags & dpkt.tcp.TH_SYN)
        made = []
        if not segment.flags & (dpkt.tcp.TH_SYN | dpkt.tcp.TH_ACK | dpkt.tcp.TH_RST):
            return self._count("segments without ACK")  # the host would not take them either
        if key not in self.flows:
            if not syn or segment.flags & dpkt.tcp.TH_ACK:
                return self._count("segments of no connection")
            streams = {end: TcpStream(self.policy, self.window) for end in (sender, receiver)}
            self.flows[key] = Connection(sender, streams, self.matcher.another())
            if len(self.flows) > self.most_flows:
                made += self._close(*self.flows.popitem(last=False), "connections given up")
        self.flows.move_to_end(key)
        flow = self.flows[key]
        stream = flow.streams[sender]
        if segment.flags & dpkt.tcp.TH_RST:
            stream.reset(segment.seq)
        fin = bool(segment.flags & dpkt.tcp.TH_FIN)
        data = stream.segment(segment.seq, bytes(segment.data), syn, fin)
        made += self._deliver(flow, sender == flow.client, data)
        server_ended = any(s.ended for end, s in flow.streams.items() if end != flow.client)
        if server_ended and not flow.files.waits():  # an answer may come before its question
            made += self._judge(flow, flow.files.close())
        reset = segment.flags & dpkt.tcp.TH_RST and stream.ended
        if reset or all(each.ended for each in flow.streams.values()):
            made += self._close(key, self.flows.pop(key), "connections closed")
        return made

    def _deliver(self, flow: Connection, from_client: bool, data: bytes) -> list[str]:
        if not data:
            return []
        if from_client:
            flow.files.requests(data)
            data = b""  # what the server said before its question was seen may be read now
        return self._judge(flow, flow.files.responses(data))

    def _judge(self, flow: Connection, events: list[tuple[str, bytes]]) -> list[str]:
        made = []
        for kind, data in events:
            self.own_counts["files"] += kind == "end"
            self.own_counts["bytes of files"] += len(data)
            made += flow.matcher.finish() if kind == "end" else flow.matcher.feed(data)
        return made

    def _close(self, key: frozenset, flow: Connection, reason: str) -> list[str]:
        self.own_counts[reason] += 1
        made = self._judge(flow, flow.files.close())
        for counts in (flow.files.counts, *(each.counts for each in flow.streams.values())):
            self.own_counts.update(counts)
        return made

    def finish(self) -> list[str]:
        """The verdicts on files that were still open; then nothing is kept."""
        made = []
        while self.flows:
            made += self._close(*self.flows.popitem(last=False), "connections left open")
        return made

    @property
    def counts(self) -> Counter:
        """What was seen, dropped and not understood."""
        return self.own_counts + self.fragments.counts

    def state_bytes(self) -> int:
        return self.fragments.state_bytes() + sum(f.state_bytes() for f in self.flows.values())

    def most_bytes(self) -> int:
        """What can be kept at most: the windows, one incomplete HTTP header each way,
        matchers."""
        waiting = 2 * (16 + 2 * self.window) + (MOST_ASKED + 6) * HEADER_BYTES
        flow = waiting + self.matcher.program.most_bytes()
        return self.fragments.most_bytes() + self.most_flows * flow
