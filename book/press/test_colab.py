"""The setup cell: nothing outside Colab; in Colab the book's code at its release, and nothing preinstalled changed."""

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest

from press import colab, setup_cell


def cell(small, folder):
    """The setup cell of the small book, with Colab's folder moved to `folder`."""
    repository = small.repository
    text = setup_cell.text(repository, repository.chapters[0])
    assert text.count("/content/small-v9.9.9") == 1
    return text.replace("/content", str(folder))


def git(folder, *arguments):
    """Run git with an author of its own."""
    who = ["-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def published(small, monkeypatch, tmp_path):
    """The small book as a git repository with its release tag, found where its address points; a fresh Colab."""
    colab_py = Path(colab.__file__).read_text(encoding="utf-8")
    small.write("book/press/colab.py", colab_py)
    git(small.root, "init", "-q")
    git(small.root, "add", ".")
    git(small.root, "commit", "-q", "-m", "first")
    git(small.root, "tag", "v9.9.9")
    small.write("helpers/data.py", "raise RuntimeError('newer than the release')\n")
    git(small.root, "commit", "-q", "-a", "-m", "later")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", f"url.{small.root.as_uri()}.insteadOf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "https://github.com/example/small")
    monkeypatch.setenv("COLAB_RELEASE_TAG", "release-colab")
    content = tmp_path / "content"
    content.mkdir()
    return small, content


CHECK = """
import os, subprocess, sys
from pathlib import Path
from helpers import data
import moving_mean
assert Path.cwd().name == "moving_mean", Path.cwd()
assert Path(moving_mean.__file__).parent == Path.cwd()
worker = "import os; os.chdir('/'); from helpers import data; print(data.fetch('ok'))"
print(subprocess.run([sys.executable, "-c", worker], capture_output=True, text=True, check=True).stdout)
"""


def run_cell(text, folder):
    """What a fresh Python prints that runs the text in `folder`, as Colab runs a cell."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-c", text]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def test_in_colab_the_release_is_cloned_and_helpers_reach_workers_too(published):
    small, content = published
    done = run_cell(cell(small, content) + CHECK, content)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "ok"
    assert "newer than the release" not in (content / "small-v9.9.9/helpers/data.py").read_text()


def test_the_cell_can_run_again(published):
    small, content = published
    text = cell(small, content)
    done = run_cell(text + "\n" + text + CHECK, content)
    assert done.returncode == 0, done.stderr


def test_outside_colab_the_cell_does_nothing(small, tmp_path, monkeypatch):
    monkeypatch.delenv("COLAB_RELEASE_TAG", raising=False)
    before, path = os.getcwd(), list(sys.path)
    exec(cell(small, tmp_path / "content"), {})
    assert (os.getcwd(), sys.path) == (before, path) and not (tmp_path / "content").exists()


def test_the_cell_is_the_same_in_every_notebook_but_for_its_first_line(small):
    small.write("notebooks/signals/moving_mean/second.ipynb", small.notebook_path.read_text())
    first, second = (setup_cell.text(small.repository, chapter) for chapter in small.repository.chapters)
    assert first.splitlines()[1:] == second.splitlines()[1:]
    assert '"signals/moving_mean/second"' in second.splitlines()[0]
    assert "v9.9.9" in first and "https://github.com/example/small" in first and len(first.splitlines()) <= 16


def test_only_absent_packages_are_wanted():
    assert colab.absent(["pip==1.0", "PyYAML==0.1", "no-such-package==1.0"]) == ["no-such-package==1.0"]


def test_installed_packages_are_held_at_their_versions(tmp_path, monkeypatch):
    calls = []

    def fake(command, **options):
        calls.append(command)
        out = "numpy==1.26.4\nstrange==1+local\n" if "list" in command else ""
        return subprocess.CompletedProcess(command, 0, stdout=out, stderr="")

    monkeypatch.setattr(colab.subprocess, "run", fake)
    colab.install(["no-such-package==1.0", "PyYAML==0.1"], tmp_path / "b" / "pins.txt")
    assert calls[-1][-3:] == ["--constraint", str(tmp_path / "b" / "pins.txt"), "no-such-package==1.0"]
    assert "numpy==1.26.4" in (tmp_path / "b" / "pins.txt").read_text()
    calls.clear()
    colab.install(["PyYAML==0.1"], tmp_path / "pins.txt")
    assert calls == []


def test_pip_s_refusal_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(RuntimeError, match="pip cannot add no-such-package==1.0"):
        colab.install(["no-such-package==1.0"], tmp_path / "pins.txt")
    assert f"PyYAML=={importlib.metadata.version('PyYAML')}" in (tmp_path / "pins.txt").read_text()
