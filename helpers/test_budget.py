"""`helpers` stays thin: its lines are counted, its imports are timed."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import helpers

FOLDER = Path(helpers.__file__).parent
MODULES = sorted(p for p in FOLDER.glob("*.py") if not p.name.startswith(("test_", "conftest")))
HEAVY = ("torch", "numpy", "matplotlib", "IPython", "yaml", "tqdm", "scipy")
IMPORT = """
import importlib, sys, time
start = time.process_time()
import helpers
names = {names}
for name in names:
    importlib.import_module(f"helpers.{{name}}")
print(time.process_time() - start, [name for name in {heavy} if name in sys.modules])
"""


def lines(path):
    return len(path.read_text(encoding="utf-8").splitlines())


def imports(code, names):
    """Which of the modules `names` this code imports, wherever in it: at the top or inside a function."""
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            parts = {name for one in node.names for name in one.name.split(".")[1:2] if one.name.startswith("helpers.")}
        elif isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").split(".")[0] == "helpers"):
            inner = (node.module or "").removeprefix("helpers").strip(".")
            parts = {inner.split(".")[0]} if inner else {one.name for one in node.names}
        else:
            continue
        found |= parts & set(names)
    return found


def circle(graph):
    """A list of modules that import one another in turn, or [] where none do; the graph is name -> names."""

    def search(path):
        for name in graph[path[-1]]:
            if name in path:
                return [*path[path.index(name) :], name]
            if found := search([*path, name]):
                return found
        return []

    return next(filter(None, (search([name]) for name in graph)), [])


def test_at_most_1838_lines_in_all():
    assert sum(map(lines, MODULES)) <= 1838


def test_no_circle_of_imports_at_the_top_or_inside_functions():
    names = [path.stem for path in MODULES]
    assert circle({path.stem: imports(path.read_text(encoding="utf-8"), names) for path in MODULES}) == []


@pytest.mark.parametrize(
    "code",
    [
        "from helpers import bench",
        "from helpers.bench import race",
        "import helpers.bench",
        "from . import bench",
        "from .bench import race",
        "def f():\n    from helpers import bench as b",
        "if True:\n    import helpers.bench as b",
    ],
)
def test_every_form_of_import_is_seen(code):
    assert imports(code, ["bench", "show"]) == {"bench"}
    assert circle({"bench": {"show"}, "show": imports(code, ["bench", "show"])}) == ["bench", "show", "bench"]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_at_most_200_lines_a_module(path):
    assert lines(path) <= 200


@pytest.mark.parametrize("names", [[], [path.stem for path in MODULES if path.stem != "__init__"]])
def test_imports_are_quick_and_load_nothing_heavy(names):
    code = IMPORT.format(names=names, heavy=HEAVY)
    runs = [
        subprocess.run([sys.executable, "-c", code], cwd=FOLDER.parent, capture_output=True, text=True, check=True)
        for _ in range(3)  # processor time, and the least of three: the machine may be busy
    ]
    seconds, loaded = zip(*(run.stdout.split(" ", 1) for run in runs), strict=True)
    assert set(loaded) == {"[]\n"}
    assert min(map(float, seconds)) < 3 * standard_seconds()


def standard_seconds():
    """Processor seconds to import some of the standard library, the least of three: what is quick on this machine."""
    code = "import time; start = time.process_time(); import asyncio, multiprocessing.pool, unittest.mock"
    command = [sys.executable, "-c", f"{code}, urllib.request, xml.dom.minidom; print(time.process_time() - start)"]
    return min(float(subprocess.run(command, capture_output=True, text=True, check=True).stdout) for _ in range(3))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_what_is_public_says_what_comes_back(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.ClassDef)
    public = [node for node in tree.body if isinstance(node, kinds) and not node.name.startswith("_")]
    assert ast.get_docstring(tree)
    assert [node.name for node in public if not ast.get_docstring(node)] == []


def test_the_package_names_its_modules():
    assert sorted(helpers.__all__) == sorted([p.stem for p in MODULES if p.stem[0] != "_"] + ["root"])


def test_root_is_found_from_a_folder_below_and_from_elsewhere(tmp_path, monkeypatch):
    (tmp_path / "book" / "a" / "b").mkdir(parents=True)
    (tmp_path / "book" / "data").mkdir()
    (tmp_path / "book" / "_config.yml").touch()
    (tmp_path / "book" / "data" / "registry.tsv").touch()
    monkeypatch.chdir(tmp_path / "book" / "a" / "b")
    assert helpers.root() == tmp_path / "book"
    monkeypatch.chdir(tmp_path)
    assert helpers.root() in (FOLDER.parent, None)
