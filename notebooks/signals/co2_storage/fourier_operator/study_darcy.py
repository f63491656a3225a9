"""The study of Darcy flow: FNO, U-Net and neuraloperator's FNO, one trainer, the same batches.

    make study CHAPTERS=signals/co2_storage STUDY=darcy

After each epoch, every network is asked on unseen fields at 16 × 16 points, and on the same at
32 × 32. Without neuraloperator its arm is left out of the study, and so of the receipt.
"""

import copy
import hashlib
import importlib.util
import statistics
from collections import namedtuple

import torch
from helpers import data
from helpers.study import Arm, Metric, Outcome, Part, Study

from . import darcy
from .networks import parameters

Recipe = namedtuple("Recipe", "batch rate", defaults=(32, 4e-3))  # of every network


class Flat(torch.nn.Module):
    """A network of planes (N, 3, Z, R) to (N, 1, Z, R), such as the peer's, called as ours."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        """(N, Z, R, 1)."""
        return self.net(x[..., 0])[:, 0, :, :, None]


def parts(seed, sizes):
    """The shipped fields, the same for all seeds, as far as `sizes` asks for them; a field's
    unit is its rock at 16 × 16 points, so that it is known on the finer grid too."""
    found = {}
    for name, flow in darcy.load(data.fetch("darcy")).items():
        asked = sizes["training_fields" if name.startswith("train") else "test_fields"]
        flow = darcy.Flow(*(field[:asked] for field in flow))
        step = flow.a_NZR.shape[-1] // 16
        rocks = (rock.tobytes() for rock in flow.a_NZR[:, ::step, ::step].numpy())
        found[name] = Part(flow, [hashlib.sha256(rock).hexdigest()[:16] for rock in rocks])
    return found


def begin(word, job):
    """A new network: one of `darcy.contestants` by its name there, or the "peer's"."""
    if word != "peer's":
        return darcy.contestants(job.seed)[word]
    from neuralop.models import FNO

    torch.manual_seed(job.seed)
    return Flat(FNO((12, 12), 3, 1, 24, n_layers=4, positional_embedding=None))


def fit(job):
    """The network after each epoch, as a list."""
    after = []
    how = {"seed": job.seed, "tell": lambda *told: after.append(copy.deepcopy(job.start))}
    darcy.fit(job.start, job.train, job.sizes["epochs"], *job.arm.loss, **how)
    return after


def judge(after, flow, job):
    """The mean error of the last network, named by the points of an axis; as lists those of
    all and the count of parameters."""
    errors = [darcy.errors(net, flow).mean().item() for net in after]
    points = str(flow.a_NZR.shape[-1])
    return {points: errors[-1], "curve": errors, "parameters": [parameters(after[-1])[1]]}


def extra(receipt, found):
    """Record each network's size, and the means over seeds after each epoch, in percent."""
    columns = {}
    for name, runs in found.items():
        for part in ("test_16", "test_32"):
            by_epoch = zip(*(told[part]["curve"] for told in runs.values()), strict=True)
            column = [100 * statistics.mean(errors) for errors in by_epoch]
            columns[f"{name}_{part.removeprefix('test_')}"] = column
        told = next(iter(runs.values()))["test_16"]["parameters"]
        receipt.sizes(**{f"parameters_{name}": told[0]})
    receipt.curve("darcy", epoch=list(range(1, len(column) + 1)), **columns)


def declared(peer):
    """The study, with the arm of neuraloperator's network (`peer`) or without it."""
    starts = {"fno": "FNO", "cnn": "U-Net"} | ({"neuraloperator": "peer's"} if peer else {})
    how = {"train": "train_16", "test": ("test_16", "test_32"), "loss": Recipe()}
    pairs = [(other, points) for other in starts if other != "fno" for points in ("16", "32")]
    return Study(
        notebook="co2_storage", name="darcy", seeds=range(3), processes=2,
        arms={name: Arm(start=start, **how) for name, start in starts.items()},
        sizes={"epochs": 20, "training_fields": 1000, "test_fields": 50},
        trial={"epochs": 1, "training_fields": 32, "test_fields": 4},
        metrics={points: Metric("%", 100) for points in ("16", "32")},
        parts=parts, begin=begin, fit=fit, judge=judge, extra=extra,
        outcomes={
            f"darcy_{other}_less_fno_{points}": Outcome(
                points, other, "fno", ("start",), f"test_{points}", unit="percentage points"
            )
            for other, points in pairs
        },
        key="darcy_trained_{arm}_{metric}",
    )  # fmt: skip


STUDY = declared(importlib.util.find_spec("neuralop") is not None)
