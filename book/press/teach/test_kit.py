"""The teacher's kit, the citation, and how long a chapter is; the kits of the real book as its build wrote them."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile

import nbformat
import pytest

from press import chromium
from press.conftest import code, markdown
from press.repository import HOME, Repository, tags
from press.server import site
from press.teach import kit, length
from press.teach.workshop import bundle

BOOK = HOME / "_build" / "html"
KITS = [chapter for chapter in Repository(HOME).chapters if (BOOK / "_data" / f"{chapter.name}.zip").is_file()]
needs_kits = pytest.mark.skipif(not KITS, reason="the book is not built with a Chromium: make book")


def test_the_citation_names_chapter_book_release_and_address(small):
    (chapter,) = small.repository.chapters
    said = kit.cite(small.repository, chapter)
    assert "\n@incollection{moving_mean_9_9_9,\n" in said and said.count("{") == said.count("}")
    assert "title = {Smooth a stream}" in said and "booktitle = {A small book}" in said
    assert (
        "edition = {v9.9.9}" in said
        and f"url = {{{small.repository.site}notebooks/signals/moving_mean/moving_mean.html}}" in said
    )
    assert "\n\n" not in said, "an empty line would end the block of HTML"


def test_a_chapter_without_a_recap_offers_its_notebooks_alone(small):
    (chapter,) = small.repository.chapters
    assert set(kit.downloads(chapter)) == {"student", "solution", "instructor", kit.START}


@pytest.mark.skipif(not chromium.find(), reason=chromium.WANTED)
def test_a_book_of_some_chapters_offers_the_notebooks_alone():
    chapter = next(one for one in Repository(HOME).chapters if kit.recap(one))
    whole, alone = kit.downloads(chapter), kit.downloads(chapter, whole=False)
    assert set(whole) - set(alone) == set(kit.NAMES) and kit.START in alone


def test_the_length_counts_words_that_are_read_and_minutes_by_path(small):
    text = "## More\n\nTwo words, `code` and [a link](https://example.org/long/address).\n\n```\nno word\n```\n$x + y$"
    cells = small.cells(markdown(text), code("1"))
    small.write_notebook(cells)
    more = {"title": "More", "minutes": 7, "further": True}
    small.write_card(sections=[small.card["sections"][0], more, small.card["sections"][1]])
    own = length.of(small.repository.chapters[0])
    assert (own.core, own.further, own.exercises, own.whole) == (5, 7, 10, 22)
    assert length.words_of(text) == ["More", "Two", "words", "code", "and", "a", "link"]


@pytest.fixture
def seat(small, tmp_path, monkeypatch):
    """The folder of a small book's light zip, unpacked as a learner would."""
    if not chromium.find():
        pytest.skip(chromium.WANTED)
    small.write_notebook([*small.cells(), markdown("## Recap\n\n- smooth")])
    small.write_card(sections=[*small.card["sections"], {"title": "Recap", "minutes": 2}], data=[])
    small.write("LICENSE", "A licence")
    small.write("requirements.txt", (HOME / "requirements.txt").read_text(encoding="utf-8"))
    (chapter,) = small.repository.chapters
    executed = nbformat.read(chapter.notebook, as_version=4)
    for cell in executed.cells:
        if "slide" in tags(cell):
            cell.outputs = [nbformat.v4.new_output("display_data", {"text/html": "<b>means</b>"})]
    small.write(str(chapter.executed.relative_to(small.root)), nbformat.writes(executed))
    for module in (kit, bundle):
        monkeypatch.setattr(module, "put_reveal", lambda repository, folder: folder.mkdir(parents=True))
    kit.publish(small.repository, tmp_path)
    found = kit.downloads(chapter)
    assert all((tmp_path / found[name]).is_file() for name in kit.NAMES)
    with zipfile.ZipFile(tmp_path / found["zip"]) as packed:
        packed.extractall(tmp_path / "seat")
    return tmp_path / "seat" / "moving_mean"


def test_a_small_book_s_kit_is_written_and_its_zip_finds_itself_whole(seat):
    done = subprocess.run([sys.executable, "room.py", "check"], cwd=seat, capture_output=True, text=True)
    assert "files are whole" in done.stdout and not list(seat.parent.glob("*.part"))
    assert "<b>means</b>" in (seat / "slides/moving_mean.html").read_text(encoding="utf-8")


def pythons():
    """The interpreters of this machine that the book supports, one of each."""
    named = {f"{major}.{minor}": f"python{major}.{minor}" for major, minor in ((3, 11), (3, 12), (3, 13))}
    found = {version: shutil.which(name) for version, name in named.items()}
    return found | {f"{sys.version_info[0]}.{sys.version_info[1]}": sys.executable}


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_a_light_zip_installs_into_a_new_environment_and_takes_what_it_says(seat, version, monkeypatch):
    python = pythons()[version]
    if not python or subprocess.run([python, "-c", "import ensurepip"], capture_output=True).returncode:
        pytest.skip(f"no Python {version} with venv here")
    monkeypatch.setenv("PIP_RETRIES", "0")
    (torch,) = [one for one in (seat / "requirements.txt").read_text().split() if one.startswith("torch==")]
    wanted = {torch: ["--index-url", os.environ.get("TORCH_INDEX", bundle.CPU_INDEX)], "tqdm==4.70.1": []}
    for package, index in wanted.items():
        asked = ["download", "-q", "--no-deps", "--only-binary=:all:", "--python-version", version, *index, package]
        if subprocess.run([sys.executable, "-m", "pip", *asked, "-d", seat.parent], capture_output=True).returncode:
            pytest.skip(f"{package} for Python {version} cannot be had: no package index can be reached")
    done = subprocess.run([python, "room.py", "install"], cwd=seat, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr[-2000:]
    run = "import torch, jupyterlab, helpers; print(torch.version.cuda)"
    said = subprocess.run([seat / ".venv/bin/python", "-c", run], capture_output=True, text=True, check=True).stdout
    took = sum(path.stat().st_size for path in seat.rglob("*") if path.is_file() and not path.is_symlink())
    assert said.strip() == "None", "torch for processors"
    assert 0.6 * bundle.ENVIRONMENT_BYTES < took < bundle.ENVIRONMENT_BYTES


@needs_kits
@pytest.mark.parametrize("chapter", KITS, ids=str)
def test_the_kit_of_a_built_chapter_is_whole_and_light(chapter):
    page = (BOOK / f"{chapter.document}.html").read_text(encoding="utf-8")
    for address in kit.downloads(chapter).values():
        assert f'href="../../../{address}"' in page and (BOOK / address).stat().st_size > 1000, address
    assert "Cite this chapter" in page
    path = BOOK / kit.downloads(chapter)["zip"]
    with zipfile.ZipFile(path) as packed:
        names = [name.partition("/")[2] for name in packed.namelist()]
        room = json.loads(packed.read(f"{packed.namelist()[0].partition('/')[0]}/room.json"))
    assert room["release"] == Repository(HOME).release
    assert path.stat().st_size <= bundle.LIGHT_BYTES and not [name for name in names if name.endswith(".whl")]
    own = f"{chapter.home.relative_to(chapter.root)}/{chapter.stem}"
    wanted = {f"{own}.student.ipynb", f"slides/{chapter.stem}.html", f"handout/{chapter.stem}.pdf", "START_HERE.html"}
    assert wanted | {"instructor/run-sheet.html", "requirements.txt", "room.py"} <= set(names)


@needs_kits
def test_a_kit_s_slides_show_in_the_published_book(browser):
    with site(BOOK) as address:
        page = chromium.page(browser.new_context(), address)
        wrong = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("response", lambda answer: wrong.append(answer.url) if answer.status > 399 else None)
        page.goto(address + kit.downloads(KITS[0])["slides"], wait_until="load")
        page.wait_for_function("window.Reveal && Reveal.isReady()")
        ready = page.evaluate("Reveal.getTotalSlides()")
        page.context.close()
    assert wrong == [] and ready > 3


@needs_kits
def test_the_script_of_a_light_zip_knows_that_it_has_no_wheels(tmp_path):
    with zipfile.ZipFile(BOOK / kit.downloads(KITS[0])["zip"]) as packed:
        packed.extractall(tmp_path)
    (folder,) = tmp_path.iterdir()
    start = (folder / "START_HERE.html").read_text(encoding="utf-8")
    learners = re.sub(r"<h2>For the instructor.*", "", start, flags=re.DOTALL)
    assert "package index" in start and "room.py check" not in learners
    ask = "import json, room; print(room.asked(json.load(open('room.json')), []))"
    said = subprocess.run([sys.executable, "-c", ask], cwd=folder, capture_output=True, text=True, check=True).stdout
    assert "--no-index" not in said and "requirements.txt" in said
