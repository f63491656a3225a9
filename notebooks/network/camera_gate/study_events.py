"""The study: which events each gate loses, over places that no threshold was chosen on.

    make study CHAPTERS=network/camera_gate STUDY=events

A seed draws places: some to choose thresholds on, others to judge. On the first ones the
detector gets its limit, the highest score where no plate is in view, and each gate the
threshold over which no more than a share of the frames passes; frames of equal score pass in
turn, since a gate that counts pixels is sure of a fifth of them. On the others that share is
what it comes to, so each gate is held against even steps at the very number of frames that it
let pass there: `more_than_even`. An event is found by one frame that passes and in which the
detector fires; events that it misses on all frames are no gate's fault and count as missed.
"""

import functools
from typing import NamedTuple

import numpy as np
import torch
from camera_scenes import KINDS, render
from frame_gates import GATES
from gate_curves import in_turn, over, passes, recall, threshold_for
from helpers.study import Arm, Job, Metric, Outcome, Part, Study
from plate_detector import detect

SHARES = (0.05, 0.1, 0.2, 0.3)
EACH = (*KINDS, "none")  # as many clips of each


class Places(NamedTuple):
    """Clips by turns of `EACH`, frames (B, T, H, W) and where the plate is in view, (B, T)."""

    frames: torch.Tensor
    truth: torch.Tensor


class Chosen(NamedTuple):
    """A gate's threshold and the detector's limit, both from places that judge nothing."""

    threshold: float
    limit: float


def named(gate: str, share: float) -> str:
    """An arm's name: `named("person", 0.05)` is "person 5"."""
    return f"{gate} {100 * share:g}"


def arm(gate: str, share: float) -> Arm:
    return Arm(choice="tune", loss={"gate": gate}, setting={"share": share})


ARMS = {named(gate, share): arm(gate, share) for gate in GATES for share in SHARES}


def parts(seed: int, sizes: dict) -> dict[str, Part]:
    """{tune, test}: so many clips of each kind, all of places of their own."""
    return {
        name: Part(*_places(1000 * (2 * seed + at) + 100_000, sizes[name]))
        for at, name in enumerate(("tune", "test"))
    }


@functools.lru_cache(4)
def _places(first: int, count: int) -> tuple[Places, tuple[str, ...]]:
    if not 0 < count < 1000:
        raise ValueError(f"{count} clips of a kind; 1 to 999 are allowed")
    drawn = [(first + at, kind) for at in range(count) for kind in EACH]
    clips = [render(*one) for one in drawn]
    stacked = (np.stack([getattr(one, what) for one in clips]) for what in ("frames", "plate"))
    return Places(*map(torch.from_numpy, stacked)), tuple(f"{kind} {at}" for at, kind in drawn)


def scored(gate: str, frames: torch.Tensor) -> torch.Tensor:
    """A gate's scores of all frames, or the detector's, (B, T)."""
    if gate == "detector":
        return torch.stack([detect(one) for one in frames])
    return in_turn(GATES[gate](frames))


class Memory:
    """What `scored` said of the same frames before: arms that differ in a share ask again."""

    def __init__(self):
        self.known = {}

    def __call__(self, gate: str, frames: torch.Tensor) -> torch.Tensor:
        key = (gate, hash(frames.numpy().tobytes()))
        if key not in self.known:
            self.known = dict([*self.known.items()][-11:])
            self.known[key] = scored(gate, frames)
        return self.known[key]


memory = Memory()


def fit(job: Job) -> Chosen:
    """Threshold and limit, chosen on the part to choose on."""
    frames, truth = job.choice
    scores = memory(job.arm.loss["gate"], frames)
    limit = float(memory("detector", frames)[~truth].max())
    return Chosen(threshold_for(scores, job.arm.setting["share"]), limit)


def judge(made: Chosen, held: Places, job: Job) -> dict:
    """Frames saved, and recall of events: of all, of each kind, and beside even steps."""
    frames, truth = held
    seen = memory("detector", frames) > made.limit
    passed = over(memory(job.arm.loss["gate"], frames), made.threshold)
    even = passes(GATES["every"](frames), float(passed.float().mean()))
    told = {
        f"recall_{kind}": recall(*(one[at :: len(EACH)] for one in (passed, seen, truth)))
        for at, kind in enumerate(KINDS)
    }
    found = recall(passed, seen, truth)
    ceiling = recall(torch.ones_like(passed), seen, truth)
    return told | {
        "recall": found,
        "saved": 1 - float(passed.float().mean()),
        "more_than_even": found - recall(even, seen, truth),
        "lost": ceiling - found,
        "ceiling": ceiling,
    }


STUDY = Study(
    notebook="camera_gate",
    name="events",
    arms=ARMS,
    seeds=range(10),
    sizes={"tune": 12, "test": 24},
    trial={"tune": 2, "test": 2},
    metrics={
        name: Metric("%", 100.0)
        for name in (
            *(f"recall_{kind}" for kind in KINDS),
            *("recall", "saved", "more_than_even", "lost", "ceiling"),
        )
    },
    parts=parts,
    fit=fit,
    judge=judge,
    outcomes={
        "study_person_finds_more_than_background": Outcome(
            "recall", "person 30", "background 30", ["loss.gate"]
        )
    },
    over="draws of places",
)
