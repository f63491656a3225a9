"""How far the formula is off where it can be tried: `python -m rehearsal.against_the_cpu` prints it for this machine.

With names of chapters (`… asr_streaming`) also for their own parts, at the small sizes of `data/predictions/`.

The same functions run on the CPU, timed, and on the pretended device, counted. The prediction takes what this machine
was measured to reach (a plain copy, a matrix product, the cost of one small operation) instead of a datasheet.
"""

import importlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from . import device
from .predict import Card, Prediction, of_counts

ROUNDS = 20


def workloads(where: str) -> dict[str, Callable]:
    """Functions of different kinds, their tensors on the device `where`."""
    import torch

    torch.manual_seed(0)
    long_N = torch.randn(1 << 22).to(where)
    table_VD, index_B = torch.randn(200_000, 32).to(where), torch.randint(200_000, (65_536,)).to(where)
    small_K = torch.randn(64).to(where)
    image_BCHW, kernel_OCHW = torch.randn(8, 32, 32, 32).to(where), torch.randn(32, 32, 3, 3).to(where)
    net = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1)).to(where)
    rows_BF = torch.randn(2048, 256).to(where)

    def step():
        net.zero_grad()
        net(rows_BF).square().mean().backward()

    def chain():
        x = small_K
        for _ in range(200):
            x = x * 0.5 + 1
        return x

    return {
        "sums of a long array": lambda: (long_N * 2 + long_N).sum(),
        "rows of a table": lambda: table_VD[index_B].sum(0),
        "a convolution": lambda: torch.nn.functional.conv2d(image_BCHW, kernel_OCHW, padding=1),
        "a training step": step,
        "400 tiny operations": chain,
        "a Fourier transform": lambda: torch.fft.rfft(long_N),
    }


def here() -> Card:
    """This machine as a card: what it reaches, measured; there is no link to cross."""
    import torch

    from helpers import bench

    peak, one = bench.peak("cpu"), torch.ones(1)
    small = bench.measure(lambda: [one + 1 for _ in range(100)], repeats=ROUNDS, device="cpu").median_s / 100
    return Card(
        "this CPU",
        peak.copy_bytes_per_s,
        {"": peak.matmul_flops_per_s, "float64": peak.matmul_flops_per_s / 2},
        float("inf"),
        float("inf"),
        "measured",
        launch_s=small,
        wait_s=0.0,
        latency_s=0.0,
    )


def compare(names: list[str] | None = None, rounds: int = ROUNDS) -> dict[str, tuple[Prediction, float]]:
    """(Prediction, measured seconds) of each workload, or of those named."""
    device.install()
    from helpers import bench

    card, on_cpu, on_device, found = here(), workloads("cpu"), workloads("cuda"), {}
    for name in names or on_cpu:
        on_device[name]()  # gradients are there before counting
        with device.counted() as counts:
            on_device[name]()
        measured = bench.measure(on_cpu[name], repeats=rounds, device="cpu").median_s
        found[name] = of_counts(card, counts), measured
    return found


def of_chapters(stems: list[str]) -> dict[str, Callable]:
    """Each part of these chapters, as a function of the device that makes it ready, at the sizes that tests count."""
    found, root = {}, Path(__file__).resolve().parents[1]
    for stem in stems:
        kept = json.loads((root / "data" / "predictions" / f"{stem}.json").read_text(encoding="utf-8"))
        source = Path(kept["source"])
        home = root.joinpath(*source.parts[:3])
        sys.path[:0] = [str(home)]
        os.chdir(home)
        module = importlib.import_module(".".join(source.with_suffix("").parts[3:]))
        for name in kept["parts"]:
            part, sizes = getattr(module, name), kept["sizes"]["check"]
            found[f"{stem}, {name}"] = lambda where, part=part, sizes=sizes: part(dict(sizes), where)
    return found


def compare_parts(stems: list[str], rounds: int = ROUNDS) -> dict[str, tuple[Prediction, float]]:
    """(Prediction, measured seconds) of each part of these chapters."""
    device.install()
    import torch

    from helpers import bench

    card, found = here(), {}
    for name, ready in of_chapters(stems).items():
        there, at_home = ready(torch.device("cuda")), ready(torch.device("cpu"))
        there()
        with device.counted() as counts:
            there()
        found[name] = of_counts(card, counts), bench.measure(at_home, repeats=rounds, device="cpu").median_s
    return found


def main(stems: list[str]) -> int:
    """Print predicted and measured seconds with the error."""
    print(f"{'workload':28}{'predicted':>12}{'measured':>12}{'predicted / measured':>22}  bound by")
    for name, (predicted, measured) in (compare() | (compare_parts(stems) if stems else {})).items():
        ratio = predicted.seconds / measured
        print(f"{name:28}{predicted.seconds * 1e3:9.3f} ms{measured * 1e3:9.3f} ms{ratio:21.2f}×  {predicted.bound}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
