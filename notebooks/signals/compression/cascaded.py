"""The high-level interface: `compress` an array into a frame that describes itself,
`decompress` it into the array.

Article: "nvCOMP v2.0.0 Now Available" (NVIDIA). The frame (`frames`) names dtype, shape and
codec; the codec works on chunks of 64 KiB (`cascaded_chunks`, `lz4_block`, `snappy_raw`), so
that chunks can be packed and unpacked side by side, and one that is damaged is found alone. A
chunk that would grow is stored as it is: incompressible data cost 8 bytes for each chunk.

Which layers? nvCOMP's selector looks at 100 random samples of 1,024 values, estimates the ratio
of each setting on them, and takes the best. Ours finds how many bytes the samples would take,
and writes none; of a short column it takes fewer. It has to know the sizes before it can
answer, so it waits for the device: a call that selects is not asynchronous. And does it pay at
all? `transfer_seconds` and `break_even_rate` answer for a link and a decoder."""

from itertools import product

import cascaded_chunks
import frames
import numpy as np
import torch
from batched_chunks import BYTE_CODECS
from cascaded_chunks import SIGNED, Layers
from frames import FrameError

__all__ = ["FrameError", "compress", "decompress"]
CHUNK_BYTES = 1 << 16
GRID = [Layers(*counts) for counts in product(range(3), range(3))]
SAMPLES, SAMPLE_VALUES = 100, 1024
SAMPLED_OF = 8  # samples are at most one value of so many: trying must cost less than packing


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
        raise ValueError(f"chunks of {chunk_bytes} bytes; allowed: multiples of 8, up to 2^20")
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
    as CRC-32 tells. Beside the frame and the result a CPU needs 32 bytes for each value of a
    chunk and thread; its time is in proportion to both, however small the chunks are."""
    header, chunks = frames.read(frame, max_bytes)
    kind = torch.uint8 if header.codec in BYTE_CODECS else SIGNED[header.dtype.itemsize]
    out_N = _empty(header.total_bytes // kind.itemsize, kind, device)
    out_B, packed, size = out_N.view(torch.uint8), np.frombuffer(frame, np.uint8), kind.itemsize
    pairs, place, rest = zip(header.chunk_lengths, chunks, strict=True), 0, []
    for k, (length, (begin, stored, as_is)) in enumerate(pairs):
        if header.codec == "cascaded" and not as_is:
            rest.append((begin, stored, length // size, place // size, k))
        else:
            raw = packed[begin : begin + stored].tobytes()
            raw = bytearray(raw if as_is else _decoded(header.codec, raw, length, k))
            out_B[place : place + length] = torch.frombuffer(raw, dtype=torch.uint8)
        place += length
    if rest:
        *where, numbers = np.array(rest, np.int64).T.copy()
        statuses = cascaded_chunks.decode_into(out_N, packed, *where, header.layers)
        for k in statuses.nonzero()[0][:1]:
            told = cascaded_chunks.SAYS[int(statuses[k])]
            raise FrameError(f"chunk {numbers[k]}: {told}")
    if header.dtype == torch.bool and (out_B > 1).any():
        raise FrameError("claims truth values, and holds others than 0 and 1")
    return out_N.view(header.dtype).view(header.shape)


def _empty(count, kind, device):
    """Room that nobody has touched; NumPy asks for huge pages, which the page measures."""
    if torch.device(device).type != "cpu" or not count:
        return torch.empty(count, dtype=kind, device=device)
    return torch.from_numpy(np.empty(count, str(kind).removeprefix("torch.")))


def _decoded(codec, chunk, length, k):
    try:
        return BYTE_CODECS[codec].decode(chunk, length)
    except ValueError as error:
        raise FrameError(f"chunk {k}: {error}") from error


def as_signed(values):
    """The bits of an array as a flat tensor of signed integers of the same size."""
    flat_N = values.detach().contiguous().reshape(-1)
    return flat_N.view(SIGNED[values.dtype.itemsize])


def _encoded(flat_N, header):
    """Pairs (bytes, stored as is) of all chunks: what would not shrink is stored."""
    plain_B, lengths, chunks = flat_N.cpu().view(torch.uint8).numpy(), header.chunk_lengths, []
    if header.codec in BYTE_CODECS:
        pieces = (
            plain_B[at : at + header.chunk_bytes]
            for at in range(0, header.total_bytes, header.chunk_bytes)
        )
        packed = (BYTE_CODECS[header.codec].encode(piece.tobytes()) for piece in pieces)
    else:
        values = [n // flat_N.itemsize for n in lengths]
        packed = cascaded_chunks.encode(flat_N, values, header.layers, header.chunk_bytes)
    for at, n, chunk in zip(
        range(0, header.total_bytes, header.chunk_bytes), lengths, packed, strict=True
    ):
        as_is = chunk is None or len(chunk) >= n
        chunks.append((plain_B[at : at + n].tobytes() if as_is else chunk, as_is))
    return chunks


def ratio(values, frame):
    """Bytes before over bytes after: `ratio(values, compress(values))`."""
    values = np.asarray(values) if not hasattr(values, "element_size") else values
    return values.nbytes / len(frame)


def sampled(values_N, grid=GRID, samples=SAMPLES):
    """The setting that packs a sample of `values_N` (N,) best, Layers; the first of `grid` for
    no values.

    Headers are not counted: a sample is shorter than a chunk, and they would weigh more than
    they do later. For the same reason its range is smaller, which favours fewer differences.
    Always seeded alike, so that one array makes one frame."""
    if not len(values_N):
        return grid[0]
    length = min(SAMPLE_VALUES, len(values_N))
    most = max(1, min(samples, len(values_N) // (length * SAMPLED_OF)))
    generator = torch.Generator().manual_seed(0)
    begins = torch.randint(0, len(values_N) - length + 1, (most,), generator=generator)
    inside = begins[:, None] + torch.arange(length)
    picked_N = values_N[inside.reshape(-1).to(values_N.device)].cpu()

    def streams_bytes(layers):
        sizes = cascaded_chunks.encoded_bytes(picked_N, [length] * most, layers)
        return sizes.sum() - most * layers.header_bytes

    return min(grid, key=streams_bytes)


def transfer_seconds(n_bytes, link_bytes_per_s, ratio=1.0, decode_bytes_per_s=None):
    """Seconds until `n_bytes` are there, sent as they are, n / BW, or packed by `ratio` and
    decoded, (n / ratio) / BW + n / decode rate, in uncompressed bytes; nothing overlaps:
    `transfer_seconds(1e9, 16e9)` is 0.0625. ValueError for what is not positive."""
    if not (link_bytes_per_s > 0 and ratio > 0 and (decode_bytes_per_s or 1) > 0):
        told = f"link {link_bytes_per_s}, ratio {ratio}, decode {decode_bytes_per_s}"
        raise ValueError(f"{told}: all must be positive")
    sent = n_bytes / ratio / link_bytes_per_s
    return sent + (n_bytes / decode_bytes_per_s if decode_bytes_per_s else 0.0)


def break_even_rate(ratio, link_bytes_per_s):
    """The decode rate, in uncompressed bytes per second, above which compression pays:
    n / BW = n / (r BW) + n / D gives D = BW r / (r - 1); infinite where nothing shrinks."""
    return link_bytes_per_s * ratio / (ratio - 1) if ratio > 1 else float("inf")
