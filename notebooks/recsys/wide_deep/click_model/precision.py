"""In which precision matrix products are taken, on which device."""

import contextlib

import torch


def half(device):
    """The 16-bit dtype of matrix products on a device: bfloat16, whose range needs no scaled
    losses, or float16 on a GPU whose cores do not have it (a T4, a V100).
    """
    if device.type == "cuda" and not torch.cuda.is_bf16_supported(including_emulation=False):
        return torch.float16
    return torch.bfloat16


def autocast(options, device):
    """A context in which matrix products have the precision that `options.amp` says."""
    if not options.amp:
        return contextlib.nullcontext()
    return torch.autocast(device.type, half(device))


@contextlib.contextmanager
def float32_products(options):
    """A context in which `options.tf32` decides on float32 products; then it is as before."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if options.tf32 else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
