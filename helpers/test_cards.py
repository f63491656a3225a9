import json

import psutil
import pytest
import yaml

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
        ("sound/more.py", "", False),
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
        ("study_demo.py", "x", False),
        ("sound/study_demo.py", "x", False),
        ("rehearsed_demo.py", "x", False),
        ("notes.txt", "x", False),
    ],
)
def test_the_hash_changes_with_what_is_run(chapter, name, content, changes):
    before = cards.code_hash(chapter / "demo.ipynb")
    write(chapter, name, content)
    assert (cards.code_hash(chapter / "demo.ipynb") != before) is changes


@pytest.mark.parametrize(
    ("script", "name", "content"),
    [
        (None, "demo.ipynb", '{"cells": [{"cell_type": "code", "source": "from sound.deep import wave"}]}'),
        (None, "demo.py", "from . import sound"),
        (None, "light/first.py", "from ..sound import wave"),
        ("bench_demo.py", "bench_demo.py", "import sound"),
        ("sound/deep/bench_demo.py", "sound/deep/bench_demo.py", "x = 2"),
        ("sound/study_demo.py", "sound/study_demo.py", "from . import wave"),
    ],
)
def test_a_package_counts_where_something_that_counts_asks_for_it(chapter, script, name, content):
    """Another notebook in a chapter, with a package of its own, makes no receipt of the first one older."""
    write(chapter, script or "sound/bench_demo.py", "x = 1")
    write(chapter, "demo.py", "import light")
    write(chapter, "demo.ipynb", '{"cells": [{"cell_type": "code", "source": "import demo"}]}')
    write(chapter, name, content)
    for module, changes in [("sound/deep/more.py", True), ("sounds/more.py", False), ("sound/bench_other.py", False)]:
        before = cards.code_hash(chapter / "demo.ipynb", script)
        write(chapter, module, "x")
        assert (cards.code_hash(chapter / "demo.ipynb", script) != before) is changes, module


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("demo.ipynb", '{"cells": [{"cell_type": "code", "source": "from bench_demo import race"}]}'),
        ("demo.py", "from .bench_demo import race"),
    ],
)
@pytest.mark.parametrize("kind", ["bench", "study", "rehearsed"])
def test_a_bench_or_a_study_counts_where_the_page_uses_it(chapter, name, content, kind):
    write(chapter, f"{kind}_demo.py", "x")
    write(chapter, name, content.replace("bench", kind))
    before = cards.code_hash(chapter / "demo.ipynb")
    write(chapter, f"{kind}_demo.py", "y")
    assert cards.code_hash(chapter / "demo.ipynb") != before


def test_a_script_s_hash_holds_the_benches_and_studies_that_it_imports_and_no_others(chapter):
    write(chapter, "bench_a.py", "from study_b import arms")
    write(chapter, "study_b.py", "import bench_c")
    for name in ("bench_c.py", "study_d.py"):
        write(chapter, name, "x")

    def changes(script, name):
        before = cards.code_hash(chapter / "demo.ipynb", script)
        (chapter / name).write_text((chapter / name).read_text() + "\ny")
        return cards.code_hash(chapter / "demo.ipynb", script) != before

    names = ("bench_a.py", "study_b.py", "bench_c.py", "study_d.py")
    assert [changes("bench_a.py", name) for name in names] == [True, True, True, False]
    assert [changes("study_d.py", name) for name in names] == [False, False, False, True]
    assert [changes("bench_c.py", name) for name in names] == [False, False, True, False]


ALL = ["demo.py", "sound/__init__.py", "sound/base.py", "sound/wave.py"]
SHOWN = {
    "import demo\nshow.source(demo.f)": ["demo.py"],
    "import demo as d\nshow.source(d.Beam.step, docstring=False)": ["demo.py"],
    "from demo import Beam\nshow.source(\n    Beam.step,\n    docstring=False,\n)": ["demo.py"],
    "from demo import f as g\nshow.source(g)": ALL,
    "show.source(made_by(demo.f))": ALL,
    "from sound import Wave\nshow.source(Wave.step)": ["sound/wave.py"],
    "from sound import wave\nshow.source(wave)": ["sound/wave.py"],
    "import sound.wave\nshow.source(sound.wave.Wave)": ["sound/wave.py"],
    "from sound import Wave\nshow.source(Wave.inherited)": ["sound/base.py"],
    "from sound import f\nshow.source(f)": ["demo.py", "sound/base.py"],
    "kind = demo.Beam\nshow.source(kind.only)": ["demo.py"],
    "import inspect, demo\nprint(inspect.getsource(demo.Beam))": ["demo.py"],
    "%time x = 1\nimport demo\nshow.source(demo.f)": ["demo.py"],
    "import demo\ndemo.f()": [],
    "source = 'demo.f'": [],
    "show.source(*things)": ALL,
}
TEXTS = {
    "demo.py": "def f(): pass\nclass Beam:\n    def step(self): pass\n    def only(self): pass\n",
    "sound/__init__.py": "from .wave import Wave\nfrom .base import f\n",
    "sound/wave.py": "class Wave:\n    if True:\n        def step(self):\n            pass\n",
    "sound/base.py": "def f():\n    pass\n\n\nclass Base:\n    def inherited(self):\n        pass\n",
}


@pytest.mark.parametrize("cell", SHOWN)
def test_the_modules_whose_source_a_cell_shows_are_known(cell):
    assert sorted(cards.shown([cell, "x = 1"], TEXTS)) == SHOWN[cell]


def test_a_script_s_hash_holds_the_modules_that_it_reaches_and_no_others(chapter):
    """A study does not run the live page's module: a change there made four studies of hours older."""
    write(chapter, "study_a.py", "import demo as d\nfrom sound import deep")
    write(chapter, "demo.py", "import under")
    for name in ("under.py", "page.py", "light/first.py"):
        write(chapter, name, "x")
    found = {}
    for name in ("demo.py", "under.py", "sound/deep/more.py", "page.py", "light/first.py"):
        before = [cards.code_hash(chapter / "demo.ipynb", script) for script in ("study_a.py", None)]
        write(chapter, name, (chapter / name).read_text() + "\ny" if (chapter / name).is_file() else "y")
        found[name] = [cards.code_hash(chapter / "demo.ipynb", "study_a.py") != before[0]]
        found[name] += [cards.code_hash(chapter / "demo.ipynb") != before[1]]
    whole = {"demo.py": [True, True], "under.py": [True, True], "page.py": [False, True]}
    assert {name: found[name] for name in whole} == whole
    assert found["sound/deep/more.py"][0] and not found["light/first.py"][0]


@pytest.mark.parametrize(("script", "changes"), [(None, [True, False]), ("bench_demo.py", [False, False])])
def test_a_comment_counts_in_a_module_that_the_page_shows_alone(chapter, script, changes):
    cells = [{"cell_type": "code", "source": "import demo\nshow.source(demo.f)"}]
    write(chapter, "demo.ipynb", json.dumps({"cells": cells}))
    write(chapter, "bench_demo.py", "x")
    found = []
    for name in ("demo.py", "other.py"):
        write(chapter, name, "def f():\n    pass\n" if name == "demo.py" else "x = 1\n")
        before = cards.code_hash(chapter / "demo.ipynb", script)
        write(chapter, name, "# why\n" + (chapter / name).read_text())
        found.append(cards.code_hash(chapter / "demo.ipynb", script) != before)
    assert found == changes


def test_the_hash_of_a_script_is_that_of_the_modules_and_the_script(chapter):
    write(chapter, "bench_demo.py", "x")
    before = cards.code_hash(chapter / "demo.ipynb", "bench_demo.py")
    write(chapter, "demo.yml", "title: Other")
    write(chapter, "demo.ipynb", '{"cells": []}')
    assert cards.code_hash(chapter / "demo.ipynb", "bench_demo.py") == before
    write(chapter, "bench_demo.py", "y")
    assert cards.code_hash(chapter / "demo.ipynb", "bench_demo.py") != before


@pytest.mark.parametrize(
    ("code", "changes"),
    [("from helpers.images import train", True), ("from helpers import images as house", True), ("images = 1", False)],
)
def test_the_house_s_training_loop_counts_where_it_is_named(chapter, tmp_path, monkeypatch, code, changes):
    monkeypatch.setattr(cards, "__file__", str(tmp_path / "cards.py"))
    write(chapter, "demo.py", code)
    found = set()
    for loop in ("a = 1", "# why\na = 1", "a = 2"):
        (tmp_path / "images.py").write_text(loop)
        found.add(cards.code_hash(chapter / "demo.ipynb", "demo.py"))
    assert len(found) == 1 + changes


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


def test_what_a_script_has_imported_counts_among_the_installed(chapter):
    text = "import psutil\nimport numpy, torch\nfrom helpers import bench\n\n\ndef f():\n    from yaml import load\n"
    write(chapter, "bench_demo.py", text + "    import no_such_peer\n    import tomlkit_not_loaded\n")
    found = cards.installed({"packages": ["PyYAML==6.0"]}, chapter / "bench_demo.py")
    assert found == {"PyYAML": yaml.__version__, "psutil": psutil.__version__}
    assert cards.installed({"peers": ["no-such-peer==1.0"]}) == {}


def test_what_a_script_names_and_never_imported_did_not_run(chapter, monkeypatch):
    write(chapter, "bench_demo.py", "import psutil\n")
    monkeypatch.delitem(cards.sys.modules, "psutil")
    assert cards.installed({}, chapter / "bench_demo.py") == {}
