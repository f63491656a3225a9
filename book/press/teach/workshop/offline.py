"""A bundle proved: unpacked, checked, installed and run in a network namespace with a loopback device and no route, so
that kernels and JupyterLab work and nothing can be fetched. Linux only: it needs `unshare`."""

import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ... import chromium
from ...errors import PressError, finished
from ..variants import KINDS

SECONDS = 1800  # for a step, at most
ALONE, LAB = (Path(__file__).with_name(f"{name}.py.txt").read_text(encoding="utf-8") for name in ("alone", "lab"))


def prove(bundle: Path) -> list[tuple[str, float]]:
    """The steps that passed, each with its seconds; PressError with what was said when one does not."""
    if not sys.platform.startswith("linux") or not shutil.which("unshare"):
        raise PressError("the offline proof needs Linux with `unshare`: a network namespace without a route")
    with tempfile.TemporaryDirectory(prefix="press-offline-") as scratch:
        shutil.unpack_archive(bundle, scratch)
        folder = Path(scratch, bundle.stem)
        chapters = json.loads((folder / "room.json").read_text(encoding="utf-8"))["chapters"]
        steps = {what: [sys.executable, "room.py", *what.split()] for what in ("check", "plan --seats 24", "install")}
        execute = "-m nbconvert --to notebook --execute --ExecutePreprocessor.timeout=600 --output-dir _build/ran"
        for name in [f"notebooks/{chapter}.{kind}.ipynb" for chapter in chapters for kind in KINDS]:
            steps[name] = [str(folder / ".venv/bin/python"), *execute.split(), name]
        steps["JupyterLab answers"] = [sys.executable, "-c", LAB]
        took = [(name, alone(name, command, folder)) for name, command in steps.items()]
        begun = time.monotonic()
        seen = f"{browse(folder)} pages open from the disk, nothing asked of a network"
        return [*took, (seen, time.monotonic() - begun)]


def alone(step: str, command: list[str], folder: Path, **more: str) -> float:
    """The seconds of a command that ran to its end without a network; `more` of its environment."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder.parent), "LANG": "C.UTF-8", "REBUILT_TIER": "cpu"} | more
    outside = ["unshare", "--net", "--map-root-user", sys.executable, "-c", ALONE]
    begun = time.monotonic()
    finished(f"{step} fails offline", *outside, *command, cwd=folder, env=environment, timeout=SECONDS)
    return time.monotonic() - begun


def browse(folder: Path) -> int:
    """The number of pages that Chromium shows without an error and without asking for anything outside the folder."""
    patterns = ("START_HERE.html", "slides/*.html", "instructor/*.html", "book/notebooks/*/*/*.html")
    pages = [path for pattern in patterns for path in sorted(folder.glob(pattern))]
    with chromium.browser() as browser:
        wrong = {f"{path.name}: {what}" for path in pages for what in _look(browser, path, folder)}
    if wrong:
        raise PressError("pages of the bundle are not whole:\n" + "\n".join(sorted(wrong)[:20]))
    return len(pages)


def _look(browser: object, path: Path, folder: Path) -> list[str]:
    """What goes wrong when the page is opened from the disk."""
    seen: list[str] = []

    def failed(request) -> None:
        if request.url.startswith("http"):
            seen.append(f"asks {request.url}")
        elif not Path(unquote(urlsplit(request.url).path)).is_file():  # Chromium preloads no font from a disk
            seen.append(f"lacks {request.url}")

    tab = chromium.page(browser, folder.as_uri())
    tab.on("pageerror", lambda error: seen.append(str(error)))
    tab.on("requestfailed", failed)
    tab.goto(path.as_uri(), wait_until="load")
    tab.wait_for_timeout(300)
    tab.close()
    return seen
