"""What this machine is, as far as a measured page depends on it: processor, cores, GPUs, programs."""

import functools
import platform
import re
import shutil
import subprocess
from pathlib import Path

from helpers.device import cores

CPUINFO = Path("/proc/cpuinfo")


@functools.cache
def hardware() -> dict[str, str | int]:
    """The models of this machine's processor and GPUs and its cores, asked of the operating system, without torch."""
    text = CPUINFO.read_text(encoding="utf-8") if CPUINFO.is_file() else ""
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    cpu = found.group(1).strip() if found else platform.processor() or platform.machine()
    gpu = _said("", "nvidia-smi", "--query-gpu=name", "--format=csv,noheader")
    return {"cpu": cpu, "gpu": ", ".join(gpu.splitlines()), "cores": cores()}


@functools.cache
def program(name: str) -> str:
    """The first line that a program says of its version; "absent" where it is not installed.

    >>> program("java")
    'openjdk version "17.0.17" 2025-10-21'
    """
    return _said("absent", name, "-version" if name == "java" else "--version").partition("\n")[0].strip()


def _said(absent: str, *command: str) -> str:
    """What the command prints, on either stream; `absent` where there is none."""
    if not shutil.which(command[0]):
        return absent
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL, check=True)
    except (OSError, subprocess.SubprocessError):
        return "not answering"
    return done.stdout.strip() or done.stderr.strip() or "not answering"
