"""Cascaded: run lengths, differences and bit-packing, over many chunks of a column at once.

Article: nvCOMP 2.0.0, whose Cascaded compressor takes a number of run-length layers, a number
of delta layers and whether to pack bits. Layer i applies run-length encoding if i < rles, then
differences if i < deltas. The values flow on to the next layer; the counts of each run-length
layer, and the values that are left at the end, are streams that are bit-packed.

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
    """How many run-length and delta layers, and whether bits are packed: `Layers(2, 1,
    True)`."""

    rles: int = 1
    deltas: int = 1
    pack: bool = True

    def __str__(self):
        return f"R{self.rles} D{self.deltas} B{int(self.pack)}"


def check_layers(layers):
    """`layers` as Layers; ValueError unless both counts are 0 to 4."""
    layers = Layers(*layers)
    if not all(isinstance(n, int) and 0 <= n <= MOST_LAYERS for n in layers[:2]):
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
    for layer in range(max(layers[:2])):
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
        full = [(0, 8 * stream.itemsize)] * len(inner)
        found = bit_packing.ranges(stream, inner) if layers.pack else full
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
    headers, statuses = np.zeros(len(chunks), kind), [OK] * len(chunks)
    for k, (chunk, length) in enumerate(zip(chunks, lengths, strict=True)):
        if len(chunk) < kind.itemsize:
            statuses[k] = CUT_SHORT
            continue
        headers[k] = np.frombuffer(chunk[: kind.itemsize], kind)[0]
        rest = len(chunk) - kind.itemsize
        described = headers[k]["stream"].tolist()
        for s, (count, width, _) in enumerate(described):
            most = 32 if s < layers.rles else bits
            last = s == len(described) - 1
            same = count == length if last else 1 <= count <= length
            if not same or width > most:
                statuses[k] = BAD_STREAM
                break
            rest -= bit_packing.packed_bytes(count, width)
            length = count
        if statuses[k] == OK and rest:
            statuses[k] = BAD_STREAM
    return headers, statuses


def decode(chunks, lengths, layers, dtype, device="cpu"):
    """(values, statuses) of C chunks: a tensor of shape (sum of lengths,) and a list of codes.

    `chunks` are bytes-like, `lengths` the values that each must give. Where a status is not OK
    that chunk's values are zeros or meaningless, all others' are right.
    """
    layers = check_layers(layers)
    headers, statuses = check_headers(chunks, lengths, layers, 8 * dtype.itemsize)
    good = [k for k, status in enumerate(statuses) if status == OK]
    if len(good) < len(chunks):  # decode the others alone, and put them in their places
        values_N = torch.zeros(sum(lengths), dtype=dtype, device=device)
        if good:
            found, told = decode(
                [chunks[k] for k in good], [lengths[k] for k in good], layers, dtype, device
            )
            places = values_N.split(lengths)
            parts = found.split([lengths[k] for k in good])
            for k, part, status in zip(good, parts, told, strict=True):
                places[k].copy_(part)
                statuses[k] = status
        return values_N, statuses
    return _decode_checked(chunks, lengths, layers, dtype, device, headers)


def _decode_checked(chunks, lengths, layers, dtype, device, headers):
    statuses, size = np.zeros(len(chunks), np.int64), header_type(layers).itemsize
    joined = b"".join(memoryview(chunk)[size:] for chunk in chunks)
    buffer = torch.frombuffer(bytearray(joined or b"\0"), dtype=torch.uint8).to(device)
    counts = headers["stream"]["count"].astype(np.int64)
    found = [[tuple(s) for s in stream] for stream in headers["stream"][["minimum", "width"]]]
    sizes = [
        bit_packing.packed_bytes(m, w)
        for row, pairs in zip(counts.tolist(), found, strict=True)
        for m, (_, w) in zip(row, pairs, strict=True)
    ]
    pieces = buffer[: len(joined)].split(sizes)
    streams = layers.rles + 1

    def stream(s, kind):
        picked, inner = pieces[s::streams], counts[:, s].tolist()
        return bit_packing.unpack(picked, inner, [pairs[s] for pairs in found], kind), inner

    parts, inner = stream(layers.rles, dtype)
    for layer in reversed(range(max(layers[:2]))):
        if layer < layers.deltas:
            parts = sums(parts, headers["base"][:, layer].tolist(), inner)
        if layer < layers.rles:
            outer = counts[:, layer - 1].tolist() if layer else lengths
            repeats, _ = stream(layer, torch.int32)
            parts, bad = expand(parts, repeats, outer)
            statuses[bad & (statuses == OK)] = BAD_COUNTS
            inner = outer
    return torch.cat(list(parts)), statuses.tolist()


def sums(parts, bases, lengths):
    """The values whose differences are `parts`: prefix sums from each base, modulo 2^bits."""
    flat_M = torch.cat(list(parts))
    base_C = torch.tensor(bases, dtype=torch.int64).to(flat_M.dtype).to(flat_M.device)
    if len(set(lengths)) == 1:
        sums_CM = flat_M.view(len(lengths), -1).cumsum(1, dtype=flat_M.dtype)
        return sums_CM.add_(base_C[:, None]).unbind(0)
    at = torch.tensor([0, *lengths[:-1]]).cumsum(0).to(flat_M.device)
    flat_M[at] += base_C
    total_M = flat_M.cumsum(0, dtype=flat_M.dtype)
    before_C = total_M[at] - flat_M[at]
    parts = total_M.split(lengths)
    return [part.sub_(before) for part, before in zip(parts, before_C, strict=True)]


def expand(parts, repeats, lengths):
    """(chunks, bad): each value as often as its count says; `bad` marks chunks, shape (C,),
    whose counts are not positive or do not add up to their length. Those get harmless counts,
    so that nothing larger than `lengths` is ever allocated."""
    values_M, counts_M = torch.cat(list(parts)), torch.cat(list(repeats)).long()
    inner = [len(part) for part in parts]
    total_C = bit_packing.per_stream("sum", counts_M, inner)
    least_C = bit_packing.per_stream("amin", counts_M, inner)
    want_C = torch.tensor(lengths, device=counts_M.device)
    bad_C = ((total_C != want_C) | (least_C < 1)).cpu().numpy()
    for k in bad_C.nonzero()[0].tolist():
        begin = sum(inner[:k])
        counts_M[begin : begin + inner[k]] = 1
        counts_M[begin] = lengths[k] - inner[k] + 1
    flat_N = torch.repeat_interleave(values_M, counts_M, output_size=sum(lengths))
    return flat_N.split(lengths), bad_C
