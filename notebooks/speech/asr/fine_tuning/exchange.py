"""What several processes tell each other while they train one network.

Every process has the whole model and computes the gradient of its rows; the sum of all
gradients (torch.distributed: gloo on CPUs, NCCL on GPUs) moves all copies by the same step.
Batch normalisation sees a process's own rows alone, so that equality with one process holds
where its statistics are held, in mode "decoder"; in the other modes the mean of the running
statistics is kept, and results agree as seeds do."""

import torch
import torch.distributed as dist

__all__ = ["mean_of_processes", "share", "sum_of_processes"]


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
