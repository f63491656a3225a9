"""The setup cell: one text for every notebook, written by the press.

Only its first line differs: it names the chapter, because in Colab a notebook knows neither its file nor its folder.
The clone's folder carries the release's name, so that a runtime which held another one gets its own copy; REBUILT_HOME
moves it. What happens after the clone is in `prepare.py`, so that it is tested like other code.
"""

from ..repository import Chapter, Repository

TEMPLATE = """\
CHAPTER = "{chapter}"  # the press writes this cell

import os

if {{"COLAB_RELEASE_TAG", "KAGGLE_KERNEL_RUN_TYPE"}} & set(os.environ):  # fetch the book
    import pathlib
    import runpy
    import subprocess

    home = pathlib.Path(os.environ.get("REBUILT_HOME", "/content/{name}-{release}"))
    if not home.exists():
        clone = ["git", "-c", "advice.detachedHead=false", "clone", "--quiet", "--depth", "1"]
        source = ["--branch", "{release}", "{url}"]
        subprocess.run([*clone, *source, str(home)], check=True)
    runpy.run_path(str(home / "book/press/colab/prepare.py"))["prepare"](home, CHAPTER)
"""


def text(repository: Repository, chapter: Chapter) -> str:
    """The setup cell of the chapter, with no line break at its end."""
    name, place = repository.url.rsplit("/", 1)[-1], {"release": repository.release, "url": repository.url}
    return TEMPLATE.format(chapter=chapter.name, name=name, **place).rstrip("\n")
