"""What the setup cell does in Colab once the repository is there; standard library and PyYAML only. Nothing that Colab
preinstalls changes: `helpers` is found on the path, and an extra package is installed only when it is absent, with
every installed one held at its version."""

import importlib
import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path

HASHED = Path(__file__).resolve().parents[3] / "requirements-hashed.txt"  # what pip takes by its hash alone


def absent(packages: list[str]) -> list[str]:
    """The requirements whose package is not installed, whatever its version.

    >>> absent(["pip", "no-such-package==1.0"])
    ['no-such-package==1.0']
    """
    missing = []
    for requirement in packages:
        try:
            importlib.metadata.version(re.match(r"[\w.-]+", requirement).group())
        except importlib.metadata.PackageNotFoundError:
            missing.append(requirement)
    return missing


def hashed(packages: list[str], listed: Path) -> str:
    """The lines with hashes that the file `listed` has for the packages; "" where it has none, or is not there."""
    text = listed.read_text(encoding="utf-8") if listed.is_file() else ""
    found = re.findall(r"^(\S+) ((?:\\\n\s+--hash=\S+ ?)+)", text, re.MULTILINE)
    return "\n".join(f"{name} {own}" for name, own in found if name in packages)


def install(packages: list[str], pins: Path, listed: Path = HASHED) -> None:
    """Install the absent packages; RuntimeError where pip would touch an installed one or a hash differs."""
    missing = absent(packages)
    if not missing:
        return
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    frozen = subprocess.run([*pip, "list", "--format=freeze"], check=True, capture_output=True, text=True)
    pins.parent.mkdir(parents=True, exist_ok=True)
    pins.write_text(frozen.stdout, encoding="utf-8")
    asked = [["--constraint", str(pins), *missing]]
    if own := hashed(missing, listed):
        pins.with_suffix(".hashed").write_text(own, encoding="utf-8")
        asked.insert(0, ["--no-deps", "--require-hashes", "-r", str(pins.with_suffix(".hashed"))])
    for words in asked:
        done = subprocess.run([*pip, "install", "--quiet", *words], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"pip cannot add {' '.join(missing)} beside what Colab has:\n{done.stderr.strip()}")
    importlib.invalidate_caches()  # so that this process sees them without a restart


def prepare(home: Path, chapter: str) -> None:
    """Make `helpers` importable here and in worker processes, add missing packages, enter the chapter's folder."""
    import yaml

    home = Path(home).resolve()
    card_path = home / "notebooks" / f"{chapter}.yml"
    if not card_path.exists():
        why = f"{home.name} has no chapter {chapter}: this notebook is newer than the release, or older"
        raise RuntimeError(f"{why}. Open it by a button of its page in the book, or wait for the next release.")
    card = yaml.safe_load(card_path.read_text(encoding="utf-8"))
    for path in (str(card_path.parent), str(home)):
        if path not in sys.path:
            sys.path.insert(0, path)
    workers = [str(home), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(workers))
    install(card.get("packages") or [], home / "_build" / "colab-pins.txt")
    os.chdir(card_path.parent)
