"""The device path equals the CPU's, on a GPU or in Triton's interpreter, and moves the bytes
that the page counts; skipped without Triton."""

import os

import numpy as np
import pytest
import torch
from cascaded_chunks import BAD_COUNTS, OK, Layers, Streams, encode

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when the kernels are defined
pytest.importorskip("triton")
import triton_kernels  # noqa: E402

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LAYERS = [Layers(*x) for x in [(0, 0), (0, 1), (1, 0), (1, 1), (2, 2), (2, 1), (0, 2), (1, 3)]]


def decoded(chunks, lengths, layers, dtype):
    """(values, statuses) by the kernels, of chunks whose headers are right."""
    sizes, lengths = np.array([len(chunk) for chunk in chunks]), np.array(lengths)
    heads = [np.frombuffer(chunk[: layers.header_bytes], np.int64) for chunk in chunks]
    streams = Streams(sizes.cumsum() - sizes, np.stack(heads), layers)
    packed_B = torch.frombuffer(bytearray(b"".join(chunks)), dtype=torch.uint8).to(DEVICE)
    out_N = torch.zeros(int(lengths.sum()), dtype=dtype, device=DEVICE)
    places = lengths.cumsum() - lengths
    return out_N, triton_kernels.decode(out_N, packed_B, streams, lengths, places)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("layers", LAYERS, ids=str)
def test_every_setting_gives_the_same_values_back(dtype, layers):
    low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    noise = torch.randint(low, high, (77,), generator=torch.Generator().manual_seed(0))
    runs = torch.arange(20).repeat_interleave(torch.arange(20))
    values = torch.cat([runs, torch.tensor([low, high] * 40), noise]).to(dtype)
    cuts = [1, 200, len(values) - 201]
    found, statuses = decoded(encode(values, cuts, layers), cuts, layers, dtype)
    assert torch.equal(found.cpu(), values) and not statuses.any()


@pytest.mark.parametrize("count", [1, 1024, 1025, 16_384])
def test_a_stream_may_be_longer_than_what_a_program_has_at_once(count):
    values = (torch.arange(count) // 3 * 7).to(torch.int32)
    for layers in (Layers(0, 1), Layers(1, 1)):
        found, _ = decoded(encode(values, [count], layers), [count], layers, torch.int32)
        assert torch.equal(found.cpu(), values)


@pytest.mark.parametrize("counts", [[11, -1], [0, 10], [10, 10], [1, 1]])
def test_counts_that_do_not_add_up_are_refused_and_spoil_no_other_chunk(counts):
    layers = Layers(1, 0)
    good = encode(torch.tensor([7] * 9 + [8]), [10], layers)[0]
    head = np.array([2 | 32 << 32, 0, 2 | 1 << 32, 7])
    packed = np.zeros(32, np.uint32)  # of the only lane: a word a value, for there are 32 bits
    packed[:2] = np.array(counts, np.int32).view(np.uint32)
    bad = head.tobytes() + packed.tobytes() + b"\2"  # values 7 and 8: bits 0 and 1
    found, statuses = decoded([good, bad, good], [10] * 3, layers, torch.int64)
    assert statuses.tolist() == [OK, BAD_COUNTS, OK]
    assert found[:10].tolist() == found[20:].tolist() == [7] * 9 + [8]


@pytest.fixture
def tally(monkeypatch):
    """The bytes that the interpreter's programs load and store, and where they load."""
    if DEVICE == "cuda":
        pytest.skip("only the interpreter shows each load and store")
    from triton.runtime.interpreter import InterpreterBuilder

    found = {"loaded": 0, "stored": 0, "addresses": []}
    load, store = InterpreterBuilder.create_masked_load, InterpreterBuilder.create_masked_store

    def loading(self, ptrs, mask, *more, **named):
        got = load(self, ptrs, mask, *more, **named)
        at = ptrs.data[np.broadcast_to(mask.data, ptrs.data.shape)].ravel()
        found["loaded"] += at.size * got.data.itemsize
        found["addresses"].append(at)
        return got

    def storing(self, ptrs, value, mask, *more, **named):
        size = ptrs.dtype.element_ty.primitive_bitwidth // 8
        found["stored"] += size * int(np.broadcast_to(mask.data, ptrs.data.shape).sum())
        return store(self, ptrs, value, mask, *more, **named)

    monkeypatch.setattr(InterpreterBuilder, "create_masked_load", loading)
    monkeypatch.setattr(InterpreterBuilder, "create_masked_store", storing)
    return found


def test_a_column_of_differences_moves_the_bytes_that_the_page_counts(tally):
    """Ten bits a value lie in words of 16, and half of the rows need two of them."""
    steps = torch.randint(0, 1000, (16_384,), generator=torch.Generator().manual_seed(0))
    values = steps.cumsum(0).to(torch.int32)
    chunks = encode(values, [16_384], Layers(0, 1))
    found, _ = decoded(chunks, [16_384], Layers(0, 1), torch.int32)
    assert torch.equal(found, values)
    table = 6 * 8 + 4  # a launch's line of the table, and the status
    assert tally["stored"] == values.nbytes
    assert tally["loaded"] == 16_384 * 1.5 * 2 + 6 * 8
    distinct = len(np.unique(np.concatenate([at.ravel() for at in tally["addresses"]])))
    assert distinct <= 16_384 * 10 / 8 + table
    assert values.nbytes / (tally["stored"] + tally["loaded"]) > 0.5  # of the memory's rate


def test_runs_write_each_value_once_beside_two_bytes_of_marks(tally):
    values = torch.arange(64, dtype=torch.int32).repeat_interleave(256)
    decoded(encode(values, [16_384], Layers(1, 0)), [16_384], Layers(1, 0), torch.int32)
    runs = 64 * (4 + 4 + 1)  # counts and values once, and a mark
    assert tally["stored"] == values.nbytes + 16_384 + runs + 4
