"""One column decoded as a GPU would do it, chunk by chunk, and with a needless way home.

`make predict` counts them without a GPU, at the sizes of each tier.
"""

import bit_packing
import torch

VALUES, WIDTH = 16_384, 10  # of a chunk of 64 KiB in int32
METRICS = {"cascaded_decode_rate": ("ours", lambda sizes: 4 * sizes["values"])}


def ours(sizes, device):
    """Differences of ten bits, all chunks at once: unpacked, and summed along each chunk"""
    words_WL, bases_C1 = _packed(sizes["values"], device)

    def decode():
        lanes_RL = bit_packing.unpack_rows(words_WL, WIDTH)
        parts = lanes_RL.view(32, -1, VALUES // 32).transpose(0, 1).reshape(-1, VALUES)
        return parts.cumsum(1, dtype=torch.int32).add_(bases_C1)

    return decode


def naive(sizes, device):
    """The same for one chunk after the other"""
    words_WL, bases_C1 = _packed(sizes["values"], device)
    chunks = words_WL.split(VALUES // 32, 1)

    def decode():
        parts = [bit_packing.unpack_rows(chunk, WIDTH).view(-1) for chunk in chunks]
        sums = [part.cumsum(0, dtype=torch.int32) for part in parts]
        return torch.stack(sums).add_(bases_C1)

    return decode


def broken(sizes, device):
    """The same as ours, but the column goes home and comes back before it is used"""
    decode = ours(sizes, device)
    return lambda: decode().cpu().to(device)


def _packed(values, device):
    """Random words (WIDTH, L) of whole chunks, and a base for each chunk, (C, 1)."""
    made = torch.Generator().manual_seed(0)
    chunks = max(1, values // VALUES)
    shape = (WIDTH, chunks * VALUES // 32)
    words_WL = torch.randint(-(2**31), 2**31, shape, generator=made).to(torch.int32)
    bases_C1 = torch.arange(chunks, dtype=torch.int32)[:, None]
    return words_WL.to(device), bases_C1.to(device)
