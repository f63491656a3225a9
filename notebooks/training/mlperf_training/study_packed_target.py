"""The study of what packing does to training: sequences, steps and seconds to a target loss,
with the batch corrected by the packing factor, the rate, or nothing; and the two packs that
look right and are wrong.

    make study CHAPTERS=training/mlperf_training STUDY=target

The target, and the rate, the best of padded batches on a grid of factors of two, were chosen
with seed 0, which is none of the study's. Half and twice the rate are arms, so that the grid's
best is seen to lie inside.
"""

import torch
from helpers import data
from helpers.study import Arm, Job, Metric, Outcome, Part, Study
from packed_training import Data, Recipe, draw, judged, to_target, train
from sequence_packing import read_histogram

TARGET = 2.4  # nats a masked word; 2.08, the log of 8, is the least that the language allows
ROW = Recipe().row_length


def lengths_of(count, generator, row=ROW):
    """`count` lengths from the histogram of Wikipedia in bins of 512 / row tokens, from 4 to
    `row`."""
    counts = read_histogram(data.fetch("packed_lengths") / "histograms.py")
    chances = torch.from_numpy(counts.reshape(row, -1).sum(1)).double()
    chances[:3] = 0  # two marks and two words at least
    return (torch.multinomial(chances, count, True, generator=generator) + 1).tolist()


def parts(seed: int, sizes: dict) -> dict[str, Part]:
    """{train, test}: drawn by the seed; what stands in train is not in test."""
    generator = torch.Generator().manual_seed(seed)
    drawn = draw(lengths_of(sizes["drawn"] + 2 * sizes["held"], generator), generator)
    rows = list(zip(drawn.sequences, drawn.labels, drawn.following, strict=True))
    learned = rows[: sizes["drawn"]]
    known = {tuple(row[0]) for row in learned}
    held = [row for row in rows[sizes["drawn"] :] if tuple(row[0]) not in known]
    return {
        name: Part(Data(*map(list, zip(*some, strict=True))), [tuple(row[0]) for row in some])
        for name, some in (("train", learned), ("test", held[: sizes["held"]]))
    }


def fit(job: Job) -> list:
    """The weights along the run of an arm's recipe."""
    sizes = job.sizes
    return train(job.train, job.arm.loss, sizes["sequences"], sizes["every"], job.seed)


def judge(made: list, held: Data, job: Job) -> dict:
    """To the target: sequences, steps, seconds and whether it was reached (else they are those
    of the end); and the loss at the end."""
    rows = judged(made, held.batch([[at] for at in range(len(held.sequences))], ROW))
    seen, steps, seconds, reached = to_target(rows, TARGET)
    found = {"sequences": seen, "steps": steps, "seconds": seconds}
    return found | {"reached": float(reached), "loss": rows[-1][3]}


def arm(**recipe) -> Arm:
    """An arm of this recipe."""
    return Arm(train="train", loss=Recipe(**recipe))


ARMS = {"padded": arm(), "unpadded": arm(layout="unpadded"), "packed": arm(layout="packed")}
ARMS["more_sequences"] = arm(layout="packed", corrects="nothing")
ARMS["rate"] = arm(layout="packed", corrects="rate")
ARMS["half"], ARMS["twice"] = arm(rate=Recipe().rate / 2), arm(rate=2 * Recipe().rate)
ARMS["across"] = arm(layout="packed", mask="wrong")
ARMS["by_pack"] = arm(layout="packed", loss="wrong")
AGAINST = {
    "unpadded": ("padded", "layout"),
    "packed": ("padded", "layout"),
    "more_sequences": ("packed", "corrects"),
    "rate": ("packed", "corrects"),
    "half": ("padded", "rate"),
    "twice": ("padded", "rate"),
    "across": ("packed", "mask"),
    "by_pack": ("packed", "loss"),
}
METRICS = {"sequences": Metric("sequences"), "steps": Metric("steps"), "seconds": Metric("s")}
METRICS |= {"reached": Metric("of the seeds"), "loss": Metric("nats")}

STUDY = Study(
    notebook="mlperf_training",
    name="target",
    arms=ARMS,
    seeds=range(1, 7),
    sizes={"drawn": 5000, "held": 300, "sequences": 7000, "every": 250},
    trial={"drawn": 120, "held": 12, "sequences": 96, "every": 32},
    metrics=METRICS,
    parts=parts,
    fit=fit,
    judge=judge,
    outcomes={
        f"{name}_{metric}_{'ratio' if metric == 'seconds' else 'difference'}": Outcome(
            metric, name, less, [f"loss.{field}"], ratio=metric == "seconds"
        )
        for name, (less, field) in AGAINST.items()
        for metric in ("sequences", "steps", "seconds", "loss")
    },
)
