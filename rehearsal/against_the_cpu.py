"""How far the formula is off where it can be tried: `python -m rehearsal.against_the_cpu` prints it for this machine.

The same functions run on the CPU, timed, and on the pretended device, counted: generic kinds of work, and of each
chapter its own part (`ours`) at the small sizes of `data/predictions/`; `… asr_streaming` of that chapter alone. The
prediction takes what this machine was measured to reach in the same run (a plain copy, products of each kind of
number, one small operation) instead of a datasheet. `--record` keeps it all in `data/predictions/against_the_cpu.json`,
for pages to print; it refuses while other work runs, and names that.
"""

import argparse
import datetime
import importlib
import json
import math
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from . import beside, device, parts
from .predict import Card, Prediction, predict

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "data" / "predictions"
PART, SIZES = "ours", "check"
MOST_ROUNDS, FEWEST_ROUNDS, SECONDS = 20, 3, 2.0  # of timing one function
LOOK_SECONDS = 2.0  # at what others do, before anything is measured
KINDS = ("float32", "float64", "bfloat16")


@dataclass(frozen=True)
class Compared:
    """One function: what the formula says of it, and the seconds that it took, median and quartiles."""

    predicted: Prediction
    seconds: float
    low: float
    high: float
    rounds: int

    @property
    def ratio(self) -> float:
        """Predicted over measured: 1 where the formula is right, below where it promises too much."""
        return self.predicted.seconds / self.seconds

    @property
    def doubtful(self) -> bool:
        """Whether it took less than half of the least that its arithmetic takes, which no cache explains."""
        return self.predicted.bound == "arithmetic" and self.ratio > 2

    def told(self) -> dict:
        """Ready for JSON, seconds to four digits."""
        times = {"predicted_s": self.predicted.seconds, "measured_s": self.seconds, "low_s": self.low}
        times |= {"high_s": self.high, "ratio": self.ratio}
        rounded = {name: float(f"{value:.4g}") for name, value in times.items()}
        return rounded | {"rounds": self.rounds, "bound": self.predicted.bound}


def workloads(sizes: dict, where) -> dict[str, Callable]:
    """Functions of different kinds, their tensors on the device `where`; `sizes["share"]` of them all."""
    import torch

    share, draw = sizes["share"], torch.Generator().manual_seed(0)

    def randn(*shape):
        return torch.randn(*shape, generator=draw).to(where)

    long_N, table_VD, small_K = randn((1 << 22) // share), randn(200_000 // share, 32), randn(64)
    index_B = torch.randint(200_000 // share, (65_536,), generator=draw).to(where)
    image_BCHW, kernel_OCHW = randn(8, 32, 32, 32), randn(32, 32, 3, 3)
    net = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1)).to(where)
    deep = torch.nn.Conv1d(1024, 1024, 33, groups=1024).to(where)
    rows_BF, sound_BCN = randn(2048, 256), randn(2, 1024, 200)
    rows, cols = (torch.randint(4000, (40_000,), generator=draw) for _ in range(2))
    links = torch.sparse_coo_tensor(torch.stack([rows, cols]), torch.ones(40_000), (4000, 4000)).coalesce()
    links, dense = links.to_sparse_csr().to(where), randn(4000, 64)

    def step(model, x):
        model.zero_grad()
        model(x).square().mean().backward()

    def chain():
        x = small_K
        for _ in range(200):
            x = x * 0.5 + 1
        return x

    return {
        "sums of a long array": lambda: (long_N * 2 + long_N).sum(),
        "rows of a table": lambda: table_VD[index_B].sum(0),
        "a convolution": lambda: torch.nn.functional.conv2d(image_BCHW, kernel_OCHW, padding=1),
        "a depthwise convolution's step": lambda: step(deep, sound_BCN),
        "a training step": lambda: step(net, rows_BF),
        "a sparse product": lambda: links @ dense,
        "400 tiny operations": chain,
        "a Fourier transform": lambda: torch.fft.rfft(long_N),
    }


def here() -> Card:
    """This machine as a card: what it reaches, measured; there is no link to cross."""
    import torch

    from helpers import bench

    rates = {kind: bench.peak("cpu", kind).matmul_flops_per_s for kind in KINDS}
    one = torch.ones(1)
    small = bench.measure(lambda: [one + 1 for _ in range(100)], repeats=MOST_ROUNDS, device="cpu").median_s / 100
    copied, no_link = bench.peak("cpu").copy_bytes_per_s, (math.inf, math.inf)
    return Card("this CPU", copied, {"": rates.pop("float32")} | rates, *no_link, "measured", "", small, 0.0, 0.0)


def compared(card: Card, part: Callable, sizes: dict, exact: bool = False) -> Compared:
    """A part counted on the device (`exact`: with values) and timed on the CPU: as often as fits into `SECONDS`."""
    import torch

    from helpers import bench

    entry = parts.counted(part, sizes, exact)
    work = [("", *row) for row in entry["work"]]
    predicted = predict(card, work, entry["links"], entry["syncs"], entry["peak_bytes"])
    torch.manual_seed(0)
    call = part(dict(sizes), torch.device("cpu"))
    began = time.perf_counter()
    call()
    fit = int(SECONDS / (time.perf_counter() - began))
    rounds = max(FEWEST_ROUNDS, min(MOST_ROUNDS, fit))
    took = bench.measure(call, repeats=rounds, warmup=1, device="cpu")
    return Compared(predicted, took.median_s, took.low_s, took.high_s, rounds)


def generic(card: Card, names: list[str] | None = None, share: int = 1) -> dict[str, Compared]:
    """Each workload, or those named, compared."""
    import torch

    chosen = names or list(workloads({"share": share}, torch.device("cpu")))
    return {
        name: compared(card, lambda sizes, where, name=name: workloads(sizes, where)[name], {"share": share})
        for name in chosen
    }


def chapters(card: Card, stems: list[str] | None = None) -> dict[str, Compared | str]:
    """The own part of each chapter with a prediction, or of those named, compared; what went wrong where it did."""
    found: dict[str, Compared | str] = {}
    for stem in stems or sorted(path.stem for path in KEPT.glob("*.json") if "parts" in _read(path)):
        try:
            found[stem] = compared(card, *_part_of(_read(KEPT / f"{stem}.json")))
        except Exception as error:  # one chapter that fails leaves the others
            found[stem] = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    return found


def _read(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def _part_of(kept: dict) -> tuple[Callable, dict, bool]:
    """(The chapter's own part, its sizes, whether it needs values); its folder is the working directory then."""
    source = Path(kept["source"])
    home = ROOT.joinpath(*source.parts[:3])
    sys.path[:0] = [str(home)]
    os.chdir(home)
    module = importlib.import_module(".".join(source.with_suffix("").parts[3:]))
    return getattr(module, PART), kept["sizes"][SIZES], PART in getattr(module, "BY_VALUES", {})


def report(card: Card, other: dict, found: dict[str, dict]) -> dict:
    """What is recorded: date, machine, what it reaches, other work, and each function of `generic` and `chapters`."""
    import torch

    from helpers.device import machine

    facts = machine()
    versions = {name: one for name, one in facts["versions"].items() if name != "cuda"}  # the card is pretended
    rates = {kind or "float32": float(f"{rate:.4g}") for kind, rate in card.flops_per_s.items()}
    reached = {"copy_bytes_per_s": float(f"{card.bytes_per_s:.4g}"), "flops_per_s": rates}
    reached |= {"launch_s": float(f"{card.launch_s:.4g}"), "threads": torch.get_num_threads()}
    told = {
        group: {name: {"error": one} if isinstance(one, str) else one.told() for name, one in rows.items()}
        for group, rows in found.items()
    }
    told["chapters"] = {stem: {"part": PART} | row for stem, row in told["chapters"].items()}
    return {
        "schema": 1,
        "date": datetime.date.today().isoformat(),
        "machine": {name: facts[name] for name in ("cpu", "cores", "memory_bytes", "os")} | {"versions": versions},
        "calibration": reached,
        "beside": other,
    } | told


def table(found: dict[str, Compared | str]) -> list[str]:
    """The lines of a table of predicted and measured milliseconds."""
    lines = [f"{'':32}{'predicted':>12}{'measured':>12}{'predicted / measured':>22}  bound by"]
    for name, one in found.items():
        if isinstance(one, str):
            lines.append(f"{name:32}  cannot be compared: {one}")
            continue
        predicted, measured = (f"{seconds * 1e3:9.3f} ms" for seconds in (one.predicted.seconds, one.seconds))
        doubt = "; does it count too much?" if one.doubtful else ""
        lines.append(f"{name:32}{predicted}{measured}{one.ratio:21.2f}×  {one.predicted.bound}{doubt}")
    return lines


def main(arguments: list[str]) -> int:
    """Print the comparison, and keep it where that is asked and the machine was quiet; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m rehearsal.against_the_cpu", description=__doc__.partition("\n")[0])
    parser.add_argument("stems", nargs="*", help="chapters; all that have a prediction")
    parser.add_argument("--record", action="store_true", help="write data/predictions/against_the_cpu.json")
    asked = parser.parse_args(arguments)
    if asked.record and asked.stems:
        parser.error("--record keeps all chapters, and some are named")
    watch = beside.Watch()
    time.sleep(LOOK_SECONDS)
    before = watch.told()
    print(beside.sentence(before), flush=True)
    if asked.record and beside.is_busy(before):
        return 1
    device.install()
    watch, card = beside.Watch(), here()
    found = {"generic": generic(card), "chapters": chapters(card, asked.stems)}
    print("\n".join(table(found["generic"] | found["chapters"])), flush=True)
    other = watch.told()
    print(beside.sentence(other), flush=True)
    if asked.record and not beside.is_busy(other):
        text = json.dumps(report(card, other, found), indent=1, ensure_ascii=False) + "\n"
        (KEPT / "against_the_cpu.json").write_text(text, encoding="utf-8")
    return int(asked.record and beside.is_busy(other))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
