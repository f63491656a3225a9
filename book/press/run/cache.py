"""Executed notebooks kept by what made them, so that nothing unchanged is run twice.

The key is a hash of everything that can change a page: the notebook's cells, the slice with the weights and data
that lie in it, the card, the recorded receipts, the helpers, the registry rows of its data, the parameters, the
installed versions and the machine's model.
An entry is a folder `_build/cache/<key>/` with the executed notebook and its receipt.
"""

import functools
import importlib.metadata
import json
import os
import platform
import re
import shutil
import subprocess
import uuid
from pathlib import Path

from ..files import read_json, remove, sha256, write_bytes, write_json
from ..repository import Chapter, Repository, tags

FORMAT = 2  # raise it when the press itself changes what an executed notebook holds


@functools.cache
def hardware() -> dict[str, str]:
    """The models of this machine's processor and GPUs, asked of the operating system, without torch."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        found = re.search(r"^model name\s*:\s*(.+)$", info.read_text(encoding="utf-8"), re.MULTILINE)
        cpu = found.group(1).strip() if found else cpu
    gpu = ""
    if shutil.which("nvidia-smi"):
        asked = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
        try:
            done = subprocess.run(asked, capture_output=True, text=True, timeout=20)
            gpu = ", ".join(done.stdout.split("\n")).strip(", ") if done.returncode == 0 else ""
        except (OSError, subprocess.TimeoutExpired):
            gpu = "not answering"
    return {"cpu": cpu, "gpu": gpu}


def versions(root: Path) -> dict[str, str]:
    """The installed versions of the packages that `requirements.txt` names; "absent" for one that is not there."""
    path = root / "requirements.txt"
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        name = re.match(r"\s*(?:# no-deps: )?([A-Za-z0-9][\w.-]*)", line)
        if name:
            try:
                found[name.group(1).lower()] = importlib.metadata.version(name.group(1))
            except importlib.metadata.PackageNotFoundError:
                found[name.group(1).lower()] = "absent"
    return found


def parts(repository: Repository, chapter: Chapter, tier: str) -> dict[str, str]:
    """One hash for each thing that an execution depends on, so that a new run can say what changed."""
    cells = [(cell.cell_type, cell.source, tags(cell)) for cell in chapter.cells]
    helpers = [path for path in sorted((repository.root / "helpers").rglob("*.py")) if path.name[:5] != "test_"]
    data = set(chapter.card.get("data") or [])
    told = {name: os.environ.get(name, "") for name in ("REBUILT_TIER", "CUDA_VISIBLE_DEVICES")}
    recorded = repository.root / "data" / "receipts" / chapter.stem
    whole = {
        "notebook": cells,
        "slice": {path.name: path.read_text(encoding="utf-8") for path in chapter.modules()},
        "files": {repository.relative(path): sha256(path.read_bytes()) for path in chapter.files()},
        "card": chapter.card_path.read_text(encoding="utf-8"),
        "recorded": [path.read_text(encoding="utf-8") for path in sorted(recorded.glob("*.json"))],
        "helpers": {repository.relative(path): path.read_text(encoding="utf-8") for path in helpers},
        "data registry": [row for row in repository.registry if row.get("dataset") in data],
        "parameters": {"tier": tier, **told},
        "versions": {"python": platform.python_version(), **versions(repository.root)},
        "machine": hardware(),
        "press": FORMAT,
    }
    return {name: sha256(json.dumps(value, sort_keys=True)) for name, value in whole.items()}


def key(made_of: dict[str, str]) -> str:
    """The name of the cache entry for these parts."""
    return sha256(json.dumps(made_of, sort_keys=True))[:32]


def store(repository: Repository, name: str, notebook: Path, receipts: list[Path]) -> None:
    """Keep an executed notebook and its receipts under the key `name`."""
    beside = repository.build / "cache" / f".{uuid.uuid4().hex[:8]}.part"
    (beside / "receipts").mkdir(parents=True)
    shutil.copyfile(notebook, beside / "notebook.ipynb")
    for path in receipts:
        shutil.copyfile(path, beside / "receipts" / path.name)
    entry = repository.build / "cache" / name
    remove(entry)
    os.replace(beside, entry)


def restore(repository: Repository, name: str, chapter: Chapter) -> dict[str, dict] | None:
    """Put a kept execution in its place; its receipts by file name, or None when none is kept whole."""
    entry = repository.build / "cache" / name
    receipts = {path.name: read_json(path) for path in sorted((entry / "receipts").glob("*.json"))}
    if read_json(entry / "notebook.ipynb") is None or not receipts or None in receipts.values():
        return None
    for file, content in receipts.items():
        write_json(repository.build / "receipts" / file, content)
    write_bytes(chapter.executed, (entry / "notebook.ipynb").read_bytes())
    return receipts
