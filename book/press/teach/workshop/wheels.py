"""The packages of a bundle: which, and their wheels from the package index."""

import hashlib
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

from ...colab.trial import PREINSTALLED
from ...errors import PressError
from ...files import remove
from ...repository import Chapter, Repository

ROOM = ("jupyterlab",)  # beside what Colab has: a place to open notebooks in


def requirements(repository: Repository, chapters: list[Chapter]) -> list[str]:
    """What a seat installs: what Colab has, JupyterLab and the chapters' extras; pinned where requirements.txt pins."""
    text = (repository.root / "requirements.txt").read_text(encoding="utf-8")
    pins = {m.group(1).lower(): m.group() for m in re.finditer(r"^([\w.-]+)(?:\[[^\]]*\])?==\S+", text, re.MULTILINE)}
    extras = [package for chapter in chapters for package in chapter.card.get("packages") or []]
    named = {re.match(r"[\w.-]+", extra).group().lower() for extra in extras}
    usual = [pins.get(name.lower(), name) for name in (*PREINSTALLED, *ROOM) if name.lower() not in named]
    return sorted({*usual, *extras}, key=str.lower)


def platform() -> str:
    """This machine's platform, as wheels name it."""
    return re.sub(r"[-.]", "_", sysconfig.get_platform())


def download(repository: Repository, wanted: list[str], index: str = "") -> Path:
    """The folder with the wheels of the requirements and all that they need, kept for the next bundle.

    `index` is where torch comes from (a CPU-only index saves gigabytes). Raises PressError with pip's own words.
    """
    key = hashlib.sha256("\n".join([*wanted, sys.version, platform(), index]).encode()).hexdigest()[:12]
    folder = repository.build / "wheels" / key
    if (folder / ".complete").exists():
        return folder
    remove(folder)
    folder.mkdir(parents=True)
    torch = [one for one in wanted if one.startswith("torch==")]
    for some, more in ((torch, ["--index-url", index] if index else []), (wanted, ["--find-links", str(folder)])):
        if some:
            _pip([*more, *some], folder)
    strange = [path.name for path in folder.iterdir() if path.suffix != ".whl"]
    if strange:
        raise PressError(f"no wheel for {', '.join(strange)}: a seat would have to compile it")
    (folder / ".complete").touch()
    return folder


def _pip(arguments: list[str], folder: Path) -> None:
    start = [sys.executable, "-m", "pip", "wheel", "--disable-pip-version-check", "--quiet", "--wheel-dir", str(folder)]
    done = subprocess.run([*start, *arguments], capture_output=True, text=True)
    if done.returncode:
        raise PressError(f"the packages of the bundle cannot be had:\n{done.stderr.strip()[-2000:]}")
