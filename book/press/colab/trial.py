"""`press colab`: a chapter run as in a fresh Colab: the kernel is that of a bare environment, the folder has the
student's notebook alone, and git finds at the repository's address a copy with the branch (see `branch`). None of the
packages installed before may change."""

import os
import sys
import time
from collections import namedtuple
from pathlib import Path

import nbclient
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager

from ..errors import PressError, finished
from ..files import remove, write_text
from ..repository import Chapter, Repository, read_notebook
from . import branch

# what Colab has, as far as a chapter may count on it
PREINSTALLED = ["torch", "numpy", "scipy", "matplotlib", "pandas", "tqdm", "PyYAML", "ipykernel", "ipython", "requests"]
LISTED = "import importlib.metadata as m; print(*(f'{d.name}=={d.version}' for d in m.distributions()), sep='\\n')"
MIRROR = "REBUILT_DATA_MIRROR"
KERNEL = '{{"argv": ["{python}", "-m", "ipykernel_launcher", "-f", "{{connection_file}}"], "display_name": "bare"}}'


# What came of one run: its seconds, the versions of packages before it, those added and those changed by it.
Trial = namedtuple("Trial", "seconds before added changed notebook")


def bare(folder: Path, held: list[str]) -> Path:
    """The Python of a new environment in `folder` with what Colab preinstalls, `held` at its versions."""
    remove(folder)
    problem, own = f"no environment of {', '.join(held)} and the rest", folder / "bin" / "python"
    finished(problem, sys.executable, "-m", "venv", folder)
    names = [requirement.partition("==")[0].lower() for requirement in held]
    wanted = [*held, *(name for name in PREINSTALLED if name.lower() not in names)]
    finished(problem, own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted)
    return own


def trial(repository: Repository, chapter: Chapter, folder: Path, python: Path, timeout: float = 900) -> Trial:
    """The Trial of one chapter in `folder`, which is made anew; PressError with the cell that stopped."""
    remove(folder)
    alone, store = folder / "alone" / chapter.notebook.name, published(repository, folder / "published.git")
    told = ("git", "-C", store, "show", f"{repository.branch}:{chapter.document}.ipynb")
    write_text(alone, finished(f"{repository.branch} lacks {chapter}", *told))
    write_text(folder / "kernels" / "bare" / "kernel.json", KERNEL.format(python=python))
    specs = KernelSpecManager(kernel_dirs=[str(folder / "kernels")], ensure_native_kernel=False)
    manager = AsyncKernelManager(kernel_name="bare", kernel_spec_manager=specs)
    client = nbclient.NotebookClient(read_notebook(alone), km=manager, timeout=timeout)
    ours = ("PYTHON", "REBUILT_", "VIRTUAL_ENV", "GIT_")  # a fresh Colab has none of it, and the book at its address
    environment = {name: text for name, text in os.environ.items() if name == MIRROR or not name.startswith(ours)}
    environment |= {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": f"url.{store.as_uri()}.insteadOf"}
    environment |= {"GIT_CONFIG_VALUE_0": repository.url, "COLAB_RELEASE_TAG": "bare"}
    environment |= {"REBUILT_HOME": str(folder / "content")}
    before, began = freeze(python), time.perf_counter()
    try:
        client.execute(env=environment, cwd=str(alone.parent))
    except (nbclient.exceptions.CellExecutionError, nbclient.exceptions.CellTimeoutError) as error:
        raise PressError(f"{chapter} does not run alone: {error}") from None
    seconds, after = time.perf_counter() - began, freeze(python)
    added = {name: version for name, version in after.items() if name not in before}
    changed = {name: f"{was} to {after.get(name)}" for name, was in before.items() if after.get(name) != was}
    return Trial(seconds, before, added, changed, client.nb)


def freeze(python: Path) -> dict[str, str]:
    """The version of every package that the environment of this Python holds."""
    return dict(row.split("==", 1) for row in finished("no list of packages", python, "-c", LISTED).split())


def colab(repository: Repository, names: list[str] | None, held: list[str], as_is: bool = False) -> int:
    """Run the chapters, each in a new environment, and print a line for each; 0 if all ran and nothing preinstalled
    changed, else 1. `as_is` takes the interpreter of the press: so the workflow uses Colab's own image."""
    home, bad = repository.build / "colab", 0
    for chapter in repository.select(names):
        try:
            python = Path(sys.executable) if as_is else bare(home / "bare", _torch(repository, held))
            found = trial(repository, chapter, home / "run", python)
        except PressError as error:
            bad, told = bad + 1, str(error)
        else:
            bad += bool(found.changed)
            had = _list({name: found.before.get(name, "absent") for name in ("torch", "numpy")})
            told = f"{chapter} ran in {found.seconds:.0f} s beside {had}; added: {_list(found.added)}; "
            told += f"CHANGED: {_list(found.changed)}" if found.changed else "nothing preinstalled changed"
        print(told, flush=True)
    return int(bad > 0)


def _torch(repository: Repository, held: list[str]) -> list[str]:
    """The packages to hold, and torch as in `requirements.txt` unless it is among them: the newest may be gigabytes."""
    given = any(name.startswith("torch==") for name in held)
    return held if given else [f"torch=={repository.pins['torch']}", *held]


def _list(packages: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in packages.items()) or "nothing"


def published(repository: Repository, folder: Path) -> Path:
    """A bare copy of the repository with the branch that setup cells clone, made of the last commit."""
    finished("the repository cannot be copied", "git", "clone", "--quiet", "--bare", repository.root, folder)
    branch.make(repository, folder)
    return folder
