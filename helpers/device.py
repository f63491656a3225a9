"""The device, the machine and the tier, `cpu`, `gpu` (16 GB) or `big`: it changes sizes, never the code's path."""

import contextlib
import importlib.metadata
import importlib.util
import os
import platform
import random
import re
import sys
from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace

TIERS = ("cpu", "gpu", "big")
BIG_BYTES = 40e9  # a card with at least this much memory is `big`
PACKAGES = ("torch", "numpy", "scipy", "matplotlib")  # their versions are kept in every receipt
CGROUP, GROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
GET_GPU = 'Set TIER = "auto" or "cpu"; in Colab choose Runtime, Change runtime type, T4 GPU.'
_state = SimpleNamespace(tier=None)  # the tier chosen last; `preflight` asks for it too


class Tier(namedtuple("Tier", "name device sentence")):
    """A chosen tier: its `name`, the `device` it computes on, and the `sentence` that says what differs."""

    def pick(self, *, cpu, gpu, big):
        """The value for this tier: `points = tier.pick(cpu=650_000, gpu=6_500_000, big=20_140_000)`."""
        return {"cpu": cpu, "gpu": gpu, "big": big}[self.name]

    def __str__(self):
        return self.name


def tier(name="auto"):
    """The `Tier` to run at; prints one sentence on what differs, and `device()` follows it.
    "auto" is cpu without CUDA, gpu below 40 GB of GPU memory, else big; the environment's REBUILT_TIER stands in
    for it. Raises ValueError for an unknown name, and for a GPU tier where torch sees no GPU.
    """
    asked = os.environ.get("REBUILT_TIER") or name if name == "auto" else name
    source = f"TIER = {name!r}" if asked == name else f"REBUILT_TIER={asked}"
    if asked not in ("auto", *TIERS):
        raise ValueError(f"{source}: no such tier; allowed are 'auto', 'cpu', 'gpu' and 'big'")
    if not (card := gpu()) and asked in ("gpu", "big"):
        raise ValueError(f"{source} needs a GPU, and torch sees none here. {GET_GPU}")
    if asked == "auto":
        asked = "cpu" if not card else "gpu" if card.total_memory < BIG_BYTES else "big"
    where = f"{cores()} CPU core{'s' * (cores() != 1)}" if asked == "cpu" else f"one {card.name}"
    if asked == "big" and card.total_memory < BIG_BYTES:
        where += ' with less than 40 GB (if memory runs out, set TIER = "gpu")'
    sizes = {"cpu": "small", "gpu": "medium", "big": "full"}[asked]
    print(sentence := f"Tier {asked}: {sizes} sizes on {where}; the code is the same at every tier, timings differ.")
    _state.tier = Tier(asked, "cpu" if asked == "cpu" else "cuda", sentence)
    return _state.tier


def device(name=None):
    """The `torch.device` of `name`, of the tier chosen last, or a GPU if there is one; ValueError for a missing GPU."""
    import torch

    chosen = torch.device(name or (_state.tier.device if _state.tier else "cuda" if gpu() else "cpu"))
    if chosen.type == "cuda" and not gpu():
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
    if not str(where).startswith("cpu") and "torch" in sys.modules and gpu():
        sys.modules["torch"].cuda.synchronize(where)


def cores():
    """The number of CPU cores this process may use, by affinity and all its control groups; 1.5 cores count as two."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for group in _groups("cpu"):
        found = _numbers(group / "cpu.max") or _numbers(group / "cpu.cfs_quota_us", group / "cpu.cfs_period_us")
        if len(found) == 2 and min(found) > 0:  # -1 is no limit
            count = min(count, -(-found[0] // found[1]))
    return max(1, count)


def threads():
    """How many threads each library says that it takes, `{"torch": 2, "openblas": 2}`; else OMP_NUM_THREADS tells."""
    found = {"torch": sys.modules["torch"].get_num_threads()} if "torch" in sys.modules else {}
    with contextlib.suppress(ImportError):
        pools = importlib.import_module("threadpoolctl").threadpool_info()
        found |= dict(sorted(((pool["internal_api"], pool["num_threads"]) for pool in pools), key=lambda one: one[1]))
    told = os.environ.get("OMP_NUM_THREADS", "")
    return found or ({"OMP_NUM_THREADS": int(told)} if told.isdecimal() else {})


def memory():
    """The bytes of main memory this process may use, the limits of its container counted; None where unknown."""
    files = [group / name for group in _groups("memory") for name in ("memory.max", "memory.limit_in_bytes")]
    limits = [limit for path in files for limit in _numbers(path)]
    if hasattr(os, "sysconf"):  # not Windows
        return min([os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), *limits])


def machine():
    """A dict, ready for JSON, of what this machine is; `slug` ("tesla-t4") names receipts, GPU facts may be None."""
    card, cpu, versions = gpu(), _cpu_name(), {"python": platform.python_version()}
    versions |= {name: importlib.metadata.version(name) for name in PACKAGES if importlib.util.find_spec(name)}
    named = card.name if card else f"{cpu} {cores()} cores"
    facts = {"cpu": cpu, "cores": cores(), "memory_bytes": memory(), "os": platform.platform(terse=True), "gpus": 0}
    facts |= dict.fromkeys(("gpu", "gpu_memory_bytes", "capability", "bf16"))
    facts |= {"versions": versions, "slug": re.sub(r"[^a-z0-9]+", "-", named.lower()).strip("-")}
    if card:
        torch = sys.modules["torch"]
        facts.update(gpu=card.name, gpus=torch.cuda.device_count(), gpu_memory_bytes=card.total_memory)
        facts.update(capability=f"{card.major}.{card.minor}", bf16=card.major >= 8)  # its units came with 8.0
        facts["versions"]["cuda"] = torch.version.cuda
    return facts


def gpu():
    """The properties of the first CUDA device (`name`, `total_memory` …), or None; torch is imported when asked."""
    import torch

    return torch.cuda.get_device_properties(0) if torch.cuda.is_available() else None


def _groups(controller):
    """The folders of this process's control groups, for either version: its own, then those above; some are missing."""
    paths = {"": "/", controller: "/"}
    with contextlib.suppress(OSError):
        for line in GROUPS.read_text().splitlines():
            _, names, path = line.split(":", 2)
            paths |= dict.fromkeys(names.split(","), path)
    for home, path in ((CGROUP, paths[""]), (CGROUP / controller, paths[controller])):
        own = Path(*(part for part in path.split("/") if part not in ("", "..")))
        yield from (home / group for group in (own, *own.parents))


def _numbers(*files):
    """The whole numbers in these files; none where one is missing or says "max"."""
    try:
        return [int(word) for path in files for word in path.read_text().split()]
    except (OSError, ValueError):
        return []


def _cpu_name():
    try:
        name = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())[1]
    except (OSError, TypeError):  # not Linux, or an Arm core, which has no such line
        name = platform.processor() or platform.machine()
    return " ".join(re.sub(r"\((R|TM)\)|@.*|CPU|Processor", " ", name).split()) or "unknown CPU"
