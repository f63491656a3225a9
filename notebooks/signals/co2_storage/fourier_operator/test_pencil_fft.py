"""Pencils equal one process, forward and backward, and send what the count says."""

import json
import multiprocessing
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from . import pencil_fft
from .pencil_fft import Pencils, PencilSpectralConv, exchange_bytes, memory_bytes, shares
from .spectral_conv import SpectralConv

SIZES, MODES, CHANNELS, BATCH = (20, 18, 14), (4, 3, 5), 3, 2  # the defaults of `compare`
FEW = (4, 1, 1)  # two waves along Y, one along Z: fewer than processes


@pytest.fixture
def alone(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def several(rank, meet, size, results):
    """One of `size` processes: the first puts the comparison of every grid into `results`."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=meet, rank=rank, world_size=size)
    grids = [(p, size // p) for p in range(1, size + 1) if size % p == 0]
    found = [pencil_fft.compare(*grid) for grid in grids]
    few = [pencil_fft.compare(*grid, modes=FEW) for grid in grids]
    if rank == 0:
        results.put((found, few))
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """The comparisons of four processes, by grid: of many waves, and of `FEW`."""
    start = multiprocessing.get_context("forkserver")
    start.set_forkserver_preload(["fourier_operator.pencil_fft"])
    results, meet = start.SimpleQueue(), f"file://{tmp_path_factory.mktemp('meet')}/4"
    workers = [
        start.Process(target=several, args=(rank, meet, 4, results)) for rank in range(4)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert [worker.exitcode for worker in workers] == [0] * 4
    return [{tuple(one["grid"]): one for one in found} for found in results.get()]


@pytest.mark.parametrize("length, parts", [(7, 3), (3, 4), (8, 2), (5, 1)])
def test_shares_add_up_and_are_even(length, parts):
    found = shares(length, parts)
    assert sum(found) == length and max(found) - min(found) <= 1


def test_one_process_equals_the_layer(alone):
    found = pencil_fft.compare(1, 1)
    assert max(found[key] for key in ("answer", "field gradient", "weight gradient")) < 1e-12
    assert found["bytes"] == 0


@pytest.mark.parametrize("p, q", [(1, 4), (2, 2), (4, 1)])
def test_several_processes_equal_one(compared, p, q):
    found = compared[0][p, q]
    worst = max(found[key] for key in ("answer", "field gradient", "weight gradient"))
    assert worst < 1e-12, "float64, sums of some thousand terms"
    assert found["weights"] == CHANNELS**2 * 2 * MODES[0] * 2 * MODES[1] * MODES[2]
    assert found["cells"] == BATCH * CHANNELS * 20 * 18 * 14


@pytest.mark.parametrize("p, q", [(1, 4), (2, 2), (4, 1)])
def test_processes_that_own_no_wave_take_part(compared, p, q):
    found = compared[1][p, q]
    worst = max(found[key] for key in ("answer", "field gradient", "weight gradient"))
    assert worst < 1e-12 and found["weights"] == CHANNELS**2 * 2 * FEW[0] * 2 * FEW[1] * FEW[2]


def test_what_is_sent_is_what_the_count_says(compared):
    once = BATCH * exchange_bytes(SIZES, MODES, CHANNELS, 2, 2)  # pieces of about one size
    # complex128 is twice the count's 8 bytes
    assert compared[0][2, 2]["bytes"] == pytest.approx(2 * 4 * once, rel=0.11)


@pytest.mark.slow
def test_the_launcher_of_torch_starts_it():
    launch = f"{sys.executable} -m torch.distributed.run --nproc-per-node 2"
    launch += " --rdzv-backend c10d --rdzv-endpoint 127.0.0.1:0 -m fourier_operator.pencil_fft"
    home = Path(__file__).parents[1]
    done = subprocess.run(launch.split(), cwd=home, timeout=120, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert [one["grid"] for one in json.loads(done.stdout.splitlines()[-1])] == [[1, 2], [2, 1]]


def test_bytes_of_two_processes_by_hand():
    # each of two holds 20 · 9 lines of 5 modes and sends half of them, there and back
    assert exchange_bytes((20, 18, 14), (4, 3, 5), 1, 1, 2) == 2 * 8 * 20 * 9 * 5 / 2


def test_one_process_sends_nothing_and_holds_all():
    assert exchange_bytes((20, 18, 14), (4, 3, 5), 1, 1, 1) == 0
    weights, cells = memory_bytes((20, 18, 14), (4, 3, 5), 3, 1, 1)
    assert weights == 8 * 9 * 8 * 6 * 5 and cells == 2 * 4 * 3 * 20 * 18 * 14


def test_another_number_of_processes_is_refused(alone):
    with pytest.raises(ValueError, match="2 × 2 pencils for 1 processes"):
        Pencils(2, 2)


def test_another_number_of_axes_is_refused(alone):
    with pytest.raises(ValueError, match="2 axes: pencils are made for three"):
        PencilSpectralConv(SpectralConv(1, 1, (2, 2)), Pencils(1, 1))


def test_both_ends_of_an_axis_come_back_to_their_places():
    v = torch.arange(10.0)
    found = pencil_fft.spread(pencil_fft.ends(v, 0, 3), 0, 3, 10)
    assert found.tolist() == [0, 1, 2, 0, 0, 0, 0, 7, 8, 9]
