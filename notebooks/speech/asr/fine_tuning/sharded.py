"""One fine-tuning on several processes, started by torch.distributed.run in this folder:

    python -m torch.distributed.run --nproc-per-node 2 -m fine_tuning.sharded \\
        --manifest train.json --base base.safetensors --out tuned.safetensors \\
        --recipe '{"mode": "decoder", "warmup": 100}'

Every process runs `train` with all its checks, on its share of each batch; process 0 saves."""

import argparse
import json
import os

import torch
import torch.distributed as dist
from quartznet import load_model, save_model

from .manifest import read_manifest, read_sounds
from .training import Recipe, train


def main(argv=None):
    """Train with the processes that torch.distributed.run started; rank 0 saves."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    for name in ("manifest", "base", "out"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--recipe", type=json.loads, default={}, help="a Recipe's fields, JSON")
    args = parser.parse_args(argv)
    local, beside = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    on_gpus = torch.cuda.device_count() >= beside  # one each, or none: NCCL shares no GPU
    if on_gpus:
        torch.cuda.set_device(local)
    dist.init_process_group("nccl" if on_gpus else "gloo")
    try:
        rank, processes = dist.get_rank(), dist.get_world_size()
        recipe = Recipe(**args.recipe)
        model = load_model(args.base, f"cuda:{local}" if on_gpus else "cpu")
        sounds = read_sounds(read_manifest(args.manifest))
        losses = train(model, *sounds, recipe, rank=rank, processes=processes)
        if rank == 0:
            save_model(model, args.out, {"losses": losses, "processes": processes})
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
