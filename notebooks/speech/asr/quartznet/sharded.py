"""One fine-tuning on several processes: each takes its share of every batch, all step alike.

    python -m torch.distributed.run --nproc-per-node 2 quartznet_sharded.py \
        --manifest train.json --base base.safetensors --out tuned.safetensors --mode decoder

Data parallelism as NeMo's trainer does it: every process has the whole model, computes the
gradient of its rows, and the mean of all gradients (torch.distributed: gloo here, NCCL on GPUs)
moves all copies by the same step. Batch normalisation sees a process's own rows alone, so that
equality with one process holds where its statistics are held, in mode "decoder"; in the other
modes the mean of the running statistics is kept, and results agree as seeds do.
"""

import argparse
import os

import soundfile
import torch
import torch.distributed as dist
from novograd import NovoGrad, cosine_rate
from quartznet import log_mel
from quartznet_files import load_model, save_model
from quartznet_training import Recipe, batches, ctc_loss, encode, pad, set_mode, spec_cutout
from speech_manifest import read_manifest

__all__ = ["share", "train_share"]


def share(rows, rank, processes):
    """The rows of one process: `share([5, 6, 7], 0, 2)` is [5, 7]. All rows go to somebody."""
    return rows[rank::processes]


def train_share(model, signals, texts, recipe, rank=0, processes=1):
    """The loss of each update, the mean over all rows of the batch; one process's part of
    `train`.

    Every process calls it with the same arguments but its rank. A row weighs as in one process,
    also where shares differ in size. Cutouts and dither are drawn for each process.
    """
    device, order = next(model.parameters()).device, torch.Generator().manual_seed(recipe.seed)
    own = torch.Generator(device).manual_seed(recipe.seed + 1000 * rank)
    lengths = [len(signal) for signal in signals]
    plan = [
        rows for _ in range(recipe.epochs) for rows in batches(lengths, recipe.batch, order)
    ]
    free = set_mode(model, recipe.mode)
    optimiser, losses = (
        NovoGrad(free, recipe.rate, recipe.betas, weight_decay=recipe.weight_decay),
        [],
    )
    for update, rows in enumerate(plan):
        optimiser.param_groups[0]["lr"] = cosine_rate(update, len(plan), recipe.rate)
        optimiser.zero_grad(set_to_none=True)
        loss = torch.zeros((), device=device)
        if mine := share(rows, rank, processes):
            features_BFT, frames_B = log_mel(
                *pad([signals[row] for row in mine], device),
                dither=recipe.dither,
                generator=own,
            )
            features_BFT = spec_cutout(features_BFT, frames_B, recipe.cutouts, generator=own)
            targets = [encode(texts[row]) for row in mine]
            loss = ctc_loss(model, features_BFT, frames_B, targets) * len(mine) / len(rows)
            loss.backward()
        losses.append(_summed(loss, free, processes))
        optimiser.step()
    _mean_statistics(model, processes)
    model.requires_grad_(True).eval()
    return losses


def _summed(loss, free, processes):
    """The loss of the whole batch; gradients become those of the whole batch, in one
    message."""
    if processes == 1:
        return float(loss.detach())
    parts = [torch.zeros_like(w) if w.grad is None else w.grad for w in free]
    message = torch.cat([loss.detach().view(1), *(part.reshape(-1) for part in parts)])
    dist.all_reduce(message)
    sizes = [1, *(w.numel() for w in free)]
    total, *parts = message.split(sizes)
    for w, part in zip(free, parts, strict=True):
        w.grad = part.view_as(w)
    return float(total)


def _mean_statistics(model, processes):
    for statistic in model.buffers():
        if processes > 1 and statistic.is_floating_point():
            dist.all_reduce(statistic)
            statistic /= processes


def main(argv=None):
    """Train with the processes that torch.distributed.run started; rank 0 saves."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    for name in ("manifest", "base", "out"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--mode", default="full")
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument(
        "--plain", action="store_true", help="no cutouts, no dither: comparable"
    )
    args = parser.parse_args(argv)
    local, beside = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    on_gpus = torch.cuda.device_count() >= beside  # one each, or none: NCCL shares no GPU
    where = f"cuda:{local}" if on_gpus else "cpu"
    if on_gpus:
        torch.cuda.set_device(local)
    dist.init_process_group("nccl" if on_gpus else "gloo")
    try:
        rank, processes = dist.get_rank(), dist.get_world_size()
        entries = read_manifest(args.manifest)
        signals = [
            torch.from_numpy(soundfile.read(e["audio_filepath"], dtype="float32")[0])
            for e in entries
        ]
        recipe = Recipe(
            mode=args.mode,
            rate=args.rate,
            **{"cutouts": 0, "dither": 0.0} if args.plain else {},
        )
        model = load_model(args.base, where)
        losses = train_share(
            model, signals, [e["text"] for e in entries], recipe, rank, processes
        )
        if rank == 0:
            save_model(model, args.out, {"losses": losses, "processes": processes})
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
