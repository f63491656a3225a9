"""Writes what the page shows: the difference that training made in one arm of the study.

python -m pair_difference pair_difference.safetensors
"""

import sys
from pathlib import Path

import pair_model as pm
import phrase_encoder as pe
import torch
from helpers import device
from helpers.study import Job
from safetensors.torch import save_file
from study_patent_phrases import SHOWN, STUDY, Tuned


def end() -> Tuned:
    """What the arm makes of what the study hands it."""
    seed, arm = STUDY.seeds[0], STUDY.arms[SHOWN]
    parts = STUDY.parts(seed, STUDY.sizes)
    given = parts[arm.train].data, parts[arm.choice].data
    job = Job(SHOWN, arm, seed, STUDY.sizes, None, *given)
    device.seed(seed)
    return STUDY.fit(job._replace(start=STUDY.begin(arm.start, job)))


def write(path: Path) -> None:
    """Write its difference from the encoder."""
    save_file(pm.difference(end().scorer, pe.load(device.device())), path)


if __name__ == "__main__":
    torch.set_num_threads(STUDY.threads)
    write(Path(sys.argv[1]))
