"""Train or fine-tune QuartzNet: batches, SpecCutout, CTC, and what may move.

The article: one epoch at a learning rate of 0.001 with batches of 8, all weights free. The loss
is connectionist temporal classification (CTC, Graves et al. 2006): minus the log-probability of
all paths of letters and blanks that collapse to the transcript. SpecCutout zeroes five
rectangles of up to 50 bands x 120 frames (DeVries and Taylor 2017), smaller in short
utterances. A transcript that has no path and a character outside the vocabulary are refused,
where NeMo drops them silently; the order of batches, the cutouts and the dither come from one
seed.

Of several processes every one has the whole model and computes the gradient of its rows; the
sum of all (torch.distributed: gloo on CPUs, NCCL on GPUs) moves all copies by the same step.
Batch normalisation sees a process's own rows alone: where its statistics are held, in mode
"decoder", the result is that of one process; else the mean of the running statistics is kept.

Legend: B batch, N samples, F mel bands, T frames, S output steps, V letters and blank."""

import itertools
import math
from dataclasses import dataclass

import torch
import torch.distributed as dist
from quartznet import BLANK, HOP, VOCABULARY, log_mel, mixed_precision, pad, sent, steps_of

from .novograd import NovoGrad, cosine_rate

MODES = ("full", "decoder", "batch-norm")


@dataclass(frozen=True)
class Recipe:
    """How to train; the defaults are the article's, or NeMo's where it names none."""

    mode: str = "full"
    epochs: int = 1
    rate: float = 1e-3
    batch: int = 8
    warmup: int = 0  # updates
    betas: tuple = (0.8, 0.5)
    weight_decay: float = 1e-3
    cutouts: int = 5
    dither: float = 1e-5
    seed: int = 0


def train(model, signals, texts, recipe=None, report=None, rank=0, processes=1):
    """The mean loss of each update's batch; the model is trained in place, left in eval mode.
    signals: float tensors (N,) at 16 kHz; texts: one transcript each, in letters of VOCABULARY.
    On a GPU with bfloat16 the convolutions run in it; features, normalisation of the output and
    the loss stay float32. `report(update, updates, loss)` is called after each update. Of
    several `processes` in a torch.distributed group each calls with the same arguments and its
    own `rank`; a row weighs as in one process. Raises ValueError for unequal or empty lists, a
    transcript that no path can spell, a character outside the vocabulary, an unknown mode, and
    RuntimeError when the loss stops being finite."""
    recipe, device = recipe or Recipe(), next(model.parameters()).device
    targets = [encode(text) for text in texts]
    _check_alignable(signals, targets, model.frames_per_step)
    order = torch.Generator().manual_seed(recipe.seed)
    own = torch.Generator(device).manual_seed(recipe.seed + 1000 * rank)  # cutouts and dither
    lengths = [len(signal) for signal in signals]
    plan = sum((batches(lengths, recipe.batch, order) for _ in range(recipe.epochs)), [])
    free, losses = set_mode(model, recipe.mode), []
    optimiser = NovoGrad(free, recipe.rate, recipe.betas, weight_decay=recipe.weight_decay)
    for update, rows in enumerate(plan):
        warmup = min(recipe.warmup, len(plan) - 1)
        optimiser.param_groups[0]["lr"] = cosine_rate(update, len(plan), recipe.rate, warmup)
        optimiser.zero_grad(set_to_none=True)
        loss = torch.zeros((), device=device)
        if mine := share(rows, rank, processes):
            picked = [signals[row] for row in mine], [targets[row] for row in mine]
            loss = _loss_of(model, *picked, recipe, own) * (len(mine) / len(rows))
            loss.backward()
        losses.append(sum_of_processes(loss, free, processes))
        if not math.isfinite(losses[-1]):
            told = f"the loss is {losses[-1]} at update {update}"
            raise RuntimeError(f"{told}; lower the rate, {recipe.rate}")
        optimiser.step()
        if report:
            report(update, len(plan), losses[-1])
    mean_of_processes(model, processes)
    model.requires_grad_(True).eval()
    return losses


def _loss_of(model, signals, targets, recipe, generator):
    """The loss of some rows as training hears them: dithered, with cutouts."""
    signal_BN, lengths_B = pad(signals, next(model.parameters()).device)
    noise = {"dither": recipe.dither, "generator": generator}
    features_BFT, frames_B = log_mel(signal_BN, lengths_B, **noise)
    features_BFT = spec_cutout(features_BFT, frames_B, recipe.cutouts, generator=generator)
    return ctc_loss(model, features_BFT, frames_B, targets, steps_of(model, lengths_B))


def share(rows, rank, processes):
    """The rows of one process: `share([5, 6, 7], 0, 2)` is [5, 7]. All rows go to somebody."""
    return rows[rank::processes]


def sum_of_processes(loss, free, processes):
    """The whole batch's loss, a float; the gradients of `free` become its, in one message."""
    if processes == 1:
        return float(loss.detach())
    parts = [torch.zeros_like(w) if w.grad is None else w.grad for w in free]
    message = torch.cat([loss.detach().view(1), *(part.reshape(-1) for part in parts)])
    dist.all_reduce(message)
    total, *parts = message.split([1, *(w.numel() for w in free)])
    for w, part in zip(free, parts, strict=True):
        w.grad = part.view_as(w)
    return float(total)


def mean_of_processes(model, processes):
    """None; the running statistics of all processes' models become their mean."""
    for statistic in model.buffers():
        if processes > 1 and statistic.is_floating_point():
            dist.all_reduce(statistic)
            statistic /= processes


def set_mode(model, mode):
    """The parameters that may move, as a list; sets the model to train that way: "full",
    everything; "decoder", the last layer alone, the encoder's statistics held; "batch-norm",
    scale, shift and running statistics of every normalisation, nothing else."""
    if mode not in MODES:
        raise ValueError(f"mode {mode!r}: allowed are {', '.join(MODES)}")
    norms = [module for module in model.modules() if isinstance(module, torch.nn.BatchNorm1d)]
    free = list(model.parameters()) if mode == "full" else []
    free += list(model.decoder.parameters()) if mode == "decoder" else []
    if mode == "batch-norm":
        free += [p for norm in norms for p in norm.parameters()]
    model.requires_grad_(False)
    model.train(mode != "decoder")  # in eval mode the running statistics stay as they are
    for parameter in free:
        parameter.requires_grad_(True)
    return free


def ctc_loss(model, features_BFT, frames_B, targets, steps_B):
    """Minus the log-probability of the transcripts, lists of letter ids, the mean over the
    batch; `steps_B` on the host, where the loss wants them."""
    with mixed_precision(features_BFT.device):
        log_probs_BSV, _ = model(features_BFT, frames_B)
    flat = sent(torch.tensor(sum(targets, [])), log_probs_BSV.device)
    lengths = steps_B, torch.tensor([len(target) for target in targets])
    batch = log_probs_BSV.transpose(0, 1), flat, *lengths
    return torch.nn.functional.ctc_loss(*batch, blank=BLANK, reduction="none").mean()


def spec_cutout(features_BFT, frames_B, cutouts=5, bands=50, frames=120, generator=None):
    """A copy of the features with `cutouts` random rectangles of each set to zero, the mean:
    0...bands by 0...frames, at most half the utterance's frames, so that a short one keeps
    something to learn from. `generator` lives on the features' device."""
    batch, total_F, total_T = features_BFT.shape

    def inside(total, largest_B, room_B):
        """Which of `total` places each rectangle covers along one axis: (B, cutouts, total)."""
        draw = torch.rand(2, batch, cutouts, device=features_BFT.device, generator=generator)
        start = (draw[0] * (room_B[:, None] - largest_B[:, None] + 1)).floor()[:, :, None]
        width = (draw[1] * (largest_B[:, None] + 1)).floor()[:, :, None]
        place = torch.arange(total, device=features_BFT.device)
        return (place >= start) & (place < start + width)

    bands_B = torch.full_like(frames_B, min(bands, total_F))
    cut_BRF = inside(total_F, bands_B, torch.full_like(frames_B, total_F))
    cut_BRT = inside(total_T, (frames_B // 2).clamp(max=frames), frames_B)
    cut_BFT = torch.einsum("brf,brt->bft", cut_BRF.float(), cut_BRT.float()) > 0
    return features_BFT.masked_fill(cut_BFT, 0.0)


def batches(lengths, size, generator=None):
    """Lists of row numbers, each row once: batches of like length, in random order.

    >>> sorted(sum(batches([300, 100, 200], 2), []))
    [0, 1, 2]

    Up to a fifth is added to each length before sorting, so that epochs differ in batches."""
    if size < 1:
        raise ValueError(f"size={size}: a batch holds at least one utterance")
    jitter = 1 + 0.2 * torch.rand(len(lengths), generator=generator, dtype=torch.float64)
    order = (torch.as_tensor(lengths, dtype=torch.float64) * jitter).argsort().tolist()
    groups = [order[i : i + size] for i in range(0, len(order), size)]
    return [groups[i] for i in torch.randperm(len(groups), generator=generator).tolist()]


def encode(text):
    """The ids of a transcript's characters: `encode("ab")` is [1, 2]; ValueError for others."""
    if wrong := sorted(set(text) - set(VOCABULARY)):
        allowed = "allowed are a-z, space and the apostrophe; normalise it first"
        raise ValueError(f"{text!r} holds {wrong}: {allowed}")
    return [VOCABULARY.index(letter) for letter in text]


def _check_alignable(signals, targets, frames_per_step):
    if len(signals) != len(targets) or not targets:
        came = f"{len(signals)} signals and {len(targets)} texts"
        raise ValueError(f"{came}: one text for each, and at least one")
    for row, (signal, target) in enumerate(zip(signals, targets, strict=True)):
        repeats = sum(a == b for a, b in itertools.pairwise(target))  # each needs a blank
        steps = -(-(len(signal) // HOP) // frames_per_step)
        if steps < max(1, need := len(target) + repeats):
            letters = f"{len(target)} letters with {repeats} repeats need {need} output steps"
            given = f"its {len(signal)} samples give {steps}"
            why = "the transcript cannot belong to this recording"
            raise ValueError(f"utterance {row}: {letters}, {given}; {why}")
