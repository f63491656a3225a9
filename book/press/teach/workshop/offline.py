"""A bundle proved: unpacked, checked, installed and run where there is no network at all.

The network namespace holds a loopback device and no route, so that nothing can be fetched and everything that needs
a local socket (kernels, JupyterLab) still works. Linux only: it needs `unshare`.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ... import chromium
from ...errors import PressError

SECONDS = 1800
SCRIPT = r"""
import fcntl, json, os, socket, struct, subprocess, sys, time, urllib.request
from pathlib import Path

def run(*command, seconds=900):
    begun = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    print("::step " + json.dumps([" ".join(command[:4]), done.returncode, time.monotonic() - begun]), flush=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done.stdout

with socket.socket() as one:  # the loopback device is down in a new namespace
    request = struct.pack("16sH14s", b"lo", 0x1 | 0x40, b"")
    fcntl.ioctl(one.fileno(), 0x8914, request)
for address in (("1.1.1.1", 443), ("192.168.0.1", 80)):
    try:
        socket.create_connection(address, timeout=3).close()
        sys.exit(f"{address} can be reached: this is not offline")
    except OSError:
        pass
run(sys.executable, "room/room_check.py")
run(sys.executable, "room/planner.py", "--seats", "24")
run(sys.executable, "room/install.py")
python = str(Path(".venv/bin/python").resolve())
nbconvert = [python, "-m", "nbconvert", "--to", "notebook", "--execute", "--ExecutePreprocessor.timeout=600"]
for notebook in json.loads(sys.argv[1]):
    run(*nbconvert, "--output-dir", "_build/ran", notebook)
    ran = json.loads(Path("_build/ran", Path(notebook).name).read_text())
    empty = [c for c in ran["cells"] if c["cell_type"] == "code" and c["source"] and c["execution_count"] is None]
    if empty:
        sys.exit(f"{notebook}: {len(empty)} cells did not run")
lab = subprocess.Popen([sys.executable, "room/start.py", "--no-browser", "--allow-root", "--port", "8899",
    "--ServerApp.token=offline"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
try:
    for attempt in range(120):
        try:
            page = urllib.request.urlopen("http://127.0.0.1:8899/lab?token=offline", timeout=5).read()
            break
        except OSError:
            time.sleep(0.5)
    else:
        sys.exit("JupyterLab did not answer in a minute")
    if b"JupyterLab" not in page:
        sys.exit("what answered is not JupyterLab")
    print("::step " + json.dumps(["JupyterLab answers", 0, 0.0]), flush=True)
finally:
    os.killpg(lab.pid, 15)
    lab.wait(30)
"""


def prove(bundle: Path, kinds: tuple[str, ...] = ("student", "solution", "instructor")) -> list[tuple[str, float]]:
    """The steps that passed, each with its seconds; PressError with what was said when one does not."""
    if not sys.platform.startswith("linux") or not shutil.which("unshare"):
        raise PressError("the offline proof needs Linux with `unshare`: a network namespace without a route")
    with tempfile.TemporaryDirectory(prefix="press-offline-") as scratch:
        folder = unpack(bundle, Path(scratch))
        facts = json.loads((folder / "room" / "bundle.json").read_text(encoding="utf-8"))
        notebooks = [f"notebooks/{name}.{kind}.ipynb" for name in facts["chapters"] for kind in kinds]
        command = ["unshare", "--net", "--map-root-user", sys.executable, "-c", SCRIPT, json.dumps(notebooks)]
        environment = {"PATH": "/usr/bin:/bin", "HOME": scratch, "LANG": "C.UTF-8", "REBUILT_TIER": "cpu"}
        begun = time.monotonic()
        limits = {"cwd": folder, "env": environment, "timeout": SECONDS}
        try:
            done = subprocess.run(command, capture_output=True, text=True, **limits)
        except subprocess.TimeoutExpired:
            raise PressError(f"the bundle took longer than {SECONDS} s") from None
        if done.returncode:
            raise PressError(f"{bundle.name} fails offline:\n{(done.stderr or done.stdout).strip()[-4000:]}")
        steps = [json.loads(line[7:]) for line in done.stdout.splitlines() if line.startswith("::step ")]
        seen = browse(folder)
        return [(what, seconds) for what, _, seconds in steps] + [
            (f"{seen} pages open from the disk, nothing asked of a network", time.monotonic() - begun)
        ]


def unpack(bundle: Path, into: Path) -> Path:
    """The bundle's folder, unpacked; PressError for an entry that would land elsewhere."""
    with zipfile.ZipFile(bundle) as archive:
        for name in archive.namelist():
            if name.startswith("/") or ".." in Path(name).parts:
                raise PressError(f"{bundle.name} holds {name!r}, which would land outside its folder")
        archive.extractall(into)
        return into / archive.namelist()[0].split("/")[0]


def browse(folder: Path) -> int:
    """The number of pages that Chromium shows without an error and without asking for anything outside the folder."""
    if not chromium.find():
        raise PressError(f"the bundle's pages cannot be looked at: {chromium.WANTED}")
    pages = [
        folder / "START_HERE.html",
        *sorted(folder.glob("slides/*.html")),
        *sorted(folder.glob("instructor/*.html")),
    ]
    pages += sorted(folder.glob("book/notebooks/*/*/*.html"))
    wrong: list[str] = []
    with chromium.browser() as browser:
        for path in pages:
            wrong += [f"{path.name}: {what}" for what in _look(browser, path)]
    if wrong:
        raise PressError("pages of the bundle are not whole:\n" + "\n".join(sorted(set(wrong))[:20]))
    return len(pages)


def _lacking(address: str) -> list[str]:
    """The complaint about a file that is not there; a font that Chromium does not preload from a disk is no loss."""
    there = address.startswith("file:") and Path(unquote(urlsplit(address).path)).is_file()
    return [] if there or address.startswith("http") else [f"lacks {address}"]


def _look(browser, path: Path) -> list[str]:
    """What goes wrong when the page is opened from the disk."""
    seen: list[str] = []

    def outside(route) -> None:
        seen.append(f"asks {route.request.url}")
        route.abort()

    tab = browser.new_page()
    tab.route(re.compile(r"^https?:"), outside)
    tab.on("pageerror", lambda error: seen.append(str(error)))
    tab.on("requestfailed", lambda request: seen.extend(_lacking(request.url)))
    tab.goto(path.as_uri(), wait_until="load")
    tab.wait_for_timeout(300)
    tab.close()
    return seen
