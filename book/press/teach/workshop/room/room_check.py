"""Is this machine ready for the workshop? Run it on every machine of the room: python room/room_check.py

Standard library only; changes nothing. It ends with status 0 when all is well, 1 when something must be mended.
"""

import hashlib
import importlib.util
import json
import os
import platform
import re
import shutil
import sys
import sysconfig
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def facts():
    """What the bundle says about itself."""
    return json.loads((ROOT / "room" / "bundle.json").read_text(encoding="utf-8"))


def system():
    """This machine's system, as wheels name it."""
    return re.sub(r"[-.]", "_", sysconfig.get_platform())


def python(bundle):
    """The version and system that the wheels were made for."""
    here, wanted = ".".join(map(str, sys.version_info[:2])), bundle["platform"]
    fits = here == bundle["python"] and system().split("_")[0] == wanted.split("_")[0]
    fits = fits and platform.machine().lower() in wanted.lower()
    return fits, f"Python {here} on {system()}; the wheels are for {bundle['python']} on {wanted}"


def venv(bundle):
    """That an environment can be made."""
    if importlib.util.find_spec("ensurepip"):
        return True, "Python can make environments"
    return False, "no ensurepip: install the venv of your Python (on Debian and Ubuntu: python3-venv)"


def disk(bundle):
    """Room for the unpacked packages."""
    free, needed = shutil.disk_usage(ROOT).free, bundle["installed_bytes"]
    return free >= needed, f"{free / 1e9:.1f} GB free, {needed / 1e9:.1f} GB needed"


def memory(bundle):
    """Memory for the hungriest chapter."""
    found, needed = None, bundle["memory_bytes"]
    with suppress(AttributeError, OSError, ValueError):  # all there is, where the system does not say what is left
        found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        found = int(re.search(r"MemAvailable: *(\d+)", Path("/proc/meminfo").read_text()).group(1)) * 1024
    if found is None:
        return True, f"not told by this system; {needed / 1e9:.1f} GB are needed"
    return found >= needed, f"{found / 1e9:.1f} GB available, {needed / 1e9:.1f} GB needed"


def writable(bundle):
    """That this folder may be written to."""
    may = os.access(ROOT, os.W_OK)
    return may, f"{ROOT} {'can' if may else 'cannot'} be written to"


def files(bundle):
    """That every file is there and unchanged."""
    listed = [line.split("  ", 1) for line in (ROOT / "SHA256SUMS").read_text(encoding="utf-8").splitlines()]
    wrong = [f"{name} is missing" for _, name in listed if not (ROOT / name).is_file()]
    wrong += [f"{name} has changed" for sha, name in listed if (ROOT / name).is_file() and digest(ROOT / name) != sha]
    told = "; ".join(wrong[:3]) + (f" and {len(wrong) - 3} more" if len(wrong) > 3 else "")
    return not wrong, told or f"{len(listed)} files are whole"


def digest(path):
    """The SHA-256 of a file."""
    found = hashlib.sha256()
    with path.open("rb") as handle:
        while block := handle.read(1 << 20):
            found.update(block)
    return found.hexdigest()


def main():
    """The exit status."""
    bundle, bad = facts(), 0
    for check in (python, venv, disk, memory, writable, files):
        good, told = check(bundle)
        bad += not good
        print(f"{'ok    ' if good else 'MEND  '}{check.__name__:9} {told}")
    print("Ready: python room/install.py" if not bad else f"{bad} to mend before the workshop.")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
