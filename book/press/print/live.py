"""Live models: a page in which a model of the chapter runs in the reader's browser, with no server and no network.

A chapter has one when its card says `live`. A cell of its notebook then shows an output of the kind `MIME`,
`{"name": …, "files": {file: {"sha256": …, "base64": …}}}`: the model as the run exported it. The press checks its
hashes and packs three things for the page into `_live/`: the runtime, from its npm package as pinned in
`runtimes.tsv`; the model; the slice's script and style. A pack is a classic script that holds gzipped files as
base64, because a page opened from a folder may neither fetch a file nor import a module.
"""

import base64
import gzip
import json
import re
import shutil
from pathlib import Path

import nbformat

from .. import npm
from ..errors import PressError
from ..files import sha256, write_text
from ..repository import Chapter, Repository

MIME = "application/vnd.rebuilt.live+json"
LOADER = Path(__file__).with_name("live.js")
# What pages need of a package, and the notice that goes with it.
TAKEN = {
    "onnxruntime-web": (
        ("dist/ort.wasm.min.js", "dist/ort-wasm-simd-threaded.mjs", "dist/ort-wasm-simd-threaded.wasm"),
        "Copyright (c) Microsoft Corporation. MIT License: Permission is hereby granted, free of charge, to any person "
        "obtaining a copy of this software and associated documentation files (the Software), to deal in the Software "
        "without restriction, including without limitation the rights to use, copy, modify, merge, publish, "
        "distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is "
        "furnished to do so, subject to the following conditions: The above copyright notice and this permission "
        "notice shall be included in all copies or substantial portions of the Software. THE SOFTWARE IS PROVIDED AS "
        "IS, WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF "
        "MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR "
        "COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, "
        "TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN "
        "THE SOFTWARE.",
    )
}


def publish(notebook: nbformat.NotebookNode, chapter: Chapter, repository: Repository, source: Path) -> str:
    """Write the packs of the chapter's live model below `source/_live`; the notebook is changed in place.

    What comes back is the element that another page may show, "\\0" in place of what stands where no script runs, or ""
    where there is no live model.

    The output keeps its HTML as what stands where no script runs. Raises PressError where card and output disagree
    or a hash is wrong.
    """
    card = chapter.card.get("live")
    shown = [out for cell in notebook.cells for out in cell.get("outputs", []) if MIME in out.get("data", {})]
    if len(shown) != bool(card):
        promised = f"promises {card['name']!r}" if card else "promises none"
        raise PressError(f"{chapter}: {len(shown)} outputs are live models, and the card's `live` {promised}")
    if not card:
        return ""
    found = shown[0].data.pop(MIME)
    if found.get("name") != card["name"]:
        raise PressError(f"{chapter}: the live model is called {found.get('name')!r}, in the card {card['name']!r}")
    folder, model = f"_live/{chapter.name}", pack(card["name"], checked(found["files"], chapter))
    packs = {
        "runtime": _runtime(card["runtime"], repository, source),
        "model": _write(source, f"{folder}/{card['name']}.js", model),
    }
    for kind in ("script", "style"):
        packs[kind] = _write(source, f"{folder}/{card[kind]}", (chapter.home / card[kind]).read_text(encoding="utf-8"))
    loader = _write(source, f"_live/{LOADER.name}", LOADER.read_text(encoding="utf-8"))
    where = " ".join(f'data-{kind}="../../../{address}"' for kind, address in packs.items())
    sizes = [(source / address.partition("?")[0]).read_bytes() for address in packs.values()]
    where += " data-wait" * bool(card.get("wait"))
    where += f' data-megabytes="{sum(len(gzip.compress(size, 6)) for size in sizes) / 1e6:.1f}"'
    element = f'<div class="rebuilt-live" data-live="{card["name"]}" {where}>\0</div>'
    begin = f'<script defer src="../../../{loader}"></script>'
    shown[0].data["text/html"] = element.replace("\0", shown[0].data["text/html"]) + f"\n{begin}"
    return element + begin


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
    packed = {
        file: base64.b64encode(gzip.compress(content, 9, mtime=0)).decode() for file, content in sorted(files.items())
    }
    head = f"/* {notice} */\n" if notice else ""
    return f"{head}rebuiltLive.add({json.dumps(name)}, {json.dumps(packed)});\n"


def _write(source: Path, name: str, text: str) -> str:
    """The address of a file now written, with its hash, so that no browser keeps an old one beside a new one."""
    write_text(source / name, text)
    return f"{name}?v={sha256(text)[:12]}"


def _runtime(asked: str, repository: Repository, source: Path) -> str:
    """The address of the runtime's pack, made from the pinned package; one for all chapters."""
    name, _, version = asked.partition("==")
    if asked not in runtimes():
        raise PressError(f"no runtime is called {asked!r}; {npm.RUNTIMES.name} pins {', '.join(runtimes())}")
    wanted, notice = TAKEN[name]
    files = npm.taken(repository, name, wanted)
    return _write(source, f"_live/{name}-{version}.js", pack(name, files, f"{name} {version}. {notice}"))


def runtimes() -> list[str]:
    """The pinned runtimes as `package==version`."""
    return [f"{name}=={row['version']}" for name, row in npm.pinned().items() if name in TAKEN]


def copy(source: Path, html: Path) -> None:
    """Put the packs beside the built pages."""
    if (source / "_live").is_dir():
        shutil.copytree(source / "_live", html / "_live")
