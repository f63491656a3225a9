"""The look at this machine before a notebook begins, and advice where a run fails for want of what it needs."""

import os
import re
import shutil
import sys
import time
from pathlib import Path

from helpers import __version__, cards, device, root
from helpers._records import committed

RESTART = "restart the session (in Colab: Runtime, Restart session) and run all cells"
BEGAN = time.time()


def preflight(name="auto", stem=None, memory_gb=None, disk_mb=None, size="the sizes"):
    """The `device.Tier` to run at, after a look at this machine: `preflight(TIER, "demo", size="points")`.
    What falls short of the card's needs, or of the numbers given, is said; from then on a notebook's errors bring
    `advice`. ValueError as `device.tier` raises it; RuntimeError where `helpers` of another release are loaded.
    """
    own = Path(root() or "", "helpers", "__init__.py")
    release = own.is_file() and re.search('__version__ = "(.+?)"', own.read_text(encoding="utf-8"))
    if release and release[1] != __version__:
        raise RuntimeError(f"Stale runtime: helpers {__version__} are loaded, the book is {release[1]}; {RESTART}.")
    needs = cards.read(cards.find(stem)).get("needs", {}) if stem else {}
    auto, required = name == "auto" and os.environ.get("REBUILT_TIER", "auto") == "auto", needs.get("gpu") == "required"
    if auto and not required and stem and (card := device.gpu()):
        kind = "gpu" if card.total_memory < device.BIG_BYTES else "big"
        if all((one["tier"], one["name"]) != (kind, "") for one in committed(stem)):
            name, more = "cpu", f'TIER = "{kind}" asks for more, on the {card.name}: nobody has timed it.'
            print(f'No run of this notebook is recorded at tier {kind}, so "auto" takes the sizes of cpu; {more}')
    chosen = device.tier("gpu" if auto and required and not device.gpu() else name)
    short = [("GB of memory", (device.memory() or float("inf")) / 1e9, memory_gb or needs.get("memory_gb", 0))]
    short += [("MB of free disk", shutil.disk_usage(Path.cwd()).free / 1e6, disk_mb or needs.get("disk_mb", 0))]
    told = [f"{have:.1f} {what} where {need:g} are asked for" for what, have, need in short if have < need]
    told += ["no bfloat16 units, so bfloat16 is slow"] * (chosen.device == "cuda" and device.gpu().major < 8)
    if told:
        print(f"This machine has {', '.join(told)}; if it fails, make {size} smaller where tier.pick sets it.")
    if shell := "IPython" in sys.modules and sys.modules["IPython"].get_ipython():

        def advise(shell, kind, error, trace, tb_offset=None):
            if text := advice(error, size):
                error.msg = f"{error}\n{text}"  # which an ImportError shows
                error.args = (error.msg,)
            shell.showtraceback((kind, error, trace), tb_offset=tb_offset)

        shell.set_custom_exc((MemoryError, RuntimeError, AssertionError, ImportError, AttributeError), advise)
    return chosen


def advice(error, size="the sizes"):
    """The sentence on what to change after this error: TIER or `size`, or a restart; "" where there is none."""
    text = f"{type(error).__name__} {error}"
    if re.search("MemoryError|out of memory|can't allocate memory|ALLOC_FAILED", text, re.IGNORECASE):
        lower = {"gpu": 'set TIER = "cpu", or ', "big": 'set TIER = "gpu", or '}.get(str(device._state.tier), "")
        return f"Memory ran out: {lower}make {size} smaller where tier.pick sets it; then {RESTART}."
    if re.search("NVIDIA driver|not compiled with CUDA|No CUDA GPUs", text):
        return f"There is no GPU here. {device.GET_GPU}"
    if not isinstance(error, ImportError | AttributeError):
        return ""
    homes, loaded = {Path.cwd().resolve(), Path(__file__).resolve().parent}, dict(sys.modules).items()
    files = {name: Path(getattr(module, "__file__", None) or "/").resolve() for name, module in loaded}
    own = {name: path for name, path in files.items() if homes & set(path.parents) and path.is_file()}
    changed = ", ".join(sorted(name for name, path in own.items() if path.stat().st_mtime > BEGAN))
    return f"Stale runtime: {changed} changed since it began; {RESTART}." if changed else ""
