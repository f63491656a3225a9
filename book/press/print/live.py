"""Live models: a page in which a model of the chapter runs in the reader's browser, with no server and no network. A
chapter has one when its card says `live` and a cell shows an output of the kind `MIME`, as the run exported it. Model,
runtime, script and style are packs in `_live/`: classic scripts of gzipped files in base64, because a page opened from
a folder may neither fetch a file nor import a module."""

import base64
import functools
import gzip
import json
import re
from pathlib import Path

import nbformat

from .. import npm
from ..errors import PressError
from ..face.gallery import LIVE as MIME
from ..files import sha256, write_text
from ..repository import Chapter, Repository

LOADER = Path(__file__).with_name("live.js")
RUNTIME = "onnxruntime-web"
FILES = ("dist/ort.wasm.min.js", "dist/ort-wasm-simd-threaded.mjs", "dist/ort-wasm-simd-threaded.wasm")
NOTICE = Path(__file__).with_name("onnxruntime_notice.txt")  # its package holds none


def publish(notebook: nbformat.NotebookNode, chapter: Chapter, repository: Repository, source: Path) -> None:
    """Write the packs of the chapter's live model below `source/_live`, and put its element around the output's own
    HTML, which stands until a reader touches it. PressError where card and output disagree or a hash is wrong."""
    card = chapter.card.get("live")
    shown = [out for cell in notebook.cells for out in cell.get("outputs", []) if MIME in out.get("data", {})]
    if len(shown) != bool(card):
        promised = f"promises {card['name']!r}" if card else "promises none"
        raise PressError(f"{chapter}: {len(shown)} outputs are live models, and the card's `live` {promised}")
    if not card:
        return
    data, name = shown[0].data, card["name"]
    found = data.pop(MIME)
    if found.get("name") != name:
        raise PressError(f"{chapter}: the live model is called {found.get('name')!r}, in the card {name!r}")
    texts = {"model": (f"{chapter.name}/{name}.js", pack(name, checked(found["files"], chapter)))}
    texts["runtime"] = f"{card['runtime'].replace('==', '-')}.js", runtime(card["runtime"], repository)
    for kind in ("script", "style"):
        texts[kind] = f"{chapter.name}/{card[kind]}", (chapter.home / card[kind]).read_text(encoding="utf-8")
    size = sum(len(gzip.compress(text.encode("utf-8"), 6)) for _, text in texts.values())
    places = " ".join(f'data-{kind}="{write(source, *text)}"' for kind, text in texts.items())
    element = f'<div class="rebuilt-live" data-live="{name}" {places} data-megabytes="{size / 1e6:.1f}">'
    begin = f'<script defer src="{write(source, LOADER.name, LOADER.read_text(encoding="utf-8"))}"></script>'
    data["text/html"] = f"{element}{data['text/html']}</div>\n{begin}"


def checked(files: dict[str, dict], chapter: object) -> dict[str, bytes]:
    """The bytes of each file of an output; PressError names one whose hash is wrong."""
    found = {}
    for name, one in files.items():
        content = base64.b64decode(one["base64"], validate=True)
        if not re.fullmatch(r"[\w.-]+", name) or sha256(content) != one["sha256"]:
            told = f"SHA-256 {sha256(content)}, and the run wrote {one['sha256']}"
            raise PressError(f"{chapter}: the live model's {name!r} is refused: {told}; run the chapter again")
        found[name] = content
    return found


def pack(name: str, files: dict[str, bytes], notice: str = "") -> str:
    """A classic script that hands files to the loader; the same files give the same text."""
    packed = {file: base64.b64encode(gzip.compress(files[file], 9, mtime=0)).decode() for file in sorted(files)}
    head = f"/* {notice} */\n" if notice else ""
    return f"{head}rebuiltLive.add({json.dumps(name)}, {json.dumps(packed)});\n"


@functools.lru_cache(maxsize=1)  # unpacking and packing it takes seconds
def runtime(asked: str, repository: Repository) -> str:
    """The runtime's pack, made from the pinned package; one for all chapters."""
    if asked not in runtimes():
        raise PressError(f"no runtime is called {asked!r}; {npm.RUNTIMES.name} pins {', '.join(runtimes())}")
    notice = f"{asked.replace('==', ' ')}. {' '.join(NOTICE.read_text(encoding='utf-8').split())}"
    return pack(RUNTIME, npm.taken(repository, RUNTIME, FILES), notice)


def runtimes() -> list[str]:
    """The pinned runtimes as `package==version`."""
    return [f"{RUNTIME}=={npm.pinned()[RUNTIME]['version']}"]


def write(source: Path, name: str, text: str) -> str:
    """The address, as a chapter's page sees it, of a file now written below `_live`, with its hash for browsers."""
    write_text(source / "_live" / name, text)
    return f"../../../_live/{name}?v={sha256(text)[:12]}"
