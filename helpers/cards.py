"""A notebook's card, the modules of its chapter, and the hash of both."""

import ast
import functools
import hashlib
import importlib.metadata
import io
import json
import re
import sys
import tokenize
from pathlib import Path

from helpers import root

APART = ("bench_", "study_", "rehearsed_")  # of scripts: each counts for itself, and where something else names it


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


def installed(card, script=None):
    """{name: installed version} of the card's `packages` and `peers`, and of what a `script` (a Path) has imported."""
    names = [re.match(r"[\w.-]+", one)[0] for key in ("packages", "peers") for one in card.get(key) or ()]
    if script:
        lines = re.findall(r"^ *(?:import|from) (\w+)", Path(script).read_text(encoding="utf-8"), re.M)
        owners = importlib.metadata.packages_distributions()
        loaded = [name for name in lines if name in sys.modules and name not in ("helpers", "numpy", "torch")]
        names += [owners[name][0] for name in loaded if name in owners]
    return {name: one.version for name in names for one in [*importlib.metadata.distributions(name=name)][:1]}


def modules(folder):
    """The Paths of all Python files below a chapter's folder, sorted; no tests, no hidden folders, no caches."""
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
    kept, taken = set(), set()  # rows with code, rows with more than a text
    for token in tokens:
        if token.type == tokenize.COMMENT:
            rows[token.start[0] - 1] = rows[token.start[0] - 1][: token.start[1]].rstrip()
        elif token.string.strip():
            kept.update(range(token.start[0], token.end[0] + 1))
            taken |= {token.start[0], token.end[0]} if token.type != tokenize.STRING else set()
    for node in nodes:
        owner = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if owner and ast.get_docstring(node) and not taken & {node.body[0].lineno, node.body[0].end_lineno}:
            kept -= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return "\n".join(row for number, row in enumerate(rows, 1) if number in kept)


def code_hash(notebook, script=None):
    """The SHA-256 of what a run executes: a notebook's cells, `counted` modules and card; or modules and a `script`.
    The house's training loop counts where one of them names it, for results depend on it."""
    notebook, loop = Path(notebook), Path(__file__).with_name("images.py")
    parts = [] if script else _cells(notebook)
    parts += counted(notebook, script).items()
    if re.search(r"\bhelpers(\.| import )images\b", " ".join(text for _, text in parts)):
        parts.append((loop.name, executed(loop.read_text(encoding="utf-8"))))
    if not script and (card := notebook.with_suffix(".yml")).is_file():
        parts.append((card.name, card.read_text(encoding="utf-8")))
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def counted(notebook, script=None):
    """{name: text} of the modules that a notebook or its `script` runs, `executed`, or whole where a cell shows them.
    Benches, studies, rehearsed parts and packages, and all modules of a script, are there where one that counts asks.
    """
    cells, home = [code for kind, code in _cells(notebook) if kind == "code" and not script], Path(notebook).parent
    plain = {path.relative_to(home).as_posix(): path.read_text(encoding="utf-8") for path in modules(home)}
    text = {name: executed(code) for name, code in plain.items()}
    asked = {name: name.partition("/")[0].removesuffix(".py" if script else "") for name in text}
    asked |= {name: Path(name).stem for name in text if Path(name).name.startswith(APART)}
    apart = {name for name, word in asked.items() if word != name != script}
    words = "\n".join([*cells, *(code for name, code in text.items() if name not in apart), script or ""])
    while named := {name for name in apart if re.search(rf"\b{asked[name]}\b", words)}:
        apart -= named
        words = "\n".join([words, *map(text.get, named)])
    text |= {name: plain[name] for name in shown(cells, plain)}
    return {name: code for name, code in text.items() if name not in apart}


def shown(cells, texts):
    """The names of the modules, of `texts` ({"ctc/beam.py": text}), whose source some code cells show: for
    `show.source(beam.PrefixBeam.step)` what defines `step` (and `PrefixBeam`, where one does), or all where none does.
    """
    found, defined = set(), re.compile(r"^\s*(?:async def|def|class) (\w+)", re.MULTILINE)
    held = {path: {Path(path.removesuffix("/__init__.py")).stem, *defined.findall(texts[path])} for path in texts}
    for call in re.findall(r"\b(?:get)?source(?:lines)?\(((?:[^()]|\([^()]*\))*)\)", "\n".join(cells)):
        for name in re.findall(r"[A-Za-z_][\w.]*", re.sub(r"\w+\s*=\s*\w+", "", call)):
            *_, outer, last = ["", *name.split(".")]
            hits = {path for path, names in held.items() if last in names}
            found |= {path for path in hits if outer in held[path]} or hits or set(texts)
    return found


def _cells(notebook):
    """(type, source) of each cell; none where there is no file."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"] if notebook.is_file() else ()
    return [(cell["cell_type"], "".join(cell["source"])) for cell in cells]
