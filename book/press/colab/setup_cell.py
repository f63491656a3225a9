"""The setup cell: one text for every notebook, but for its first line, which names the chapter: in Colab a notebook
knows neither its file nor its folder. The clone's folder, in REBUILT_HOME, carries the release's name, so that a
runtime which held another one gets its own. What comes after the clone is in `prepare.py`, tested like other code."""

from ..repository import Chapter, Repository

TEMPLATE = """\
CHAPTER = "{chapter}"  # the press writes this cell

import os

if {{"COLAB_RELEASE_TAG", "KAGGLE_KERNEL_RUN_TYPE"}} & set(os.environ):  # fetch the book
    import pathlib
    import runpy
    import shutil
    import subprocess

    home = pathlib.Path(os.environ.get("REBUILT_HOME", "/content"), "{name}-{release}")
    if not (home / ".git/whole").exists():  # absent, or half a clone
        shutil.rmtree(home, ignore_errors=True)
        source = ["--branch", "{branch}", "{url}"]
        git = ["env", "LC_ALL=C", "git", "clone", "--quiet", "--depth", "1"]
        clone = [*git, *source, str(home)]
        done = subprocess.run(clone, capture_output=True, text=True, check=False)
        if done.returncode:
            todo = "Switch on the network (Kaggle: Settings, Internet), run this again."
            if "not found in upstream" in done.stderr:
                todo = "No release {release} is known: use a button of its page in the book."
            raise RuntimeError(f"no book: {{done.stderr.strip()}}\\n{{todo}}")
        (home / ".git/whole").touch()
    runpy.run_path(str(home / "book/press/colab/prepare.py"))["prepare"](home, CHAPTER)
"""


def text(repository: Repository, chapter: Chapter) -> str:
    """The setup cell of the chapter, with no line break at its end."""
    name, place = repository.url.rsplit("/", 1)[-1], {"branch": repository.branch, "url": repository.url}
    return TEMPLATE.format(chapter=chapter.name, name=name, release=repository.release, **place).rstrip("\n")
