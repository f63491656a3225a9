"""The small pieces: atomic files, the lock, the model, the command line."""

import ast
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest

from press import PressError, Repository, cli, files
from press.cli import COMMANDS, main
from press.repository import HOME
from press.run import processes
from press.run.job import tidy

PRESS = Path(__file__).resolve().parent
PACKAGES = sorted(path.parent for folder in (PRESS, HOME / "rehearsal") for path in folder.rglob("__init__.py"))


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = files.write_text(tmp_path / "a" / "b.txt", "old")

    def broken(*_):
        raise OSError("disk full")

    monkeypatch.setattr(files.os, "replace", broken)
    with pytest.raises(OSError, match="disk full"):
        files.write_text(path, "new")
    assert path.read_text() == "old" and list(path.parent.iterdir()) == [path]


def test_a_folder_is_swapped_and_the_old_one_gone(tmp_path):
    for name, content in (("old", "1"), ("new", "2")):
        files.write_text(tmp_path / name / "x", content)
    files.swap_folder(tmp_path / "new", tmp_path / "old")
    assert (tmp_path / "old" / "x").read_text() == "2" and len(list(tmp_path.iterdir())) == 1


def test_removing_a_link_leaves_what_it_points_at(tmp_path):
    kept = files.write_text(tmp_path / "kept" / "x", "1")
    (tmp_path / "link").symlink_to(tmp_path / "kept")
    assert files.remove(tmp_path / "link") and kept.exists()
    assert not files.remove(tmp_path / "link")


def test_damaged_json_counts_as_absent(tmp_path):
    assert files.read_json(files.write_text(tmp_path / "a.json", "{")) is None
    assert files.read_json(tmp_path / "b.json") is None


def test_the_lock_names_its_holder_and_opens_again(tmp_path):
    path, holder = tmp_path / "lock", f"process {os.getpid()}, a test"
    with files.lock(path, "a test"), pytest.raises(PressError, match=holder), files.lock(path, "other"):
        pass
    with files.lock(tmp_path / "lock", "again"):
        pass


def test_a_folder_that_is_no_book_is_refused(tmp_path, capsys):
    with pytest.raises(PressError, match="holds no _config.yml"):
        Repository(tmp_path)
    assert main(["--root", str(tmp_path), "check"]) == 2
    assert "holds no _config.yml" in capsys.readouterr().err


def test_a_missing_address_or_version_is_named(small):
    repository = small.repository
    del repository.config["repository"]["url"]
    with pytest.raises(PressError, match="_config.yml lacks `repository: {url"):
        repository.url  # noqa: B018  reading it is the test
    small.write("helpers/__init__.py", '"""Helpers without a version."""\n')
    with pytest.raises(PressError, match="helpers/__init__.py lacks `__version__"):
        repository.release  # noqa: B018


def test_the_release_is_the_tag_of_the_helpers_version(small):
    assert small.repository.release == "v9.9.9"
    small.write("helpers/__init__.py", '__version__ = "10.0.1"\n')
    assert small.repository.release == "v10.0.1"


def test_contents_in_every_form_are_found(small):
    small.write("_toc.yml", "root: book/a\nchapters:\n- file: book/b.md\n  sections:\n  - file: notebooks/c.ipynb\n")
    assert small.repository.toc_files == ["book/a", "book/b", "notebooks/c"]


def test_a_broken_configuration_says_where(small):
    small.write("_config.yml", "a: [\n")
    with pytest.raises(PressError, match=r"_config.yml is not YAML: .*line 2"):
        small.repository.config  # noqa: B018  reading it is the test


def until(fulfilled, seconds=30):
    """None, once it is; an AssertionError after so many seconds."""
    end = time.monotonic() + seconds
    while not fulfilled():
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.01)


def test_memory_and_the_end_of_a_tree():
    script = "import subprocess, sys, time; subprocess.Popen(['sleep', '60'], start_new_session=True); time.sleep(60)"
    marker = ("REBUILT_TEST_TREE", str(os.getpid()))
    parent = subprocess.Popen([sys.executable, "-c", script], env={**os.environ, marker[0]: marker[1]})
    until(lambda: processes.descendants(parent.pid))
    assert processes.memory_bytes(parent.pid) > 0
    (child,) = processes.descendants(parent.pid)
    until(lambda: child.name() == "sleep")  # forked, and not yet sleep
    parent.kill()
    parent.wait()
    assert processes.alive(child)
    assert processes.end_tree(parent.pid, marker) == ["sleep"]
    assert not processes.alive(child)


def test_available_memory_is_some():
    assert 0 < processes.available_bytes() < 2**50


def test_tidy_joins_streams_and_drops_widgets_and_bars():
    output = nbformat.v4.new_output
    widget = {"application/vnd.jupyter.widget-view+json": {}, "text/plain": "HBox"}
    cell = nbformat.v4.new_code_cell("x", outputs=[output("stream", text="a\n"), output("stream", text="b\n")])
    cell.outputs.append(output("display_data", data=widget))
    cell.outputs.append(output("stream", name="stderr", text="12it [00:01, 9.1it/s]\rreal warning\n"))
    tidied = tidy(nbformat.v4.new_notebook(cells=[cell]), {})
    assert [(o.name, o.text) for o in tidied.cells[0].outputs] == [("stdout", "a\nb\n"), ("stderr", "real warning\n")]


def test_the_commands_as_a_user_starts_them():
    done = subprocess.run([sys.executable, str(PRESS), "--help"], capture_output=True, text=True, cwd="/")
    assert done.returncode == 0
    assert all(name in done.stdout for name in ("run", "check", "build", "serve", "new", "remove", "clean"))
    assert "worker" not in done.stdout


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.relative_to(HOME).as_posix())
def test_each_module_is_named_in_the_docstring_of_its_package(package):
    inner = {path.parent.name for path in package.glob("*/__init__.py")}
    own = {path.stem for path in package.glob("*.py") if not path.name.startswith(("test_", "conftest", "__"))}
    said = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))) or ""
    assert {name for name in own | inner if f"`{name}`" not in said} == set()


def test_every_setting_of_make_is_explained_at_its_top():
    text = (HOME / "Makefile").read_text(encoding="utf-8")
    header, rest = text.split("\n\n", 1)
    used = set(re.findall(r"\$\(([A-Z_]+)\)", rest)) - {"MAKEFILE_LIST", "RECIPE"}
    own = set(re.findall(r"^([A-Z_]+) :=", rest, re.MULTILINE))
    assert used - own == set(re.findall(r"\b([A-Z_]+)=", header)) - {"TORCH"}


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "README.md", "book/how_to_read.md", "book/teaching.md"])
def test_every_command_and_path_that_a_document_names_is_there(page):
    text = (HOME / page).read_text(encoding="utf-8")
    fences, rest = re.findall(r"```sh\n(.*?)```", text, re.DOTALL), re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    code = "\n".join([*fences, *re.findall(r"`([^`\n]+)`", rest)])
    targets = set(re.findall(r"^([a-z]+):", (HOME / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    asked = set(re.findall(r"\bmake (?:[A-Z_]+=\S+ )*([a-z]+)\b", code))
    assert asked and asked <= targets
    assert set(re.findall(r"\bpress ([a-z]+)\b", code)) <= set(COMMANDS)
    paths = re.findall(r"`((?:book|notebooks|data|helpers|rehearsal|signals|\.ci|\.github)/[\w./-]*)`", text)
    assert [path for path in paths if not (HOME / path).exists() and not (HOME / "notebooks" / path).exists()] == []


def test_the_press_imports_no_torch():
    script = "import sys; sys.path[:0] = sys.argv[1:]; import press.cli, press.run, press.print.build, press.gates; "
    script += "press.gates.load()"
    script += "; assert not {'torch', 'numpy'} & set(sys.modules), 'too much is imported'"
    done = subprocess.run([sys.executable, "-c", script, str(PRESS.parent), str(HOME)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_what_a_command_of_the_table_does_is_there_and_handed_what_it_takes(name):
    module, *words = COMMANDS[name]["does"].split()
    if not words:
        return getattr(cli, f"_{module}")
    does = getattr(cli.part(module), words[0])
    takes = {option.strip("+-").replace("-", "_") for option in COMMANDS[name]["takes"].split()} | {cli.REST}
    assert callable(does) and set(words[1:]) - {"Options"} <= takes
    assert "Options" not in words or cli.part(module).Options
