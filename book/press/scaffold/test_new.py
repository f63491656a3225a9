"""`press new`: a scaffold that passes every gate, runs, and whose tests pass; and what is refused."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest
import yaml

from press import PressError, Repository, gates, run
from press.cli import main
from press.gates.house.code import own_modules
from press.gates.house.links import links
from press.predict import counting
from press.repository import HOME
from press.scaffold.new import ROOM, landing, new_chapter, new_notebook, new_part


def problems(repository):
    """What all gates and ruff find, but in the helpers: those are copied as they are and have tests of their own."""
    found = [str(problem) for gate in gates.load().values() for problem in gate.problems(repository)]
    for command in (["check"], ["format", "--check"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--quiet", "--no-cache", "notebooks"]
        found += subprocess.run(ruff, cwd=repository.root, capture_output=True, text=True).stdout.splitlines()
    return [problem for problem in found if not problem.startswith("helpers")]


@pytest.fixture
def copied(tmp_path):
    """A copy of the real repository's files as git knows them."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, cwd=HOME, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("the book lies in no git repository")
    root = tmp_path / "book"
    for name in filter(None, done.stdout.split("\0")):
        if (HOME / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(HOME / name, root / name)
    return root


def test_what_is_new_passes_every_gate_and_test_of_the_real_book(copied):
    """A part with a chapter, one notebook more there and in each folder that has room, a chapter in an old part."""
    old = Repository(copied)
    homes = {chapter.home for chapter in old.chapters}
    homes = sorted(old.relative(home) for home in homes if not any(home.glob("*.py")) or len(own_modules(home)) <= ROOM)
    assert homes, "no chapter has room"
    for kind, name in [("part", "astronomy"), ("chapter", "astronomy/zz_new"), ("notebook", "astronomy/zz_new/zz_two")]:
        assert main(["--root", str(copied), "new", kind, name]) == 0, name
    new_chapter(Repository(copied), "signals/a_first_one_with_a_name_as_long_as_any")
    for number, home in enumerate(homes):
        new_notebook(Repository(copied), f"{home.partition('/')[2]}/more_{number}")
    found = problems(Repository(copied))
    assert not found or set(found) - set(problems(Repository(HOME))) == set()
    tests = [f"book/press/teach/{name}" for name in ("test_proofs.py", "test_variants.py", "workshop/test_schedule.py")]
    tests += ["book/press/predict/test_predict.py"]
    options = ["-q", "-p", "no:cacheprovider", "-k", "zz", "--rootdir", str(copied), "-c", "pyproject.toml"]
    command = [sys.executable, "-m", "pytest", *options, *tests, "notebooks/astronomy"]
    done = subprocess.run(command, cwd=copied, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert int(re.search(r"(\d+) passed", done.stdout).group(1)) > 30


def test_a_new_chapter_runs_and_its_bench_writes_a_receipt(small, capsys):
    shutil.rmtree(small.root / "helpers")
    shutil.copytree(HOME / "helpers", small.root / "helpers", ignore=shutil.ignore_patterns("test_*", "__pycache__"))
    assert main(["--root", str(small.root), "new", "chapter", "signals/loud_words"]) == 0
    said = capsys.readouterr().out
    assert "wrote notebooks/signals/loud_words/test_loud_words.py" in said
    assert "signals/loud_words: data/predictions/loud_words.json" in said
    (outcome,) = run.run(small.repository, ["loud_words"])
    assert outcome.state == "fresh", outcome.message
    assert list(gates.load()["alt"].problems(small.repository)) == [], "the executed figures have alt text, too"
    receipt = json.loads((small.root / "_build/receipts/loud_words.cpu.json").read_text())
    assert receipt["metrics"]["sums_rate"]["value"] > 0


@pytest.mark.parametrize("name", ["signals/loud_words", "signals/moving_mean/loud_words"])
def test_the_versions_that_are_counted_do_the_same_task(small, name):
    """Also in the book's `test_same_work`, which runs those of all chapters."""
    (new_chapter if name.count("/") == 1 else new_notebook)(small.repository, name)
    chapter = small.repository.select(["loud_words"])[0]
    module = ".".join(counting.source_of(chapter).relative_to(chapter.home).with_suffix("").parts)
    told = f"import {module} as it; made = [one({{'points': 99}}, 'cpu')() for one in (it.ours, it.naive, it.broken)]; "
    told += "print([len(one) for one in made], bool((made[0] == made[2]).all()), "
    told += "float((made[0] - made[1]).abs().max()))"
    done = subprocess.run([sys.executable, "-c", told], cwd=chapter.home, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("[36, 36, 36] True") and float(done.stdout.split()[-1]) < 1e-12


@pytest.mark.parametrize(
    ("kind", "name", "module", "home"),
    [
        ("chapter", "signals/loud_words", "bench_loud_words", "signals/loud_words"),
        ("notebook", "signals/moving_mean/loud_words", "loud_words.bench_loud_words", "signals/moving_mean"),
    ],
)
def test_the_bench_checks_races_and_records(small, kind, name, module, home):
    {"chapter": new_chapter, "notebook": new_notebook}[kind](small.repository, name)
    environment = {**os.environ, "PYTHONPATH": str(HOME), "REBUILT_RECEIPTS": str(small.root / "here")}
    bench = [sys.executable, "-m", module, "--rounds", "2", "--points", "2000", "--threads", "1"]
    folder = small.root / "notebooks" / home
    done = subprocess.run(bench, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and "NumPy convolve" in done.stdout, done.stderr
    receipt = json.loads((small.root / "here/loud_words.cpu.sums.json").read_text())
    assert receipt["sizes"] == {"points": 2000, "length": 256} and receipt["threads"] == 1
    assert receipt["metrics"]["sums_speedup"]["repeats"] == 2


def test_the_scaffold_s_exercise_can_fail(small):
    """The stub and both wrong answers fail the checker with the words that their cells announce."""
    sys.path.insert(0, str(HOME))
    repository = small.repository
    new_chapter(repository, "signals/loud_words")
    chapter = next(chapter for chapter in small.repository.chapters if chapter.stem == "loud_words")
    space: dict = {}
    sys.path.insert(0, str(chapter.home))
    try:
        import loud_words

        from helpers import check

        space.update(loud_words=loud_words, check=check)
        for cell in chapter.cells:
            if {"stub", "checker", "solution", "wrong"} & set(cell.metadata.get("tags", [])):
                exec(cell.source, space)
        with pytest.raises(AssertionError, match="does it end with `return`"):
            space["check_means"](space["window_means"])
        for cell in [cell for cell in chapter.cells if "wrong" in cell.metadata.get("tags", [])]:
            name = cell.source.split("(")[0].removeprefix("def ")
            with pytest.raises(AssertionError, match=cell.metadata.exercise.message):
                space["check_means"](space[name])
    finally:
        sys.path.remove(str(chapter.home))
        sys.modules.pop("loud_words", None)


def test_a_chapter_joins_its_part_and_the_rest_of_the_contents_stays(small):
    before = (small.root / "_toc.yml").read_text()
    new_chapter(small.repository, "signals/loud_words")
    after = (small.root / "_toc.yml").read_text()
    assert [line for line in after.splitlines() if line not in before.splitlines()] == [
        "      - file: notebooks/signals/loud_words/loud_words"
    ]
    assert "# the chapters" in after
    signals = yaml.safe_load(after)["parts"][0]["chapters"]
    assert [entry["file"].rpartition("/")[2] for entry in signals] == ["part_signals", "moving_mean", "loud_words"]
    assert list(links(small.repository)) == []


def test_an_empty_part_stands_after_the_last_part_of_notebooks_and_takes_a_chapter(small):
    new_part(small.repository, "speech_and_sound")
    captions = [part["caption"] for part in small.repository.toc["parts"]]
    assert captions == ["Signals", "Speech and sound", "Ledger"]
    assert list(links(small.repository)) == [] and main(["--root", str(small.root), "check", "card", "links"]) == 0
    new_part(small.repository, "speech")
    assert [part["caption"] for part in small.repository.toc["parts"]][2] == "Speech"
    new_chapter(small.repository, "speech_and_sound/loud_words")
    part = small.repository.toc["parts"][1]
    page, chapter = (entry["file"] for entry in part["chapters"])
    assert chapter == "notebooks/speech_and_sound/loud_words/loud_words" and page == landing("speech_and_sound")
    assert "<!-- press:gallery-speech_and_sound -->" in (small.root / f"{page}.md").read_text()


@pytest.mark.parametrize("name", ["Speech", "a-b", "a b", "../x", "", "1a", "a__b", "a/b"])
def test_a_name_that_is_none_is_refused(small, name):
    with pytest.raises(PressError, match="is no name for a part"):
        new_part(small.repository, name)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("signals", "is no chapter; PART/NAME"),
        ("signals/Loud", "is no name for a chapter"),
        ("speech/loud", "_toc.yml has no part speech; `make new PART=speech` makes it"),
        ("signals/moving_mean", "the chapter signals/moving_mean is there already"),
        ("signals/statistics", "hides the standard library's module statistics"),
        ("signals/nbformat", "hides the installed package nbformat"),
        ("signals/helpers", "hides the repository's own helpers"),
        ("signals/taken", "has the name of notebooks/signals/moving_mean/taken.py"),
    ],
)
def test_a_chapter_in_the_way_of_something_is_refused_and_nothing_is_made(small, name, why):
    small.write("notebooks/signals/moving_mean/taken.py", '"""Taken."""\n')
    before = {path: path.read_bytes() for path in small.root.rglob("*") if path.is_file()}
    with pytest.raises(PressError, match=why):
        new_chapter(small.repository, name)
    assert {path: path.read_bytes() for path in small.root.rglob("*") if path.is_file()} == before


def test_a_scaffold_that_ruff_refuses_leaves_nothing_behind(small):
    small.write("notebooks/ruff.toml", "line-length = 'wide'\n")
    before = {path: path.read_bytes() for path in small.root.rglob("*") if path.is_file()}
    with pytest.raises(PressError, match="ruff check failed on the scaffold"):
        new_chapter(small.repository, "signals/loud_words")
    assert {path: path.read_bytes() for path in small.root.rglob("*") if path.is_file()} == before


def test_a_part_that_is_there_is_refused(small):
    with pytest.raises(PressError, match="the part signals is there already"):
        new_part(small.repository, "signals")


def test_contents_without_a_place_are_not_guessed(small):
    (small.root / "notebooks/speech").mkdir()
    with pytest.raises(PressError, match="_toc.yml has no part speech"):
        new_chapter(Repository(small.root), "speech/loud_words")
    assert not (small.root / "notebooks/speech/loud_words").exists()
    small.write("_toc.yml", "format: jb-book\nroot: book/welcome\n")
    with pytest.raises(PressError, match="add the part by hand"):
        new_part(small.repository, "speech")


def test_a_notebook_s_card_names_the_data_that_its_chapter_fetches(small):
    small.write("notebooks/signals/moving_mean/loading.py", 'from helpers import data\n\ndata.fetch("beats")\n')
    new_notebook(small.repository, "signals/moving_mean/loud_words")
    assert small.repository.select(["loud_words"])[0].card["data"] == ["beats"]
    assert list(gates.load()["data"].problems(small.repository)) == []


def test_a_notebook_stands_after_those_of_its_chapter_in_contents_and_map(small):
    new_chapter(small.repository, "signals/loud_words")
    before = (small.root / "notebooks/signals/moving_mean/README.md").read_text()
    new_notebook(small.repository, "signals/moving_mean/moving_mean_two")
    signals = small.repository.toc["parts"][0]["chapters"]
    found = [entry["file"].rpartition("/")[2] for entry in signals]
    assert found == ["part_signals", "moving_mean", "moving_mean_two", "loud_words"]
    after = (small.root / "notebooks/signals/moving_mean/README.md").read_text()
    assert after.startswith(before) and "## Rebuild moving mean two" in after and "`moving_mean_two/sums.py`" in after


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("signals/moving_mean", "is no notebook; PART/CHAPTER/NAME"),
        ("signals/nothing/loud", "there is no chapter signals/nothing; `make new CHAPTER=signals/nothing`"),
        ("signals/moving_mean/moving_mean", "has the name of notebooks/signals/moving_mean/moving_mean.ipynb"),
        ("signals/moving_mean/json", "hides the standard library's module json"),
        ("signals/moving_mean/Loud", "is no name for a notebook"),
        ("signals/full/loud", "is flat and has more than 8 modules"),
    ],
)
def test_a_notebook_in_the_way_of_something_is_refused_and_nothing_is_made(small, name, why):
    small.write("notebooks/signals/full/full.ipynb", small.notebook_path.read_text())
    for number in range(10):
        small.write(f"notebooks/signals/full/full_{number}.py", '"""One."""\n')
    before = {path: path.read_bytes() for path in small.root.rglob("*") if path.is_file()}
    with pytest.raises(PressError, match=why):
        new_notebook(small.repository, name)
    assert {path: path.read_bytes() for path in small.root.rglob("*") if path.is_file()} == before
