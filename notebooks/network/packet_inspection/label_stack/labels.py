"""MPLS labels and stacks of them, as RFC 3032 writes them.

An entry is 32 bits: label (20), traffic class (3), bottom of stack (1), time to live (8).
"""

from typing import NamedTuple

EXPLICIT_NULL, ROUTER_ALERT, EXPLICIT_NULL_6, IMPLICIT_NULL = 0, 1, 2, 3
FIRST_FREE, LABELS = 16, 1 << 20  # 0 to 15 are reserved
DEEPEST = 16  # entries read of one packet; a stack that goes on is dropped


class Entry(NamedTuple):
    """One entry of a stack."""

    label: int
    traffic_class: int
    bottom: bool
    ttl: int


def pack_label(label: int, traffic_class: int, bottom: int | bool, ttl: int) -> int:
    """The entry as an unsigned number of 32 bits.

    >>> hex(pack_label(16, 0, True, 64))
    '0x10140'
    """
    limits = {"label": (label, LABELS), "traffic_class": (traffic_class, 8), "bottom": (bottom,
    2), "ttl": (ttl, 256)}  # fmt: skip
    for name, (value, limit) in limits.items():
        if not 0 <= value < limit:
            raise ValueError(f"{name} is {value}; 0 to {limit - 1} are allowed")
    return int(label) << 12 | int(traffic_class) << 9 | int(bottom) << 8 | int(ttl)


def unpack_label(word: int) -> Entry:
    """The fields of an entry; `unpack_label(pack_label(*entry)) == entry`."""
    if not 0 <= word < 1 << 32:
        raise ValueError(f"an entry is {word}; 32 bits are allowed")
    return Entry(word >> 12, word >> 9 & 7, bool(word >> 8 & 1), word & 255)


def read_stack(frame: bytes) -> tuple[list[Entry], bytes]:
    """The entries, top first, and what lies under them.

    Raises `ValueError` where the bytes end before the bottom, or it is deeper than `DEEPEST`.
    """
    entries = []
    for at in range(0, 4 * DEEPEST, 4):
        if len(frame) < at + 4:
            raise ValueError(f"the stack ends after {len(frame)} bytes, without a bottom")
        entries.append(unpack_label(int.from_bytes(frame[at : at + 4], "big")))
        if entries[-1].bottom:
            return entries, frame[at + 4 :]
    raise ValueError(f"no bottom within {DEEPEST} entries")


def write_stack(entries: list[Entry], payload: bytes) -> bytes:
    """Entries, top first, and payload as bytes; the last entry alone is the bottom."""
    last = len(entries) - 1
    words = [
        pack_label(e.label, e.traffic_class, i == last, e.ttl) for i, e in enumerate(entries)
    ]
    return b"".join(word.to_bytes(4, "big") for word in words) + payload
