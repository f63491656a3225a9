"""The cascade finds the same best match as computing every distance."""

import numpy as np
import pytest
import torch
from lower_bound_cascade import nearest
from rolling_distance import zdist


def walk(length, seed):
    return torch.tensor(np.random.default_rng(seed).standard_normal(length).cumsum())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("n, m", [(3, 3), (500, 2), (5000, 64), (17_001, 101)])
def test_equals_the_full_search(n, m, dtype):
    query, stream = walk(m, n).to(dtype), walk(n, m).to(dtype)
    every = zdist(query, stream)
    found = nearest(query, stream)
    assert found.distance == pytest.approx(
        float(every.min()), rel=1e-4
    )  # float32 may rank near-ties differently
    assert float(every[found.position]) == pytest.approx(float(every.min()), rel=1e-4)


def test_compares_few_points_after_a_close_match():
    stream = walk(100_000, 1)
    found = nearest(stream[5_000:5_421] * 3 + 7, stream)
    assert found.position == 5_000 and found.distance < 1e-12
    assert found.compared < 0.05 * 100_000 * 421


def test_skips_what_it_is_told_to_skip():
    stream = walk(20_000, 2)
    every = zdist(stream[5000:5100], stream)
    every[4901:5100] = torch.inf
    assert nearest(stream[5000:5100], stream, skip=range(4901, 5100)).position == int(
        every.argmin()
    )


def test_flat_and_bad_windows():
    stream = walk(5000, 3)
    stream[1000:2000], stream[3000] = 4.0, torch.nan
    every = zdist(stream[200:240], stream)
    every[:240] = torch.inf
    found = nearest(stream[200:240], stream, skip=range(240))
    assert found.position == int(every.argmin()) and found.distance == pytest.approx(
        float(every.min())
    )


def test_a_flat_window_may_be_the_nearest():
    query = torch.arange(30.0)
    stream = torch.cat([torch.full((50,), 2.0), -query])
    every = zdist(query, stream)
    found = nearest(query, stream)
    assert found.distance == pytest.approx(float(every.min()))
    stream = torch.cat([torch.full((30,), 2.0), 100 - query])
    assert (
        nearest(query, stream, skip=range(1, 31)).distance == 30
    )  # flat: M; the mirror image: 4 M


def test_no_window_left():
    assert nearest(torch.ones(3), torch.full((9,), torch.nan)).position == -1


def test_the_stream_is_not_written_to():
    stream = walk(3000, 4)
    before = stream.clone()
    nearest(stream[:50], stream)
    assert torch.equal(stream, before)
