"""IPv4 datagrams put together from fragments, in bounded memory.

Fragments that overlap with other bytes end their datagram: no honest sender makes them
(RFC 5722 says so for IPv6). What never ends is dropped, the oldest first, and counted.
"""

from collections import Counter, OrderedDict

DATAGRAM = 65535


class Fragments:
    """`add(key, offset, more, data)` returns the whole payload once it is complete."""

    def __init__(self, most_datagrams: int = 64, most_pieces: int = 64):
        self.most_datagrams, self.most_pieces = most_datagrams, most_pieces
        self.open: OrderedDict[tuple, dict] = OrderedDict()
        self.counts = Counter()

    def add(self, key: tuple, offset: int, more: bool, data: bytes) -> bytes | None:
        """`offset` in bytes; `more` says that further fragments follow."""
        if offset + len(data) > DATAGRAM or not data or (more and len(data) % 8):
            self.counts["fragments that cannot be"] += 1
            return None
        entry = self.open.setdefault(key, {"pieces": {}, "end": None})
        known = entry["pieces"].get(offset)
        if known == data:
            self.counts["fragments sent again"] += 1
        elif self._overlaps(entry, offset, len(data)) or not self._ends_well(
            entry, offset, data, more
        ):
            return self._drop(key, "datagrams with overlapping fragments")
        else:
            entry["pieces"][offset] = data
        if len(entry["pieces"]) > self.most_pieces:
            return self._drop(key, "datagrams of too many fragments")
        if entry["end"] == sum(map(len, entry["pieces"].values())):
            del self.open[key]
            return b"".join(piece for _, piece in sorted(entry["pieces"].items()))
        while len(self.open) > self.most_datagrams:
            self.open.popitem(last=False)
            self.counts["datagrams never completed"] += 1
        return None

    @staticmethod
    def _overlaps(entry: dict, offset: int, length: int) -> bool:
        pieces = entry["pieces"].items()
        return any(at < offset + length and offset < at + len(piece) for at, piece in pieces)

    @staticmethod
    def _ends_well(entry: dict, offset: int, data: bytes, more: bool) -> bool:
        """Whether the datagram's end stays where it was said to be."""
        end = offset + len(data)
        if not more:
            if entry["end"] not in (None, end):
                return False
            entry["end"] = end
        reached = max([end, *(at + len(piece) for at, piece in entry["pieces"].items())])
        return entry["end"] is None or reached <= entry["end"]

    def _drop(self, key: tuple, reason: str) -> None:
        del self.open[key]
        self.counts[reason] += 1

    def state_bytes(self) -> int:
        return sum(len(p) for entry in self.open.values() for p in entry["pieces"].values())

    def most_bytes(self) -> int:
        return (self.most_datagrams + 1) * DATAGRAM
