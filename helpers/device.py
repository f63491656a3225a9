"""The device, the tier and the machine: what a notebook asks about where it runs.

A tier is a size of machine: `cpu` (2 cores, no GPU), `gpu` (one 16 GB card, such as Colab's T4) or `big`
(one data-centre card, 40 GB or more). It changes a notebook's sizes, never the path through its code.
"""

import importlib.metadata
import importlib.util
import math
import os
import platform
import random
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

TIERS = ("cpu", "gpu", "big")
BIG_BYTES = 40e9  # a card with at least this much memory is `big`
PACKAGES = ("torch", "numpy", "scipy", "matplotlib")  # their versions are kept in every receipt
CGROUP = Path("/sys/fs/cgroup")
_state = SimpleNamespace(tier=None)  # the tier chosen last


@dataclass(frozen=True)
class Tier:
    """A chosen tier: its `name`, the `device` it computes on, and the `sentence` that says what differs."""

    name: str
    device: str
    sentence: str

    def pick(self, *, cpu, gpu, big):
        """The value for this tier: `points = tier.pick(cpu=650_000, gpu=6_500_000, big=20_140_000)`."""
        return {"cpu": cpu, "gpu": gpu, "big": big}[self.name]

    def __str__(self):
        return self.name


def tier(name="auto"):
    """The `Tier` to run at, `device.tier(TIER)`: it prints one sentence on what differs, `device()` follows it.

    "auto" is cpu without CUDA, gpu below 40 GB of GPU memory, else big; the environment variable REBUILT_TIER
    stands in for it. Raises ValueError for an unknown name, and for a GPU tier where torch sees no GPU.
    """
    asked = os.environ.get("REBUILT_TIER") or name if name == "auto" else name
    source = f"TIER = {name!r}" if asked == name else f"REBUILT_TIER={asked}"
    if asked not in ("auto", *TIERS):
        raise ValueError(f"{source}: no such tier; allowed are 'auto', 'cpu', 'gpu' and 'big'")
    gpu = _gpu()
    if asked in ("gpu", "big") and not gpu:
        remedy = 'Set TIER = "auto" or "cpu"; in Colab choose Runtime, Change runtime type, T4 GPU.'
        raise ValueError(f"{source} needs a GPU, and torch sees none here. {remedy}")
    if asked == "auto":
        asked = "cpu" if not gpu else "gpu" if gpu.total_memory < BIG_BYTES else "big"
    short = asked == "big" and gpu.total_memory < BIG_BYTES
    where = f"{cores()} CPU core{'s' * (cores() != 1)}" if asked == "cpu" else f"one {gpu.name}"
    where += ' with less than 40 GB (if memory runs out, set TIER = "gpu")' if short else ""
    sizes = {"cpu": "small", "gpu": "medium", "big": "full"}[asked]
    sentence = f"Tier {asked}: {sizes} sizes on {where}; the code is the same at every tier, timings differ."
    _state.tier = Tier(asked, "cpu" if asked == "cpu" else "cuda", sentence)
    print(sentence)
    return _state.tier


def device(name=None):
    """The `torch.device` to compute on: that of the tier chosen last, else a GPU where there is one.

    `name` ("cpu", "cuda:1", a torch.device) overrides. Raises ValueError for CUDA where torch sees no GPU.
    """
    import torch

    chosen = torch.device(name or (_state.tier.device if _state.tier else "cuda" if _gpu() else "cpu"))
    if chosen.type == "cuda" and not _gpu():
        raise ValueError(f'device "{chosen}": torch sees no GPU here; allowed is "cpu" (TIER = "cpu")')
    return chosen


def seed(n=0):
    """A `numpy.random.Generator` seeded with `n`; the global ones of Python, NumPy and torch are seeded too."""
    import numpy as np
    import torch

    random.seed(n)
    np.random.seed(n)  # noqa: NPY002 - libraries draw from it
    torch.manual_seed(n)
    return np.random.default_rng(n)


def synchronize(where=None):
    """None, once all kernels queued on the device `where` have finished; at once on a CPU."""
    if not str(where).startswith("cpu") and "torch" in sys.modules and _gpu():
        sys.modules["torch"].cuda.synchronize(where)


def cores():
    """The number of CPU cores this process may use: its affinity mask, cut to the container's CPU quota."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota, period = _cgroup("cpu.max") or _cgroup("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us") or (0, 0)
    return max(1, min(count, math.ceil(quota / period))) if quota > 0 and period > 0 else count


def memory():
    """The bytes of main memory this process may use, a container's limit counted; None where unknown."""
    if not hasattr(os, "sysconf"):  # Windows
        return None
    limit = _cgroup("memory.max") or _cgroup("memory/memory.limit_in_bytes") or []
    return min([os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), *limit])


def machine():
    """A dict, ready for JSON, of what this machine is; `slug` ("tesla-t4") names receipts, GPU facts may be None."""
    gpu, cpu = _gpu(), _cpu_name()
    named = gpu.name if gpu else f"{cpu} {cores()} cores"
    facts = {}
    facts.update(cpu=cpu, cores=cores(), memory_bytes=memory(), os=platform.platform(terse=True))
    facts.update(gpu=None, gpus=0, gpu_memory_bytes=None, capability=None, bf16=None)
    known = [name for name in PACKAGES if importlib.util.find_spec(name)]
    facts["versions"] = {"python": platform.python_version()}
    facts["versions"] |= {name: importlib.metadata.version(name) for name in known}
    facts["slug"] = re.sub(r"[^a-z0-9]+", "-", named.lower()).strip("-")
    if gpu:
        torch = sys.modules["torch"]
        facts.update(gpu=gpu.name, gpus=torch.cuda.device_count(), gpu_memory_bytes=gpu.total_memory)
        facts.update(capability=f"{gpu.major}.{gpu.minor}", bf16=gpu.major >= 8)  # its units came with 8.0
        facts["versions"]["cuda"] = torch.version.cuda
    return facts


def _gpu():
    """The properties of the first CUDA device, or None; torch is imported here, when first asked."""
    import torch

    return torch.cuda.get_device_properties(0) if torch.cuda.is_available() else None


def _cgroup(*files):
    """The whole numbers in these files of the container's limits (version 2 or 1); None where no limit is."""
    try:
        words = " ".join((CGROUP / name).read_text() for name in files).split()
        return [int(word) for word in words]
    except (OSError, ValueError):  # no such file, or "max"
        return None


def _cpu_name():
    try:
        name = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())[1]
    except (OSError, TypeError):  # not Linux, or an Arm core, which has no such line
        name = platform.processor() or platform.machine()
    return " ".join(re.sub(r"\((R|TM)\)|@.*|CPU|Processor", " ", name).split()) or "unknown CPU"
