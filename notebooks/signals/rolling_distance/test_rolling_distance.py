"""Rolling distances: equal to the definition, also where the arithmetic is hard, and clear
about what they refuse."""

import warnings

import numpy as np
import overlap_save
import pytest
import rolling_distance as rd
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

MEASURES = ["sdist", "mdist", "zdist"]
MODES = ["naive", "fft"]
DTYPES = [np.float64, np.float32]
DEVICES = [
    "cpu",
    pytest.param(
        "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
    ),
]
# after the square root, as the race compares: float32 keeps 7 digits, of which the sums of
# M terms use up to three
RELATIVE = {np.float64: 1e-8, np.float32: 1e-3}


def reference(measure, query, stream):
    """A measure by the definition, one window at a time in float64, O(N M)."""
    query, stream = np.asarray(query, np.float64), np.asarray(stream, np.float64)

    def normalised(x):
        if measure == "zdist":
            return 0 * x if np.ptp(x) == 0 else (x - x.mean()) / x.std()
        return x - x.mean() if measure == "mdist" else x

    distances = np.full(len(stream) - len(query) + 1, np.inf)
    for j in range(len(distances)):
        window = stream[j : j + len(query)]
        if np.isfinite(window).all():
            distances[j] = np.sum((normalised(window) - normalised(query)) ** 2)
    return distances


@pytest.fixture(params=["compiled", "torch"])
def passes(request, monkeypatch):
    """A test that asks for this runs with compiled passes over blocks, and with torch's."""
    if request.param == "torch":
        monkeypatch.setattr(overlap_save, "compiled_passes", None)
    elif overlap_save.compiled_passes is None:
        pytest.skip("numba is not installed here")
    return request.param


def both(measure, query, stream, **kwargs):
    return getattr(rd, measure)(query, stream, **kwargs), reference(measure, query, stream)


def assert_close(got, want, dtype):
    scale = np.sqrt(want[np.isfinite(want)].max(initial=0))
    np.testing.assert_allclose(
        np.sqrt(got), np.sqrt(want), rtol=RELATIVE[dtype], atol=RELATIVE[dtype] * scale * 1e-2
    )


def walk(length, seed=0, offset=0.0):
    return np.random.default_rng(seed).standard_normal(length).cumsum() + offset


@pytest.mark.usefixtures("passes")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "n, m", [(1, 1), (7, 1), (7, 7), (50, 3), (4096, 421), (4097, 2), (5003, 127)]
)
def test_equals_the_definition(n, m, device, dtype, measure, mode):
    query, stream = walk(m, 1).astype(dtype), walk(n).astype(dtype)
    got = getattr(rd, measure)(
        torch.tensor(query, device=device), torch.tensor(stream, device=device), mode
    )
    assert got.device.type == device and got.numpy(force=True).dtype == dtype
    assert_close(got.numpy(force=True), reference(measure, query, stream), dtype)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("measure", MEASURES)
def test_long_query_takes_longer_blocks(measure, mode):
    got, want = both(measure, walk(1501, 1), walk(9011), mode=mode)
    assert_close(got, want, np.float64)


@pytest.mark.usefixtures("passes")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("measure", MEASURES)
def test_a_large_offset_costs_no_digits(measure, dtype):
    stream = (np.random.default_rng(2).standard_normal(9_000) + 1000).astype(dtype)
    query = stream[700:1121] * dtype(1.5) - dtype(490)
    assert_close(*both(measure, query, stream), dtype)


def test_float32_statistics_survive_20_million_points():
    n, m = 20_000_000, 421
    stream = torch.randn(n, generator=torch.Generator().manual_seed(3)) + 1000
    mean, std = rd.rolling_mean_std(stream, m)
    for j in (0, 1, 9_999_999, n - m):
        window = stream[j : j + m].double()
        assert (
            abs(mean[j] - window.mean()) < 1e-4
        )  # half a unit in the last place of 1000 is 3e-5
        assert abs(std[j] / window.std(correction=0) - 1) < 1e-6


@pytest.mark.usefixtures("passes")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("measure", MEASURES)
def test_quiet_windows_beside_an_outlier_stay_exact(measure, dtype):
    stream = np.random.default_rng(4).standard_normal(9000)
    stream[4000] = 1e6
    stream[6000:6500] *= 1e-4
    stream = stream.astype(dtype)
    assert_close(*both(measure, stream[6100:6150] + dtype(0.1), stream), dtype)


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_copy_of_the_query_has_distance_zero(measure, dtype):
    stream = walk(20_000, 5, offset=1e4).astype(dtype)
    got = getattr(rd, measure)(stream[9000:9421], stream)
    assert got[9000] == 0 and got.argmin() == 9000 and (got >= 0).all()


@pytest.mark.usefixtures("passes")
@pytest.mark.parametrize("measure", MEASURES)
def test_blocks_without_a_window_in_doubt_are_not_computed_again(measure, monkeypatch):
    calls, repair = [], rd._repair
    monkeypatch.setattr(rd, "_repair", lambda *a: calls.append(a[4]) or repair(*a))
    stream = walk(1_100_000, 5)
    query = stream[600_000:600_421] + walk(421, 6)  # another shape: nowhere at home
    getattr(rd, measure)(query, stream)
    assert not calls
    assert getattr(rd, measure)(stream[600_000:600_421], stream)[600_000] == 0
    assert (
        len(calls) == 1 and calls[0] <= 600_000 < calls[0] + overlap_save.POINTS_AT_ONCE["cpu"]
    )


def test_a_distance_below_the_limit_or_nan_is_in_doubt():
    if overlap_save.compiled_passes is None:
        pytest.skip("numba is not installed here")
    below = overlap_save.compiled_passes._below
    assert below(1.0, np.array([0.5, np.nan, 1.0, 2.0])) == 2
    assert below(np.nan, np.array([0.5, 2.0], np.float32)) == 2


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("window", [1, 421, 4096])
def test_compiled_and_torch_passes_see_the_same_blocks(dtype, window, monkeypatch):
    rows = torch.tensor(walk(3 * 4096, 21, offset=50).astype(dtype)).view(3, 4096)
    space = overlap_save.Workspace(rows.device)
    one = overlap_save.CentredBlocks(rows, window, rows.dtype, space)
    monkeypatch.setattr(overlap_save, "compiled_passes", None)
    two = overlap_save.CentredBlocks(
        rows, window, rows.dtype, overlap_save.Workspace(rows.device)
    )
    # a block's mean may round otherwise: 4e-6 in float32, in each of 4,096 terms of a sum
    slack = 0.02 if dtype == np.float32 else 1e-8
    for name in ("values_BL", "sum_BJ", "energy_BJ", "least_B1", "energy_error_B1"):
        a, b = getattr(one, name).double(), getattr(two, name).double()
        torch.testing.assert_close(a, b, rtol=1e-5, atol=slack)


@pytest.mark.usefixtures("passes")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("measure", MEASURES)
def test_constant_windows_have_no_shape(measure, mode):
    stream = walk(9000, 6)
    stream[100:700], stream[5000:] = 7.25, -1.0
    got, want = both(measure, walk(50, 7), stream, mode=mode)
    assert_close(got, want, np.float64)
    if measure == "zdist":
        assert (got[100:651] == 50).all()


@pytest.mark.usefixtures("passes")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("measure", MEASURES)
def test_constant_query(measure, mode):
    stream = walk(5000, 8)
    stream[1000:2000] = 0.1
    got, want = both(measure, np.full(64, 0.1), stream, mode=mode)
    assert_close(got, want, np.float64)
    assert (got[1000:1937] < 1e-20).all()  # sdist rounds its mean; the others are exactly 0


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_only_windows_that_touch_a_bad_sample_are_lost(measure, mode, bad):
    stream = walk(6_000, 9, offset=50)
    stream[[0, 4300, 5_999]] = bad
    got, want = both(measure, walk(30, 10), stream, mode=mode)
    assert np.isinf(got).sum() == 1 + 30 + 1
    assert_close(got, want, np.float64)


@pytest.mark.parametrize("measure", MEASURES)
def test_integers_and_strides_need_no_preparation(measure):
    raw = np.random.default_rng(11).integers(-1000, 1000, (6000, 2), dtype=np.int16)
    for stream in (raw[:, 1], raw[::-1, 1]):
        got, want = both(measure, stream[100:137], stream)
        assert got.dtype == np.float64
        assert_close(got, want, np.float64)
    torch_strided = torch.tensor(raw)[:, 1]
    assert torch.equal(
        getattr(rd, measure)(torch_strided[:40], torch_strided), rd_copy(measure, torch_strided)
    )


def test_floats_that_lie_apart_or_on_one_place_are_read_as_they_are():
    apart, same = torch.tensor(walk(18_000).reshape(9000, 2))[:, 1], torch.ones(1).expand(9000)
    got, want = rd.zdist(apart[:40], apart), rd_copy("zdist", apart)
    torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-9)  # sums in another order
    assert (rd.zdist(torch.arange(9.0), same) == 9).all()


def rd_copy(measure, stream):
    return getattr(rd, measure)(stream[:40].contiguous(), stream.contiguous())


def test_half_precision_counts_as_float32():
    stream = torch.tensor(walk(500, 12) / 10, dtype=torch.float16)
    assert rd.zdist(stream[:20], stream).dtype == torch.float32


def test_many_queries_equal_one_at_a_time():
    queries, stream = walk(5 * 64, 13).reshape(5, 64), walk(9000, 14)
    for measure in MEASURES:
        got = getattr(rd, measure)(queries, stream)
        assert got.shape == (5, 9000 - 63)
        for row, query in zip(got, queries, strict=True):
            np.testing.assert_array_equal(row, getattr(rd, measure)(query, stream))


class ThroughDlpack:
    """An array of another library, as far as anybody can see: only the two DLPack
    methods."""

    def __init__(self, tensor):
        self.__dlpack__, self.__dlpack_device__ = (tensor.__dlpack__, tensor.__dlpack_device__)


def test_dlpack_in_tensor_out():
    stream = torch.tensor(walk(900, 15))
    got = rd.zdist(ThroughDlpack(stream[:40].clone()), ThroughDlpack(stream))
    assert torch.equal(got, rd.zdist(stream[:40], stream))


def test_input_is_never_written_to():
    stream, query = walk(9000, 16), walk(100, 17)
    stream[50] = np.nan
    before = stream.copy(), query.copy()
    stream.setflags(write=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for measure in MEASURES:
            getattr(rd, measure)(query, stream)
    np.testing.assert_array_equal((stream, query)[0], before[0])
    np.testing.assert_array_equal(query, before[1])


@pytest.fixture
def threads():
    """A function that sets torch's number of threads; it is put back."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize("measure", MEASURES)
def test_the_number_of_threads_changes_no_digit(measure, threads):
    stream = torch.tensor(walk(1_100_000, 20))  # five groups of blocks, the last of one block
    stream[600_000:600_100] = stream[50]  # some windows are computed again
    query, found = stream[1000:1064], []
    for count in (1, 2, 3):
        threads(count)
        found.append((getattr(rd, measure)(query, stream), *rd.rolling_mean_std(stream, 64)))
        assert torch.get_num_threads() == count
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))


def test_an_error_in_a_thread_is_raised_and_leaves_torch_its_threads(threads, monkeypatch):
    threads(2)
    monkeypatch.setattr(rd, "_repair", lambda *a: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        rd.zdist(walk(64), walk(1_100_000))
    assert torch.get_num_threads() == 2


def test_working_memory_does_not_grow_with_the_stream(monkeypatch):
    taken = []
    take = overlap_save.Workspace.take
    monkeypatch.setattr(
        overlap_save.Workspace, "take", lambda *a, **k: taken.append(t := take(*a, **k)) or t
    )
    biggest = []
    for n in (1 << 19, 1 << 21):
        taken.clear()
        rd.zdist(walk(64, 18), np.zeros(n) + walk(n, 19))
        biggest.append(
            sum({t.data_ptr(): t.numel() * t.element_size() for t in taken}.values())
        )
    assert biggest[0] == biggest[1] < 40e6


def test_auto_picks_by_the_query_length(monkeypatch, passes):
    seen = []
    for name in ("correlate", "correlate_directly"):
        method = getattr(overlap_save.CentredBlocks, name)
        monkeypatch.setattr(
            overlap_save.CentredBlocks,
            name,
            lambda *a, n=name, f=method: seen.append(n) or f(*a),
        )
    for dtype, length in rd.CROSSOVER[passes].items():
        stream = torch.tensor(walk(200), dtype=dtype)
        rd.zdist(stream[: length - 1], stream)
        rd.zdist(stream[:length], stream)
    assert seen == ["correlate_directly", "correlate"] * 2


@pytest.mark.parametrize(
    "query, stream, said",
    [
        (np.ones(5), np.ones(4), "1 to 4 points"),
        (np.array([]), np.ones(4), "at least one point"),
        (np.array([1, np.nan]), np.ones(4), "finite"),
        (np.ones((2, 2, 2)), np.ones(4), "1 or 2 axis"),
        (np.ones(2), np.ones((4, 4)), "stream must be real with 1 axis"),
        (np.ones(2), np.ones(4, complex), "real numbers"),
        (np.ones(2), np.array(["a"] * 4), "real numbers"),
        (torch.ones(2, device="meta"), torch.ones(4), "one device is needed"),
    ],
)
def test_refuses_with_a_reason(query, stream, said):
    with pytest.raises(ValueError, match=said):
        rd.zdist(query, stream)


def test_refuses_an_unknown_mode():
    with pytest.raises(ValueError, match='"naive" or "fft", got \'fast\''):
        rd.sdist(np.ones(2), np.ones(4), mode="fast")


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 60), st.integers(0, 300), st.integers(0, 10_000))
def test_laws_hold_for_any_lengths(m, extra, seed):
    query, stream = walk(m, seed), walk(m + extra, seed + 1)
    s, d, z = (getattr(rd, name)(query, stream) for name in MEASURES)
    tolerance = 1e-8 * (1 + s.max())
    assert (d <= s + tolerance).all()  # removing the means can only bring two windows nearer
    assert (z <= 4 * m + tolerance).all() and (z >= 0).all()
    np.testing.assert_allclose(rd.mdist(query + 3, stream - 5), d, atol=tolerance)
    if m > 1:
        np.testing.assert_allclose(
            rd.zdist(2 * query + 3, 7 * stream - 5), z, rtol=1e-6, atol=1e-6
        )


@pytest.mark.usefixtures("passes")
@pytest.mark.parametrize("dtype", DTYPES)
def test_rolling_statistics_equal_numpy(dtype):
    stream = walk(9000, 20, offset=300).astype(dtype)
    stream[3000:3500] = 2.5
    stream[77] = np.nan
    windows = np.lib.stride_tricks.sliding_window_view(stream.astype(np.float64), 33)
    mean, std = rd.rolling_mean_std(stream, 33)
    lost = ~np.isfinite(windows).all(1)
    assert np.isinf(mean[lost]).all() and np.isinf(std[lost]).all() and lost.sum() == 33
    np.testing.assert_allclose(mean[~lost], windows[~lost].mean(1), rtol=1e-6)
    np.testing.assert_allclose(std[~lost], windows[~lost].std(1), rtol=1e-5, atol=1e-12)
