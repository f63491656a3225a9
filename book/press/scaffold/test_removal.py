"""`press remove`: what goes, what of it is told to remain, and what is refused."""

import subprocess

import pytest

from press import PressError, gates
from press.cli import main
from press.scaffold.new import new_chapter, new_notebook
from press.scaffold.removal import remove_chapter

WAITING = "{0}/cpu-x-race.json:\n  why: no load\n  again: {0}, its race\n"
COLUMNS = "dataset\tfile\turl\tsha256\tbytes\tlicence\tcitation\tused_for\n"


def git(small, *command):
    own = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *own, *command], cwd=small.root, check=True, capture_output=True)


@pytest.fixture
def two(small):
    """The small book with a second chapter of two notebooks, all committed; each has all that the book keeps."""
    small.write("requirements.txt", "PyYAML==6.0\npolars==1.0\nnumpy==2.0\n")
    new_chapter(small.repository, "signals/loud_words")
    new_notebook(small.repository, "signals/loud_words/quiet_words")
    for stem in ("moving_mean", "loud_words", "quiet_words"):
        small.write(f"data/receipts/{stem}/cpu-x-race.json", "{}")
        small.write(f"data/predictions/{stem}.json", "{}")
    small.write("data/receipts/stale.yml", "# waiting\n" + WAITING.format("moving_mean") + WAITING.format("loud_words"))
    rows = "".join(f"{name}\ta\thttps://example.org\t{'a' * 64}\t1\tCC0\tA\tb\n" for name in ("beats", "words"))
    small.write("data/registry.tsv", COLUMNS + rows)
    small.write("data/README.md", "# Data\n\n## `beats`\n\nBeats.\n\n## `words`: some\n\nUsed in loud speech.\n")
    card = small.root / "notebooks/signals/loud_words/loud_words.yml"
    card.write_text(card.read_text().replace("data: []", "data: [beats, words]"))
    code = small.root / "notebooks/signals/loud_words/loud_words.py"
    code.write_text(code.read_text().replace("import torch\n", "import polars\nimport torch\nimport yaml\n"))
    small.write("helpers/plot.py", '"""Figures."""\n\nimport numpy\nimport yaml\n')
    text = "# Welcome\n\n[Words](../notebooks/signals/loud_words/loud_words.ipynb) are loud_words.\n\nNothing.\n"
    small.write("book/welcome.md", text)
    git(small, "init", "-q")
    git(small, "add", "-A")
    git(small, "commit", "-qm", "all")
    return small


def files(small):
    found = [path for path in small.root.rglob("*") if path.is_file() and ".git" not in path.parts]
    return {path.relative_to(small.root).as_posix() for path in found}


def test_a_chapter_goes_with_what_the_book_keeps_of_it(two, capsys):
    before = files(two)
    assert main(["--root", str(two.root), "remove", "signals/loud_words"]) == 0
    gone = before - files(two)
    kept = {name for name in before if "loud_words" in name or "quiet_words" in name}
    assert gone == kept and len(gone) > 16
    assert [chapter.stem for chapter in two.repository.chapters] == ["moving_mean"]
    assert two.repository.toc_files == ["book/welcome", "book/part_signals", *two.repository.toc_files[2:]]
    assert not any("words" in name for name in two.repository.toc_files)
    assert [row["dataset"] for row in two.repository.registry] == ["beats"], "the other chapter's data stay"
    assert (two.root / "data/receipts/stale.yml").read_text() == "# waiting\n" + WAITING.format("moving_mean")
    said = capsys.readouterr().out.splitlines()
    assert "removed 2 entries of _toc.yml" in said and "removed 1 entry of data/registry.tsv" in said
    assert "removed notebooks/signals/loud_words" in said and "removed data/receipts/quiet_words" in said


def test_what_speaks_of_it_is_told_by_path_and_line(two):
    said = [
        line.removeprefix("remains ") for line in remove_chapter(two.repository, "signals/loud_words") if "rema" in line
    ]
    assert "requirements.txt:2: polars==1.0, which nothing else imports" in said
    assert any(line.startswith("book/welcome.md:3:") for line in said)
    assert any(line.startswith("data/README.md:7:## `words`") for line in said)
    assert sum(line.startswith("book/references.bib:") for line in said) == 3, "two keys, and a title"
    assert {line.split(":")[0] for line in said} == {
        "requirements.txt",
        "book/welcome.md",
        "data/README.md",
        "book/references.bib",
    }


def test_one_notebook_goes_and_the_other_stays(two):
    before = files(two)
    said = list(remove_chapter(two.repository, "signals/loud_words/quiet_words"))
    home = "notebooks/signals/loud_words"
    gone = {f"{home}/quiet_words.ipynb", f"{home}/quiet_words.yml", f"{home}/quiet_words/rehearsed_quiet_words.py"}
    gone |= {"data/predictions/quiet_words.json", "data/receipts/quiet_words/cpu-x-race.json"}
    assert before - files(two) == gone
    assert [row["dataset"] for row in two.repository.registry] == ["beats", "words"]
    assert any(line.startswith(f"remains {home}/README.md:") for line in said), "its words in the map"
    assert not any("requirements.txt" in line or "stale.yml" in line for line in said)


def test_the_last_chapter_of_a_part_leaves_the_part(two):
    said = list(remove_chapter(two.repository, "signals/moving_mean"))
    assert not any("part_signals" in line for line in said)
    said = list(remove_chapter(two.repository, "signals/loud_words", force=True))
    assert "remains book/part_signals.md, and its entry in _toc.yml: a part without a chapter" in said
    assert [problem for problem in gates.load()["links"].problems(two.repository) if "_toc" in str(problem)] == []


@pytest.mark.parametrize("path", ["signals/loud_words/new.py", "signals/loud_words/loud_words.py"])
def test_what_is_not_committed_is_kept_unless_forced(two, path):
    two.write(f"notebooks/{path}", '"""New."""\n')
    before = files(two)
    with pytest.raises(PressError, match=rf"not all of it is committed(.|\n)*{path}"):
        list(remove_chapter(two.repository, "signals/loud_words"))
    assert files(two) == before
    assert main(["--root", str(two.root), "remove", "signals/loud_words", "--force"]) == 0
    assert len(two.repository.chapters) == 1


def test_a_receipt_that_is_not_committed_counts_too(two):
    two.write("data/receipts/loud_words/cpu-x.json", "{}")
    with pytest.raises(PressError, match="cpu-x.json"):
        list(remove_chapter(two.repository, "signals/loud_words"))
    list(remove_chapter(two.repository, "signals/moving_mean"))


def test_without_git_nothing_goes_unless_forced(small):
    with pytest.raises(PressError, match="not all of it is committed(.|\n)*not a git repository"):
        list(remove_chapter(small.repository, "signals/moving_mean"))
    said = list(remove_chapter(small.repository, "signals/moving_mean", force=True))
    assert "removed notebooks/signals/moving_mean" in said
    assert any(line.startswith("remains book/welcome.md:3:") for line in said), "no repository is needed to look"


@pytest.mark.parametrize("name", ["signals", "moving_mean", "signals/nothing", "../signals/moving_mean", ""])
def test_a_name_that_is_no_chapter_is_refused(small, name):
    with pytest.raises(PressError, match="there are: signals/moving_mean/moving_mean"):
        list(remove_chapter(small.repository, name, force=True))
    assert small.notebook_path.exists()
