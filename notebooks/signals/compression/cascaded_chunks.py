"""Cascaded: run lengths, differences and bit-packing, over many chunks of a column at once.

Article: nvCOMP 2.0.0, whose Cascaded compressor takes a number of run-length layers, a number
of delta layers and whether to pack bits; ours always packs, since a packed stream is never
longer. Layer i applies run-length encoding if i < rles, then differences if i < deltas, so two
of each are R, D, R, D: the second pair works on what the first left. The values flow on to the
next layer; the counts of each run-length layer, and the values that are left at the end, are
streams that are bit-packed.

    run lengths: v v v w   ->  values v w, counts 3 1
    differences: x_0 x_1 …  ->  d_i = x_i - x_(i-1) modulo 2^bits,  x_i = base + d_0 + … + d_i

A chunk's bytes, little-endian: for each stream a count (u32), a width (u32) and a minimum
(i64); for each delta layer its base (i64); then the packed streams. Ours, not nvCOMP's bytes:
its format is not published. A chunk is decoded without any other.

A CPU decodes by `compiled_chunks`, a GPU by `triton_kernels`; without Triton by `passes` of
PyTorch's over all chunks, which move more bytes. Packing is done on the CPU.

Legend: C chunks, S streams of one, N values of all, M values of one stream of all, K words of a
header, W words of a lane, R rows, L lanes.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import compiled_chunks
import numpy as np
import torch
from compiled_chunks import BAD_COUNTS, BAD_STREAM, COUNT, CUT_SHORT, OK

SAYS = {
    CUT_SHORT: "its header is cut short",
    BAD_STREAM: "a stream claims a length or width that its bytes or its chunk do not have",
    BAD_COUNTS: "its run lengths do not add up to the values of the chunk",
}
MOST_LAYERS, ALONE = 4, 1 << 19  # values below which a second thread costs more than it saves
SIGNED = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
WORDS = {8: torch.uint8, 16: torch.int16, 32: torch.int32, 64: torch.int64}
ROWS = np.repeat([*WORDS], [9, 8, 16, 32])  # by width


class Layers(NamedTuple):
    """How many run-length and how many delta layers: `Layers(2, 1)`."""

    rles: int = 1
    deltas: int = 1

    def __str__(self):
        return f"R{self.rles} D{self.deltas}"

    @property
    def header_bytes(self):
        """Bytes of a chunk before its streams."""
        return 16 * (self.rles + 1) + 8 * self.deltas


def check_layers(layers):
    """`layers` as Layers; ValueError unless both counts are 0 to 4."""
    layers = Layers(*layers)
    if not all(isinstance(n, int) and 0 <= n <= MOST_LAYERS for n in layers):
        raise ValueError(f"layers {tuple(layers)}: run-length and delta layers are 0 to 4 each")
    return layers


def max_bytes(values, itemsize, layers):
    """Bytes that a chunk of so many values takes at most, whatever they are."""
    streams = layers.rles * 4 * (values + 31) + itemsize * (values + 8 * itemsize - 1)
    return layers.header_bytes + streams


def encode(values_N, lengths, layers, most=None):
    """C chunks as a list of bytes; one of more than `most` bytes is None.

    values_N int8 to int64 of shape (N,); `lengths` positive ints that add up to N."""
    most = max_bytes(max(lengths), values_N.itemsize, layers) if most is None else most
    out_CB = np.empty((len(lengths), -(-most // 8) * 8), np.uint8)
    pairs = zip(encoded_bytes(values_N, lengths, layers, out_CB).tolist(), out_CB, strict=True)
    return [row[:size].tobytes() if size <= most else None for size, row in pairs]


def encoded_bytes(values_N, lengths, layers, out_CB=None):
    """The bytes of each chunk, int64 of shape (C,); they are written if `out_CB` has room."""
    lengths, sizes = np.array(lengths, np.int64), np.empty(len(lengths), np.int64)
    out_CB = np.empty((len(lengths), 0), np.uint8) if out_CB is None else out_CB
    given = (values_N.cpu().numpy(), lengths.cumsum() - lengths, lengths, *layers)
    in_shares(partial(compiled_chunks.encode, *given, out_CB, sizes), lengths)
    return sizes


def in_shares(work, lengths):
    """None, once `work(first, last)` has had all chunks, in as many threads as PyTorch uses."""
    if not (chunks := len(lengths)):
        return None
    threads = min(torch.get_num_threads(), chunks) if lengths.sum() > ALONE else 1
    cuts = [chunks * k // threads for k in range(threads + 1)]
    if threads == 1:
        return work(0, chunks)
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, cuts[:-1], cuts[1:]))


def decode(chunks, lengths, layers, dtype, device="cpu"):
    """(values, statuses) of C chunks: a tensor of shape (sum of lengths,) and a list of codes.

    `chunks` are bytes-like, `lengths` the values that each must give, positive ints. Where a
    status is not OK that chunk's values are meaningless, all others' are right.
    """
    sizes, lengths = np.array([len(c) for c in chunks]), np.array(lengths, np.int64)
    packed = np.frombuffer(b"".join(chunks), np.uint8)
    out_N = torch.zeros(int(lengths.sum()), dtype=dtype, device=device)
    where = (sizes.cumsum() - sizes, sizes, lengths, lengths.cumsum() - lengths)
    return out_N, decode_into(out_N, packed, *where, check_layers(layers)).tolist()


def decode_into(out_N, packed, begins, sizes, lengths, places, layers):
    """The statuses of C chunks, int64: chunk c has `sizes[c]` bytes from `begins[c]` of
    `packed`, NumPy uint8, and its `lengths[c]` values go into `out_N` from `places[c]` on."""
    packed = packed.view()
    packed.flags.writeable = False  # one type for the compiler, whoever owns the bytes
    heads_CK = np.zeros((len(begins), layers.header_bytes // 8), np.int64)
    statuses, bits = np.zeros(len(begins), np.int64), 8 * out_N.itemsize
    claims = (begins, sizes, lengths, layers.rles, bits, heads_CK, statuses)
    compiled_chunks.check_headers(packed, *claims)
    good = (statuses == OK).nonzero()[0]
    if out_N.device.type == "cpu":
        given = (packed, begins, heads_CK, lengths, *layers, out_N.numpy(), places, statuses)
        in_shares(partial(compiled_chunks.decode, *given), lengths)
    elif (way := device_path(layers)) is None:
        here_N = torch.empty_like(out_N, device="cpu")
        statuses = decode_into(here_N, packed, begins, sizes, lengths, places, layers)
        for place, n in zip(places.tolist(), lengths.tolist(), strict=True):
            out_N[place : place + n] = here_N[place : place + n]
    elif len(good):
        packed_B = torch.from_numpy(packed.copy()).to(out_N.device)
        given = (Streams(begins[good], heads_CK[good], layers), lengths[good], places[good])
        statuses[good] = way(out_N, packed_B, *given)
    return statuses


def device_path(layers):
    """The function that decodes on a device; None where that is left to the CPU."""
    try:
        import triton_kernels
    except ImportError:  # it comes with PyTorch for GPUs on Linux
        return None if layers.rles else passes
    return triton_kernels.decode


class Streams:
    """The headers of C chunks as tables: counts, widths, minima and places of their streams."""

    def __init__(self, begins, heads_CK, layers):
        whole = 2 * (layers.rles + 1)
        self.layers, self.bases_CD = layers, heads_CK[:, whole:]
        self.counts_CS, self.widths_CS = (
            heads_CK[:, :whole:2] & COUNT,
            heads_CK[:, :whole:2] >> 32,
        )
        self.lows_CS, rows_CS = heads_CK[:, 1:whole:2], ROWS[self.widths_CS]
        self.sizes_CS = -(-self.counts_CS // rows_CS) * self.widths_CS * (rows_CS // 8)
        first_C1 = begins[:, None] + layers.header_bytes
        self.begins_CS = first_C1 + self.sizes_CS.cumsum(1) - self.sizes_CS


def passes(out_N, packed_B, streams, lengths, places):
    """The statuses, as `decode_into`: each step is a pass of PyTorch's over all chunks that are
    equally long. Bits and differences: without Triton, run lengths are left to the CPU."""
    for n in np.unique(lengths).tolist():
        which = (lengths == n).nonzero()[0]
        values_CM = unpack(packed_B, streams, which, n, out_N.dtype)
        for layer in reversed(range(streams.layers.deltas)):
            values_CM[:, 0] += column(streams.bases_CD[which, layer], values_CM)
            values_CM.cumsum_(1)
        if (np.diff(places[which]) == n).all():  # they follow each other
            out_N[places[which[0]] :][: values_CM.numel()] = values_CM.view(-1)
            continue
        for place, values_M in zip(places[which].tolist(), values_CM, strict=True):
            out_N[place : place + n] = values_M
    return np.zeros_like(lengths)


def unpack(packed_B, streams, which, n, dtype):
    """The only stream of these chunks, (C, n); rows of all streams of one width at once."""
    out_CM = torch.zeros(len(which), n, dtype=dtype, device=packed_B.device)
    begins, sizes = streams.begins_CS[which, 0], streams.sizes_CS[which, 0]
    for width in np.unique(streams.widths_CS[which, 0][sizes > 0]).tolist():
        group, rows = (
            (streams.widths_CS[which, 0] == width).nonzero()[0].tolist(),
            int(ROWS[width]),
        )
        pieces = [packed_B[begins[k] : begins[k] + sizes[k]].view(width, -1) for k in group]
        lanes_RL = unpack_rows(torch.cat(pieces, 1).view(WORDS[rows]), width).to(dtype)
        if 8 < width == rows < 8 * dtype.itemsize:
            lanes_RL &= (1 << width) - 1  # the wider type extended the sign
        found_GRL = lanes_RL.unflatten(1, (len(group), -1)).transpose(0, 1)
        chosen = group if len(group) < len(which) else slice(None)
        out_CM[chosen] = found_GRL.flatten(1)[:, :n]
    return out_CM.add_(column(streams.lows_CS[which, 0], out_CM)[:, None])


def column(numbers_C, like):
    """Integers as a tensor of another's type, on its device; the low bits of each."""
    return torch.from_numpy(np.ascontiguousarray(numbers_C)).to(like.dtype).to(like.device)


def unpack_rows(words_WL, width):
    """The packed values of all lanes, (R, L), from their words (width, L), one of WORDS: shift
    and mask for each row, two passes more for values that straddle words. A width of R bits
    comes back as it is, by its dtype with a sign."""
    rows = 8 * words_WL.itemsize
    if width == rows:
        return words_WL
    lanes_RL = words_WL.new_empty(rows, words_WL.shape[1])
    words, signed = words_WL.unbind(0), rows > 8
    for row, lane_L in enumerate(lanes_RL.unbind(0)):
        at, shift = divmod(row * width, rows)
        torch.bitwise_right_shift(words[at], shift, out=lane_L)
        if shift + width > rows:
            if signed:  # the shift copied the sign down
                lane_L &= (1 << (rows - shift)) - 1
            lane_L.add_(words[at + 1], alpha=1 << (rows - shift))
        if shift + width != rows or signed:
            lane_L &= (1 << width) - 1
    return lanes_RL
