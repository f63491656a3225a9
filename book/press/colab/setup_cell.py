"""The setup cell: one text for every notebook, written by the press.

Only its first line differs: it names the chapter, because in Colab a notebook knows neither its file nor its folder.
The clone's folder carries the release's name, so that a runtime which held another one gets its own copy; REBUILT_HOME
is where it lies. What happens after the clone is in `prepare.py`, so that it is tested like other code.
"""

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
        source = "--branch {branch} {url}".split()
        clone = ["git", "clone", "--quiet", "--depth", "1", *source, str(home)]
        if (done := subprocess.run(clone, capture_output=True, text=True)).returncode:
            unknown = "Open it by a button of its page in the book: no release {release} is known."
            unreached = "Switch the network on (in Kaggle: Settings, Internet), run this cell again."
            what_to_do = unknown if "not found in upstream" in done.stderr else unreached
            raise RuntimeError(f"the book cannot be fetched: {{done.stderr.strip()}}\\n{{what_to_do}}")
        (home / ".git/whole").touch()
    runpy.run_path(str(home / "book/press/colab/prepare.py"))["prepare"](home, CHAPTER)
"""


def text(repository: Repository, chapter: Chapter) -> str:
    """The setup cell of the chapter, with no line break at its end."""
    name, place = repository.url.rsplit("/", 1)[-1], {"branch": repository.branch, "url": repository.url}
    return TEMPLATE.format(chapter=chapter.name, name=name, release=repository.release, **place).rstrip("\n")
