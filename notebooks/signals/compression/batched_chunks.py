"""The low-level interface: many chunks in one call, into memory that the caller allocated, with
one size and one status for each chunk.

As in the article's interface a bad chunk raises nothing: it gets a status, the others are
decoded. Outputs are the caller's. What a codec needs in between it allocates, where nvCOMP asks
its caller for that, too. By its tags nvCOMP 2.0.0 had batched calls for LZ4 and Snappy alone;
Cascaded and Bitcomp followed in 2.1, checks of bounds with them.

Legend: C chunks, S bytes of the largest output.
"""

import cascaded_chunks
import lz4_block
import numpy as np
import snappy_raw
import torch

OK, TOO_SMALL, BAD_DATA = 0, 16, 17  # a status; 1 to 3 say what is wrong with a cascaded chunk
BYTE_CODECS = {"lz4": lz4_block, "snappy": snappy_raw}
LAYERS = cascaded_chunks.Layers()  # one of each


def max_compressed_bytes(codec, size, layers=LAYERS, itemsize=1):
    """Bytes that a chunk of `size` bytes needs at most, 65,809 for 65,536 in LZ4; `itemsize`
    bytes of one value, for Cascaded. What cannot be compressed grows: by a length byte for each
    255 literals (LZ4), by at most a sixth (Snappy), by a count for each value and each
    run-length layer (Cascaded, whose frame stores such a chunk as it is)."""
    if codec in BYTE_CODECS:
        return BYTE_CODECS[codec].max_encoded_bytes(size)
    return cascaded_chunks.max_bytes(size // itemsize, itemsize, layers)


def compress(codec, chunks, out_CS, sizes_C, statuses_C, layers=LAYERS):
    """None; fills row k of `out_CS` with chunk k, `sizes_C` and `statuses_C`, NumPy int64 both.

    `chunks`: one-dimensional tensors, of one signed integer dtype for "cascaded" (view others
    as one), uint8 for "lz4" and "snappy", one value or more; out_CS uint8. A chunk that does
    not fit gets TOO_SMALL and size 0; `max_compressed_bytes` always fits.
    Raises ValueError for another codec or dtype, an empty chunk, and outputs of other lengths
    than `chunks`."""
    _check(codec, chunks, out_CS, sizes_C, statuses_C)
    _check_dtypes(codec, chunks)
    if codec == "cascaded" and chunks:
        lengths = [len(chunk) for chunk in chunks]
        packed = cascaded_chunks.encode(torch.cat(list(chunks)), lengths, layers)
    else:
        packed = [BYTE_CODECS[codec].encode(_bytes(chunk)) for chunk in chunks]
    for k, chunk in enumerate(packed):
        fits = len(chunk) <= out_CS.shape[1]
        statuses_C[k], sizes_C[k] = (OK, len(chunk)) if fits else (TOO_SMALL, 0)
        if fits:
            out_CS[k, : len(chunk)] = torch.frombuffer(bytearray(chunk), dtype=torch.uint8)


def decompress(codec, packed, outs, sizes_C, statuses_C, layers=LAYERS):
    """None; fills the tensors `outs` with the C chunks `packed`, bytes-like, and `sizes_C` and
    `statuses_C`, NumPy int64 both.

    `outs`: one-dimensional tensors as long as each chunk must be, signed integers of one dtype
    for "cascaded", else uint8. A chunk that does not hold exactly that gets a status and size
    0, and what its output holds then means nothing. Raises ValueError as `compress`."""
    _check(codec, packed, outs, sizes_C, statuses_C)
    _check_dtypes(codec, outs)
    if codec == "cascaded" and outs:
        lengths = [len(out) for out in outs]
        first = outs[0]
        values_N, found = cascaded_chunks.decode(
            packed, lengths, layers, first.dtype, first.device
        )
        statuses_C[:] = found
        for out, values in zip(outs, values_N.split(lengths), strict=True):
            out.copy_(values)
    else:
        for k, (chunk, out) in enumerate(zip(packed, outs, strict=True)):
            try:
                found = BYTE_CODECS[codec].decode(chunk, len(out))
            except ValueError:
                statuses_C[k] = BAD_DATA
                continue
            statuses_C[k] = OK
            if found:
                out.copy_(torch.frombuffer(bytearray(found), dtype=torch.uint8))
    good = np.asarray(statuses_C) == OK
    sizes_C[:] = np.where(good, [out.numel() * out.element_size() for out in outs], 0)


def _bytes(chunk):
    return chunk.cpu().numpy().tobytes()


def _check(codec, chunks, outs, sizes_C, statuses_C):
    if codec not in ("cascaded", *BYTE_CODECS):
        raise ValueError(f"codec {codec!r}; allowed are cascaded, lz4, snappy")
    lengths = [len(chunks), len(outs), len(sizes_C), len(statuses_C)]
    if len(set(lengths)) != 1:
        raise ValueError(
            f"chunks, outputs, sizes, statuses of lengths {lengths}: must be equal"
        )


def _check_dtypes(codec, tensors):
    """One dtype, and one that the codec takes; no tensor may be empty."""
    allowed = set(cascaded_chunks.SIGNED.values()) if codec == "cascaded" else {torch.uint8}
    found = {tensor.dtype for tensor in tensors}
    if len(found) > 1 or found - allowed:
        told = f"{sorted(map(str, found))}; {codec} takes one of {sorted(map(str, allowed))}"
        raise ValueError(f"chunks of {told} in a call")
    if not all(tensor.numel() for tensor in tensors):
        raise ValueError("a chunk has no values; each needs one at least")
