"""What the counts of a rehearsal predict for a card: the least seconds that its datasheet allows, and the bytes held.

    seconds = Σ over operations  max(launch, bytes / bandwidth, FLOPs / rate of that kind of number)
            + Σ over copies      link latency + bytes / link bandwidth
            + waits × the time of one

Each operation is one kernel, reads and writes each operand once, and does either at the datasheet's rate: a roofline,
operation by operation (S. Williams, A. Waterman, D. Patterson, Roofline, Communications of the ACM 52(4), 2009). Real
kernels reach less of both, so a card may be slower than this and hardly faster. Copies that overlap with work are
added nevertheless. Predicted, not measured: `against_the_cpu` prints how far the formula is off where it can be tried.
Tensor cores are counted for float16, bfloat16, and TF32 where torch uses it by default; a product in float64 uses
those of an A100 or H100, too, and may take half of what is said here. The times of a launch, a wait and a copy's begin
are assumed.
It is near for streams through memory, products and tiny operations; rows gathered from a large table and long Fourier
transforms take many times what it says, for no datasheet tells the rate of scattered accesses.
"""

from collections.abc import Iterable
from dataclasses import dataclass

LAUNCH_S = 5e-6  # of one operation from Python through PyTorch to its kernel, back to back; assumed
WAIT_S = 10e-6  # from the end of the work to the host's next launch; assumed
LATENCY_S = 10e-6  # before a copy's first byte; assumed


@dataclass(frozen=True)
class Card:
    """A device by its datasheet; rates in FLOP/s by the kind of number, "" for every other kind."""

    name: str
    bytes_per_s: float
    flops_per_s: dict[str, float]
    link_bytes_per_s: float  # one way
    memory_bytes: float
    source: str
    checked: str = ""  # where the numbers were read, and what could not be
    launch_s: float = LAUNCH_S
    wait_s: float = WAIT_S
    latency_s: float = LATENCY_S


T4 = Card(
    "Tesla T4",
    320e9,
    {"": 8.1e12, "float16": 65e12, "float64": 8.1e12 / 32},  # bfloat16 and TF32 have no units there: float32's rate
    16e9,
    16e9,
    "NVIDIA T4 datasheet: 320 GB/s, 8.1 and 65 TFLOPS, PCIe 3.0 x16; float64 at a 32nd as compute capability 7.5",
    "sysrqmts.com and the reports of its announcement agree; the datasheet itself was not at hand",
)
A100 = Card(
    "A100 SXM 40 GB",
    1555e9,
    {"": 19.5e12, "tf32": 156e12, "float16": 312e12, "bfloat16": 312e12, "float64": 9.7e12},
    32e9,
    40e9,
    "NVIDIA A100 Tensor Core GPU architecture, white paper: 1,555 GB/s; 19.5, 156, 312 and 9.7 TFLOPS; PCIe 4.0 x16",
    "glennklockwood.com (which cites the datasheet and the white paper), techpowerup.com and the computing centre of "
    "Paderborn agree; the white paper itself was not at hand",
)
H100 = Card(
    "H100 SXM 80 GB",
    3350e9,
    {"": 67e12, "tf32": 494e12, "float16": 989e12, "bfloat16": 989e12, "float64": 34e12},
    64e9,
    80e9,
    "NVIDIA H100 Tensor Core GPU datasheet: 3.35 TB/s; 67, 989/2 and 1,979/2 without sparsity, 34 TFLOPS; PCIe 5.0 x16",
    "hpctech.co.jp, which reprints the datasheet's table, and glennklockwood.com agree; the datasheet itself was not "
    "at hand",
)
CARDS = {"gpu": (T4,), "big": (A100, H100)}  # by tier


@dataclass(frozen=True)
class Prediction:
    """Seconds and bytes on a card, predicted, not measured; `parts` says what the seconds go into."""

    card: str
    seconds: float
    parts: dict[str, float]
    peak_bytes: int
    fits: bool

    @property
    def bound(self) -> str:
        """What takes most of it: launches, memory, arithmetic, link or waits."""
        return max(self.parts, key=self.parts.get)


def predict(card: Card, work: Iterable, links: Iterable, waits: int, peak_bytes: int) -> Prediction:
    """The Prediction for a card.

    `work`: rows (operation, kind, bytes, FLOPs, calls); `links`: rows (direction, bytes, pinned, copies), as `chapter`
    writes them and `Counts` holds them.
    """
    parts = dict.fromkeys(("launches", "memory", "arithmetic", "link", "waits"), 0.0)
    for _, kind, size, flops, calls in work:
        rate = card.flops_per_s.get(real(kind), card.flops_per_s[""])
        limits = {"launches": card.launch_s, "memory": size / card.bytes_per_s, "arithmetic": flops / rate}
        longest = max(limits, key=limits.get)
        parts[longest] += calls * limits[longest]
    for _, size, _, copies in links:
        parts["link"] += copies * (card.latency_s + size / card.link_bytes_per_s)
    parts["waits"] = waits * card.wait_s
    return Prediction(card.name, sum(parts.values()), parts, peak_bytes, peak_bytes <= card.memory_bytes)


def of_counts(card: Card, counts) -> Prediction:
    """The Prediction from a `Counts`."""
    work = [(*key, calls) for key, calls in counts.work.items()]
    links = [(*key, copies) for key, copies in counts.links.items()]
    return predict(card, work, links, counts.syncs, counts.peak_bytes)


def real(kind: str) -> str:
    """The kind of number that a complex one is made of.

    >>> real("complex64"), real("bfloat16")
    ('float32', 'bfloat16')
    """
    return {"complex64": "float32", "complex128": "float64", "complex32": "float16"}.get(kind, kind)
