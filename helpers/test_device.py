import ast
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from helpers import device
from helpers.conftest import H200, T4

pytestmark = pytest.mark.usefixtures("untouched")


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


NESTED = "/user.slice/pod/box"
TWO = "200000 100000"


@pytest.fixture
def groups(tmp_path, monkeypatch):
    """A function that writes the files of control groups and of /proc/self/cgroup; there are eight cores."""

    def write(files, paths="0::/\n"):
        for name, content in files.items():
            (tmp_path / "groups" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "groups" / name).write_text(content + "\n")
        (tmp_path / "self").write_text(paths)

    monkeypatch.setattr(device, "CGROUP", tmp_path / "groups")
    monkeypatch.setattr(device, "GROUPS", tmp_path / "self")
    monkeypatch.setattr(device.os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    return write


@pytest.mark.parametrize(
    ("files", "want"),
    [
        ({}, 8),
        ({"cpu.max": TWO}, 2),
        ({"cpu.max": "150000 100000"}, 2),
        ({"cpu.max": "50000 100000"}, 1),
        ({"cpu.max": "1600000 100000"}, 8),
        ({"cpu.max": "max 100000"}, 8),
        ({"cpu.max": ""}, 8),
        ({"cpu/cpu.cfs_quota_us": "300000", "cpu/cpu.cfs_period_us": "100000"}, 3),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 8),
    ],
)
def test_cores_are_cut_to_the_containers_quota(groups, files, want):
    groups(files)
    assert device.cores() == want


@pytest.mark.parametrize(
    ("files", "paths", "want"),
    [
        ({"user.slice/pod/box/cpu.max": TWO}, f"0::{NESTED}", 2),
        ({"user.slice/pod/cpu.max": TWO, "user.slice/pod/box/cpu.max": "max 100000"}, f"0::{NESTED}", 2),
        ({"user.slice/cpu.max": "400000 100000", "user.slice/pod/box/cpu.max": "300000 100000"}, f"0::{NESTED}", 3),
        ({"user.slice/other/cpu.max": TWO}, f"0::{NESTED}", 8),
        ({"cpu.max": TWO}, "0::/of/the/host", 2),
        ({"box/cpu.max": TWO}, "0::/../box", 2),
        (
            {"cpu/box/cpu.cfs_quota_us": "200000", "cpu/box/cpu.cfs_period_us": "100000"},
            "5:cpu,cpuacct:/box\n3:memory:/other\n0::/",
            2,
        ),
        (
            {"cpu/box/cpu.cfs_quota_us": "200000", "cpu/box/cpu.cfs_period_us": "100000"},
            "5:cpu,cpuacct:/other\n3:memory:/box",
            8,
        ),
    ],
)
def test_the_smallest_quota_of_nested_groups_counts(groups, files, paths, want):
    groups(files, paths + "\n")
    assert device.cores() == want


def test_affinity_below_the_quota_counts(groups, monkeypatch):
    groups({"cpu.max": "400000 100000"})
    monkeypatch.setattr(device.os, "sched_getaffinity", lambda pid: {5})
    assert device.cores() == 1


def test_cores_need_no_torch():
    code = "import sys; sys.modules['torch'] = None; from helpers import device; print(device.cores())"
    home = Path(device.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", code], cwd=home, capture_output=True, text=True)
    assert int(done.stdout) >= 1, done.stderr


@pytest.mark.parametrize(
    ("files", "paths", "want"),
    [
        ({}, "0::/", None),
        ({"memory.max": "max"}, "0::/", None),
        ({"memory.max": "4096"}, "0::/", 4096),
        ({"memory.max": "8192", "box/memory.max": "4096"}, "0::/box", 4096),
        ({"memory/box/memory.limit_in_bytes": "4096"}, "4:memory:/box\n0::/", 4096),
    ],
)
def test_memory_is_cut_to_the_containers_limit(groups, files, paths, want):
    groups(files, paths)
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


ASK = "import sys; {first}; from helpers import device; print(device.threads())"


@pytest.mark.parametrize(
    ("first", "number", "want"),
    [
        ("sys.modules['threadpoolctl'] = None", "3", {"OMP_NUM_THREADS": 3}),
        ("sys.modules['threadpoolctl'] = None", "2,1", {}),
        ("import numpy", "1", {"openblas": 1}),
        ("import torch; torch.set_num_threads(3)", "1", {"torch": 3}),
        ("import numpy, threadpoolctl; threadpoolctl.threadpool_limits(2)", "1", {"openblas": 2}),
    ],
)
def test_the_threads_are_what_each_library_says_that_it_takes(first, number, want):
    pytest.importorskip("threadpoolctl")
    told = os.environ | {"OMP_NUM_THREADS": number, "OPENBLAS_NUM_THREADS": number[0]}
    command = [sys.executable, "-c", ASK.format(first=first)]
    found = ast.literal_eval(subprocess.run(command, env=told, capture_output=True, text=True, check=True).stdout)
    assert found | want == found and (want or not found)
    assert not want or next(iter(found)) in want or "torch" not in found
