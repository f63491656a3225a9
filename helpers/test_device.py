import json
import os
import random
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from helpers import device

T4 = SimpleNamespace(name="Tesla T4", total_memory=15.8e9, major=7, minor=5)
H200 = SimpleNamespace(name="NVIDIA H200", total_memory=150e9, major=9, minor=0)


@pytest.fixture(autouse=True)
def untouched(monkeypatch):
    monkeypatch.delenv("REBUILT_TIER", raising=False)
    monkeypatch.setattr(device, "_state", SimpleNamespace(tier=None))


@pytest.fixture
def gpu(monkeypatch):
    return lambda found: monkeypatch.setattr(device, "_gpu", lambda: found)


@pytest.mark.parametrize(("found", "name"), [(None, "cpu"), (T4, "gpu"), (H200, "big")])
def test_auto_picks_the_tier_by_the_gpu(gpu, capsys, found, name):
    gpu(found)
    tier = device.tier("auto")
    assert (tier.name, str(tier)) == (name, name)
    assert capsys.readouterr().out == tier.sentence + "\n"
    assert tier.sentence.startswith(f"Tier {name}: ") and tier.sentence.endswith("differ.")
    assert tier.pick(cpu=1, gpu=2, big=3) == {"cpu": 1, "gpu": 2, "big": 3}[name]


def test_the_environment_stands_in_for_auto_alone(gpu, monkeypatch):
    gpu(H200)
    monkeypatch.setenv("REBUILT_TIER", "gpu")
    assert device.tier("auto").name == "gpu"
    assert device.tier("cpu").name == "cpu"


def test_an_unknown_tier_lists_the_allowed_ones(monkeypatch):
    with pytest.raises(ValueError, match="TIER = 'huge': no such tier; allowed are 'auto', 'cpu', 'gpu' and 'big'"):
        device.tier("huge")
    monkeypatch.setenv("REBUILT_TIER", "huge")
    with pytest.raises(ValueError, match="REBUILT_TIER=huge"):
        device.tier()


@pytest.mark.parametrize("name", ["gpu", "big"])
def test_a_gpu_tier_without_a_gpu_names_the_parameter(gpu, name):
    gpu(None)
    with pytest.raises(ValueError, match=f'TIER = \'{name}\' needs a GPU.*Set TIER = "auto" or "cpu"'):
        device.tier(name)


def test_a_small_card_at_tier_big_is_told_what_to_set(gpu):
    gpu(T4)
    assert 'set TIER = "gpu"' in device.tier("big").sentence


def test_the_device_follows_the_tier(gpu):
    gpu(H200)
    assert device.device().type == "cuda"
    device.tier("cpu")
    assert device.device() == torch.device("cpu")
    assert device.device("cuda:0") == torch.device("cuda:0")


def test_cuda_without_a_gpu_is_refused(gpu):
    gpu(None)
    with pytest.raises(ValueError, match=r'device "cuda".*allowed is "cpu"'):
        device.device("cuda")


def test_a_seed_repeats_every_generator():
    def draw():
        return device.seed(3).random(), random.random(), np.random.sample(), torch.rand(1).item()  # noqa: NPY002

    draws = [draw(), draw()]
    assert draws[0] == draws[1]
    assert device.seed(4).random() != draws[0][0]


def test_synchronize_is_harmless_without_a_gpu():
    assert device.synchronize() is None
    assert device.synchronize("cpu") is None


@pytest.mark.parametrize(
    ("files", "want"),
    [
        ({}, 8),
        ({"cpu.max": "200000 100000"}, 2),
        ({"cpu.max": "150000 100000"}, 2),
        ({"cpu.max": "max 100000"}, 8),
        ({"cpu/cpu.cfs_quota_us": "300000", "cpu/cpu.cfs_period_us": "100000"}, 3),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 8),
    ],
)
def test_cores_are_cut_to_the_containers_quota(tmp_path, monkeypatch, files, want):
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content + "\n")
    monkeypatch.setattr(device, "CGROUP", tmp_path)
    monkeypatch.setattr(device.os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    assert device.cores() == want


@pytest.mark.parametrize(("files", "want"), [({}, None), ({"memory.max": "max"}, None), ({"memory.max": "4096"}, 4096)])
def test_memory_is_cut_to_the_containers_limit(tmp_path, monkeypatch, files, want):
    for name, content in files.items():
        (tmp_path / name).write_text(content + "\n")
    monkeypatch.setattr(device, "CGROUP", tmp_path)
    physical = device.os.sysconf("SC_PHYS_PAGES") * device.os.sysconf("SC_PAGE_SIZE")
    assert device.memory() == (want or physical)


def test_machine_is_json_with_a_slug_for_a_file_name():
    facts = json.loads(json.dumps(device.machine()))
    keys = "cpu cores memory_bytes os gpu gpus gpu_memory_bytes capability bf16 versions slug"
    assert set(facts) == set(keys.split())
    assert facts["cores"] >= 1 and facts["cpu"] and facts["versions"]["torch"] and facts["versions"]["python"]
    assert facts["slug"] == "".join(c for c in facts["slug"] if c.isascii() and (c.isalnum() or c == "-")).lower()


@pytest.mark.parametrize(("found", "bf16", "slug"), [(T4, False, "tesla-t4"), (H200, True, "nvidia-h200")])
def test_machine_describes_the_gpu(gpu, monkeypatch, found, bf16, slug):
    gpu(found)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    facts = device.machine()
    assert (facts["gpu"], facts["gpus"], facts["bf16"], facts["slug"]) == (found.name, 2, bf16, slug)
    assert facts["gpu_memory_bytes"] == found.total_memory


@pytest.mark.parametrize(
    ("line", "want"),
    [
        ("model name\t: Intel(R) Xeon(R) CPU @ 2.20GHz", "Intel Xeon"),
        ("model name\t: AMD EPYC 7B12", "AMD EPYC 7B12"),
    ],
)
def test_cpu_names_are_shortened(monkeypatch, line, want):
    monkeypatch.setattr(device.Path, "read_text", lambda path: f"processor : 0\n{line}\n")
    assert device._cpu_name() == want


# The preflight


@pytest.fixture
def chapter(tmp_path, monkeypatch):
    """A folder with a notebook's card, as the current one."""
    (tmp_path / "demo.ipynb").write_text('{"cells": []}')
    (tmp_path / "demo.yml").write_text("needs: {memory_gb: 3, disk_mb: 150, gpu: optional}\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def roomy(monkeypatch):
    """A function that sets this machine's memory and free disk, in GB."""

    def have(memory_gb=16, disk_gb=50):
        monkeypatch.setattr(device, "memory", lambda: memory_gb and memory_gb * 1e9)
        monkeypatch.setattr(device.shutil, "disk_usage", lambda path: SimpleNamespace(free=disk_gb * 1e9))

    have()
    return have


def test_a_preflight_on_a_machine_that_fits_prints_one_sentence(gpu, roomy, chapter, capsys):
    gpu(None)
    tier = device.preflight("auto", "demo")
    assert tier.name == "cpu" and capsys.readouterr().out == tier.sentence + "\n"


@pytest.mark.parametrize(
    ("memory_gb", "disk_gb", "told"),
    [
        (2, 50, "2.0 GB of memory where 3 are asked for"),
        (16, 0.1, "100.0 MB of free disk where 150 are asked for"),
        (2, 0.1, "3 are asked for, 100.0 MB"),
    ],
)
def test_a_preflight_says_what_falls_short_and_which_size_to_change(
    gpu, roomy, chapter, capsys, memory_gb, disk_gb, told
):
    gpu(None)
    roomy(memory_gb, disk_gb)
    device.preflight("auto", "demo", size="points")
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 2 and told in said[1] and "make points smaller where tier.pick sets it" in said[1]


def test_numbers_given_stand_in_for_the_card(gpu, roomy, capsys):
    gpu(None)
    roomy(2, 50)
    device.preflight(memory_gb=2.5)
    assert "2.0 GB of memory where 2.5 are asked for" in capsys.readouterr().out
    roomy(None, 50)
    device.preflight(memory_gb=2.5)
    assert "memory" not in capsys.readouterr().out, "where it is unknown, nothing is claimed"


@pytest.mark.parametrize(("found", "told"), [(T4, True), (H200, False)])
def test_a_card_without_bfloat16_is_told(gpu, roomy, capsys, found, told):
    gpu(found)
    device.preflight()
    assert ("no bfloat16 units" in capsys.readouterr().out) is told


def test_a_chapter_that_requires_a_gpu_names_the_parameter(gpu, roomy, chapter):
    gpu(None)
    (chapter / "demo.yml").write_text("needs: {memory_gb: 3, disk_mb: 150, gpu: required}\n")
    with pytest.raises(ValueError, match="needs a GPU, and torch sees none here. Set TIER ="):
        device.preflight("auto", "demo")


def test_helpers_of_another_release_are_stale(gpu, roomy, tmp_path, monkeypatch):
    for name in ("_config.yml", "data/registry.tsv", "helpers/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text('__version__ = "7.7.7"\n')
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RuntimeError, match="Stale runtime: helpers .* are loaded, the book is 7.7.7; restart"):
        device.preflight()


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB."),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"),
        RuntimeError("CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"),
    ],
)
@pytest.mark.parametrize(("found", "told"), [(None, "make points"), (T4, '"cpu", or'), (H200, '"gpu", or make points')])
def test_out_of_memory_names_the_tier_and_the_size(gpu, capsys, error, found, told):
    gpu(found)
    device.tier()
    said = device.advice(error, "points")
    assert said.startswith("Memory ran out: ") and told in said and "where tier.pick sets it" in said
    assert ("TIER" in said) is bool(found)


@pytest.mark.parametrize("text", ["Found no NVIDIA driver on your system.", "Torch not compiled with CUDA enabled"])
def test_no_gpu_names_the_tier(text):
    assert 'Set TIER = "auto" or "cpu"' in device.advice(RuntimeError(text))


def test_a_module_changed_since_the_import_makes_the_runtime_stale(chapter):
    error = ImportError("cannot import name 'zdist'")
    assert device.advice(error) == ""
    (chapter / "demo.py").write_text("x = 1\n")
    os.utime(chapter / "demo.py", (device.BEGAN + 5, device.BEGAN + 5))
    assert device.advice(error).startswith("Stale runtime: demo changed since it began; restart the session")
    assert device.advice(ValueError("other")) == ""


NOTEBOOK_ERROR = """
from IPython.testing.globalipapp import start_ipython
shell = start_ipython()
from helpers import device
device.preflight("cpu", size="points")
for code in ("bytearray(2**62)", "import torch; raise torch.OutOfMemoryError('CUDA out of memory')", "1 / 0"):
    done = shell.run_cell(code)
    print("FAILED", type(done.error_in_exec).__name__)
"""


def test_in_a_notebook_the_error_itself_names_what_to_change():
    done = subprocess.run([sys.executable, "-c", NOTEBOOK_ERROR], capture_output=True, text=True, check=True)
    first, second, third = done.stdout.split("FAILED")[:3]
    for said in (first, second):
        assert "Memory ran out: make points smaller where tier.pick sets it; then restart the session" in said
    assert "ZeroDivisionError" in third and "Memory ran out" not in third
    assert done.stdout.count("FAILED") == 3
