"""Cascaded: run lengths, differences and bit-packing, over many chunks of a column at once.

Article: nvCOMP 2.0.0, whose Cascaded compressor takes a number of run-length layers, a number
of delta layers and whether to pack bits; ours always packs, since a packed stream is never
longer. Layer i applies run-length encoding if i < rles, then differences if i < deltas, so two
of each are R, D, R, D: the second pair works on what the first left. The values flow on to the
next layer; the counts of each run-length layer, and the values that are left at the end, are
streams that are bit-packed.

    run lengths: v v v w   ->  values v w, counts 3 1
    differences: x_0 x_1 …  ->  d_i = x_i - x_(i-1) modulo 2^bits,  x_i = base + d_0 + … + d_i

The first difference has no predecessor. It repeats the smallest of the others, so that it never
widens the packed range, and base = x_0 - d_0.

A chunk's bytes, little-endian: for each stream a count (u32), a width (u32) and a minimum
(i64); for each delta layer its base (i64); then the packed streams. Ours, not nvCOMP's bytes:
its format is not published. A chunk is decoded without any other.

Legend: C chunks, N values of all of them, M values of one stream of all of them.
"""

from typing import NamedTuple

import bit_packing
import numpy as np
import torch

OK, CUT_SHORT, BAD_STREAM, BAD_COUNTS = range(4)  # what a chunk's status says
SAYS = {
    CUT_SHORT: "its header is cut short",
    BAD_STREAM: "a stream claims a length or width that its bytes or its chunk do not have",
    BAD_COUNTS: "its run lengths do not add up to the values of the chunk",
}
MOST_LAYERS = 4


class Layers(NamedTuple):
    """How many run-length and how many delta layers: `Layers(2, 1)`."""

    rles: int = 1
    deltas: int = 1

    def __str__(self):
        return f"R{self.rles} D{self.deltas}"


def check_layers(layers):
    """`layers` as Layers; ValueError unless both counts are 0 to 4."""
    layers = Layers(*layers)
    if not all(isinstance(n, int) and 0 <= n <= MOST_LAYERS for n in layers):
        raise ValueError(f"layers {tuple(layers)}: run-length and delta layers are 0 to 4 each")
    return layers


def header_type(layers):
    """The NumPy record of a chunk's header: streams (count, width, minimum), then bases."""
    stream = np.dtype([("count", "<u4"), ("width", "<u4"), ("minimum", "<i8")])
    return np.dtype([("stream", stream, layers.rles + 1), ("base", "<i8", layers.deltas)])


def run_lengths(values_N, lengths):
    """(values, counts, lengths) of the runs of C chunks laid end to end; no run crosses a
    chunk.

    >>> run_lengths(torch.tensor([3, 3, 3, 3]), [1, 3])
    (tensor([3, 3]), tensor([1, 3], dtype=torch.int32), [1, 1])
    """
    begins_N = torch.ones(len(values_N), dtype=torch.bool, device=values_N.device)
    torch.ne(values_N[1:], values_N[:-1], out=begins_N[1:])
    ends_C = torch.tensor(lengths, device=values_N.device).cumsum(0)
    begins_N[ends_C[:-1]] = True
    at_M = begins_N.nonzero().squeeze(1)
    counts_M = torch.diff(at_M, append=ends_C[-1:]).to(torch.int32)
    past = torch.searchsorted(at_M, ends_C).tolist()
    return values_N[at_M], counts_M, np.diff(past, prepend=0).tolist()


def differences(values_N, lengths):
    """(differences, bases) of C chunks: same length and dtype, modulo 2^bits; a list of
    ints."""
    found_N = torch.empty_like(values_N)
    torch.sub(values_N[1:], values_N[:-1], out=found_N[1:])
    at_C = torch.tensor([0, *lengths[:-1]], device=values_N.device).cumsum(0)
    long_C = torch.tensor(lengths, device=values_N.device) > 1
    following_C = (at_C + 1).clamp_(max=len(values_N) - 1)
    found_N[at_C] = torch.where(long_C, found_N[following_C], 0)
    found_N[at_C] = bit_packing.per_stream("amin", found_N, lengths)
    return found_N, (values_N[at_C] - found_N[at_C]).tolist()


def encode(values_N, lengths, layers):
    """C chunks as a list of bytes. values_N int8 to int64 of shape (N,), on any device;
    `lengths` positive ints that add up to N.

    Waits for the device at each layer: how many runs there are decides the shapes that follow.
    """
    streams, bases, flowing = [], [], (values_N, lengths)
    for layer in range(max(layers)):
        if layer < layers.rles:
            values, counts, inner = run_lengths(*flowing)
            streams.append((counts, inner))
            flowing = (values, inner)
        if layer < layers.deltas:
            values, base = differences(*flowing)
            bases.append(base)
            flowing = (values, flowing[1])
    headers = np.zeros(len(lengths), header_type(layers))
    pieces = []
    for s, (stream, inner) in enumerate([*streams, flowing]):
        found = bit_packing.ranges(stream, inner)
        lowest, widths = zip(*found, strict=True)
        headers["stream"]["count"][:, s] = inner
        headers["stream"]["minimum"][:, s], headers["stream"]["width"][:, s] = lowest, widths
        pieces.append(bit_packing.pack(stream, inner, found))
    for d, base in enumerate(bases):
        headers["base"][:, d] = base
    return _joined(headers, pieces)


def _joined(headers, pieces):
    """Each chunk's header and streams as bytes; one copy from the device for all."""
    order = [piece for chunk in zip(*pieces, strict=True) for piece in chunk]
    packed = torch.cat(order).cpu().numpy().tobytes()
    ends = np.cumsum([sum(map(len, chunk)) for chunk in zip(*pieces, strict=True)]).tolist()
    begins = [0, *ends[:-1]]
    return [h.tobytes() + packed[a:b] for h, a, b in zip(headers, begins, ends, strict=True)]


def check_headers(chunks, lengths, layers, bits):
    """(headers, statuses): the records of C chunks, and OK or what is wrong for each.

    Nothing is allocated by what a header claims: a stream holds at least one value and no more
    than the stream around it, its width is at most its type's, and the streams fill the chunk's
    bytes to the last one.
    """
    kind = header_type(layers)
    have = np.array([len(chunk) for chunk in chunks])
    blank = bytes(kind.itemsize)
    heads = [chunk[: kind.itemsize] if len(chunk) >= len(blank) else blank for chunk in chunks]
    headers = np.frombuffer(b"".join(heads), kind)
    counts_CS = headers["stream"]["count"].astype(np.int64)
    widths_CS = headers["stream"]["width"].astype(np.int64)
    around_CS = np.column_stack([np.array(lengths), counts_CS[:, :-1]])
    good_CS = (counts_CS >= 1) & (counts_CS <= around_CS)
    good_CS &= widths_CS <= np.array([32] * layers.rles + [bits])
    good_CS[:, -1] &= counts_CS[:, -1] == around_CS[:, -1]
    widths_CS[~good_CS] = 0
    rows_CS = np.array(bit_packing.ROWS)[widths_CS]
    bytes_CS = -(-counts_CS // rows_CS) * widths_CS * (rows_CS // 8)
    full_C = bytes_CS.sum(1) + kind.itemsize == have
    statuses = np.where(good_CS.all(1) & full_C, OK, BAD_STREAM)
    statuses[have < kind.itemsize] = CUT_SHORT
    return headers, statuses.tolist()


def decode(chunks, lengths, layers, dtype, device="cpu"):
    """(values, statuses) of C chunks: a tensor of shape (sum of lengths,) and a list of codes.

    `chunks` are bytes-like, `lengths` the values that each must give, positive ints. Where a
    status is not OK that chunk's values are zeros or meaningless, all others' are right.
    """
    layers = check_layers(layers)
    headers, statuses = check_headers(chunks, lengths, layers, 8 * dtype.itemsize)
    good = [k for k, status in enumerate(statuses) if status == OK]
    if len(good) == len(chunks):
        joined = torch.frombuffer(bytearray().join(chunks), dtype=torch.uint8).to(device)
        return decode_checked(joined, headers, lengths, layers, dtype)
    values_N = torch.zeros(sum(lengths), dtype=dtype, device=device)
    if good:  # decode them alone, and put them in their places
        kept = [lengths[k] for k in good]
        found, told = decode([chunks[k] for k in good], kept, layers, dtype, device)
        places = values_N.split(lengths)
        for k, part, status in zip(good, found.split(kept), told, strict=True):
            places[k].copy_(part)
            statuses[k] = status
    return values_N, statuses


def decode_checked(joined_B, headers, lengths, layers, dtype):
    """(values, statuses) of C chunks whose bytes lie end to end in `joined_B`, uint8, on the
    device that computes; `headers` are theirs, from `check_headers`, which found them good.

    All that a GPU does. With run lengths it waits for the device once a layer: are the counts
    right?
    """
    streams = layers.rles + 1
    counts = headers["stream"]["count"].tolist()
    found = headers["stream"][["minimum", "width"]].tolist()
    sizes = [
        size
        for row, pairs in zip(counts, found, strict=True)
        for size in (
            headers.itemsize,
            *(bit_packing.packed_bytes(m, w) for m, (_, w) in zip(row, pairs, strict=True)),
        )
    ]
    pieces, bad_C = joined_B.split(sizes), np.zeros(len(lengths), bool)

    def stream(s, kind):
        inner, pairs = [row[s] for row in counts], [pairs[s] for pairs in found]
        return bit_packing.unpack(pieces[s + 1 :: streams + 1], inner, pairs, kind), inner

    flowing, inner = stream(layers.rles, dtype)
    for layer in reversed(range(max(layers))):
        if layer < layers.deltas:
            flowing = from_bases(flowing, headers["base"][:, layer], inner)
        else:
            flowing = steps(flowing, inner)
        if layer < layers.rles:
            outer = [row[layer - 1] for row in counts] if layer else lengths
            repeats, _ = stream(layer, torch.int32)
            flowing, bad = spread(flowing, repeats, inner, outer)
            bad_C |= bad
            inner = outer
        prefix_sums(flowing, inner)
    return flowing, np.where(bad_C, BAD_COUNTS, OK).tolist()


def _begins(lengths, device):
    return torch.tensor([0, *lengths[:-1]]).cumsum(0).to(device)


def from_bases(values_M, bases, lengths):
    """The differences of each stream, in place, its first one from zero and not its base."""
    base_C = torch.tensor(bases).to(values_M.dtype).to(values_M.device)
    values_M[_begins(lengths, values_M.device)] += base_C
    return values_M


def steps(values_M, lengths):
    """What is added at each value of a stream: prefix sums of it are the values."""
    steps_M, at_C = torch.empty_like(values_M), _begins(lengths, values_M.device)
    torch.sub(values_M[1:], values_M[:-1], out=steps_M[1:])
    steps_M[at_C] = values_M[at_C]
    return steps_M


def spread(steps_M, counts_M, inner, lengths):
    """(steps, bad): each run's step where it begins, zeros in between; `bad` marks chunks,
    shape (C,), whose counts are not positive or do not add up to their length. Those get
    harmless counts, so that nothing larger than `lengths` is ever allocated.

    Prefix sums then repeat the values: passes as wide as they are, where an index for each
    value has eight bytes.
    """
    counts_M = counts_M.long()
    after_C = np.cumsum(inner)
    ends_M = counts_M.cumsum(0)
    total_C = ends_M[torch.from_numpy(after_C - 1).to(ends_M.device)].cpu().numpy()
    bad_C = np.diff(total_C, prepend=0) != np.array(lengths)
    if (counts_M < 1).any():
        least = [part.min() for part in counts_M.split(inner)]
        bad_C |= torch.stack(least).cpu().numpy() < 1
    for k in bad_C.nonzero()[0].tolist():
        part_M = counts_M[after_C[k] - inner[k] : after_C[k]]
        part_M.fill_(1)
        part_M[0] = lengths[k] - inner[k] + 1
    if bad_C.any():
        ends_M = counts_M.cumsum(0)
    out_N = steps_M.new_zeros(sum(lengths))
    return out_N.scatter_(0, ends_M.sub_(counts_M), steps_M), bad_C


def prefix_sums(steps_N, lengths):
    """None; sums in place within each stream, modulo 2^bits."""
    if len(set(lengths)) == 1:
        steps_N.view(len(lengths), -1).cumsum_(1)
        return
    at_C = _begins(lengths, steps_N.device)
    before_C = steps_N[at_C]
    steps_N.cumsum_(0)
    before_C -= steps_N[at_C]  # what the streams before it add up to, negative
    each_C = torch.tensor(lengths, device=steps_N.device)
    steps_N += before_C.repeat_interleave(each_C, output_size=len(steps_N))
