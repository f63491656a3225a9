"""The environment of a chapter's peers: over the book's own packages, what the cards pin under `peers`. It lies in the
cache, named by the hash of pins and Python; a stamp, written last, makes it whole. A `.pth` adds the book's own."""

import os
import shlex
import sys
import sysconfig
from pathlib import Path

from ..errors import finished
from ..files import lock, remove, sha256, write_json, write_text
from ..repository import Chapter
from ..reuse import store

SECONDS = 1800.0  # for each step of its making


def pins(chapters: list[Chapter]) -> list[str]:
    """The requirement lines that the cards of a chapter name under `peers`, each once, sorted."""
    return sorted({str(line).strip() for chapter in chapters for line in chapter.card.get("peers") or ()})


def python(lines: list[str]) -> Path:
    """The Python that sees the book's packages and the peers; the book's own where there are no peers."""
    if not lines:
        return Path(sys.executable)
    made_of = "\n".join([*lines, sys.version, sys.executable, sysconfig.get_path("purelib")])
    home = store.folder() / "peers" / sha256(made_of)[:16]
    stamp = home / store.STAMP
    with lock(home.with_suffix(".lock"), "press race"):
        if not stamp.is_file():
            print(f"making the environment of {', '.join(lines)}", flush=True)
            remove(home)
            try:
                _make(home, lines)
            except BaseException:
                remove(home)
                raise
            size = sum(path.lstat().st_size for path in home.rglob("*"))
            write_json(stamp, {"peers": lines, "bytes": size, "python": sys.version})
        os.utime(stamp)
    return home / "bin/python"


def _make(home: Path, lines: list[str]) -> None:
    problem, how = f"no environment of {', '.join(lines)}", {"env": os.environ | {"PYTHONPATH": ""}, "timeout": SECONDS}
    finished(problem, sys.executable, "-m", "venv", "--without-pip", home, **how)
    folders = dict.fromkeys((sysconfig.get_path("purelib"), sysconfig.get_path("platlib")))
    added = "; ".join(f"site.addsitedir({folder!r})" for folder in folders)
    (own,) = home.glob("lib/python*/site-packages")
    write_text(own / "zz_book.pth", f"import site; {added}\n")
    pip = [sys.executable, "-m", "pip", "--python", str(home / "bin/python"), "install", "-q"]
    whole = [line for line in lines if "--no-deps" not in line]
    alone = [shlex.split(line) for line in lines if "--no-deps" in line]
    for words in filter(None, [whole, *alone]):
        finished(problem, *pip, "--disable-pip-version-check", *words, **how)
