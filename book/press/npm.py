"""npm packages for browsers, as `runtimes.tsv` pins them by name, version and SHA-256; nothing of them is run here.

A package comes from where it already lies, from the mirror, or through npm, which knows where its registry is.
"""

import csv
import http.client
import io
import os
import shutil
import subprocess
import tarfile
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

from .errors import PressError
from .files import sha256, write_bytes
from .repository import Repository

RUNTIMES = Path(__file__).with_name("print") / "runtimes.tsv"
COLUMNS = ("package", "version", "sha256", "licence", "citation", "used_for")
SECONDS = 600  # for a package, at most
OFFLINE = "not asked, because REBUILT_OFFLINE is set"


def pinned() -> dict[str, dict[str, str]]:
    """The rows of `runtimes.tsv` by their packages' names."""
    with RUNTIMES.open(encoding="utf-8", newline="") as text:
        return {row["package"]: row for row in csv.DictReader(text, delimiter="\t", quoting=csv.QUOTE_NONE)}


def taken(repository: Repository, name: str, wanted: tuple[str, ...]) -> dict[str, bytes]:
    """The files `wanted` of a pinned package, by their last names; raises PressError when it cannot be had."""
    archive = package(repository, name)
    with tarfile.open(fileobj=io.BytesIO(archive.read_bytes()), mode="r:gz") as packed:
        found = {entry.name.removeprefix("package/"): entry for entry in packed if entry.isreg()}
        missing = [file for file in wanted if file not in found]
        if missing:
            raise PressError(f"{archive.name} has no {', '.join(missing)}")
        return {file.rpartition("/")[2]: packed.extractfile(found[file]).read() for file in wanted}


def package(repository: Repository, name: str) -> Path:
    """The verified package below `_build/data`."""
    row = pinned()[name]
    file = f"{name}-{row['version']}.tgz"
    target = repository.root / "_build" / "data" / name / file
    said = []
    for place, read in _sources(target, f"{name}/{file}", f"{name}@{row['version']}"):
        try:
            content = read()
        except (OSError, http.client.HTTPException, subprocess.SubprocessError) as error:
            said.append(f"{place}: {error}")
            continue
        if sha256(content) == row["sha256"]:
            return target if place == str(target) else write_bytes(target, content)
        said.append(f"{place}: SHA-256 {sha256(content)}, and {row['sha256']} is pinned")
    told = "".join(f"\n  {line}" for line in said)
    raise PressError(f"{file} cannot be had; put it there or into the mirror, or install npm:{told}")


def _sources(target: Path, file: str, asked: str) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """(name, reader) of each place that may have the package, in order."""
    yield str(target), target.read_bytes
    mirror = os.environ.get("REBUILT_DATA_MIRROR", "").rstrip("/")
    if "://" in mirror:
        yield f"{mirror}/{file}", lambda: _downloaded(f"{mirror}/{file}")
    elif mirror:
        path = Path(mirror).expanduser() / file
        yield str(path), path.read_bytes
    yield f"npm pack {asked}", lambda: _packed(asked, target.name)


def _downloaded(address: str) -> bytes:
    _refuse_offline()
    with urllib.request.urlopen(address, timeout=SECONDS) as answer:
        return answer.read()


def _packed(asked: str, file: str) -> bytes:
    """The package as npm brings it, unchanged."""
    _refuse_offline()
    client = shutil.which("npm")
    if not client:
        raise FileNotFoundError("npm is not installed")
    with tempfile.TemporaryDirectory() as folder:
        options = {"cwd": folder, "capture_output": True, "text": True, "timeout": SECONDS}
        done = subprocess.run([client, "pack", asked, "--ignore-scripts"], stdin=subprocess.DEVNULL, **options)
        if done.returncode:
            raise OSError(done.stderr.strip()[-300:] or f"npm ended with status {done.returncode}")
        return Path(folder, file).read_bytes()


def _refuse_offline() -> None:
    if os.environ.get("REBUILT_OFFLINE", "0") not in ("", "0"):
        raise OSError(OFFLINE)
