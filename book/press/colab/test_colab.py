"""The setup cell: nothing outside Colab; in Colab the book's code at its release, and nothing preinstalled changed."""

import importlib.metadata
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import nbformat
import pytest

from press import PressError, Repository
from press.cli import main
from press.colab import branch, setup_cell
from press.colab import prepare as colab
from press.colab import trial as colab_trial
from press.colab.trial import trial
from press.conftest import code, exercise_cells, markdown
from press.print.generated import addresses
from press.repository import HOME, tags
from press.teach.variants import TRIED


def cell(small, folder):
    """The setup cell of the small book, with Colab's folder moved to `folder`."""
    repository = small.repository
    text = setup_cell.text(repository, repository.chapters[0])
    assert text.count('"/content"), "small-v9.9.9"') == 1
    return text.replace("/content", str(folder))


def git(folder, *arguments):
    """What git prints, run with an author of its own."""
    who = ["-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


def commit(small):
    """Commit all of the small book."""
    git(small.root, "add", ".")
    git(small.root, "commit", "-q", "-m", "first")


@pytest.fixture
def published(small, monkeypatch, tmp_path):
    """The small book as a git repository with its release's branch, found where its address points; a fresh Colab."""
    colab_py = Path(colab.__file__).read_text(encoding="utf-8")
    small.write("book/press/colab/prepare.py", colab_py)
    git(small.root, "init", "-q")
    commit(small)
    branch.make(small.repository)
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


@pytest.mark.parametrize("left", [".git/HEAD", "book/press/colab/prepare.py", "notebooks/a"])
def test_half_a_clone_is_removed_and_cloned_again(published, left):
    small, content = published
    half = content / "small-v9.9.9" / left
    half.parent.mkdir(parents=True)
    half.write_text("1 / 0")
    done = run_cell(cell(small, content) + CHECK, content)
    assert done.returncode == 0, done.stderr
    assert not (content / "small-v9.9.9/notebooks/a").exists()


def last_words(done):
    """The last line of a cell that stopped with an error of its own kind."""
    assert done.returncode == 1 and "RuntimeError" in done.stderr
    return done.stderr.strip().splitlines()[-1]


def test_git_is_asked_in_the_language_in_which_its_answer_is_read(published, monkeypatch, tmp_path):
    small, content = published
    told = tmp_path / "git"
    told.write_text('#!/bin/sh\n[ "$LC_ALL" = C ] && echo "Remote branch not found in upstream origin" >&2\nexit 1\n')
    told.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    assert last_words(run_cell(cell(small, content), content)).startswith("No release v9.9.9")


def test_without_the_release_the_cell_says_what_to_open(published):
    small, content = published
    git(small.root, "update-ref", "-d", "refs/heads/learn-v9.9.9")
    told = last_words(run_cell(cell(small, content), content))
    assert told == "No release v9.9.9 is known: use a button of its page in the book."


def test_without_a_network_the_cell_says_what_to_switch_on_and_then_goes_on(published, monkeypatch):
    small, content = published
    with monkeypatch.context() as cut:
        cut.setenv("GIT_CONFIG_KEY_0", f"url.{(small.root / 'nowhere').as_uri()}.insteadOf")
        told = last_words(run_cell(cell(small, content), content))
    assert told == "Switch on the network (Kaggle: Settings, Internet), run this again."
    assert run_cell(cell(small, content) + CHECK, content).returncode == 0


def test_a_chapter_that_the_release_lacks_is_told(published):
    small, content = published
    newer = cell(small, content).replace('"signals/moving_mean/moving_mean"', '"signals/later/later"')
    told = last_words(run_cell(newer, content))
    assert "small-v9.9.9 has no chapter signals/later/later: this notebook is newer than the release" in told
    assert told.endswith("wait for the next release.")


def test_outside_colab_the_cell_does_nothing(small, tmp_path, monkeypatch):
    for name in ("COLAB_RELEASE_TAG", "KAGGLE_KERNEL_RUN_TYPE"):
        monkeypatch.delenv(name, raising=False)
    before, path = os.getcwd(), list(sys.path)
    exec(cell(small, tmp_path / "content"), {})
    assert (os.getcwd(), sys.path) == (before, path) and not (tmp_path / "content").exists()


def test_the_cell_is_the_same_in_every_notebook_but_for_its_first_line(small):
    small.write("notebooks/signals/moving_mean/second.ipynb", small.notebook_path.read_text())
    first, second = (setup_cell.text(small.repository, chapter) for chapter in small.repository.chapters)
    assert first.splitlines()[1:] == second.splitlines()[1:]
    assert '"signals/moving_mean/second"' in second.splitlines()[0]
    assert "v9.9.9" in first and "https://github.com/example/small" in first and len(first.splitlines()) <= 26


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


LISTED = "# words\none==1.0 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\ntwo==2.0 \\\n    --hash=sha256:cc\n"


def test_what_has_a_hash_is_installed_first_alone_and_by_it(tmp_path, monkeypatch):
    (tmp_path / "listed.txt").write_text(LISTED)
    calls = []
    done = subprocess.CompletedProcess([], 0, stdout="", stderr="")
    monkeypatch.setattr(colab.subprocess, "run", lambda command, **options: calls.append(command) or done)
    colab.install(["one==1.0", "no-such-package==1.0"], tmp_path / "pins.txt", tmp_path / "listed.txt")
    own = str(tmp_path / "pins.hashed")
    assert calls[1][-4:] == ["--no-deps", "--require-hashes", "-r", own] and len(calls) == 3
    assert (tmp_path / "pins.hashed").read_text() == "one==1.0 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb"
    assert colab.hashed(["one==1.1"], tmp_path / "listed.txt") == ""


def test_a_package_of_another_hash_is_refused(tmp_path, monkeypatch):
    wheel = tmp_path / "wheels" / "one-1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    with zipfile.ZipFile(wheel, "w") as packed:
        packed.writestr("one-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: one\nVersion: 1.0\n")
        packed.writestr("one-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        packed.writestr("one-1.0.dist-info/RECORD", "")
    (tmp_path / "listed.txt").write_text(LISTED.replace("aa", "a" * 64).replace("bb", "b" * 64))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    with pytest.raises(RuntimeError, match="(?s)pip cannot add one==1.0.*DO NOT MATCH THE HASHES"):
        colab.install(["one==1.0"], tmp_path / "pins.txt", tmp_path / "listed.txt")


def test_what_has_a_hash_is_pinned_by_requirements_and_said_on_a_page_that_installs_it():
    book = Repository(HOME)
    found = re.findall(r"^(\S+)==(\S+) ", (HOME / "requirements-hashed.txt").read_text(encoding="utf-8"), re.MULTILINE)
    assert dict(found) == {name: book.pins[name] for name, _ in found} and len(found) == 2
    for name, version in found:
        pages = [one for one in book.chapters if f"{name}=={version}" in one.card["packages"]]
        said = [cell.source for one in pages for cell in one.cells if cell.cell_type == "markdown"]
        assert len(pages) == 1 and any(f"`{name}` {version}" in text and "hash" in text for text in said), name


def test_pip_s_refusal_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(RuntimeError, match="pip cannot add no-such-package==1.0"):
        colab.install(["no-such-package==1.0"], tmp_path / "pins.txt")
    assert f"PyYAML=={importlib.metadata.version('PyYAML')}" in (tmp_path / "pins.txt").read_text()


# The branch that the buttons open


def test_every_button_opens_a_students_notebook_of_the_tree_that_is_pushed(tmp_path):
    repository = Repository()
    store = colab_trial.published(repository, tmp_path / "book.git")
    owner = "/".join(repository.url.split("/")[-2:])
    for chapter in repository.chapters:
        found = addresses(repository, chapter)
        assert list(found) == ["Colab", "Kaggle", "Binder"]
        for address in found.values():
            place = re.search(rf"{owner}(?:/blob)?/{repository.branch}(?:/|\?urlpath=tree/)(.+)$", address)
            text = git(store, "show", f"{repository.branch}:{place[1]}")
            notebook = nbformat.reads(text, as_version=4)
            nbformat.validate(notebook)
            assert notebook.metadata["rebuilt"] == {"chapter": str(chapter), "variant": "student"}
            assert not {"talk", "instructor", "wrong", "solution"} & {t for one in notebook.cells for t in tags(one)}
            module = f"{Path(place[1]).parent}/start_here_{chapter.stem}.py"
            assert "def start(section):" in git(store, "show", f"{repository.branch}:{module}")


def test_the_branch_differs_from_the_release_in_notebooks_and_modules_alone(committed):
    committed.write("notebooks/signals/moving_mean/unknown.txt", "not committed")
    commit(committed)
    first = branch.make(committed.repository)
    told = git(committed.root, "diff", "--name-status", "HEAD", first).split()
    here = "notebooks/signals/moving_mean"
    assert told == ["M", f"{here}/moving_mean.ipynb", "A", f"{here}/start_here_moving_mean.py"]
    assert branch.make(committed.repository) == first == git(committed.root, "rev-parse", "learn-v9.9.9").strip()
    assert git(committed.root, "rev-parse", f"{first}^").strip() == git(committed.root, "rev-parse", "HEAD").strip()


def test_the_branch_s_commit_has_the_date_of_the_last_so_that_it_is_the_same_tomorrow(committed, monkeypatch):
    with monkeypatch.context() as then:
        then.setenv("GIT_COMMITTER_DATE", "2020-01-02T03:04:05+00:00")
        commit(committed)
    dates = git(committed.root, "show", "-s", "--format=%aI %cI", branch.make(committed.repository)).split()
    assert [date[:19] for date in dates] == ["2020-01-02T03:04:05"] * 2


def test_the_command_wants_all_committed_and_says_what_to_push(committed, capsys):
    commit(committed)
    assert main(["--root", str(committed.root), "branch"]) == 0
    assert "push it together with the tag v9.9.9" in capsys.readouterr().out
    committed.write("new.txt", "1")
    assert main(["--root", str(committed.root), "branch"]) == 2
    assert "something is not committed" in capsys.readouterr().err


# The trial, on the small book: this environment stands for the bare one


@pytest.fixture
def committed(small):
    """The small book as a git repository, with the real `colab.py`."""
    small.write("book/press/colab/prepare.py", Path(colab.__file__).read_text(encoding="utf-8"))
    small.write(".gitignore", "_build/\n")
    git(small.root, "init", "-q")
    return small


def tried(small, *cells):
    """The Trial of the small book's chapter, whose third cell is followed by `cells`."""
    kept = small.cells()[:3]
    small.write_notebook([*kept, *cells])
    commit(small)
    repository = small.repository
    return trial(repository, repository.chapters[0], repository.build / "colab", Path(sys.executable), timeout=60)


def test_the_trial_runs_the_notebook_alone_from_the_release(committed):
    where = "import os, helpers, moving_mean\nprint(os.getcwd(), helpers.__file__, os.environ.get('PYTHONPATH'))"
    found = tried(committed, code(where))
    home = committed.root / "_build/colab/content/small-v9.9.9"
    printed = found.notebook.cells[3].outputs[0].text.split()
    assert printed == [str(home / "notebooks/signals/moving_mean"), str(home / "helpers/__init__.py"), str(home)]
    assert (found.added, found.changed) == ({}, {}) and "numpy" in found.before
    assert [path.name for path in (committed.root / "_build/colab/alone").iterdir()] == ["moving_mean.ipynb"]


def test_the_trial_runs_what_the_buttons_open(committed):
    found = tried(
        committed, markdown("## Begin"), code("a = 3"), markdown("## On"), code("print(a)"), *exercise_cells()
    )
    assert [tag for cell in found.notebook.cells for tag in tags(cell) if tag in ("solution", TRIED)] == [TRIED]
    assert "from start_here_moving_mean import start" in "".join(cell.source for cell in found.notebook.cells)


def test_the_trial_tells_a_failing_cell(committed):
    with pytest.raises(PressError, match="moving_mean does not run alone:(.|\n)*ZeroDivisionError"):
        tried(committed, code("1 / 0"))


def test_the_trial_sees_what_was_added_and_what_changed(committed, monkeypatch):
    lists = iter([{"numpy": "1.26.4", "scipy": "1"}, {"numpy": "2.0", "scipy": "1", "stumpy": "1.14"}])
    monkeypatch.setattr(colab_trial, "freeze", lambda python: next(lists))
    found = tried(committed, code("1"))
    assert (found.added, found.changed) == ({"stumpy": "1.14"}, {"numpy": "1.26.4 to 2.0"})


def test_the_command_fails_when_a_preinstalled_version_changed(small, monkeypatch, capsys):
    notebook = nbformat.v4.new_notebook()
    for changed, status in (({}, 0), ({"numpy": "1 to 2"}, 1)):
        done = colab_trial.Trial(1.0, {"numpy": "1", "torch": "2"}, {}, changed, notebook)
        monkeypatch.setattr(colab_trial, "trial", lambda *given, done=done: done)
        assert main(["--root", str(small.root), "colab", "--as-is"]) == status
        assert ("CHANGED: numpy 1 to 2" in capsys.readouterr().out) is bool(changed)


def test_torch_is_the_pinned_one_unless_another_is_held(small):
    small.write("requirements.txt", "numpy==1\ntorch==2.13.0\n")
    assert colab_trial._torch(small.repository, ["numpy==1.26.4"]) == ["torch==2.13.0", "numpy==1.26.4"]
    assert colab_trial._torch(small.repository, ["torch==2.6.0"]) == ["torch==2.6.0"]


def test_in_kaggle_too(published, monkeypatch):
    small, content = published
    monkeypatch.delenv("COLAB_RELEASE_TAG")
    monkeypatch.setenv("KAGGLE_KERNEL_RUN_TYPE", "Interactive")
    done = run_cell(cell(small, content) + CHECK, content)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", "the clone says nothing"


# The slow one: the first chapter of the book, in an environment of its own. `make colab` runs them all.


@pytest.mark.slow
@pytest.mark.skipif("REBUILT_COLAB" not in os.environ, reason="takes minutes: REBUILT_COLAB=1, or `make colab`")
@pytest.mark.parametrize("held", [[], ["numpy==1.26.4"]], ids=["newest numpy", "numpy 1.26"])
def test_a_chapter_runs_in_a_bare_environment(held, capsys):
    repository = Repository()
    assert colab_trial.colab(repository, [repository.chapters[0].name], held) == 0, capsys.readouterr().out
