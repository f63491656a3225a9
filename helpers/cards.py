"""A notebook's card, the modules of its slice, and the hash of both."""

import ast
import functools
import hashlib
import importlib.metadata
import io
import json
import re
import tokenize
from pathlib import Path

from helpers import root


def find(stem):
    """The Path of the card `<stem>.yml` beside its notebook, here or below `notebooks/`; else FileNotFoundError."""
    found = [path for path in Path.cwd().glob(f"{stem}.yml") if path.with_suffix(".ipynb").exists()]
    found = found or list((root() or Path()).glob(f"notebooks/*/*/{stem}.yml"))
    if len(found) != 1:
        raise FileNotFoundError(f"{len(found)} cards {stem}.yml in {Path.cwd()} or below notebooks/; one is needed")
    return found[0]


def read(path):
    """The card as a dict."""
    import yaml

    return yaml.safe_load(Path(path).read_text(encoding="utf-8"))


def installed(card):
    """The installed versions of what the card's `packages` and `peers` name ("stumpy==1.14.1"), as a dict."""
    names = [re.match(r"[\w.-]+", one)[0] for key in ("packages", "peers") for one in card.get(key) or ()]
    known = {name: importlib.metadata.distributions(name=name) for name in names}
    return {name: one.version for name, found in known.items() for one in list(found)[:1]}


def modules(folder):
    """The Paths of all Python files below a slice's folder, sorted; no tests, no hidden folders, no caches."""
    paths = {path: path.relative_to(folder).parts for path in Path(folder).rglob("*.py")}
    kept = {path for path, parts in paths.items() if not any(re.match(r"\.|__pycache__$", part) for part in parts)}
    return sorted(path for path in kept if not path.name.startswith("test_") and path.name != "conftest.py")


@functools.lru_cache(1024)  # the press asks for the same modules hundreds of times in a build
def executed(text):
    """A module's rows with code, comments and docstrings taken out; the text as it is where it is no Python."""
    rows = text.split("\n")  # as the tokeniser counts them
    try:
        tokens, nodes = list(tokenize.generate_tokens(io.StringIO(text).readline)), list(ast.walk(ast.parse(text)))
    except (SyntaxError, tokenize.TokenError):
        return text
    kept = set()
    for token in tokens:
        if token.type == tokenize.COMMENT:
            rows[token.start[0] - 1] = rows[token.start[0] - 1][: token.start[1]].rstrip()
        elif token.string.strip():
            kept.update(range(token.start[0], token.end[0] + 1))
    other = [
        token for token in tokens if token.string.strip() and token.type not in (tokenize.COMMENT, tokenize.STRING)
    ]
    taken = {row for token in other for row in (token.start[0], token.end[0])}
    for node in nodes:
        owner = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if owner and ast.get_docstring(node) and not taken & {node.body[0].lineno, node.body[0].end_lineno}:
            kept -= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return "\n".join(row for number, row in enumerate(rows, 1) if number in kept)


def code_hash(notebook, script=None):
    """The SHA-256 of what a run executes: a notebook's cells, the modules below its folder and its card.

    Outputs, metadata, comments, docstrings, tests, and benches and rehearsed parts that neither cells nor modules name
    do not count; a missing file counts as empty. With `script` ("ctc/bench_ctc.py", which made a receipt of its own):
    the modules and that script alone.
    """
    notebook = Path(notebook)
    folder = notebook.parent
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"] if notebook.is_file() and not script else ()
    parts = [(cell["cell_type"], "".join(cell["source"])) for cell in cells]
    text = {path.relative_to(folder).as_posix(): executed(path.read_text(encoding="utf-8")) for path in modules(folder)}
    benches = {name for name in text if Path(name).name.startswith(("bench_", "rehearsed_"))}
    words = [code for kind, code in parts if kind == "code"]
    words = "\n".join(words + [code for name, code in text.items() if name not in benches or name == script])
    unused = {name for name in benches if name != script and not re.search(rf"\b{Path(name).stem}\b", words)}
    parts += [(name, code) for name, code in text.items() if name not in unused]
    if not script and (card := notebook.with_suffix(".yml")).is_file():
        parts.append((card.name, card.read_text(encoding="utf-8")))
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
