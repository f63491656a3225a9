"""What processes tell each other: all-to-all with a gradient, averages, copies; and how many
bytes that took.

Everything goes through `torch.distributed`: gloo on CPUs, NCCL on GPUs. Without a group there
is one process, and nothing moves. Each call adds what it sends to a `Traffic`, so that a
prediction can be held against it.
"""

import time
from pathlib import Path

import torch
import torch.distributed as dist


class Traffic(dict):
    """Bytes sent, {what: [to process 0, to process 1, …]}; what stays at home counts, too."""

    def add(self, name, tensor, sizes):
        """None; counts `sizes` elements of the tensor for each process."""
        own = self.setdefault(name, [0] * len(sizes))
        for to, size in enumerate(sizes):
            own[to] += size * tensor.element_size()


def world():
    """(rank, number of processes): (0, 1) where there is no group."""
    return (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)


def all_to_all(sent, send, receive, traffic, name):
    """What all processes sent to this one; `sent` is cut into `send` elements for each."""
    traffic.add(name, sent, send)
    if len(send) == 1:
        return sent
    found = sent.new_empty(sum(receive))
    dist.all_to_all_single(found, sent.contiguous(), receive, send)
    return found


class _WithGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, sent, send, receive, traffic):
        ctx.told = send, receive, traffic
        return all_to_all(sent, send, receive, traffic, "vectors")

    @staticmethod
    def backward(ctx, gradient):
        send, receive, traffic = ctx.told
        return all_to_all(gradient, receive, send, traffic, "gradients"), None, None, None


def vectors_to_all(sent, send, receive, traffic):
    """`all_to_all` of vectors; going backward, their gradients take the way back."""
    return _WithGradient.apply(sent, send, receive, traffic)


def agree(number, problem, device="cpu"):
    """None, where all processes come with the same number and no problem; ValueError on *all*
    of them otherwise.

    One that raised alone would leave the others waiting in the next exchange until their time
    is over.
    """
    if world()[1] > 1:
        told = torch.tensor([number, problem is not None], device=device)
        found = [torch.empty_like(told) for _ in range(world()[1])]
        dist.all_gather(found, told)
        numbers, problems = torch.stack(found).T.tolist()
        if any(problems) and not problem:
            problem = f"process {problems.index(1)} refused its inputs; its own error says why"
        elif len(set(numbers)) > 1 and not problem:
            problem = f"batches of {numbers} samples came; all processes need equally many"
    if problem:
        raise ValueError(str(problem))


def average(tensors, traffic=None):
    """None; the tensors' means over all processes, in place, through one exchange."""
    ranks = world()[1]
    if ranks == 1 or not tensors:
        return
    flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
    if traffic is not None:
        traffic.add("all-reduce", flat, [flat.numel()])
    dist.all_reduce(flat)
    parts = (flat / ranks).split([tensor.numel() for tensor in tensors])
    torch._foreach_copy_(
        tensors, [part.view_as(one) for part, one in zip(parts, tensors, strict=True)]
    )


def copy_from(tensors, source=0):
    """None; the tensors as process `source` has them, in place."""
    if world()[1] > 1:
        for tensor in tensors:
            dist.broadcast(tensor, source)


def exchange_times(state, counts, repeats=9):
    """The median seconds of an all-to-all of so many float32 numbers to each process, the sizes
    in turn, after two rounds that do not count.
    """
    size, times = world()[1], [[] for _ in counts]
    for turn in range(repeats + 2):
        for own, count in zip(times, counts, strict=True):
            sent = torch.zeros(size * count)
            got = torch.empty_like(sent)
            dist.barrier()
            start = time.perf_counter()
            dist.all_to_all_single(got, sent)
            own += [time.perf_counter() - start] * (turn > 1)
    return [sorted(own)[repeats // 2] for own in times]


def written_bytes():
    """Bytes that this process has written, gloo's too, as Linux's kernel counted; or None."""
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError:
        return None
    return next(int(line.split()[1]) for line in lines if line.startswith("wchar"))
