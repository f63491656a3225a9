"""Is this machine ready for the workshop? Run it on every machine of the room: python room/room_check.py

Standard library only; changes nothing. It ends with status 0 when all is well, 1 when something must be mended.
"""

import argparse
import hashlib
import json
import os
import platform
import shutil
import socket
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def facts():
    """What the bundle says about itself."""
    return json.loads((ROOT / "room" / "bundle.json").read_text(encoding="utf-8"))


def memory_bytes():
    """The memory of this machine that a new program can have, or None where the system does not tell."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        found = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.endswith("kB")}
        return found["MemAvailable"]
    except (OSError, KeyError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def python(bundle):
    """The version and system that the wheels were made for."""
    here, wanted = ".".join(map(str, sys.version_info[:2])), bundle["python"]
    system = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    fits = here == wanted and system.split("_")[0] == bundle["platform"].split("_")[0]
    fits = fits and platform.machine().lower() in bundle["platform"].lower()
    return fits, f"Python {here} on {system}; the wheels are for {wanted} on {bundle['platform']}"


def venv(bundle):
    """That an environment can be made."""
    try:
        import ensurepip
        import venv

        return bool(ensurepip.version() and venv), "Python can make environments"
    except ImportError as error:
        return False, f"{error}: install the venv of your Python (on Debian and Ubuntu: python3-venv)"


def disk(bundle):
    """Room for the unpacked packages."""
    free, needed = shutil.disk_usage(ROOT).free, bundle["installed_bytes"]
    return free >= needed, f"{free / 1e9:.1f} GB free, {needed / 1e9:.1f} GB needed"


def memory(bundle):
    """Memory for the hungriest chapter."""
    found, needed = memory_bytes(), bundle["memory_bytes"]
    if found is None:
        return True, f"not told by this system; {needed / 1e9:.1f} GB are needed"
    return found >= needed, f"{found / 1e9:.1f} GB available, {needed / 1e9:.1f} GB needed"


def writable(bundle):
    """That this folder may be written to."""
    return os.access(ROOT, os.W_OK), f"{ROOT} {'can' if os.access(ROOT, os.W_OK) else 'cannot'} be written to"


def port(bundle):
    """That a program may listen on this machine's own address."""
    try:
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
        return True, "a local server can start"
    except OSError as error:
        return False, f"no local server can start: {error}"


def files(bundle):
    """That every file is there and unchanged."""
    wrong, count = [], 0
    for line in (ROOT / "SHA256SUMS").read_text(encoding="utf-8").splitlines():
        wanted, name = line.split("  ", 1)
        count += 1
        path = ROOT / name
        if not path.is_file():
            wrong.append(f"{name} is missing")
        elif digest(path) != wanted:
            wrong.append(f"{name} has changed")
    told = "; ".join(wrong[:3]) + (f" and {len(wrong) - 3} more" if len(wrong) > 3 else "")
    return not wrong, told or f"{count} files are whole"


def digest(path):
    """The SHA-256 of a file."""
    found = hashlib.sha256()
    with path.open("rb") as handle:
        while block := handle.read(1 << 20):
            found.update(block)
    return found.hexdigest()


CHECKS = (python, venv, disk, memory, writable, port, files)


def main():
    """The exit status."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true", help="do not read every file again")
    quick = options.parse_args().quick
    bundle, bad = facts(), 0
    for check in CHECKS:
        if quick and check is files:
            continue
        good, told = check(bundle)
        bad += not good
        print(f"{'ok    ' if good else 'MEND  '}{check.__name__:9} {told}")
    print("Ready: python room/install.py" if not bad else f"{bad} to mend before the workshop.")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
