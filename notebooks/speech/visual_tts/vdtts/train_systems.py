"""The shipped networks, made again: the study's four systems, voice vector and judge of its
first seed; about ten minutes on a quiet core. In the slice's folder:

    python -m vdtts.train_systems     # writes visual_tts.safetensors
"""

import copy

import torch
from helpers import device
from helpers.study import Job

from .checkpoint import SHIPPED, save_all
from .model import SYSTEMS
from .study_visual_tts import SHARED, STUDY


def trained(study=STUDY):
    """{name: network} of the study's first seed, each given what its arm declares."""
    seed, made = study.seeds[0], {}
    parts = study.parts(seed, study.sizes)
    study.apart(parts)
    for name in (*SHARED, *SYSTEMS):
        arm = study.arms[name]
        start = tuple(copy.deepcopy(made.get(word, word)) for word in arm.starts)
        device.seed(seed)
        train = parts[arm.train].data
        made[name] = study.fit(Job(name, arm, seed, study.sizes, start, train))
        print(f"{name} is trained", flush=True)
    return {name: made[name] for name in SHARED} | {name: made[name][0] for name in SYSTEMS}


def main(path=SHIPPED, study=STUDY):
    """The path, written."""
    torch.set_num_threads(study.threads)
    return save_all(trained(study), path, dict(study.sizes) | {"seed": study.seeds[0]})


if __name__ == "__main__":
    print(main())
