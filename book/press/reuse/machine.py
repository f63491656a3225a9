"""What this machine is, as far as a measured page depends on it: processor, cores, GPUs, programs."""

import functools
import platform
import re
import shutil
import subprocess
from pathlib import Path

from helpers.device import cores

CPUINFO = Path("/proc/cpuinfo")
VERSION = {"java": ("java", "-version")}  # how a program is asked; others by `--version`


@functools.cache
def hardware() -> dict[str, str | int]:
    """The models of this machine's processor and GPUs and its cores, asked of the operating system, without torch."""
    cpu = platform.processor() or platform.machine()
    if CPUINFO.is_file():
        found = re.search(r"^model name\s*:\s*(.+)$", CPUINFO.read_text(encoding="utf-8"), re.MULTILINE)
        cpu = found.group(1).strip() if found else cpu
    gpu = ""
    if shutil.which("nvidia-smi"):
        gpu = _said(("nvidia-smi", "--query-gpu=name", "--format=csv,noheader"), "not answering")
    return {"cpu": cpu, "gpu": ", ".join(gpu.splitlines()), "cores": cores()}


@functools.cache
def program(name: str) -> str:
    """The first line that a program says of its version; "absent" where it is not installed.

    >>> program("java")
    'openjdk version "17.0.17" 2025-10-21'
    """
    if not shutil.which(name):
        return "absent"
    return _said(VERSION.get(name, (name, "--version")), "not answering").partition("\n")[0].strip()


def _said(command: tuple[str, ...], otherwise: str) -> str:
    """What the command prints, on either stream."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return otherwise
    text = (done.stdout.strip() or done.stderr.strip()) if done.returncode == 0 else ""
    return text or otherwise
