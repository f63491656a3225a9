"""The study of the packers: the efficiency of each on the published histogram, whole, with at
most three sequences a row. There is nothing to draw, so one seed is all.

    make study CHAPTERS=training/mlperf_training STUDY=packers
"""

import sequence_packing
from helpers import data
from helpers.study import Arm, Job, Metric, Part, Study


def parts(seed: int, sizes: dict) -> dict[str, Part]:
    """{test}: the histogram of Wikipedia in so many bins of equal width."""
    counts = sequence_packing.read_histogram(data.fetch("packed_lengths") / "histograms.py")
    return {"test": Part(counts.reshape(sizes["lengths"], -1).sum(1), ["wikipedia"])}


def judge(made: str, histogram, job: Job) -> dict:
    """Efficiency, the packing factor and how many strategies an arm's packer uses."""
    pack = getattr(sequence_packing, job.arm.setting["packer"])
    length = job.sizes["lengths"]
    packs, counts = pack(histogram, length, job.arm.setting["most"])
    return {
        "efficiency": sequence_packing.efficiency(packs, counts, length),
        "factor": sequence_packing.packing_factor(packs, counts),
        "strategies": float(len(packs)),
    }


def exact(receipt, found):
    """Records each efficiency again as what it is, exact: a quotient of two counts."""
    for name, seeds in found.items():
        share = 100 * seeds[0]["test"]["efficiency"]
        receipt.record(f"study_{name}_efficiency", share, "%", interval="exact")


def arm(packer: str, most: int) -> Arm:
    """An arm of this packer and limit."""
    return Arm(setting={"packer": packer, "most": most})


STUDY = Study(
    notebook="mlperf_training",
    name="packers",
    arms={name: arm(name, 3) for name in ("spfhp", "lpfhp", "nnlshp")},
    seeds=range(1),
    sizes={"lengths": 512},
    trial={"lengths": 64},
    metrics={
        "efficiency": Metric("%", 100.0),
        "factor": Metric("sequences a row"),
        "strategies": Metric("strategies"),
    },
    parts=parts,
    judge=judge,
    extra=exact,
)
