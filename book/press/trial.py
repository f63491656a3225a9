"""A chapter tried as Colab runs it: a bare environment, the notebook alone in an empty folder, no checkout.

The environment holds what Colab preinstalls and nothing else. Git finds the repository's address at a local
copy, tagged with the release. Afterwards no preinstalled version may have changed. Takes minutes and, on a
new machine, a download of gigabytes: `python book/press trial` is no part of the tests.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import nbformat

from .errors import PressError
from .model import Chapter, Repository
from .worker import prepare

PREINSTALLED = ["numpy", "scipy", "matplotlib", "pandas", "tqdm", "PyYAML", "ipykernel", "ipython", "requests"]


class Trial(NamedTuple):
    """How it went: seconds of the notebook, packages `added`, and preinstalled ones that `changed`."""

    seconds: float
    added: list[str]
    changed: list[str]


def trial(repository: Repository, chapter: Chapter, pins: list[str]) -> Trial:
    """Run the chapter once in a fresh environment; `pins` stand in for preinstalled packages of that name.

    Raises PressError when the environment cannot be made, and nbclient's CellExecutionError for a failing cell.
    """
    with tempfile.TemporaryDirectory(prefix="press-trial-") as scratch:
        home = Path(scratch)
        python = _environment(repository, home / "bare", pins)
        before = _freeze(python)
        began = time.monotonic()
        _execute(_alone(chapter, home), python, _published(repository, home))
        seconds = time.monotonic() - began
        after = _freeze(python)
    changed = [f"{name} {old} -> {after.get(name)}" for name, old in before.items() if after.get(name) != old]
    return Trial(seconds, sorted(set(after) - set(before)), changed)


def _environment(repository: Repository, folder: Path, pins: list[str]) -> Path:
    """The Python of a new environment with what Colab preinstalls; torch as pinned unless `pins` says another."""
    torch = next(line for line in (repository.root / "requirements.txt").read_text().splitlines() if "torch==" in line)
    chosen = {requirement.split("==")[0]: requirement for requirement in [torch, *PREINSTALLED, *pins]}
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *chosen.values()]
    done = subprocess.run(pip, capture_output=True, text=True)
    if done.returncode:
        raise PressError(f"no environment with {', '.join(chosen.values())}:\n{done.stderr.strip()[-2000:]}")
    return python


def _freeze(python: Path) -> dict[str, str]:
    """The installed packages and their versions."""
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "list", "--format=freeze"]
    listed = subprocess.run(pip, check=True, capture_output=True, text=True).stdout
    return dict(line.split("==", 1) for line in listed.splitlines() if "==" in line)


def _published(repository: Repository, home: Path) -> dict[str, str]:
    """Settings that make git find the repository's address at a tagged copy of the committed state."""
    copy = home / "origin.git"
    subprocess.run(["git", "clone", "--quiet", "--bare", str(repository.root), str(copy)], check=True)
    subprocess.run(["git", "-C", str(copy), "tag", "--force", repository.release], check=True, capture_output=True)
    settings = {f"url.{copy.as_uri()}.insteadOf": repository.url, "safe.directory": "*"}
    found = {"GIT_CONFIG_COUNT": str(len(settings))}
    for index, (key, value) in enumerate(settings.items()):
        found |= {f"GIT_CONFIG_KEY_{index}": key, f"GIT_CONFIG_VALUE_{index}": value}
    return found


def _alone(chapter: Chapter, home: Path) -> Path:
    """The notebook file by itself in an empty folder; Colab's /content moved into `home`."""
    notebook = prepare(nbformat.read(chapter.notebook, as_version=4))
    for cell in notebook.cells:
        if "setup" in cell.metadata.get("tags", []):
            cell.source = cell.source.replace("/content", str(home))
    folder = home / "empty"
    folder.mkdir()
    nbformat.write(notebook, folder / chapter.notebook.name)
    return folder / chapter.notebook.name


def _execute(path: Path, python: Path, settings: dict[str, str]) -> None:
    from jupyter_client import KernelManager
    from nbclient import NotebookClient

    class Bare(KernelManager):
        @property
        def kernel_spec(self):
            spec = super().kernel_spec
            spec.argv = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
            return spec

    inherited = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment = {**inherited, **settings, "COLAB_RELEASE_TAG": "release-colab"}
    notebook = nbformat.read(path, as_version=4)
    where = {"metadata": {"path": str(path.parent)}}
    client = NotebookClient(notebook, km=Bare(kernel_name="python3"), timeout=900, resources=where)
    client.execute(env=environment)
