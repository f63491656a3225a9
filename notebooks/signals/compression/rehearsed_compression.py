"""The page's timed column decoded on a GPU without Triton: by PyTorch's passes over all chunks,
in batches that are too small, and with a needless way home.

`make predict` counts them without a GPU, at the sizes of each tier; kernels in Triton it cannot
count, and the page predicts those from what they load and store. Counted is what the card does:
the frame's bytes go up once, and are unpacked and summed. The checksums and the header, which
the host reads, are in the receipt's time and not in the prediction.
"""

import cascaded_chunks
import numpy as np
import torch
from cascaded_chunks import Layers, Streams

VALUES, WIDTH = 16_384, 10  # of a chunk of 64 KiB in int32
METRICS = {"cascaded_decode_rate": ("ours", lambda sizes: 4 * sizes["values"])}


def ours(sizes, device, at_once=None):
    """Differences of ten bits: the bytes sent, unpacked for all chunks at once, and summed"""
    chunks, layers = max(1, sizes["values"] // VALUES), Layers(0, 1)
    size = layers.header_bytes + VALUES * WIDTH // 8
    heads_CK = np.tile([VALUES | WIDTH << 32, 0, 0], (chunks, 1))  # count, width, minimum, base
    frame_B = torch.randint(0, 256, (chunks * size,), dtype=torch.uint8)
    begins, lengths = np.arange(chunks) * size, np.full(chunks, VALUES)
    at_once = at_once or chunks

    def decode():
        packed_B = frame_B.to(device)
        out_N = torch.empty(chunks * VALUES, dtype=torch.int32, device=device)
        for first in range(0, chunks, at_once):
            part = slice(first, first + at_once)
            streams = Streams(begins[part], heads_CK[part], layers)
            where = (lengths[part], begins[part] // size * VALUES)
            cascaded_chunks.passes(out_N, packed_B, streams, *where)
        return out_N

    return decode


def naive(sizes, device):
    """The same for eight chunks at once, as would suit the cache of a CPU core"""
    return ours(sizes, device, at_once=8)


def broken(sizes, device):
    """The same as ours, but the column goes home and comes back before it is used"""
    decode = ours(sizes, device)
    return lambda: decode().cpu().to(device)
