import json

import pytest

from helpers import cards


@pytest.fixture
def chapter(tmp_path, monkeypatch):
    """A chapter's folder in a small repository, which is the current folder."""
    folder = tmp_path / "notebooks" / "signals" / "demo"
    folder.mkdir(parents=True)
    (tmp_path / "data").mkdir()
    (tmp_path / "_config.yml").touch()
    (tmp_path / "data" / "registry.tsv").touch()
    cells = [{"cell_type": "code", "source": ["x = 1\n", "y"], "metadata": {}, "outputs": []}]
    (folder / "demo.ipynb").write_text(json.dumps({"cells": cells, "metadata": {}}))
    (folder / "demo.py").write_text("x = 1\n")
    (folder / "demo.yml").write_text("title: Demo\n")
    monkeypatch.chdir(folder)
    return folder


def write(chapter, name, content):
    path = chapter / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


@pytest.mark.parametrize("place", [".", ".."])
def test_a_card_is_found_here_and_below_the_notebooks(chapter, monkeypatch, place):
    monkeypatch.chdir(chapter / place)
    assert cards.find("demo").resolve() == chapter / "demo.yml"
    assert cards.read(cards.find("demo")) == {"title": "Demo"}


NAMES = ["a.py", "sound/__init__.py", "sound/deep/b.py", "train_c.py", "sound/bench_d.py"]
OTHERS = ["test_a.py", "sound/test_b.py", "sound/conftest.py", ".hidden/e.py", "sound/__pycache__/f.py", "g.txt"]


def test_modules_are_those_of_packages_too(chapter):
    for name in (*NAMES, *OTHERS):
        write(chapter, name, "")
    found = {path.relative_to(chapter).as_posix() for path in cards.modules(chapter)}
    assert found == {"demo.py", *NAMES}


@pytest.mark.parametrize(
    ("name", "content", "changes"),
    [
        ("demo.py", "x = 2\n", True),
        ("demo.py", '"""Said\n\nin lines."""\n\nx = 1\n', False),
        ("demo.py", 'x = 1\n"said later"\n', True),
        ("demo.py", "x = 1\ndef f(): 'said'; return 2\n", True),
        ("demo.py", "# why\n\nx = 1  # and how\n", False),
        ("demo.py", "x = '# no comment'\n", True),
        ("demo.py", "'said'; x = 1\n", True),
        ("demo.py", 'x = 1\n"""\n\n"""\n', True),
        ("demo.py", "x = 1\n\n    \n# \f \u2028 why\n", False),
        ("more.py", "", True),
        ("sound/more.py", "", True),
        ("sound/deep/more.py", "", True),
        ("demo.yml", "title: Other", True),
        ("demo.ipynb", '{"cells": [{"cell_type": "code", "source": "x = 1\\nz"}]}', True),
        ("demo.ipynb", '{"cells": [{"cell_type": "markdown", "source": "x = 1\\ny"}]}', True),
        ("demo.ipynb", '{"cells": [{"cell_type": "code", "source": "x = 1\\ny", "outputs": [1], "id": 3}]}', False),
        ("test_demo.py", "x", False),
        ("sound/test_demo.py", "x", False),
        ("sound/conftest.py", "x", False),
        (".ipynb_checkpoints/demo.py", "x", False),
        ("sound/__pycache__/demo.py", "x", False),
        ("bench_demo.py", "x", False),
        ("sound/bench_demo.py", "x", False),
        ("notes.txt", "x", False),
    ],
)
def test_the_hash_changes_with_what_is_run(chapter, name, content, changes):
    before = cards.code_hash(chapter / "demo.ipynb")
    write(chapter, name, content)
    assert (cards.code_hash(chapter / "demo.ipynb") != before) is changes


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("demo.ipynb", '{"cells": [{"cell_type": "code", "source": "from bench_demo import race"}]}'),
        ("demo.py", "from .bench_demo import race"),
    ],
)
def test_a_bench_counts_where_the_page_uses_it(chapter, name, content):
    write(chapter, "bench_demo.py", "x")
    write(chapter, name, content)
    before = cards.code_hash(chapter / "demo.ipynb")
    write(chapter, "bench_demo.py", "y")
    assert cards.code_hash(chapter / "demo.ipynb") != before


def test_the_hash_of_a_script_is_that_of_the_modules_and_the_script(chapter):
    write(chapter, "bench_demo.py", "x")
    before = cards.code_hash(chapter / "demo.ipynb", "bench_demo.py")
    write(chapter, "demo.yml", "title: Other")
    write(chapter, "demo.ipynb", '{"cells": []}')
    assert cards.code_hash(chapter / "demo.ipynb", "bench_demo.py") == before
    write(chapter, "bench_demo.py", "y")
    assert cards.code_hash(chapter / "demo.ipynb", "bench_demo.py") != before


def test_a_renamed_or_moved_module_changes_the_hash(chapter):
    hashes = [cards.code_hash(chapter / "demo.ipynb")]
    for name in ("other.py", "sound/other.py"):
        (chapter / name).parent.mkdir(exist_ok=True)
        next(chapter.rglob("*.py")).rename(chapter / name)
        hashes.append(cards.code_hash(chapter / "demo.ipynb"))
    assert len(set(hashes)) == 3


def test_text_moved_between_files_changes_the_hash(chapter):
    write(chapter, "a.py", "xy")
    write(chapter, "b.py", "z")
    before = cards.code_hash(chapter / "demo.ipynb")
    write(chapter, "a.py", "x")
    write(chapter, "b.py", "yz")
    assert cards.code_hash(chapter / "demo.ipynb") != before
