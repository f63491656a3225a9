"""A workshop's room, with nothing but Python: python3 room.py check | install | start | plan --seats 24

check    Is this machine ready? It changes nothing, and ends with status 1 when something must be mended.
install  Makes .venv from the wheels, or where there are none from the package index, and puts the data in its place.
         There `install --gpu` takes the torch for GPUs, which is gigabytes larger; else it is the one for processors.
start    Opens the notebooks in JupyterLab, on this machine only; what follows goes to JupyterLab: --port 8888
plan     How many machines and how much network does a class need? `plan --help` names what it can be told.
"""

import argparse
import hashlib
import importlib.util
import json
import math
import os
import platform
import re
import shutil
import subprocess
import sys
import venv
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parent
PYTHON = ROOT / ".venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")  # of the environment
HASHED = "requirements-hashed.txt"  # what pip takes by its hash alone; not in every bundle
PYTHONS = ((3, 11), (3, 12), (3, 13))  # that the book supports
SYSTEM_BYTES = 2e9  # left to the system of each machine
CORES_A_SEAT = 2  # what the chapters are measured on


def check(bundle, given):
    """The exit status; says what was found."""
    bad = 0
    for name, good, told in checks(bundle):
        bad += not good
        print(f"{'ok    ' if good else 'MEND  '}{name:8} {told}")
    print("Ready: python room.py install" if not bad else f"{bad} to mend before the workshop.")
    return int(bad > 0)


def checks(bundle):
    """What is checked, whether it is well, and what was found; first whether the wheels fit."""
    wanted, wheels = bundle["machine"], bundle["wheels_bytes"]
    fits = machine() == wanted if wheels else sys.version_info[:2] in PYTHONS
    yield "python", fits, f"this is {machine()}; {'the wheels are for' if wheels else 'you need'} {wanted}"
    has = importlib.util.find_spec("ensurepip") is not None
    yield "venv", has, "environments can be made" if has else "no ensurepip (Debian and Ubuntu: python3-venv)"
    free, needed = shutil.disk_usage(ROOT).free, bundle["installed_bytes"]
    yield "disk", free >= needed, f"{free / 1e9:.1f} GB free, {needed / 1e9:.1f} GB needed"
    free, needed = memory_bytes(), bundle["memory_bytes"]
    told = f"{free / 1e9:.1f} GB available" if free else "not told by this system"
    yield "memory", free is None or free >= needed, f"{told}, {needed / 1e9:.1f} GB needed"
    many, told = broken()
    yield "files", not told, told or f"{many} files are whole"


def broken(below=""):
    """How many files are listed below a folder, and which of them are missing or have changed, in words."""
    listed = [line.split("  ", 1) for line in (ROOT / "SHA256SUMS").read_text(encoding="utf-8").splitlines()]
    listed = [(sha, name) for sha, name in listed if name.startswith(below)]
    wrong = [f"{name} is missing" for _, name in listed if not (ROOT / name).is_file()]
    wrong += [f"{name} has changed" for sha, name in listed if (ROOT / name).is_file() and digest(ROOT / name) != sha]
    return len(listed), "; ".join(wrong[:3]) + (f" and {len(wrong) - 3} more" if len(wrong) > 3 else "")


def machine():
    """This Python and this machine, which the wheels have to fit."""
    return f"Python {sys.version_info[0]}.{sys.version_info[1]} on {platform.system()} {platform.machine()}"


def memory_bytes():
    """What is left, or all there is, or None where the system tells neither."""
    found = None
    with suppress(AttributeError, OSError, ValueError):
        found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        found = int(re.search(r"MemAvailable: *(\d+)", Path("/proc/meminfo").read_text()).group(1)) * 1024
    return found


def digest(path):
    """The SHA-256 of a file."""
    found = hashlib.sha256()
    with path.open("rb") as handle:
        while block := handle.read(1 << 20):
            found.update(block)
    return found.hexdigest()


def install(bundle, given):
    """The exit status. What is there is kept; where there are wheels, nothing is asked of a network."""
    _, fits, told = next(checks(bundle))
    if not fits:
        print(f"This bundle does not fit: {told}.", file=sys.stderr)
        return 1
    if told := broken("data/")[1]:
        print(f"The data are not whole: {told}. Unpack the zip again.", file=sys.stderr)
        return 1
    try:
        if not PYTHON.exists():
            venv.create(ROOT / ".venv", with_pip=True)
        print(f"Installing the packages (minutes; {bundle['installed_bytes'] / 1e9:.1f} GB in all)", flush=True)
        pip = [str(PYTHON), "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
        for words in asked(bundle, given):
            subprocess.run([*pip, *words], check=True)
        add = f"import site; open(site.getsitepackages()[-1] + '/rebuilt.pth', 'w').write({str(ROOT)!r})"
        subprocess.run([str(PYTHON), "-c", add], check=True)  # so that `helpers` is found
        for held in (ROOT / "data" / "files").glob("*"):
            home = ROOT / "_build" / "data" / held.stem  # where `helpers.data` keeps verified files
            if held.is_dir():
                shutil.copytree(held, home, dirs_exist_ok=True)
            else:  # many files as one archive
                shutil.unpack_archive(held, home)
    except (subprocess.CalledProcessError, OSError) as error:
        print(f"The installation stopped: {error}. Delete .venv and run this again.", file=sys.stderr)
        if index := not bundle["wheels_bytes"] and "--gpu" not in given and torch_index(bundle):
            print(f"If {index} cannot be reached: python room.py install --gpu asks it nothing.", file=sys.stderr)
        return 1
    print("Done. Begin with: python room.py start")
    return 0


def asked(bundle, given):
    """What pip is asked for, call by call: torch for CPUs (from `TORCH_INDEX`, with `--gpu` the usual one), what has a
    hash, the rest; with wheels, from them alone."""
    rest = [["-r", str(ROOT / "requirements.txt")]]
    if (ROOT / HASHED).is_file():
        rest.insert(0, ["--no-deps", "--require-hashes", "-r", str(ROOT / HASHED)])
    if bundle["wheels_bytes"]:
        return [["--no-index", "--find-links", str(ROOT / "wheels"), *words] for words in rest]
    index = torch_index(bundle)
    pinned = (ROOT / "requirements.txt").read_text(encoding="utf-8").split()
    torch = [one for one in pinned if re.match(r"torch\b(?!-)", one)]
    return [["--index-url", index, *torch]] * bool(index and torch and "--gpu" not in given) + rest


def torch_index(bundle):
    """Where torch for CPUs comes from; "" for the package index."""
    return os.environ.get("TORCH_INDEX", bundle["torch_index"] if sys.platform == "linux" else "")


def start(bundle, given):
    """The exit status."""
    if not PYTHON.exists():
        print("There is no .venv yet: python room.py install makes it.", file=sys.stderr)
        return 1
    quiet = ["--LabApp.news_url=", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
    folder = [f"--ServerApp.root_dir={ROOT}", "--ServerApp.ip=127.0.0.1", "--LabApp.default_url=/lab/tree/notebooks"]
    with suppress(KeyboardInterrupt):
        environment = {**os.environ, "JUPYTER_PREFER_ENV_PATH": "1"}
        return subprocess.run([str(PYTHON), "-m", "jupyterlab", *folder, *quiet, *given], env=environment).returncode
    return 0


def plan(bundle, given):
    """The exit status."""
    options = argparse.ArgumentParser("room.py plan", description="The sizes are those of this bundle.")
    options.add_argument("--seats", type=int, required=True)
    options.add_argument("--memory-gb", type=float, default=8, help="of each machine (default: %(default)s)")
    options.add_argument("--cores", type=int, default=4, help="of each machine (default: %(default)s)")
    options.add_argument("--minutes", type=float, default=15, help="for copying the bundle (default: %(default)s)")
    try:
        print(planned(bundle, **vars(options.parse_args(given))))
    except ValueError as error:
        print(f"plan: {error}", file=sys.stderr)
        return 2
    return 0


def planned(bundle, seats, memory_gb, cores, minutes):
    """Seats a machine, machines and network in words; ValueError for a number not above 0, a machine below one seat."""
    for name, value in {"seats": seats, "memory_gb": memory_gb, "cores": cores, "minutes": minutes}.items():
        if not value > 0:
            raise ValueError(f"{name} is {value}; it must be above 0")
    a_seat = bundle["memory_bytes"]
    by_memory, by_cores = int((memory_gb * 1e9 - SYSTEM_BYTES) // a_seat), int(cores // CORES_A_SEAT)
    if by_memory < 1:
        least = f"{(a_seat + SYSTEM_BYTES) / 1e9:.1f} GB are needed, the system included"
        raise ValueError(f"{memory_gb:g} GB are too little for one seat: {least}")
    each = max(1, min(by_memory, by_cores))
    machines = math.ceil(seats / each)
    copied = machines * bundle["zip_bytes"]
    limit = "memory" if by_memory <= by_cores else "cores"
    return f"""\
{seats} seats: {machines} machine{"s" * (machines > 1)}, {each} seat{"s" * (each > 1)} each.
Each seat takes {a_seat / 1e9:.1f} GB of memory and {CORES_A_SEAT} cores; {limit} set the limit.
Disk: {bundle["installed_bytes"] / 1e9:.1f} GB a machine.
Network: {copied / 1e9:.1f} GB in all; {copied * 8e-6 / (minutes * 60):.0f} Mbit/s copy it in {minutes:g} minutes.
Or carry the zip on a few memory sticks: the workshop itself needs no network."""


def main():
    """The exit status of the command that was asked for."""
    commands = {"check": check, "install": install, "start": start, "plan": plan}
    if len(sys.argv) < 2 or sys.argv[1] not in commands:
        print(__doc__)
        return 2
    return commands[sys.argv[1]](json.loads((ROOT / "room.json").read_text(encoding="utf-8")), sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
