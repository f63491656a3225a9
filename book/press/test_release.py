"""The last commit as a reader meets it once its tag is pushed: links of pages, setup cells, data, `.ci/release`."""

import os
import re
import subprocess
import sys
from urllib.parse import unquote

import nbformat
import pytest

from helpers import data
from press.colab import trial
from press.errors import finished
from press.repository import HOME, Repository, tags

BOOK = Repository(HOME)
HTML = HOME / "_build" / "html"
OWNER = re.escape("/".join(BOOK.url.split("/")[-2:]))
FILE = re.compile(
    rf"(?:{OWNER}/(?:blob|tree|raw|edit)|raw\.githubusercontent\.com/{OWNER}|v2/gh/{OWNER})"
    r"/([^/?#]+)(?:/|\?urlpath=tree/)([^?#&]+)"
)
FORM = re.compile(rf"{OWNER}/issues/new\?template=([\w.]+)")
STARTED = "\nimport os, helpers\nprint(os.getcwd(), helpers.__file__, helpers.__version__)"


def asked(text):
    """(branch or tag, path) of each file of the repository to which a page's links lead."""
    links = [unquote(link.replace("&amp;", "&")) for link in re.findall(r'href="([^"]+)"', text)]
    forms = {("main", f".github/ISSUE_TEMPLATE/{name}") for link in links for name in FORM.findall(link)}
    return {pair for link in links for pair in FILE.findall(link)} | forms


def trees():
    """The paths, folders too, of the tag and of its branch, as the last commit makes them."""
    names = finished("no git here", "git", "-C", HOME, "ls-tree", "-r", "-t", "--name-only", "-z", "HEAD").split("\0")
    own = {f"notebooks/{one.part}/{one.folder}/start_here_{one.stem}.py" for one in BOOK.chapters}
    return {"main": {*names}, BOOK.release: {*names}, BOOK.branch: {*names} | own}


@pytest.mark.parametrize(
    ("link", "found"),
    [
        ("https://github.com/{}/blob/v1/a/b.md#c", {("v1", "a/b.md")}),
        ("https://colab.research.google.com/github/{}/blob/learn-v1/a.ipynb", {("learn-v1", "a.ipynb")}),
        ("https://k.com/welcome?src=https://raw.githubusercontent.com/{}/learn-v1/a.ipynb", {("learn-v1", "a.ipynb")}),
        ("https://mybinder.org/v2/gh/{}/learn-v1?urlpath=tree/a.ipynb", {("learn-v1", "a.ipynb")}),
        ("https://github.com/{}/issues/new?template=taught.yml", {("main", ".github/ISSUE_TEMPLATE/taught.yml")}),
        ("https://github.com/{}/issues", set()),
        ("https://github.com/another/book/blob/v1/a.md", set()),
    ],
)
def test_a_link_to_a_file_of_the_repository_is_known_as_one(link, found):
    assert asked(f'<a href="{link.format("/".join(BOOK.url.split("/")[-2:]))}">') == found


@pytest.mark.skipif(not (HTML / "index.html").is_file(), reason="the book is not built: make book")
def test_every_link_of_a_page_into_the_repository_leads_to_a_file_of_the_tag_or_its_branch():
    there, found = trees(), {}
    for page in HTML.rglob("*.html"):
        for pair in asked(page.read_text(encoding="utf-8")):
            found.setdefault(pair, page.relative_to(HTML).as_posix())
    assert {BOOK.release, BOOK.branch} <= {ref for ref, _ in found}
    assert {pair: page for pair, page in found.items() if pair[1].rstrip("/") not in there.get(pair[0], ())} == {}


@pytest.fixture(scope="module")
def colab(tmp_path_factory):
    """A function: what a fresh Colab says that runs a chapter's setup cell and then `STARTED`; nothing is installed."""
    folder = tmp_path_factory.mktemp("colab")
    store = trial.published(BOOK, folder / "pushed.git")
    given = {name: text for name, text in os.environ.items() if not name.startswith(("PYTHON", "REBUILT_", "GIT_"))}
    given |= {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": f"url.{store.as_uri()}.insteadOf", "PIP_NO_INDEX": "1"}
    given |= {"GIT_CONFIG_VALUE_0": BOOK.url, "COLAB_RELEASE_TAG": "r", "REBUILT_HOME": str(folder / "content")}

    def run(chapter):
        shown = finished("not pushed", "git", "-C", store, "show", f"{BOOK.branch}:{chapter.document}.ipynb")
        (cell,) = [one for one in nbformat.reads(shown, as_version=4).cells if "setup" in tags(one)]
        command = [sys.executable, "-c", cell.source + STARTED]
        return folder / "content", finished(f"{chapter} does not start", *command, cwd=folder, env=given, timeout=300)

    return run


@pytest.mark.parametrize("chapter", BOOK.chapters, ids=str)
def test_the_setup_cell_of_each_button_starts_from_the_tree_that_is_pushed(colab, chapter):
    content, said = colab(chapter)
    home = content / f"{BOOK.url.rsplit('/', 1)[-1]}-{BOOK.release}"
    assert said.split() == [
        str(home / chapter.document.rpartition("/")[0]),
        f"{home}/helpers/__init__.py",
        BOOK.version,
    ]


@pytest.mark.skipif("REBUILT_RELEASE" not in os.environ, reason="asks the network: REBUILT_RELEASE=1, or `.ci/release`")
@pytest.mark.parametrize("name", sorted({row["dataset"] for row in BOOK.registry}))
def test_a_data_set_comes_whole_from_its_addresses(name, tmp_path, monkeypatch):
    monkeypatch.delenv("REBUILT_DATA_MIRROR", raising=False)
    folder = data.fetch(name, folder=tmp_path / name)
    wanted = {row["file"] for row in BOOK.registry if row["dataset"] == name}
    assert {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} - {".lock"} == wanted


def test_the_trial_takes_what_is_committed_and_nothing_kept_then_tries_page_kit_pdf_and_colab():
    text = (HOME / ".ci/release").read_text(encoding="utf-8")
    assert os.access(HOME / ".ci/release", os.X_OK) and "unset REBUILT_DATA_MIRROR" in text
    steps = [
        "git status --porcelain",
        "git clone",
        "REBUILT_CACHE=",
        "make book",
        "make test",
        "make check",
        "make colab",
    ]
    assert sorted(steps, key=text.index) == steps
    (told,) = re.findall(r'make test ARGS="(.*)"', text)
    paths = [word for word in told.split() if word.startswith("book/")]
    assert "book/press/test_release.py" in paths and all((HOME / path).exists() for path in paths)


def test_the_trial_refuses_what_no_tag_would_hold(tmp_path):
    (tmp_path / ".ci").mkdir()
    script = tmp_path / ".ci/release"
    script.write_bytes((HOME / ".ci/release").read_bytes())
    finished("no git here", "git", "init", "-q", tmp_path)
    done = subprocess.run(["bash", script], capture_output=True, text=True)
    assert done.returncode == 2 and "something is not committed" in done.stderr


def test_contributing_has_each_step_of_a_release_and_what_tries_it():
    text = (
        (HOME / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## Make a release")[2].partition("\n## ")[0]
    )
    assert all(
        word in text for word in ("`.ci/release`", ".ci/numbers`", "CITATION.cff", "CHANGELOG.md", "press branch")
    )
    named = re.findall(r"`([\w/]+\.py)`", text)
    assert len(named) >= 5 and [one for one in named if not (HOME / one).exists()] == []
