"""The device, the tier and the machine. A tier changes a notebook's sizes, never the path through its code.

It is `cpu` (2 cores, no GPU), `gpu` (one 16 GB card, such as Colab's T4) or `big` (40 GB or more).
"""

import importlib.metadata
import importlib.util
import math
import os
import platform
import random
import re
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

TIERS = ("cpu", "gpu", "big")
BIG_BYTES = 40e9  # a card with at least this much memory is `big`
PACKAGES = ("torch", "numpy", "scipy", "matplotlib")  # their versions are kept in every receipt
CGROUP = Path("/sys/fs/cgroup")
RESTART = "restart the session (in Colab: Runtime, Restart session) and run all cells"
GET_GPU = 'Set TIER = "auto" or "cpu"; in Colab choose Runtime, Change runtime type, T4 GPU.'
BEGAN = time.time()
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
    """The `Tier` to run at; prints one sentence on what differs, and `device()` follows it.

    "auto" is cpu without CUDA, gpu below 40 GB of GPU memory, else big; the environment's REBUILT_TIER stands in
    for it. Raises ValueError for an unknown name, and for a GPU tier where torch sees no GPU.
    """
    asked = os.environ.get("REBUILT_TIER") or name if name == "auto" else name
    source = f"TIER = {name!r}" if asked == name else f"REBUILT_TIER={asked}"
    if asked not in ("auto", *TIERS):
        raise ValueError(f"{source}: no such tier; allowed are 'auto', 'cpu', 'gpu' and 'big'")
    gpu = _gpu()
    if asked in ("gpu", "big") and not gpu:
        raise ValueError(f"{source} needs a GPU, and torch sees none here. {GET_GPU}")
    if asked == "auto":
        asked = "cpu" if not gpu else "gpu" if gpu.total_memory < BIG_BYTES else "big"
    where = f"{cores()} CPU core{'s' * (cores() != 1)}" if asked == "cpu" else f"one {gpu.name}"
    if asked == "big" and gpu.total_memory < BIG_BYTES:
        where += ' with less than 40 GB (if memory runs out, set TIER = "gpu")'
    sizes = {"cpu": "small", "gpu": "medium", "big": "full"}[asked]
    sentence = f"Tier {asked}: {sizes} sizes on {where}; the code is the same at every tier, timings differ."
    _state.tier = Tier(asked, "cpu" if asked == "cpu" else "cuda", sentence)
    print(sentence)
    return _state.tier


def preflight(name="auto", stem=None, memory_gb=None, disk_mb=None, size="the sizes"):
    """The `Tier` to run at, as `tier`, after a look at this machine: `preflight(TIER, "demo", size="points")`.

    The needs are the card's of `stem`, or the numbers given; what falls short is said. From then on, in a notebook,
    an error for want of memory, a GPU or fresh code names what to change (`advice`). Raises ValueError as `tier`
    does, and RuntimeError where `helpers` of another release are loaded.
    """
    from helpers import __version__, receipts, root

    own = Path(root() or "", "helpers", "__init__.py")
    release = own.is_file() and re.search('__version__ = "(.+?)"', own.read_text(encoding="utf-8"))
    if release and release[1] != __version__:
        raise RuntimeError(f"Stale runtime: helpers {__version__} are loaded, the book is {release[1]}; {RESTART}.")
    needs = receipts.start(stem, "").card["needs"] if stem else {}
    chosen = tier("gpu" if needs.get("gpu") == "required" and name == "auto" and not _gpu() else name)
    short = [("GB of memory", (memory() or math.inf) / 1e9, memory_gb or needs.get("memory_gb", 0))]
    short += [("MB of free disk", shutil.disk_usage(Path.cwd()).free / 1e6, disk_mb or needs.get("disk_mb", 0))]
    told = [f"{have:.1f} {what} where {need:g} are asked for" for what, have, need in short if have < need]
    told += ["no bfloat16 units, so bfloat16 is slow"] * (chosen.device == "cuda" and _gpu().major < 8)
    if told:
        print(f"This machine has {', '.join(told)}; if it fails, make {size} smaller where tier.pick sets it.")
    if shell := "IPython" in sys.modules and sys.modules["IPython"].get_ipython():
        kinds = (MemoryError, RuntimeError, AssertionError, ImportError, AttributeError)
        shell.set_custom_exc(kinds, lambda *error, tb_offset=None: _advise(size, *error, tb_offset))
    return chosen


def advice(error, size="the sizes"):
    """The sentence on what to change after this error: TIER or `size`, or a restart; "" where there is none."""
    text = f"{type(error).__name__} {error}"
    if re.search("MemoryError|out of memory|can't allocate memory|ALLOC_FAILED", text, re.IGNORECASE):
        lower = {"gpu": 'set TIER = "cpu", or ', "big": 'set TIER = "gpu", or '}.get(str(_state.tier), "")
        return f"Memory ran out: {lower}make {size} smaller where tier.pick sets it; then {RESTART}."
    if re.search("NVIDIA driver|not compiled with CUDA|No CUDA GPUs", text):
        return f"There is no GPU here. {GET_GPU}"
    files = [path for folder in (Path.cwd(), Path(__file__).parent) for path in folder.glob("*.py")]
    changed = sorted({path.stem for path in files if path.stat().st_mtime > BEGAN})
    stale = changed and isinstance(error, ImportError | AttributeError)
    return f"Stale runtime: {', '.join(changed)} changed since it began; {RESTART}." if stale else ""


def _advise(size, shell, kind, error, trace, tb_offset=None):
    if text := advice(error, size):
        error.msg = f"{error}\n{text}"  # which an ImportError shows
        error.args = (error.msg,)
    shell.showtraceback((kind, error, trace), tb_offset=tb_offset)


def device(name=None):
    """The `torch.device` of `name`, of the tier chosen last, or a GPU if there is one; ValueError for a missing GPU."""
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
    facts = {"cpu": cpu, "cores": cores(), "memory_bytes": memory(), "os": platform.platform(terse=True), "gpus": 0}
    facts |= dict.fromkeys(("gpu", "gpu_memory_bytes", "capability", "bf16"))
    known = [name for name in PACKAGES if importlib.util.find_spec(name)]
    versions = {name: importlib.metadata.version(name) for name in known}
    facts["versions"] = {"python": platform.python_version()} | versions
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
        return [int(word) for word in " ".join((CGROUP / name).read_text() for name in files).split()]
    except (OSError, ValueError):  # no such file, or "max"
        return None


def _cpu_name():
    try:
        name = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())[1]
    except (OSError, TypeError):  # not Linux, or an Arm core, which has no such line
        name = platform.processor() or platform.machine()
    return " ".join(re.sub(r"\((R|TM)\)|@.*|CPU|Processor", " ", name).split()) or "unknown CPU"
