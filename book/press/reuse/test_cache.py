"""What an executed notebook depends on, where it is kept between clones, and what is taken from there."""

import os
import re
import shutil
import subprocess
import threading
import time
from pathlib import Path

import nbformat
import pytest

from press.cli import main
from press.conftest import code
from press.reuse import cache, machine, packages, store

HOME = "notebooks/signals/moving_mean"


def parts(small, tier="auto", threads=2):
    """What the small repository's notebook depends on now."""
    repository = small.repository
    return cache.parts(repository, repository.chapters[0], tier, threads)


def changed(small, act):
    """The names of the parts that an action changes."""
    before = parts(small)
    act()
    return [name for name, value in parts(small).items() if before[name] != value]


@pytest.mark.parametrize(
    ("path", "part"),
    [
        (f"{HOME}/moving_mean.py", "chapter"),
        (f"{HOME}/windows/inner.py", None),  # a package that nothing asks for: another notebook's
        (f"{HOME}/moving_mean.yml", "card"),
        (f"{HOME}/weights.safetensors", "files"),
        (f"{HOME}/samples/index.json", "files"),
        (f"{HOME}/_fixtures/notes.md", "files"),
        (f"{HOME}/samples/options.yml", "files"),
        (f"{HOME}/.ipynb_checkpoints/moving_mean.json", None),
        (f"{HOME}/__pycache__/moving_mean.pyc", None),
        (f"{HOME}/test_moving_mean.py", None),
        (f"{HOME}/windows/test_inner.py", None),
        (f"{HOME}/conftest.py", None),
        (f"{HOME}/bench_moving_mean.py", None),
        (f"{HOME}/study_moving_mean.py", None),
        (f"{HOME}/windows/rehearsed_moving_mean.py", None),
        (f"{HOME}/README.md", None),
        ("helpers/data.py", "helpers"),
        ("helpers/unused.py", None),
        ("helpers/test_data.py", None),
        ("data/registry.tsv", "data registry"),
        ("data/receipts/moving_mean/big-some.json", "recorded"),
        ("data/receipts/other/big-some.json", None),
        ("requirements.txt", None),
        ("pyproject.toml", None),
    ],
)
def test_the_key_holds_what_a_page_depends_on_and_no_more(small, path, part):
    def act():
        text = (small.root / path).read_text() if (small.root / path).exists() else ""
        more = "more = 1\n"
        if path.endswith("registry.tsv"):
            more = text.splitlines()[-1].replace("b.bin", "c.bin") + "\n"
        small.write(path, text + ("# more\n" if path.endswith(".yml") else more))

    assert changed(small, act) == ([part] if part else [])


def test_what_only_the_last_pages_read_of_a_card_is_not_in_the_key(small):
    card = small.root / f"{HOME}/moving_mean.yml"
    lessons = "gains:\n  - kind: fewer bytes\n    what: one pass\nerrata:\n- {printed: 1, right: 2}\n"
    first, _, rest = card.read_text().partition("\nclaims:\n")
    assert rest
    reason = rest.replace("\n    ", "\n    reason: size\n    ", 1)
    assert changed(small, lambda: card.write_text(f"{first}\n{lessons}claims:\n{reason}")) == []
    assert changed(small, lambda: card.write_text(f"{first}\n{lessons}claims:\n{rest}more: 1\n")) == ["card"]


def test_a_package_that_a_module_of_the_page_asks_for_is_in_the_key(small):
    module = small.root / f"{HOME}/moving_mean.py"
    small.write(f"{HOME}/moving_mean.py", "from windows import inner\n" + module.read_text())
    small.write(f"{HOME}/windows/__init__.py", "")
    assert changed(small, lambda: small.write(f"{HOME}/windows/inner.py", "x = 1\n")) == ["chapter"]


SAID = '"""Said otherwise."""\n\n# and why\n'


@pytest.mark.parametrize("path", ["helpers/data.py", f"{HOME}/moving_mean.py", f"{HOME}/windows/inner.py"])
def test_comments_and_docstrings_are_not_in_the_key(small, path):
    small.write(f"{HOME}/windows/inner.py", '"""Said."""\n\n\ndef inner():\n    return 1\n')

    def act():
        text = (small.root / path).read_text()
        assert text.startswith('"""')
        small.write(path, SAID + text.partition('"""\n')[2])

    assert changed(small, act) == []


@pytest.mark.parametrize(
    ("path", "part"),
    [(f"{HOME}/moving_mean.py", "chapter"), ("helpers/data.py", "helpers"), (f"{HOME}/windows/inner.py", None)],
)
def test_a_comment_in_a_module_whose_source_the_page_shows_is_in_the_key(small, path, part):
    small.write(f"{HOME}/windows/inner.py", "def inner():\n    return 1\n")
    shows = "from helpers import show\nshow.source(moving_mean, data.fetch, docstring=False)"
    small.write_notebook([*small.cells(), code(shows)])

    def act():
        small.write(path, "# more\n" + (small.root / path).read_text())

    assert changed(small, act) == ([part] if part else [])


def test_the_tests_of_a_chapter_depend_on_its_text_and_on_no_comment_of_the_helpers(small):
    def proofs():
        repository = small.repository
        return cache.proof_parts(repository, repository.chapters)

    before = proofs()
    small.write("helpers/data.py", (small.root / "helpers/data.py").read_text() + "# more\n")
    assert proofs() == before
    small.write(f"{HOME}/moving_mean.py", (small.root / f"{HOME}/moving_mean.py").read_text() + "# more\n")
    assert [name for name, value in proofs().items() if before[name] != value] == ["chapter"]


def test_a_registry_row_of_other_data_is_not_in_the_key(small):
    row = (small.root / "data/registry.tsv").read_text().splitlines()[-1].replace("beats", "birds")
    text = (small.root / "data/registry.tsv").read_text()
    assert changed(small, lambda: small.write("data/registry.tsv", text + row + "\n")) == []


def test_a_bench_is_in_the_key_where_a_module_or_a_cell_imports_it(small):
    small.write(f"{HOME}/bench_moving_mean.py", "ROUNDS = 1\n")
    small.write(f"{HOME}/moving_mean.py", "def race():\n    from bench_moving_mean import ROUNDS\n    return ROUNDS\n")
    assert changed(small, lambda: small.write(f"{HOME}/bench_moving_mean.py", "ROUNDS = 2\n")) == ["chapter"]


@pytest.mark.parametrize("odd", ["files = !ls", "%%bash\nls | wc -l", "if more:\n    !ls", "moving_mean?"])
def test_a_cell_that_is_not_python_hides_no_import_of_the_others(small, odd):
    small.write_notebook([*small.cells(), code(odd)])
    assert changed(small, lambda: small.write("helpers/data.py", "A = 2\n")) == ["helpers"]


def test_helpers_reached_by_other_helpers_are_in_the_key(small):
    small.write("helpers/data.py", "from . import deep\n")
    small.write("helpers/deep.py", "A = 1\n")
    assert changed(small, lambda: small.write("helpers/deep.py", "A = 2\n")) == ["helpers"]


@pytest.mark.parametrize(
    ("package", "counts"),
    [("numpy", True), ("kiwisolver", True), ("ruff", False), ("pytest", False), ("sphinx", False)],
)
def test_versions_of_what_is_imported_and_of_what_that_needs_are_in_the_key(small, monkeypatch, package, counts):
    small.write(f"{HOME}/moving_mean.py", "def draw():\n    import matplotlib.pyplot as plt\n    return plt\n")

    def act():
        known = packages.version
        monkeypatch.setattr(packages, "version", lambda name: "0" if name == package else known(name))

    assert changed(small, act) == (["packages"] if counts else [])


def test_a_program_that_the_card_names_is_in_the_key(small, monkeypatch):
    small.write_card(programs=["java"])
    monkeypatch.setattr(cache, "program", lambda name: f"{name} 1")
    assert changed(small, lambda: monkeypatch.setattr(cache, "program", lambda name: f"{name} 2")) == ["programs"]


def test_a_program_says_its_version_or_is_absent(tmp_path, monkeypatch):
    tool = tmp_path / "mytool"
    tool.write_text('#!/bin/sh\necho "$1 of mytool" >&2\necho more >&2\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert machine.program("mytool") == "--version of mytool"
    assert machine.program("no-such-tool") == "absent"


@pytest.fixture
def anew():
    """Lets a test ask again what the machine is, and forgets its answer."""
    machine.hardware.cache_clear()
    yield machine.hardware.cache_clear
    machine.hardware.cache_clear()


def test_the_processor_s_model_is_in_the_key(small, tmp_path, monkeypatch, anew):
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: Some CPU 1\n")
    monkeypatch.setattr(machine, "CPUINFO", tmp_path / "cpuinfo")

    def act():
        (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: Some CPU 2\n")
        anew()

    assert changed(small, act) == ["machine"]


def test_the_cores_that_a_notebook_may_use_are_in_the_key(small, monkeypatch, anew):
    monkeypatch.setattr(machine, "cores", lambda: 2)

    def act():
        monkeypatch.setattr(machine, "cores", lambda: 4)
        anew()

    assert changed(small, act) == ["machine"]


def test_the_model_of_a_gpu_is_in_the_key(small, tmp_path, monkeypatch, anew):
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho Some GPU 1\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    def act():
        tool.write_text("#!/bin/sh\necho Some GPU 2\n")
        anew()

    assert changed(small, act) == ["machine"]


RUNNERS = ["job.py", "worker.py", "child.py", "figure_data.py", "schedule.py", "processes.py", "calibration.py"]


@pytest.mark.parametrize("name", RUNNERS)
@pytest.mark.parametrize(("more", "counts"), [("more = 1\n", True), ("# more\n", False)])
def test_the_press_s_code_that_runs_notebooks_is_in_the_key(small, tmp_path, monkeypatch, name, more, counts):
    monkeypatch.setattr(cache, "RUNNER", shutil.copytree(cache.RUNNER, tmp_path / "run"))
    own = tmp_path / "run" / name
    assert changed(small, lambda: own.write_text(own.read_text() + more)) == ["press"] * counts


@pytest.mark.parametrize("name", ["suite.py", "test_run.py"])
def test_the_press_s_code_that_runs_tests_is_not_in_a_page_s_key(small, tmp_path, monkeypatch, name):
    monkeypatch.setattr(cache, "RUNNER", shutil.copytree(cache.RUNNER, tmp_path / "run"))
    own = tmp_path / "run" / name
    assert changed(small, lambda: own.write_text(own.read_text() + "more = 1\n")) == []


@pytest.mark.parametrize(("module", "counts"), [("study_widths.py", True), ("widths.py", False)])
@pytest.mark.parametrize(
    ("name", "more"), [("running.py", "more = 1\n"), ("running.py", "# more\n"), ("test_running.py", "more = 1\n")]
)
def test_the_press_s_code_that_runs_studies_is_in_the_key_of_tests_of_studies(
    small, tmp_path, monkeypatch, module, counts, name, more
):
    small.write(f"{HOME}/{module}", "x = 1\n")
    monkeypatch.setattr(cache, "STUDIES", shutil.copytree(cache.STUDIES, tmp_path / "study"))
    own, repository = tmp_path / "study" / name, small.repository
    before = cache.proof_parts(repository, repository.chapters)
    own.write_text(own.read_text() + more)
    after = cache.proof_parts(repository, repository.chapters)
    found = [part for part in after if after[part] != before[part]]
    assert found == ["press"] * (counts and (name, more) == ("running.py", "more = 1\n"))


def test_the_threads_of_a_notebook_are_in_the_key(small):
    before = parts(small, threads=2)
    assert [name for name, value in parts(small, threads=1).items() if before[name] != value] == ["threads"]


def test_a_notebook_s_outputs_do_not_change_the_key_but_its_source_does(small):
    before = parts(small)
    notebook = nbformat.read(small.notebook_path, as_version=4)
    notebook.cells[5].execution_count = 7
    notebook.cells[5].outputs = [nbformat.v4.new_output("stream", text="[1]\n")]
    nbformat.write(notebook, small.notebook_path)
    assert parts(small) == before
    assert parts(small, "cpu")["parameters"] != before["parameters"]
    notebook.cells[5].source += "  # more"
    nbformat.write(notebook, small.notebook_path)
    assert parts(small)["notebook"] != before["notebook"]


@pytest.mark.parametrize("name", ["metadata", "attachments"])
def test_what_the_executed_copy_keeps_of_a_cell_is_in_the_key(small, name):
    def act():
        notebook = nbformat.read(small.notebook_path, as_version=4)
        notebook.cells[3][name] = {"mystnb": {"x": 1}} if name == "metadata" else {"a.png": {"image/png": "AAAA"}}
        nbformat.write(notebook, small.notebook_path)

    assert changed(small, act) == ["notebook"]


def test_tests_depend_on_their_chapter_s_tests_and_tools_too(small, monkeypatch):
    def proofs():
        repository = small.repository
        return cache.proof_parts(repository, repository.chapters)

    before = proofs()
    small.write(f"{HOME}/test_moving_mean.py", "def test_a():\n    assert True\n")
    small.write("helpers/unused.py", "")
    small.write("pyproject.toml", "# more\n")
    known = packages.version
    monkeypatch.setattr(packages, "version", lambda name: "0" if name == "pytest" else known(name))
    assert [name for name, value in proofs().items() if before[name] != value] == ["settings", "chapter", "packages"]
    before = proofs()
    small.write("notebooks/conftest.py", "import pytest\n")
    assert [name for name, value in proofs().items() if before[name] != value] == ["settings"]


def test_the_house_s_tests_depend_on_every_file_that_git_knows_or_would_take(small, monkeypatch):
    def changed(act):
        before = cache.house_parts(small.repository)
        act()
        return [name for name, value in cache.house_parts(small.repository).items() if before.get(name) != value]

    assert cache.house_parts(small.repository) == {}, "nobody knows them outside of git"
    subprocess.run(["git", "init", "-q"], cwd=small.root, check=True)
    small.write(".gitignore", "_build/\n")
    small.write("requirements.txt", "PyYAML==1\n")
    for path in ("book/welcome.md", "helpers/data.py", f"{HOME}/README.md", "data/new.txt"):
        assert changed(lambda path=path: small.write(path, "other\n")) == ["files"]
    assert changed(lambda: small.write("_build/html/index.html", "text")) == []
    assert changed(lambda: small.write(f"_build/executed/{HOME}/moving_mean.ipynb", "{}")) == ["pages"]
    assert changed(lambda: small.write(f"_build/html/{HOME}/moving_mean.html", "text")) == ["pages"]
    assert changed(lambda: monkeypatch.setenv("REBUILT_WORKSHOP", "1")) == ["parameters"]
    assert changed(lambda: monkeypatch.setattr(packages, "version", lambda name: "0")) == ["packages"]


def test_whatever_a_test_of_the_house_waits_for_is_in_its_key():
    texts = [path.read_text(encoding="utf-8") for path in Path(cache.__file__).parents[1].rglob("test_*.py")]
    asked = {name for text in texts for name in re.findall(r'(?:skip\(|reason=)"[^"]*?(REBUILT_[A-Z]+)', text)}
    assert {"REBUILT_COURSES", "REBUILT_RELEASE", "REBUILT_WORKSHOP"} <= asked <= {*cache.TOLD_TESTS}


def test_tests_of_a_live_model_depend_on_the_built_page_too(small):
    def page():
        repository = small.repository
        return cache.proof_parts(repository, repository.chapters)["page"]

    def writes(path):
        before = page()
        small.write(path, "text")
        return page() != before

    assert not writes("book/_static/live.css")
    small.write_card(live={"name": "model"})
    assert writes("_build/html/notebooks/signals/moving_mean/moving_mean.html")
    assert writes("book/_static/custom.css") and writes("book/press/print/live.js")
    assert not writes("book/press/print/test_live.py")


def test_imports_are_read_at_any_depth_and_by_name():
    text = "import a.b, c as d\nfrom .e import f\nfrom .. import g\n"
    text += "def h():\n    import i\n    pytest.importorskip('j')\n    importlib.import_module('k.l')\n"
    assert packages.imported(text, "p.q") == {"a.b", "c", "p.q.e", "p.q.e.f", "p", "p.g", "i", "j", "k.l"}
    assert packages.imported("not python at all") == set()


def test_what_a_cell_imports_is_read_beside_ipython_s_own_signs():
    for text in ("%matplotlib inline\n!ls {folder}\nimport a", "%%time\nimport a", "!ls\nif x:\n    import a\n    b?"):
        assert packages.imported_by_cell(text) == {"a"}
    assert packages.imported_by_cell("%%bash\nfor one in *; do\nimport shot.png; done") == set()


def test_a_relative_name_given_as_text_is_one_of_its_package():
    text = "importlib.import_module('.deep', __package__)\nimportlib.import_module(name='other')\n"
    assert packages.imported(text, "p") == {"p.deep", "other"}
    assert packages.imported("import_module('.y', package)") == {"y"}


def test_reached_modules_lie_in_packages_and_circles_end(tmp_path):
    for name, text in {"p/__init__": "", "p/a": "from . import b", "p/b": "import p.a", "c": "", "p/d": ""}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.py").write_text(text)
    found = {path.relative_to(tmp_path).as_posix() for path in packages.reached({"p.a", "numpy"}, tmp_path)}
    assert found == {"p/__init__.py", "p/a.py", "p/b.py"}


def test_a_package_that_is_not_there_is_said_to_be_absent():
    found = packages.versions({"no_such_package.part", "os", "moving_mean", "yaml"}, {"moving_mean"})
    assert found["no-such-package"] == "absent" and "pyyaml" in found and len(found) == 2


def test_test_tools_that_a_package_asks_for_count_only_where_they_are_imported(monkeypatch):
    monkeypatch.setattr(packages, "needs", lambda name: frozenset({"pytest", "numpy"} if name == "pyyaml" else ()))
    assert list(packages.versions({"yaml"})) == ["numpy", "pyyaml"]
    assert list(packages.versions({"yaml", "pytest"})) == ["numpy", "pytest", "pyyaml"]


def test_the_folder_is_the_one_named_else_the_user_s(monkeypatch, tmp_path):
    assert store.folder() == Path(os.environ["REBUILT_CACHE"]).resolve()
    monkeypatch.delenv("REBUILT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert store.folder() == tmp_path / "rebuilt"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert store.folder() == Path.home() / ".cache" / "rebuilt"


@pytest.fixture
def own(tmp_path, monkeypatch):
    """An empty cache."""
    monkeypatch.setenv("REBUILT_CACHE", str(tmp_path / "own"))
    return tmp_path / "own"


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b[:80] + b"x" + b[81:], lambda b: b"", lambda b: b[7:]])
def test_a_damaged_entry_is_no_hit_and_is_removed(own, damage):
    path = store.put("notebooks", "k", {"a": "1" * 100, "b/c": [None, "ü"]})
    assert store.get("notebooks", "k") == {"a": "1" * 100, "b/c": [None, "ü"]}
    path.write_bytes(damage(path.read_bytes()))
    assert store.get("notebooks", "k") is None and not path.exists()


def test_old_entries_go_and_then_the_longest_unused_until_the_rest_fits(own):
    paths = [store.put("tests", name, os.urandom(1000).hex()) for name in "abcd"]
    for path, days in zip(paths, (61, 3, 2, 1), strict=True):
        os.utime(path, times=(time.time() - days * 86400,) * 2)
    assert store.prune() == [paths[0]]
    store.get("tests", "b")  # whoever is read is young again
    assert store.prune(most_bytes=2 * paths[1].stat().st_size) == [paths[2]]
    assert {kept.path for kept in store.contents()} == {paths[1], paths[3]}


def test_an_environment_of_peers_goes_as_a_whole(own):
    stamp = own / "peers" / "abc" / store.STAMP
    stamp.parent.mkdir(parents=True)
    (stamp.parent / "python").write_text("")
    assert store.prune(most_bytes=0) == [], "one that is being made stays"
    stamp.write_text('{"bytes": 5}')
    assert [kept.bytes for kept in store.contents()] == [5]
    assert store.prune(most_bytes=4) == [stamp.parent] and not stamp.parent.exists()


def test_two_presses_may_write_and_read_one_entry(own):
    wrong = []

    def work(number):
        for _ in range(30):
            store.put("notebooks", "k", str(number) * 50_000)
            found = store.get("notebooks", "k")
            if found is None or len(set(found)) != 1:
                wrong.append(found)

    threads = [threading.Thread(target=work, args=(number,)) for number in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_clean_says_what_stays_in_the_cache_and_empties_it_when_told(small, capsys):
    store.put("notebooks", "k", "1")
    assert main(["--root", str(small.root), "clean"]) == 0
    said = capsys.readouterr().out
    assert f"{store.folder()} keeps executed notebooks: 1; 0 MB" in said and "press clean --cache" in said
    assert main(["--root", str(small.root), "clean", "--cache"]) == 0
    assert store.get("notebooks", "k") is None and f"emptied {store.folder()}" in capsys.readouterr().out
    assert store.told() == f"{store.folder()} keeps nothing"
