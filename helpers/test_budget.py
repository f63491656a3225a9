"""`helpers` stays thin: its lines are counted, its imports are timed."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import helpers

FOLDER = Path(helpers.__file__).parent
MODULES = [path for path in sorted(FOLDER.rglob("*.py")) if not path.name.startswith("test_")]
HEAVY = ("torch", "numpy", "matplotlib", "IPython", "yaml", "tqdm", "scipy")
IMPORT = """
import importlib, sys, time
start = time.perf_counter()
import helpers
names = {names}
for name in names:
    importlib.import_module(f"helpers.{{name}}")
print(time.perf_counter() - start, [name for name in {heavy} if name in sys.modules])
"""


def lines(path):
    return len(path.read_text(encoding="utf-8").splitlines())


def test_at_most_1200_lines_in_all():
    assert sum(map(lines, MODULES)) <= 1200


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_at_most_200_lines_a_module(path):
    assert lines(path) <= 200


@pytest.mark.parametrize("names", [[], [path.stem for path in MODULES if path.stem != "__init__"]])
def test_imports_are_quick_and_load_nothing_heavy(names):
    code = IMPORT.format(names=names, heavy=HEAVY)
    runs = [
        subprocess.run([sys.executable, "-c", code], cwd=FOLDER.parent, capture_output=True, text=True, check=True)
        for _ in range(3)  # the machine may be busy: the quickest counts
    ]
    seconds, loaded = zip(*(run.stdout.split(" ", 1) for run in runs), strict=True)
    assert set(loaded) == {"[]\n"}
    assert min(map(float, seconds)) < 0.2


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_what_is_public_says_what_comes_back(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.ClassDef)
    public = [node for node in tree.body if isinstance(node, kinds) and not node.name.startswith("_")]
    assert ast.get_docstring(tree)
    assert [node.name for node in public if not ast.get_docstring(node)] == []


def test_the_seven_modules_of_the_design_are_there():
    assert {"bench", "check", "data", "device", "plot", "receipts", "show"} <= {path.stem for path in MODULES}


def test_root_is_found_from_a_folder_below_and_from_elsewhere(tmp_path, monkeypatch):
    (tmp_path / "book" / "a" / "b").mkdir(parents=True)
    (tmp_path / "book" / "data").mkdir()
    (tmp_path / "book" / "_config.yml").touch()
    (tmp_path / "book" / "data" / "registry.tsv").touch()
    monkeypatch.chdir(tmp_path / "book" / "a" / "b")
    assert helpers.root() == tmp_path / "book"
    monkeypatch.chdir(tmp_path)
    assert helpers.root() in (FOLDER.parent, None)
