"""The rehearsal from outside: its tests in a process of their own, a chapter with planted mistakes, the formula."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rehearsal import predict
from rehearsal.counts import Counts, rounded

ROOT = Path(__file__).resolve().parents[1]


def python(*arguments, **options):
    """A finished process of this Python with the book on its path and one thread."""
    own = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, env={**os.environ, **own}, capture_output=True, text=True, timeout=300, **options)


def test_the_devices_own_tests_pass_on_it():
    options = ["-q", "-n0", "-p", "rehearsal.plugin", "-p", "no:cacheprovider", "rehearsal/on_device"]
    done = python("-m", "pytest", *options, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert "skipped" not in done.stdout and "in this process: operations" in done.stdout


SLICE = """
import pytest
import torch

NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")


@pytest.mark.parametrize("where", ["cpu", pytest.param("cuda", marks=NO_GPU)])
def test_one(where):
    assert torch.ones(2).to(where).device.type == where


@pytest.mark.card
@NO_GPU
def test_time():
    raise AssertionError("it ran")


@NO_GPU
def test_mixed():
    for row in torch.ones(4, 2, device="cuda"):
        row.sum().item()
    torch.ones(2).cuda() + torch.ones(2)
"""


def test_a_slices_tests_for_a_gpu_run_and_fail_on_the_pretended_one(tmp_path):
    (tmp_path / "test_slice.py").write_text(SLICE)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = card: a card's\n")
    done = python("-m", "pytest", "-q", "-n1", "-rs", "-p", "rehearsal.plugin", "--only-gpu", tmp_path, cwd=tmp_path)
    assert "1 failed, 1 passed, 1 skipped in" in done.stdout, done.stdout
    for told in ("only a real GPU can show it", "same device", "test_slice.py:22: host read in a loop", "4 times"):
        assert told in done.stdout


PLANTED = {
    3: "import torch\nx = torch.ones(64, 8, device='cuda')\nhost = torch.full((64, 8), 0.5)",
    5: "y = x + 1\nz = y + host\nlost = 1",  # tensors of both devices
    6: "total = 0.0\nfor row in x:\n    total += row.sum().item()",  # a read of the host in a loop
    8: "for _ in range(2):\n    there = host.to('cuda')",  # the same bytes again
    9: "lost + 1",  # only follows from cell 5
    10: "torch.compile(torch.sin)(x)",
    11: "from helpers import bench\nbench.measure(lambda: x.sum(), device='cuda')\n"
    "bench.measure(lambda: host.sum(), device='cuda')\nbench.measure(lambda: host.sum(), device='cpu')",
    12: "ok = (x * 2).sum()",
    13: "import subprocess, sys\ncode = 'import importlib.util as u; u.find_spec(\"torch\"); import torch; '\n"
    "code += 'print(torch.ones(2, device=\"cuda\").sum())'\n"
    "told = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True).stdout\n"
    "assert told.strip() == \"tensor(2., device='cuda:0')\", told",
}


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory):
    """What rehearsing the planted cells told."""
    folder = tmp_path_factory.mktemp("scratch")
    cells = [{"index": index, "source": source} for index, source in PLANTED.items()]
    task = {"cells": cells, "report": str(folder / "report.json"), "seconds": 60}
    (folder / "task.json").write_text(json.dumps(task))
    done = python("-W", "ignore", "-m", "rehearsal.chapter", folder / "task.json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "report.json").read_text())


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        ("cell 5, line 2", "same device"),
        ("cell 6, line 3:", "host read in a loop: a value is read (item, float, bool, print), 64 times"),
        ("cell 8, line 2:", "needless transfer: the same bytes go up again, 1 times"),
        ("cell 11, line 3:", "timed as a GPU's, and nothing ran there"),
        ("cell 10", "torch.compile cannot be rehearsed without a GPU: its kernels"),
    ],
)
def test_a_planted_mistake_is_found_and_named_by_its_cell(rehearsed, cell, says):
    assert [line for line in rehearsed["findings"] if line.startswith(cell) and says in line], rehearsed["findings"]


def test_what_is_right_or_follows_from_a_mistake_is_no_finding(rehearsed):
    assert len(rehearsed["findings"]) == 5
    told = {entry["cell"]: entry for entry in rehearsed["cells"]}
    assert told[9]["follows"] and "NameError" in told[9]["error"]
    assert "error" not in told[12] and told[12]["operations"] == 2


def test_a_process_that_a_cell_starts_has_the_device_too(rehearsed):
    assert "error" not in {entry["cell"]: entry for entry in rehearsed["cells"]}[13]


def test_the_counts_of_a_cell_are_its_own(rehearsed):
    told = {entry["cell"]: entry for entry in rehearsed["cells"]}
    assert told[8]["bytes_up"] == 2 * 64 * 8 * 4 and told[8]["operations"] == 0
    assert told[6]["syncs"] == told[6]["operations"] == 64  # a sum and its read, each row
    assert rehearsed["counts"]["operations"] == sum(entry["operations"] for entry in told.values())


JIT = """
class KernelInterface:
    def __getitem__(self, grid):
        return lambda *args, **kwargs: self.run(*args, grid=grid, **kwargs)

    def run(self, *args, grid):
        return grid
"""
LAUNCH = """
from rehearsal import device, refused
device.install()
import torch
from triton.runtime.jit import KernelInterface
print(KernelInterface()[7](torch.ones(2)))
try:
    KernelInterface()[7](torch.ones(2, device="cuda"))
except refused.CannotRehearse as error:
    print(error)
"""


def test_a_triton_kernel_refuses_tensors_of_the_device_and_takes_the_hosts(tmp_path):
    """Triton's own launcher, in little: the real one takes a gigabyte."""
    (tmp_path / "triton" / "runtime").mkdir(parents=True)
    (tmp_path / "triton" / "__init__.py").touch()
    (tmp_path / "triton" / "runtime" / "__init__.py").touch()
    (tmp_path / "triton" / "runtime" / "jit.py").write_text(JIT)
    done = python("-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{LAUNCH}", cwd=ROOT)
    assert done.stdout.startswith("7\nTriton cannot be rehearsed without a GPU: its kernels are compiled"), done.stderr


CARD = predict.Card("card", 100.0, {"": 10.0, "float16": 40.0}, 20.0, 1000, "made up", "nowhere", 1.0, 2.0, 3.0)


@pytest.mark.parametrize(
    ("work", "links", "waits", "parts"),
    [
        ([("add", "float32", 1000, 0, 2)], [], 0, {"memory": 20}),
        ([("mm", "float32", 100, 400, 3)], [], 0, {"arithmetic": 120}),
        ([("mm", "float16", 100, 400, 1)], [], 0, {"arithmetic": 10}),
        ([("mm", "complex64", 100, 400, 1)], [], 0, {"arithmetic": 40}),
        ([("add", "float32", 1, 0, 7)], [], 0, {"launches": 7}),
        ([], [("up", 40, True, 2)], 0, {"link": 10}),
        ([], [], 5, {"waits": 10}),
        ([], [], 0, {}),
    ],
)
def test_the_formulas_known_answers(work, links, waits, parts):
    found = predict.predict(CARD, work, links, waits, 900)
    assert {name: value for name, value in found.parts.items() if value} == parts
    assert found.seconds == sum(parts.values()) and found.fits
    assert not predict.predict(CARD, work, links, waits, 1001).fits


DATASHEETS = {  # GB/s, GB, link GB/s one way; TFLOPS of float32, TF32, float16, bfloat16, float64: README's sources
    "Tesla T4": (320, 16, 16, 8.1, None, 65, None, 0.2531),
    "A100 SXM 40 GB": (1555, 40, 32, 19.5, 156, 312, 312, 9.7),
    "H100 SXM 80 GB": (3350, 80, 64, 67, 494, 989, 989, 34),
}


def test_the_cards_are_those_of_their_datasheets():
    cards = {card.name: card for tier in predict.CARDS.values() for card in tier}
    assert cards.keys() == DATASHEETS.keys()
    for name, (bandwidth, memory, link, *rates) in DATASHEETS.items():
        card = cards[name]
        assert (card.bytes_per_s, card.memory_bytes, card.link_bytes_per_s) == (
            bandwidth * 1e9,
            memory * 1e9,
            link * 1e9,
        )
        known = dict(zip(("", "tf32", "float16", "bfloat16", "float64"), rates, strict=True))
        assert card.flops_per_s == pytest.approx({kind: 1e12 * rate for kind, rate in known.items() if rate}, rel=1e-4)
        assert (card.launch_s, card.wait_s, card.latency_s) == (5e-6, 10e-6, 10e-6)  # assumed, and said so


def test_a_faster_card_is_never_predicted_slower():
    work = [
        ("mm", kind, size, flops, 9) for kind in ("float32", "float16") for size in (1, 10**9) for flops in (0, 10**13)
    ]
    took = [
        predict.predict(card, work, [("up", 10**9, True, 1)], 3, 0).seconds
        for card in (predict.T4, predict.A100, predict.H100)
    ]
    assert took == sorted(took, reverse=True)


def test_counts_subtract_and_sum():
    before, after = Counts(), Counts()
    for counts, calls in ((before, 1), (after, 3)):
        counts.work["mm", "float32", 10, 20] = calls
        counts.links["up", 5, False] = calls
    found = after - before
    assert (found.operations, found.bytes_moved, found.flops, found.link_bytes("up")) == (2, 20, 40, 10)
    assert found.work == {("mm", "float32", 10, 20): 2} and found.link_bytes("down") == 0


@pytest.mark.parametrize(("size", "taken"), [(0, 0), (1, 512), (512, 512), (513, 1024)])
def test_memory_is_taken_in_the_allocators_blocks(size, taken):
    assert rounded(size) == taken


@pytest.mark.parametrize("module", ["rehearsal", "rehearsal.counts", "rehearsal.predict", "press.rehearse"])
def test_the_press_can_tell_of_a_rehearsal_without_torch(module):
    code = f"import sys; sys.path.insert(0, 'book'); import {module}; print('torch' in sys.modules)"
    assert python("-c", code, cwd=ROOT).stdout.strip() == "False"
