"""One direction of a TCP connection put in order, within a window, whatever arrives.

Sequence numbers count bytes modulo 2³² (RFC 9293). What arrives early waits in a buffer of at
most `window` bytes; what arrives twice is delivered once. Where two segments disagree about a
byte that still waits, a *policy* decides: `first` keeps the older, `last` takes the newer.
Hosts differ in it (Ptacek and Newsham, 1998), so an attacker can choose what only the host
will see.
"""

from collections import Counter
from dataclasses import dataclass, field

TURN = 1 << 32
POLICIES = ("first", "last")


def ahead(sequence: int, base: int) -> int:
    """How far `sequence` lies ahead of `base` on the circle; negative where it lies behind.

    >>> ahead(5, 2**32 - 5), ahead(2**32 - 5, 5)
    (10, -10)
    """
    return (sequence - base + TURN // 2) % TURN - TURN // 2


@dataclass
class Window:
    """Bytes that wait for those before them; `put` returns what is now in order."""

    size: int = 1 << 16
    policy: str = "first"
    counts: Counter = field(default_factory=Counter)
    waiting: bytearray = field(default_factory=bytearray)  # from the first missing byte on
    filled: bytearray = field(default_factory=bytearray)  # 1 where a byte has come

    def __post_init__(self):
        if self.policy not in POLICIES:
            raise ValueError(f"policy {self.policy!r}; allowed are {POLICIES}")

    def put(self, offset: int, piece: bytes) -> bytes:
        """`offset` counts from the first missing byte; it may be negative."""
        if offset < 0:
            self.counts["bytes sent again"] += min(-offset, len(piece))
            piece, offset = piece[-offset:], 0
        if offset + len(piece) > self.size:
            self.counts["bytes beyond the window"] += min(
                len(piece), offset + len(piece) - self.size
            )
            piece = piece[: max(self.size - offset, 0)]
        if not piece:
            return b""
        if not self.waiting and not offset:
            return bytes(piece)
        self._write(offset, piece)
        end = self.filled.find(0)
        end = len(self.filled) if end < 0 else end
        made = bytes(self.waiting[:end])
        del self.waiting[:end], self.filled[:end]
        return made

    def _write(self, offset: int, piece: bytes) -> None:
        grown = offset + len(piece) - len(self.waiting)
        if grown > 0:
            self.waiting += bytes(grown)
            self.filled += bytes(grown)
        span = slice(offset, offset + len(piece))
        old, there = self.waiting[span], self.filled[span]
        if any(there):
            self.counts["bytes that overlap"] += sum(there)
            differ = sum(t and a != b for t, a, b in zip(there, old, piece, strict=True))
            self.counts["bytes that disagree"] += differ
            if self.policy == "first":
                pairs = zip(there, old, piece, strict=True)
                piece = bytes(a if taken else b for taken, a, b in pairs)
        self.waiting[span] = piece
        self.filled[span] = b"\x01" * len(piece)

    def __len__(self) -> int:
        return len(self.waiting) + len(self.filled)


class TcpStream:
    """One direction: `segment(sequence, data, syn, fin)` returns the bytes now in order.

    A stream starts with its SYN. `ended` is true once all bytes before the FIN were delivered,
    or after a reset.
    """

    def __init__(self, policy: str = "first", window: int = 1 << 16):
        self.window = Window(window, policy)
        self.counts = self.window.counts
        self.next: int | None = None
        self.last: int | None = None  # the sequence number behind the last byte
        self.ended = False

    def segment(
        self, sequence: int, data: bytes, syn: bool = False, fin: bool = False
    ) -> bytes:
        again = syn and self.next is not None  # no host takes data of a second SYN
        if syn and not again:
            self.next = sequence = (sequence + 1) % TURN
        if self.next is None or self.ended or again:
            self.counts["segments outside a connection"] += 1
            return b""
        offset = ahead(sequence, self.next)
        if self.last is None and fin and 0 <= offset + len(data) <= self.window.size:
            self.last = (sequence + len(data)) % TURN
        made = self.window.put(offset, data)
        if self.last is not None:  # what lies behind the FIN is no part of the stream
            made = made[: ahead(self.last, self.next)]
        self.next = (self.next + len(made)) % TURN
        self.ended = self.next == self.last
        return made

    def reset(self, sequence: int) -> None:
        """A reset counts only at the very next byte, else anyone could blind the inspector."""
        if self.next is not None and sequence == self.next:
            self.ended = True
        else:
            self.counts["resets beside the stream"] += 1

    def state_bytes(self) -> int:
        return 16 + len(self.window)
