"""What cannot be rehearsed, each with its reason: it raises, and never passes as if it had been tried."""

import importlib.util

import torch
from torch.utils._pytree import tree_leaves

REASONS = {
    "torch.compile": "its kernels are generated for the card; here they would be generated for the CPU",
    "CUDA graphs": "a graph records launches, and there are none here",
    "Triton": "its kernels are compiled for a card; its interpreter (TRITON_INTERPRET=1) takes the host's tensors",
    "a product of two sparse tensors": "how much it computes depends on where their values meet",
    "a product without a formula here": "its FLOPs would be told as none",
    "a pointer to device memory": "the memory is the host's, so a library that gets the address would prove nothing",
    "the kinds of numbers that a card knows": "torch asks its driver for them",
    "DLPack": "it hands over a pointer to device memory, and there is none",
    "sharing a device tensor with another process": "it needs CUDA's handles of memory",
    "NCCL": "it needs several cards; run gloo on CPU tensors instead",
    "cuDNN's recurrent networks": "the fused operation exists on a card alone; the CPU takes another path with "
    "many more operations",
}


class CannotRehearse(RuntimeError):
    """Something that only a card can show."""


def refuse(what: str) -> None:
    """Raise CannotRehearse with the reason of `what`."""
    raise CannotRehearse(f"{what} cannot be rehearsed without a GPU: {REASONS[what]}")


def raising(what: str):
    """A function that refuses `what`, whatever it is called with."""

    def refused(*_, **__):
        refuse(what)

    return refused


class _Graph:
    def __init__(self, *_, **__):
        refuse("CUDA graphs")


def install(is_pretended) -> None:
    """Put refusals where torch would otherwise go another way; `is_pretended(x)`: whether x lies on the device."""
    torch.cuda.CUDAGraph = torch.cuda.graph = _Graph
    torch.cuda.make_graphed_callables = raising("CUDA graphs")
    torch.compile = _compile(torch.compile, is_pretended)
    for name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
        for where in (torch._VF, torch):
            setattr(where, name, _guarded(getattr(where, name), "cuDNN's recurrent networks", is_pretended))
    for where in (torch, torch.utils.dlpack):
        where.to_dlpack = _guarded(where.to_dlpack, "DLPack", is_pretended)
    if importlib.util.find_spec("triton"):
        _triton(is_pretended)
    from torch import distributed

    if distributed.is_available():
        distributed.init_process_group = _process_group(distributed.init_process_group)


def _guarded(call, what: str, is_pretended):
    def guarded(*args, **kwargs):
        if any(map(is_pretended, tree_leaves((args, kwargs)))):
            refuse(what)
        return call(*args, **kwargs)

    return guarded


def _triton(is_pretended) -> None:
    """Let a kernel, compiled or interpreted, refuse tensors of the device when it is launched."""
    from triton.runtime.jit import KernelInterface

    original = KernelInterface.__getitem__
    KernelInterface.__getitem__ = lambda self, grid: _guarded(original(self, grid), "Triton", is_pretended)


def _compile(original, is_pretended):
    """torch.compile that goes on for the CPU, and refuses what gets tensors or parameters on the device."""

    def compile(model=None, **options):
        if model is None:
            return lambda later: compile(later, **options)
        own = list(model.parameters()) if isinstance(model, torch.nn.Module) else []
        compiled = []  # not before it is called: most of what is compiled here is refused

        def called(*args, **kwargs):
            if any(map(is_pretended, tree_leaves((own, args, kwargs)))):
                refuse("torch.compile")
            if not compiled:
                compiled.append(original(model, **options))
            return compiled[0](*args, **kwargs)

        return called

    return compile


def _process_group(original):
    def init_process_group(backend=None, *args, **kwargs):
        if backend and "nccl" in str(backend).lower():
            refuse("NCCL")
        return original(backend, *args, **kwargs)

    return init_process_group
