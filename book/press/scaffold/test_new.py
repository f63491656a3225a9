"""`press new`: a scaffold that passes every gate, runs, and whose tests pass; and what is refused."""

import json
import os
import shutil
import subprocess
import sys

import pytest
import yaml

from press import PressError, Repository, gates, run
from press.cli import main
from press.gates.links import links
from press.repository import HOME
from press.scaffold.new import new_chapter, new_part

CONTENTS = """\
root: book/welcome
parts:
  - caption: Ledger
    chapters:
    - file: book/claims
    - file: book/status
"""


def problems(repository):
    """What all gates find, but in the helpers: those are copied as they are and have tests of their own."""
    found = [str(problem) for gate in gates.load().values() for problem in gate.problems(repository)]
    return [problem for problem in found if not problem.startswith("helpers")]


def test_a_new_chapter_passes_the_gates_runs_and_is_tested(small, capsys):
    shutil.rmtree(small.root / "helpers")
    shutil.copytree(HOME / "helpers", small.root / "helpers", ignore=shutil.ignore_patterns("test_*", "__pycache__"))
    shutil.rmtree(small.home)
    shutil.copyfile(HOME / "pyproject.toml", small.root / "pyproject.toml")
    small.write("data/registry.tsv", (small.root / "data/registry.tsv").read_text().splitlines()[0] + "\n")
    small.write("book/welcome.md", "# Welcome\n")
    small.write("_toc.yml", CONTENTS)
    root = ["--root", str(small.root)]
    assert main([*root, "new", "part", "speech"]) == 0
    assert main([*root, "new", "chapter", "speech/loud_words"]) == 0
    assert "wrote notebooks/speech/loud_words/test_loud_words.py" in capsys.readouterr().out
    assert problems(small.repository) == []
    (outcome,) = run.run(small.repository)
    assert outcome.state == "fresh", outcome.message
    assert problems(small.repository) == [], "the executed figures have alt text, too"
    home = small.root / "notebooks/speech/loud_words"
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(home)], cwd=small.root)
    assert done.returncode == 0
    receipt = json.loads((small.root / "_build/receipts/loud_words.cpu.json").read_text())
    assert receipt["metrics"]["sums_rate"]["value"] > 0
    bench = [sys.executable, str(home / "bench_loud_words.py")]
    done = subprocess.run(bench, env={**os.environ, "PYTHONPATH": str(small.root)}, capture_output=True, text=True)
    assert done.returncode == 0 and "NumPy convolve" in done.stdout, done.stderr


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
        with pytest.raises(AssertionError, match="divide by the length"):
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
    assert [entry["file"].rpartition("/")[2] for entry in signals] == ["moving_mean", "loud_words"]
    assert list(links(small.repository)) == []


def test_an_empty_part_stands_after_the_last_part_of_notebooks_and_takes_a_chapter(small):
    new_part(small.repository, "speech_and_sound")
    captions = [part["caption"] for part in small.repository.toc["parts"]]
    assert captions == ["Signals", "Speech and sound", "Ledger"]
    assert list(links(small.repository)) == []
    new_chapter(small.repository, "speech_and_sound/loud_words")
    part = small.repository.toc["parts"][1]
    assert part["chapters"] == [{"file": "notebooks/speech_and_sound/loud_words/loud_words"}]
    assert not (small.root / "notebooks/speech_and_sound/.gitkeep").exists()


@pytest.mark.parametrize("name", ["Speech", "a-b", "a b", "../x", "", "1a", "a__b", "a/b"])
def test_a_name_that_is_none_is_refused(small, name):
    with pytest.raises(PressError, match="is no name for a part"):
        new_part(small.repository, name)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("signals", "is no chapter; PART/NAME"),
        ("signals/Loud", "is no name for a chapter"),
        ("speech/loud", "there is no part speech; `new part speech` makes it"),
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


def test_a_part_that_is_there_is_refused(small):
    with pytest.raises(PressError, match="the part signals is there already"):
        new_part(small.repository, "signals")


def test_contents_without_a_place_are_not_guessed(small):
    (small.root / "notebooks/speech").mkdir()
    with pytest.raises(PressError, match="_toc.yml has no part for speech"):
        new_chapter(Repository(small.root), "speech/loud_words")
    assert not (small.root / "notebooks/speech/loud_words").exists()
