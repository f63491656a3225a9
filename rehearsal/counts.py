"""What a rehearsal counts, and where in the code it happened. No torch here."""

import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

HERE = str(Path(__file__).resolve().parent)
CELL = "<ipython-input"  # so begin the names of files that a cell is compiled as
BLOCK = 512  # bytes: the caching allocator of CUDA rounds up to blocks of this size
UPLOAD = "a copy to the device"
NO_READ = (UPLOAD, "the device is", "a stream is", "an event is")  # so begin reasons of waits that are meant
KINDS = ("work", "links", "waits", "again", "idle", "notes")
LOOP = 3  # so often from one line, and it stands in a loop


@dataclass(frozen=True)
class Place:
    """A line of our own code, and the notebook's cell that led to it (None outside a notebook)."""

    cell: int | None
    file: str
    line: int

    def __str__(self) -> str:
        if self.file == CELL:
            return f"cell {self.cell}, line {self.line}"
        code = f"{self.file}:{self.line}" if self.file else "autograd's own thread"
        return code if self.cell is None else f"cell {self.cell}, {code}"


@dataclass
class Counts:
    """Sums since the beginning or since `start`.

    `work`: (operation, kind of number, bytes, FLOPs) -> calls; `links`: (direction, bytes, pinned) -> copies;
    `waits`: (reason, Place) -> how often the host waited; `again`: (what, Place) -> copies of bytes already there;
    `idle`: Place -> what was timed as the device's and did nothing there; `notes`: what else was asked of it.
    """

    work: Counter = field(default_factory=Counter)
    links: Counter = field(default_factory=Counter)
    waits: Counter = field(default_factory=Counter)
    again: Counter = field(default_factory=Counter)
    idle: Counter = field(default_factory=Counter)
    notes: Counter = field(default_factory=Counter)
    peak_bytes: int = 0

    def __sub__(self, before: "Counts") -> "Counts":
        """What came after `before`; the peak is this one's own."""
        pairs = ((getattr(self, name), getattr(before, name)) for name in KINDS)
        return Counts(*(after - then for after, then in pairs), peak_bytes=self.peak_bytes)

    def copy(self) -> "Counts":
        """A copy that later counting leaves alone."""
        own = (getattr(self, name).copy() for name in KINDS)
        return Counts(*own, peak_bytes=self.peak_bytes)

    @property
    def operations(self) -> int:
        """Operations that launch work: an estimate of kernels, for a library may use several or fuse some."""
        return sum(self.work.values())

    @property
    def bytes_moved(self) -> int:
        """Bytes read and written in the device's memory, each operand once an operation."""
        return sum(size * calls for (_, _, size, _), calls in self.work.items())

    @property
    def flops(self) -> int:
        """Arithmetic of products, convolutions, attention and Fourier transforms; nothing else is counted."""
        return sum(flops * calls for (_, _, _, flops), calls in self.work.items())

    def link_bytes(self, direction: str) -> int:
        """Bytes over the link, "up" to the device or "down" from it."""
        return sum(size * copies for (way, size, _), copies in self.links.items() if way == direction)

    @property
    def syncs(self) -> int:
        """How often the host had to wait for the device."""
        return sum(self.waits.values())

    def findings(self) -> list[str]:
        """What a reviewer would question, each with its place: reads in a loop, bytes copied again."""
        often = {key: n for key, n in self.waits.most_common() if n >= LOOP and not key[0].startswith(NO_READ)}
        told = [f"{place}: host read in a loop: {reason}, {n} times" for (reason, place), n in often.items()]
        told += [f"{place}: timed as a GPU's, and nothing ran there" for place in self.idle]
        return told + [
            f"{place}: needless transfer: {what}, {n} times" for (what, place), n in self.again.most_common()
        ]

    def summary(self) -> dict[str, int]:
        """The sums by name, ready for JSON."""
        up, down = self.link_bytes("up"), self.link_bytes("down")
        sums = {"operations": self.operations, "bytes_moved": self.bytes_moved, "flops": self.flops}
        return sums | {"bytes_up": up, "bytes_down": down, "syncs": self.syncs, "peak_bytes": self.peak_bytes}


class Ledger:
    """The counts of this process, the live bytes, and the cell that runs now."""

    def __init__(self):
        self.counts, self.live = Counts(), 0
        self.cell: int | None = None

    def hold(self, size: int) -> None:
        """Bytes were allocated."""
        self.live += size
        self.counts.peak_bytes = max(self.counts.peak_bytes, self.live)

    def release(self, size: int) -> None:
        """Bytes were freed."""
        self.live -= size

    def wait(self, reason: str) -> None:
        """The host waits for the device."""
        self.counts.waits[reason, self.place()] += 1

    def place(self) -> Place:
        """The innermost line that belongs neither to this package nor to an installed one."""
        frame = sys._getframe(1)
        while frame:
            name = frame.f_code.co_filename
            if name.startswith(CELL):
                return Place(self.cell, CELL, frame.f_lineno)
            if is_ours(name):
                return Place(self.cell, short(name), frame.f_lineno)
            frame = frame.f_back
        return Place(self.cell, "", 0)


def rounded(size: int) -> int:
    """What the allocator takes for so many bytes."""
    return -(-size // BLOCK) * BLOCK


def is_ours(name: str) -> bool:
    """Whether a file is a chapter's or the reader's own: no helper, not this package's, not installed, not Python's."""
    foreign = ("<", f"{sys.base_prefix}/lib", f"{sys.prefix}/", f"{Path(HERE).parent}/helpers/")
    return not name.startswith(foreign) and "site-packages" not in name and name.rpartition("/")[0] != HERE


def short(name: str) -> str:
    """The path of a file below the book's root."""
    return name.removeprefix(f"{Path(HERE).parent}/")


ledger = Ledger()
