"""Rules over a stream: `compile(rules)` gives a matcher and a ledger; a matcher carries a
flow's state from packet to packet.

What is carried: the number of one table's state, the last bytes (at most `REACH`), the bits of
patterns that are half read, the file's first bytes as far as conditions read them, and which
strings were found. `state_bytes` says how much that is, `most_bytes` how much it can ever be.
"""

from collections.abc import Iterable

from .automaton import AhoCorasick, BitPattern
from .conditions import Seen, answer, mentions
from .patterns import FOREVER
from .rule_texts import Entry, Rule, read

CHUNK = 1 << 16


class Program:
    """What all flows share: the table, the patterns, the rules."""

    def __init__(self, rules: list[Rule]):
        self.rules, self.bits, self.atoms, self.owner = rules, [], [], []
        numbers = {}
        self.uses = []  # of each rule, the numbers of its strings
        for rule in rules:
            self.uses.append({})
            for atom, patterns in rule.patterns.items():
                key = (tuple(patterns),)  # equal strings of several rules are looked for once
                if key not in numbers:
                    numbers[key] = len(self.atoms)
                    self.atoms.append(atom)
                    self.bits += [BitPattern(pattern) for pattern in patterns]
                    self.owner += [numbers[key]] * len(patterns)
                self.uses[-1][atom] = numbers[key]
        anchored = [i for i, bits in enumerate(self.bits) if bits.anchor]
        self.free = [i for i, bits in enumerate(self.bits) if not bits.anchor]
        self.automaton = AhoCorasick([self.bits[i].anchor for i in anchored])
        self.ends = {s: [anchored[i] for i in e] for s, e in self.automaton.ends.items()}
        self.window = max((self.bits[i].most for i in anchored), default=1)
        reads = [node for rule in rules for node in mentions(rule.condition, "header")]
        self.header = max((offset + width for _, offset, width, *_ in reads), default=0)
        self.waits = [  # for the size, or for another rule: looked at again with every piece
            bool(mentions(rule.condition, "filesize") or mentions(rule.condition, "rule"))
            for rule in rules
        ]
        self.headed = [i for i, rule in enumerate(rules) if mentions(rule.condition, "header")]
        self.wanted_by = [[] for _ in self.atoms]
        for number, uses in enumerate(self.uses):
            for atom in uses.values():
                self.wanted_by[atom].append(number)

    def most_bytes(self) -> int:
        """The most that a flow can ever carry."""
        bits = sum(_octets(each.length + 1) for each in self.bits)
        flags = _octets(len(self.atoms) + 2 * len(self.rules))
        return 12 + self.window + self.header + bits + flags


def _octets(bits: int) -> int:
    return (bits + 7) // 8


class Matcher:
    """The state of one file that comes in pieces.

    >>> matcher, ledger = compile('rule r { strings: $a = "evil" condition: $a }')
    >>> matcher.feed(b"...ev"), matcher.feed(b"il..."), matcher.finish()
    ([], ['r'], [])
    """

    def __init__(self, program: Program):
        self.program = program
        self._restart()

    def _restart(self) -> None:
        program = self.program
        self.state, self.size, self.history, self.header = 0, 0, b"", b""
        self.found = bytearray(len(program.atoms))
        self.live = dict.fromkeys(program.free, 0)
        self.closed = bytearray(len(program.atoms))  # found, or of no more use
        self.decided = [None] * len(program.rules)
        self.names = {rule.name: None for rule in program.rules}
        self.changed = set(range(len(program.rules)))

    def another(self) -> "Matcher":
        """A matcher of the same rules for another flow; table and patterns are shared."""
        return Matcher(self.program)

    def feed(self, data: bytes) -> list[str]:
        """The names of rules that are now known to hold, each once, in the order of the
        rules."""
        data, made = bytes(memoryview(data)), []  # no number, of which `bytes` makes zeros
        for begin in range(0, len(data), CHUNK):
            made += self._chunk(data[begin : begin + CHUNK])
        return made

    def finish(self) -> list[str]:
        """The rules that hold only now that the file has ended; then the next file may come."""
        for index, state in self.live.items():
            bits = self.program.bits[index]
            if bits.pattern.at_end and bits.done(state):
                self.found[self.program.owner[index]] = 1
        self.changed = set(range(len(self.program.rules)))
        made = self._decide(ended=True)
        self._restart()
        return made

    def state_bytes(self) -> int:
        """What this flow carries now."""
        bits = sum(_octets(self.program.bits[i].length + 1) for i in self.live)
        flags = _octets(len(self.found) + 2 * len(self.decided))
        return 12 + len(self.history) + len(self.header) + bits + flags

    def _chunk(self, data: bytes) -> list[str]:
        program = self.program
        if self.undecided():
            if len(self.header) < program.header:
                self.header += data[: program.header - len(self.header)]
                self.changed.update(program.headed)
            self.size += len(data)
            made = self._decide()  # first bytes and size may settle rules before any search
            self.size -= len(data)
            self._scan(data)
            self.size += len(data)
            return made + self._decide()
        self.size += len(data)
        return []

    def undecided(self) -> bool:
        """Whether more bytes can still change anything."""
        return None in self.decided

    def _scan(self, data: bytes) -> None:
        """Run the table over the bytes; where an anchor ends or bits live, the patterns too."""
        program, state, live = self.program, self.state, self.live
        table, limit, kept = program.automaton.table, program.automaton.limit, len(self.history)
        seen, offset = self.history + data, self.size - kept
        for at, byte in enumerate(data.lower(), kept):
            state = table[state + byte]
            if live:
                self._advance(seen[at], offset + at)
            if state >= limit:
                for index in program.ends[state]:
                    if not self.closed[program.owner[index]]:
                        bits = program.bits[index].confirm(seen, at, offset)
                        if bits:
                            self._keep(index, live.get(index, 0) | bits)
        self.state, self.history = state, seen[-program.window :]

    def _advance(self, byte: int, at: int) -> None:
        """One byte for every pattern that is half read or has no anchor."""
        for index, state in list(self.live.items()):
            bits = self.program.bits[index]
            pattern, free = bits.pattern, not bits.anchor
            begin = free and pattern.low <= at <= pattern.high
            state = bits.step(state, byte, begin)
            if self.closed[self.program.owner[index]]:
                del self.live[index]
            elif state or (free and at < pattern.high):
                self._keep(index, state)
            else:
                del self.live[index]

    def _keep(self, index: int, state: int) -> None:
        bits, atom = self.program.bits[index], self.program.owner[index]
        if state and not bits.pattern.at_end and bits.done(state):
            self.found[atom] = self.closed[atom] = 1
            self.changed.update(self.program.wanted_by[atom])
            self.live.pop(index, None)
        else:
            self.live[index] = state

    def _decide(self, ended: bool = False) -> list[str]:
        """Answer the rules that something new bears on; drop strings that nobody needs now."""
        program, made = self.program, []
        for number, rule in enumerate(program.rules):
            if self.decided[number] is not None:
                continue
            if number not in self.changed and not program.waits[number]:
                continue
            uses = program.uses[number]
            found = lambda node, uses=uses: self.found[uses[node]]  # noqa: E731
            seen = Seen(found, self.names, self.header, self.size, ended)
            verdict = answer(rule.condition, seen)
            if verdict is None and not ended:
                continue
            self.decided[number] = self.names[rule.name] = bool(verdict)
            if verdict and not rule.private:
                made.append(rule.name)
            for atom in uses.values():
                self.closed[atom] |= all(
                    self.decided[other] is not None for other in program.wanted_by[atom]
                )
        self.changed = set()
        return made


def compile(rules: str | Iterable[str]) -> tuple[Matcher, list[Entry]]:
    """A matcher of all rules that a stream can answer, and the ledger of those it cannot.

    `rules` is one text or several, each with any number of YARA rules. Raises `ValueError`
    where a text is no YARA rule, or two rules have one name.
    """
    made, ledger = read(rules)
    return Matcher(Program(made)), ledger


__all__ = ["FOREVER", "Matcher", "Program", "compile"]
