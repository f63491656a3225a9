"""Bundles: slides, handout, run-sheet and zip of the book's first chapter, and the whole of a small one offline."""

import contextlib
import os
import re
import unicodedata
import zipfile

import nbformat
import pytest

from press import chromium
from press.errors import PressError
from press.ledger import gather
from press.print.build import book_of
from press.repository import HOME, Repository, tags
from press.teach import variants
from press.teach.workshop import bundle, offline, paper
from press.teach.workshop.schedule import plan

CHAPTERS = Repository(HOME).chapters
needs_chromium = pytest.mark.skipif(not chromium.find(), reason=chromium.WANTED)


@pytest.fixture(params=CHAPTERS, ids=str)
def chapter(request):
    return request.param


def with_outputs(chapter):
    """The chapter's notebook as if its `slide` cells had displayed a figure."""
    notebook = nbformat.read(chapter.notebook, as_version=4)
    figure = {"output_type": "display_data", "data": {"text/html": "<figure>f</figure>"}, "metadata": {}}
    for cell in notebook.cells:
        if "slide" in tags(cell):
            cell.outputs = [nbformat.from_dict(figure)]
    return notebook


def test_slides_show_what_is_tagged_and_say_the_rest_to_the_speaker(chapter):
    shown = paper.slides(chapter, with_outputs(chapter), "../book/_static")
    roles = [tag for cell in chapter.cells for tag in tags(cell)]
    assert shown.count("<section>") == 2 + sum(map(roles.count, ("talk", "slide", "act")))
    assert shown.count("<figure>f</figure>") == roles.count("slide")
    assert shown.count('<aside class="notes">') == 1 + roles.count("instructor") + roles.count("act")
    assert not re.search(r'(src|href)="(https?:)?//', shown)  # nothing from a network


def test_an_act_is_a_slide_with_its_answer_for_the_speaker_alone(small):
    shown = paper.slides(small.repository.chapters[0], with_outputs(small.repository.chapters[0]), "../book/_static")
    slide = shown.partition("Your turn")[2].partition("</section>")[0]
    seen, _, note = slide.partition('<aside class="notes">')
    assert "How many means have four values of width 2?" in seen and "<strong>b</strong> three" in seen
    assert "windows fit" not in seen and "✓ Right. One less than the values" in note


def test_a_slide_without_output_is_refused():
    with pytest.raises(PressError, match="displays nothing"):
        paper.slides(CHAPTERS[0], nbformat.read(CHAPTERS[0].notebook, as_version=4), "../book/_static")


def test_a_light_zip_leaves_data_without_place_to_the_first_run_and_says_so(small, tmp_path, monkeypatch):
    head = (small.root / "data/registry.tsv").read_text().splitlines()[0]
    row = "{0}\tone.bin\thttps://example.org/{0}.bin\t{1}\t{2}\tCC0\tSomeone 2020\t{0}"
    sizes = {"beats": 12, "suns": 20_000_000, "moons": 9_000_000, "links": 5}
    rows = [row.format(name, "a" * 64, size) for name, size in sizes.items()]
    rows[-1] = rows[-1].replace("CC0", "No explicit licence on its page")
    small.write("data/registry.tsv", "\n".join([head, *rows]) + "\n")
    small.write_card(data=[*sizes])
    (chapter,) = small.repository.chapters

    def fetch(name, registry, folder):
        for at in range(bundle.MANY_FILES if name == "moons" else 1):
            (folder / f"{at}").mkdir(parents=True)
            (folder / f"{at}" / "one.bin").write_bytes(b"1")
        return folder

    monkeypatch.setattr("helpers.data.fetch", fetch)
    (tmp_path / "kit").mkdir()
    assert bundle.put_data(small.repository, [chapter], tmp_path / "kit", whole=False) == ["links", "suns"]
    assert sorted(path.name for path in (tmp_path / "kit/data/files").iterdir()) == ["beats", "moons.zip"]
    assert "99/one.bin" in zipfile.ZipFile(tmp_path / "kit/data/files/moons.zip").namelist(), "many files are one"
    facts = {
        "title": "T",
        "release": "v1",
        "machine": "Python 3.11, 3.12, 3.13",
        "wheels_bytes": 0,
        "installed_bytes": 1.9e9,
    }
    cases = {
        "needs except suns, which the first run downloads. The": {"first_run": ["suns"], "private": []},
        "downloads. links comes from its owners alone: they give no": {"first_run": ["links"], "private": ["links"]},
        "that it needs. The": {"first_run": [], "private": []},
    }
    for words, left in cases.items():
        shown = bundle.render("start.html", taught=[], address=small.repository.site, **(facts | left))
        assert (
            words in " ".join(shown.split())
            and "Python 3.11, 3.12, 3.13 on Linux, macOS" in shown
            and "1.9 GB" in shown
        )


def test_no_public_zip_holds_data_without_a_licence():
    assert bundle.unlicensed(Repository(HOME)) == {"wikispeedia"}


@pytest.mark.parametrize("fault", ["start", "slides"])
def test_a_refused_workshop_leaves_no_folder(small, tmp_path, monkeypatch, fault):
    monkeypatch.setattr(bundle, "put_reveal", lambda repository, folder: folder.mkdir(parents=True))
    monkeypatch.setattr(chromium, "find", lambda: "here")
    monkeypatch.setattr(chromium, "browser", contextlib.nullcontext)
    small.write("LICENSE", "A licence")
    options = bundle.Options(60, "25:00" if fault == "start" else "09:00")
    with pytest.raises(PressError, match="write it as 09:00" if fault == "start" else "is missing"):  # nothing has run
        bundle.make(small.repository, small.repository.chapters, options, tmp_path)
    assert list((small.root / "_build" / "workshop").glob("*")) == []


def test_a_workshop_at_no_time_of_day_is_refused_before_anything_runs(small, monkeypatch, capsys):
    from press import cli

    monkeypatch.setattr(cli, "_run", lambda book, given: pytest.fail("it ran"))
    given = ["--root", str(small.root), "workshop", "moving_mean", "--minutes", "30", "--start", "25:00"]
    assert cli.main(given) == 2 and "write it as 09:00" in capsys.readouterr().err


def test_the_run_sheet_has_every_length_and_the_plausible_wrong_answers(chapter):
    sheet = paper.run_sheet([chapter], [plan([chapter], minutes) for minutes in (60, 90, 180)], "13:30")
    assert all(f"{minutes} minutes, from 13:30" in sheet for minutes in (60, 90, 180))
    assert "min: skip" in sheet
    wrong = [cell for cell in chapter.cells if "wrong" in tags(cell)]
    assert sheet.count("a plausible wrong answer") == len(wrong)


def test_a_run_sheet_is_read_on_a_phone(chapter, browser):
    tab = browser.new_page(viewport={"width": 360, "height": 700})
    tab.set_content(paper.run_sheet([chapter], [plan([chapter], 90)], "09:00"))
    wide = tab.evaluate("document.documentElement.scrollWidth")
    tab.close()
    assert wide == 360, "nothing is cut off"


def test_the_handout_is_one_page_in_the_letters_that_the_book_brings(chapter, browser, tmp_path):
    (entry,) = gather(Repository(HOME), [chapter]).entries
    pages = [paper.handout(entry, "https://example.org", size) for size in paper.SIZES]
    paper.print_pdf(pages, tmp_path / "one.pdf", browser)
    from pypdf import PdfReader

    (page,) = PdfReader(tmp_path / "one.pdf").pages
    said = unicodedata.normalize("NFKC", " ".join(page.extract_text().split()))  # fl is one letter there
    assert chapter.card["title"] in said and "To remember" in said
    fonts = {str(font.get_object()["/BaseFont"]) for font in page["/Resources"]["/Font"].values()}
    assert all("Rebuilt" in font for font in fonts), fonts


def test_a_handout_that_is_too_long_is_refused(browser, tmp_path):
    with pytest.raises(PressError, match="does not fit on one page"):
        paper.print_pdf(["<p>more</p>" * 500], tmp_path / "two.pdf", browser)


def test_a_seat_gets_what_colab_has_the_extras_and_a_place_to_open_them(chapter):
    wanted = bundle.requirements(Repository(HOME), [chapter])
    assert {"torch", "numpy", "jupyterlab"} <= {one.partition("==")[0] for one in wanted}
    assert set(chapter.card["packages"]) <= set(wanted)
    assert len({re.match(r"[\w.-]+", one).group().lower() for one in wanted}) == len(wanted)  # each once


def test_the_same_files_make_the_same_zip(tmp_path):
    folder = tmp_path / "bundle"
    folder.mkdir()
    (folder / "b.txt").write_text("b")
    (folder / "a.whl").write_text("a")
    bundle.pack(folder, tmp_path / "one.zip")
    os.utime(folder / "a.whl", (0, 0))
    bundle.pack(folder, tmp_path / "two.zip")
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()
    assert zipfile.ZipFile(tmp_path / "one.zip").namelist() == ["bundle/a.whl", "bundle/b.txt"]


@needs_chromium
@pytest.mark.parametrize(
    ("head", "said"),
    [
        ('<script src="https://example.org/x.js"></script>', "asks https://example.org/x.js"),
        ("<script>throw new Error('broken page')</script>", "broken page"),
        ('<script src="absent.js"></script>', "absent.js"),
    ],
)
def test_a_page_that_needs_a_network_or_lacks_a_file_is_seen(tmp_path, browser, head, said):
    (tmp_path / "START_HERE.html").write_text(f"<!doctype html><title>t</title>{head}")
    with pytest.raises(PressError, match=re.escape(said)):
        offline.browse(tmp_path)
    (tmp_path / "START_HERE.html").write_text("<!doctype html><title>t</title><p>fine")
    assert offline.browse(tmp_path) == 1


def test_roles_of_the_book_become_words_and_formulas_stay():
    assert paper.markdown("the {term}`tier <tier>` of $a_1$").startswith("<p>the tier of <")
    assert r"\(a_1\)" in paper.markdown("$a_1$") and r"\[a_1\]" in paper.markdown("$$a_1$$")


def test_all_three_notebooks_start_at_any_section(chapter):
    from press.teach import checkpoints

    late = checkpoints.sections(chapter)
    for kind in variants.KINDS:
        found = [cell for cell in variants.variant(chapter, kind).cells if variants.LATE in tags(cell)]
        assert sum(cell.cell_type == "code" for cell in found) == len(late) > 3


@needs_chromium
@pytest.mark.skipif(not os.environ.get("REBUILT_WORKSHOP"), reason="minutes; asked for by REBUILT_WORKSHOP=1")
def test_the_first_chapters_bundle_runs_without_a_network():
    repository = Repository(HOME)
    html = book_of(repository, CHAPTERS[:1])
    made = bundle.make(repository, CHAPTERS[:1], bundle.Options(index=os.environ.get("TORCH_INDEX", "")), html)
    steps = [step for step, _ in offline.prove(made)]
    assert "JupyterLab answers" in steps
