"""The data in a workshop's zip, and what a light one leaves to the first run."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from ...repository import Chapter, Repository

LIGHT_DATA_BYTES = 24e6  # of a light zip; what else is in it takes up to 6 MB


def too_large(repository: Repository, chapter: Chapter) -> list[str]:
    """The data sets of a chapter that a light zip has no place for, the smallest having been put in first."""
    sizes = dict.fromkeys(chapter.card.get("data") or [], 0)
    for row in repository.registry:
        if row["dataset"] in sizes:
            sizes[row["dataset"]] += int(row["bytes"])
    taken, left = 0, []
    for name in sorted(sizes, key=lambda name: (sizes[name], name)):
        if taken + sizes[name] > LIGHT_DATA_BYTES:
            left.append(name)
        else:
            taken += sizes[name]
    return left


def put(repository: Repository, chapters: list[Chapter], folder: Path, without: Sequence[str] = ()) -> None:
    """The registry and the files of the chapters' data sets, as verified by `helpers.data`; not of those `without`."""
    from helpers import data

    (folder / "data").mkdir()
    shutil.copyfile(repository.root / "data" / "registry.tsv", folder / "data" / "registry.tsv")
    for name in ("README.md", "receipts"):
        source = repository.root / "data" / name
        if source.is_dir():
            shutil.copytree(source, folder / "data" / name)
        elif source.exists():
            shutil.copyfile(source, folder / "data" / name)
    used = {name for chapter in chapters for name in chapter.card.get("data") or []}
    for dataset in sorted(used - set(without)):
        own = {"registry": repository.root / "data" / "registry.tsv", "folder": repository.build / "data" / dataset}
        found = data.fetch(dataset, **own)
        wanted = {row["file"] for row in repository.registry if row["dataset"] == dataset}
        for name in sorted(wanted):
            target = folder / "data" / "files" / dataset / name
            target.parent.mkdir(parents=True, exist_ok=True)
            link(str(found / name), str(target))


def but(first_run: Sequence[str]) -> str:
    """What the first page says of data sets that are not in the folder."""
    return f" except {' and '.join(first_run)}, which the first run downloads" if first_run else ""


def link(source: str, target: str) -> None:
    """A second name for the file, or a copy where the disk has none."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
