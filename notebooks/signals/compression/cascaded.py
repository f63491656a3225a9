"""The high-level interface: `compress` an array into a frame that describes itself,
`decompress` it into the array.

Article: "nvCOMP v2.0.0 Now Available" (NVIDIA). The frame (`frames`) names dtype, shape and
codec; the codec works on chunks of 64 KiB (`cascaded_chunks`, `lz4_block`, `snappy_raw`), so
that chunks can be packed and unpacked side by side, and one that is damaged is found alone. A
chunk that would grow is stored as it is: incompressible data cost 8 bytes for each chunk.

Which layers? nvCOMP's selector looks at 100 random samples of 1,024 values, estimates the ratio
of each setting on them, and takes the best. Ours encodes the samples outright. It has to know
the sizes before it can answer, so it waits for the device: a call that selects is not
asynchronous. And does it pay at all? `transfer_seconds` and `break_even_rate` answer for a link
and a decoder."""

from itertools import groupby, islice, product

import cascaded_chunks
import frames
import numpy as np
import torch
from batched_chunks import BYTE_CODECS, SIGNED
from cascaded_chunks import Layers, encode
from frames import FrameError

__all__ = ["FrameError", "compress", "decompress"]
CHUNK_BYTES = 1 << 16
GRID = [Layers(*counts) for counts in product(range(3), range(3))]
SAMPLES, SAMPLE_VALUES = 100, 1024
# Freed unused, a block of this size makes glibc keep freed blocks of up to as many bytes. Else
# each goes back to the kernel, and a batch's page faults take longer than decoding it.
KEPT = 31 << 20
AT_ONCE = 1 << 20  # values that are encoded or decoded in one batch: a few MiB, reused


def compress(values, layers="auto", codec="cascaded", chunk_bytes=CHUNK_BYTES):
    """A frame, bytes, that `decompress` turns into the same array.

    >>> len(compress(torch.arange(1_000_000)))
    3968

    values: a tensor on any device, or a NumPy array, of a dtype in `frames.NAMES` and at most 8
    axes; NaN's bits are kept. layers: `cascaded_chunks.Layers`, two numbers, or "auto", which
    samples and chooses. codec: "cascaded", "lz4" or "snappy". Raises ValueError for another
    dtype, codec, size of chunks (8 bytes to 1 MiB, a multiple of 8), or numbers of layers.
    """
    values = torch.as_tensor(values)
    if values.dtype not in frames.DTYPES or values.dim() > frames.MOST_AXES:
        told = f"{values.dtype}, {values.dim()} axes"
        raise ValueError(f"values of {told}; allowed are {frames.NAMES}, at most 8 axes")
    if codec not in frames.CODECS:
        raise ValueError(f"codec {codec!r}; allowed are {', '.join(frames.CODECS)}")
    if chunk_bytes % 8 or not 8 <= chunk_bytes <= frames.LARGEST_CHUNK:
        raise ValueError(
            f"chunks of {chunk_bytes} bytes; allowed are multiples of 8 from 8 to 2^20"
        )
    flat_N = as_signed(values)
    if codec != "cascaded":
        layers = cascaded_chunks.Layers(0, 0)
    elif isinstance(layers, str):
        if layers != "auto":
            raise ValueError(f'layers {layers!r}; allowed are "auto" or two numbers')
        layers = sampled(flat_N)
    layers = cascaded_chunks.check_layers(layers)
    header = frames.Header(codec, values.dtype, tuple(values.shape), layers, chunk_bytes)
    return frames.write(header, _encoded(flat_N, header))


def decompress(frame, device="cpu", max_bytes=frames.MOST_BYTES):
    """The tensor that a frame holds, with its dtype and shape.

    frame: bytes-like. Raises FrameError, a ValueError, for a frame that is cut short, damaged,
    forged or larger than `max_bytes`; never returns other values than were compressed, as far
    as CRC-32 tells. Beside the frame and the result, memory is what a batch of 2^20 values, or
    one chunk of at most 1 MiB, takes."""
    header, chunks = frames.read(frame, max_bytes)
    torch.empty(KEPT, dtype=torch.uint8)  # see there
    kind = torch.uint8 if header.codec in BYTE_CODECS else SIGNED[header.dtype.itemsize]
    packed_B = on_device(frame, device)
    out_N, at = empty(header.total_bytes // kind.itemsize, kind, device), 0
    place = len(packed_B) - sum(len(chunk) for chunk, _ in chunks)
    for part in batches(header, chunks, kind.itemsize):
        count = sum(length for length, _, _ in part) // kind.itemsize
        size = sum(len(chunk) for _, chunk, _ in part)
        _decode(header, part, packed_B[place : place + size], out_N[at : at + count], at)
        at, place = at + count, place + size
    if header.dtype == torch.bool and (out_N.view(torch.uint8) > 1).any():
        raise FrameError("claims truth values, and holds others than 0 and 1")
    return out_N.view(header.dtype).view(header.shape)


def on_device(frame, device):
    """The bytes of a frame as a uint8 tensor, copied once."""
    frame = np.frombuffer(frame, np.uint8)
    bytes_B = empty(len(frame), torch.uint8, "cpu")
    bytes_B.numpy()[:] = frame
    return bytes_B.to(device)


def empty(count, dtype, device):
    """A tensor of `count` values that nothing has written. On the CPU it is NumPy's, which asks
    for huge pages: touching fresh memory 4 KiB at a time takes longer than decoding does.
    An empty array of NumPy's has no stride to view it by."""
    if torch.device(device).type != "cpu" or not count:
        return torch.empty(count, dtype=dtype, device=device)
    return torch.from_numpy(np.empty(count, str(dtype).removeprefix("torch.")))


def batches(header, chunks, itemsize):
    """Lists of (bytes before compression, chunk, stored as is): neighbours that were stored in
    one way, of one length, with AT_ONCE values at most."""
    most = max(1, AT_ONCE * itemsize // header.chunk_bytes)
    listed = (
        zip(header.chunk_lengths, *zip(*chunks, strict=True), strict=True) if chunks else ()
    )
    for _, alike in groupby(listed, lambda chunk: (chunk[0], chunk[2])):
        while part := list(islice(alike, most)):
            yield part


def _decode(header, part, packed_B, out_N, at):
    chunks, as_is = [chunk for _, chunk, _ in part], part[0][2]
    if as_is:
        out_N.view(torch.uint8).copy_(packed_B)
    elif header.codec in BYTE_CODECS:
        try:
            each = [BYTE_CODECS[header.codec].decode(c, n) for n, c, _ in part]
        except ValueError as error:
            raise FrameError(f"a chunk from value {at:,} on: {error}") from error
        out_N.copy_(torch.frombuffer(bytearray().join(each), dtype=torch.uint8))
    else:
        lengths = [n // out_N.itemsize for n, _, _ in part]
        bits = 8 * out_N.itemsize
        heads, told = cascaded_chunks.check_headers(chunks, lengths, header.layers, bits)
        if not any(told):
            found_N, told = cascaded_chunks.decode_checked(
                packed_B, heads, lengths, header.layers, out_N.dtype
            )
        for k, status in enumerate(told):
            if status:
                where = f"chunk {k} of those from value {at:,} on"
                raise FrameError(f"{where}: {cascaded_chunks.SAYS[status]}")
        out_N.copy_(found_N)


def as_signed(values):
    """The bits of an array as a flat tensor of signed integers of the same size."""
    flat_N = values.detach().contiguous().reshape(-1)
    return flat_N.view(SIGNED[values.dtype.itemsize])


def _encoded(flat_N, header):
    """Pairs (bytes, stored as is) of all chunks, a batch at a time."""
    chunks, size = [], flat_N.itemsize
    step = max(1, AT_ONCE * size // header.chunk_bytes) * header.chunk_bytes // size
    for part in flat_N.split(step) if len(flat_N) else ():
        whole = part.split(header.chunk_bytes // size)
        if header.codec == "cascaded":
            packed = cascaded_chunks.encode(part, [len(c) for c in whole], header.layers)
        else:
            encode = BYTE_CODECS[header.codec].encode
            packed = [encode(c.cpu().numpy().tobytes()) for c in whole]
        for plain, chunk in zip(whole, packed, strict=True):
            as_is = len(chunk) >= len(plain) * size
            chunks.append((plain.cpu().numpy().tobytes() if as_is else chunk, as_is))
    return chunks


def ratio(values, frame):
    """Bytes before over bytes after: `ratio(values, compress(values))`."""
    values = np.asarray(values) if not hasattr(values, "element_size") else values
    return values.nbytes / len(frame)


def sampled(values_N, grid=GRID, samples=SAMPLES, generator=None):
    """The setting that packs a sample of `values_N` (N,) best, Layers; the first of `grid` for
    no values.

    Headers are not counted: a sample is shorter than a chunk, and they would weigh more than
    they do later. For the same reason its range is smaller, which favours fewer differences.
    Seeded by 0 unless a CPU generator is given, so that one array makes one frame."""
    if not len(values_N):
        return grid[0]
    length = min(SAMPLE_VALUES, len(values_N))
    generator = generator or torch.Generator().manual_seed(0)
    most = min(samples, len(values_N) // length)
    begins = torch.randint(0, len(values_N) - length + 1, (most,), generator=generator)
    inside = begins[:, None] + torch.arange(length)
    picked_N = values_N[inside.reshape(-1).to(values_N.device)]

    def streams_bytes(layers):
        packed = encode(picked_N, [length] * most, layers)
        return sum(map(len, packed)) - most * cascaded_chunks.header_type(layers).itemsize

    return min(grid, key=streams_bytes)


def transfer_seconds(n_bytes, link_bytes_per_s, ratio=1.0, decode_bytes_per_s=None):
    """Seconds until `n_bytes` are there, sent as they are, or packed by `ratio` and decoded.

    >>> transfer_seconds(1e9, 16e9)
    0.0625

    n / BW, or (n / ratio) / BW + n / decode rate, both rates in uncompressed bytes; nothing
    overlaps. Raises ValueError for rates or a ratio that are not positive.
    """
    if not (link_bytes_per_s > 0 and ratio > 0 and (decode_bytes_per_s or 1) > 0):
        told = f"link {link_bytes_per_s}, ratio {ratio}, decode {decode_bytes_per_s}"
        raise ValueError(f"{told}: all must be positive")
    sent = n_bytes / ratio / link_bytes_per_s
    return sent + (n_bytes / decode_bytes_per_s if decode_bytes_per_s else 0.0)


def break_even_rate(ratio, link_bytes_per_s):
    """The decode rate, in uncompressed bytes per second, above which compression pays.

    n / BW = n / (r BW) + n / D gives D = BW r / (r - 1); infinite where nothing shrinks.
    """
    return link_bytes_per_s * ratio / (ratio - 1) if ratio > 1 else float("inf")
