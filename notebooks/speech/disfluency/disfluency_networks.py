"""Writes the networks that the page loads: three arms of the first seed of the study `systems`.

python -m disfluency_networks disfluency_networks.safetensors
"""

import copy
import sys
from pathlib import Path

import prefix_network as pn
import torch
from helpers import device
from helpers.study import Job
from study_disfluency import STUDY, Labeller

NAMES = ("full", "prefixes", "wait")


def ends() -> dict[str, Labeller]:
    """What the arms and the one that they begin with make of what the study hands them."""
    seed, sizes, found = STUDY.seeds[0], STUDY.sizes, {}
    parts = STUDY.parts(seed, sizes)
    for name in ("pretrained", *NAMES):
        arm = STUDY.arms[name]
        given = (parts[part].data if part else None for part in (arm.train, arm.choice))
        job = Job(name, arm, seed, sizes, None, *given)
        device.seed(seed)
        start = copy.deepcopy(found.get(arm.start)) or STUDY.begin(arm.start, job)
        found[name] = STUDY.fit(job._replace(start=start))
    return found


def write(path: Path) -> None:
    """Write them in int8."""
    made = ends()
    kept = {name: made[name].network for name in NAMES}
    pn.save(kept, made["wait"].vocabulary, path)


if __name__ == "__main__":
    torch.set_num_threads(STUDY.threads)
    write(Path(sys.argv[1]))
