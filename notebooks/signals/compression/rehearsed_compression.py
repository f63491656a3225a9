"""The page's timed column decoded on a GPU: as `decompress` does, in batches that are too
small, and with a needless way home.

`make predict` counts them without a GPU, at the sizes of each tier. Counted is what the card
does: the frame's bytes go up once, each batch is unpacked and summed. The checksums and the
header, which the host reads, are in the receipt's time and not in the prediction.
"""

import bit_packing
import cascaded
import cascaded_chunks
import numpy as np
import torch
from cascaded_chunks import Layers

VALUES, WIDTH = 16_384, 10  # of a chunk of 64 KiB in int32
METRICS = {"cascaded_decode_rate": ("ours", lambda sizes: 4 * sizes["values"])}


def ours(sizes, device, at_once=cascaded.AT_ONCE // VALUES):
    """Differences of ten bits: the bytes sent, unpacked for 64 chunks at once, and summed"""
    chunks, layers = max(1, sizes["values"] // VALUES), Layers(0, 1)
    heads = np.zeros(chunks, cascaded_chunks.header_type(layers))
    heads["stream"]["count"], heads["stream"]["width"] = VALUES, WIDTH
    size = heads.itemsize + bit_packing.packed_bytes(VALUES, WIDTH)
    frame_B = torch.randint(0, 256, (chunks * size,), dtype=torch.uint8)

    def decode():
        packed_B = frame_B.to(device)
        out_N = torch.empty(chunks * VALUES, dtype=torch.int32, device=device)
        for begin in range(0, chunks, at_once):
            some = heads[begin : begin + at_once]
            lengths = [VALUES] * len(some)
            part_B = packed_B[begin * size : (begin + len(some)) * size]
            found_N, _ = cascaded_chunks.decode_checked(
                part_B, some, lengths, layers, torch.int32
            )
            out_N[begin * VALUES : (begin + len(some)) * VALUES].copy_(found_N)
        return out_N

    return decode


def naive(sizes, device):
    """The same for eight chunks at once, as would suit the cache of a CPU core"""
    return ours(sizes, device, at_once=8)


def broken(sizes, device):
    """The same as ours, but the column goes home and comes back before it is used"""
    decode = ours(sizes, device)
    return lambda: decode().cpu().to(device)
