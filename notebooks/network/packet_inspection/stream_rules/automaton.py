"""Two machines that read a byte at a time: Aho and Corasick's for many anchors, and bits for
one pattern.

An *anchor* is a short run of plain bytes of each pattern. All anchors together are one table:
the state is one number, a byte is one look-up, however many rules there are (Aho and Corasick,
1975). Where an anchor ends, the pattern's own bits go on: bit `i` says that the first `i`
elements can have been read. A byte is a shift, an AND and a skip of optional elements (Navarro
and Raffinot).
"""

from collections import deque

from .patterns import ANY, FOREVER, Pattern, members

ANCHOR, REACH = 8, 64  # the longest anchor; how many bytes before its end a flow keeps at most
COMMON = frozenset(b"\x00\xff\x20\x90\xcc")  # poor anchors: padding of every executable


class AhoCorasick:
    """The table of all anchors; `table[state + byte]` is the next state, times 256.

    States from `limit` on end an anchor; `ends[state]` are its numbers.
    """

    def __init__(self, anchors: list[bytes]):
        children, ends = [{}], [[]]
        for index, anchor in enumerate(anchors):
            node = 0
            for byte in anchor:
                if byte not in children[node]:
                    children[node][byte] = len(children)
                    children.append({})
                    ends.append([])
                node = children[node][byte]
            ends[node].append(index)
        rows, order = self._rows(children, ends)
        quiet = [node for node in order if not ends[node]]
        place = {node: i << 8 for i, node in enumerate(quiet + [n for n in order if ends[n]])}
        self.limit = len(quiet) << 8
        self.table = [place[nxt] for node in place for nxt in rows[node]]
        self.ends = {place[node]: tuple(ends[node]) for node in order if ends[node]}

    @staticmethod
    def _rows(children: list[dict], ends: list[list]) -> tuple[dict, list[int]]:
        """Each node's next nodes; a byte that leads nowhere goes where its longest suffix
        does."""
        rows, order, queue = {}, [], deque([(0, None)])
        while queue:
            node, fallback = queue.popleft()
            row = list(rows[fallback]) if fallback is not None else [0] * 256
            ends[node] += ends[fallback] if fallback is not None else []
            for byte, child in children[node].items():
                queue.append((child, row[byte] if node else 0))
                row[byte] = child
            rows[node] = row
            order.append(node)
        return rows, order

    def __len__(self) -> int:
        return len(self.table) >> 8


def plain(fits: int) -> int | None:
    """The byte, in lower case, that alone is in the class but for its case; None otherwise."""
    known = {bytes([value]).lower() for value in members(fits)} if fits.bit_count() < 3 else ()
    return next(iter(known))[0] if len(known) == 1 else None


class BitPattern:
    """One pattern as bits: `step(state, byte, begin)`, and where its anchor lies.

    >>> from .patterns import Pattern, hex_rows
    >>> bits = BitPattern(Pattern(hex_rows("{ 41 ?? 43 }")[0]))
    >>> state = 0
    >>> for byte in b"xAyC":
    ...     state = bits.step(state, byte, True)
    >>> bits.done(state)
    True
    """

    def __init__(self, pattern: Pattern):
        self.pattern, row = pattern, pattern.elements
        self.length, self.any = len(row), 0
        self.only, self.repeats = {}, {}
        self.blocks = self.first = self.last = 0
        for i, element in enumerate(row, 1):
            bit = 1 << i
            if element.fits == ANY:
                self.any |= bit
            else:
                for byte in members(element.fits):
                    self.only[byte] = self.only.get(byte, 0) | bit
            if element.repeats:
                for byte in members(element.fits):
                    self.repeats[byte] = self.repeats.get(byte, 0) | bit
            if element.optional:
                self.blocks |= bit
                self.first |= bit >> 1 if i == 1 or not row[i - 2].optional else 0
                self.last |= bit if i == len(row) or not row[i].optional else 0
        self.end = 1 << len(row)
        self.anchor, self.anchor_end, self.least, self.most = self._choose_anchor(row)

    def step(self, state: int, byte: int, begin: bool) -> int:
        """The bits after one more byte; `begin` says that the pattern may start at it."""
        state = self._skip(state | begin)
        moved = (state << 1) & (self.only.get(byte, 0) | self.any)
        return moved | state & self.repeats.get(byte, 0) if self.repeats else moved

    def _skip(self, state: int) -> int:
        """Also the bits behind optional elements that are left out: the borrow of a subtraction
        runs through each block from its lowest bit."""
        if not self.blocks:
            return state
        filled = state | self.last
        return state | self.blocks & (~(filled - self.first) ^ filled)

    def done(self, state: int) -> bool:
        """Whether the whole pattern has been read."""
        return bool(self._skip(state) & self.end)

    def _choose_anchor(self, row: tuple) -> tuple[bytes, int, int, int]:
        """The best run of plain bytes near the start, its end, and how far before that end the
        pattern starts: least and most. Nothing where the start is bound or no byte is plain."""
        best, chosen = 0.0, (b"", 0, 0, 0)
        if self.pattern.high != FOREVER:
            return chosen
        run, least, most = [], 0, 0
        for i, element in enumerate(row, 1):
            byte = None if element.optional or element.repeats else plain(element.fits)
            run = [] if byte is None else [*run[1 - ANCHOR :], byte]
            least += not element.optional
            most += REACH + 1 if element.repeats else 1
            if most > REACH:
                break
            worth = sum(0.5 if each in COMMON else 1 for each in run) - 0.01 * i
            if run and worth > best:
                best, chosen = worth, (bytes(run), i, least, most)
        return chosen

    def confirm(self, seen: bytes, end: int, offset: int) -> int:
        """The bits at `seen[end]`, where the anchor ends, if what lies before it fits.

        `offset` is where `seen` begins in the file.
        """
        state, latest = 0, end + 1 - self.least
        for at in range(max(end + 1 - self.most, 0), end + 1):
            begin = at <= latest and at + offset >= self.pattern.low
            state = self.step(state, seen[at], begin)
            if not state and at >= latest:
                return 0
        return state & 1 << self.anchor_end
