"""`press build`, `serve` and `clean` on the small book: pages, links, generated tables, verdicts."""

import json
import re
import shutil
import socket
import threading
import urllib.request

import nbformat
import pytest
import yaml
from pypdf import PdfReader

from press import PressError, chromium, run
from press.cli import main
from press.conftest import code, markdown
from press.ledger import gather
from press.ledger.tables import volumes
from press.print import generated, pdf, source
from press.print.build import build
from press.print.conftest import executed, receipt
from press.run.job import Outcome
from press.scaffold.new import new_part
from press.server import server, site


def chapter_page(html):
    """The text of the chapter's page."""
    return (html / "notebooks/signals/moving_mean/moving_mean.html").read_text(encoding="utf-8")


def test_the_page_shows_the_outputs_of_the_run(built):
    assert "[1.5, 2.5, 3.5]" in chapter_page(built[1])


def test_markdown_that_a_cell_shows_may_strike_through(built):
    assert "what <s>no</s> did it cost" in chapter_page(built[1])


def test_a_chapter_s_page_tells_machines_what_its_card_says_and_other_pages_do_not(built):
    small, html = built
    script = re.compile(r'<script type="application/ld\+json">(.*?)</script>', re.DOTALL)
    (told,) = script.findall(chapter_page(html))
    assert json.loads(told)["teaches"] == small.card["objectives"]
    assert script.findall((html / "book/welcome.html").read_text(encoding="utf-8")) == []


def test_source_links_point_at_the_original_notebook_and_colab_links_at_the_students(built):
    page = chapter_page(built[1])
    path = "example/small/blob/v9.9.9/notebooks/signals/moving_mean/moving_mean.ipynb"
    assert f"https://colab.research.google.com/github/{path}" not in page
    assert f"https://colab.research.google.com/github/{path.replace('v9.9.9', 'learn-v9.9.9')}" in page
    assert f"https://github.com/{path}" in page
    assert "_build" not in re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert (built[0].root / path.partition("v9.9.9/")[2]).is_file()


def test_every_service_has_a_button_at_the_notebook(built):
    page = chapter_page(built[1])
    row = re.search(r'<p class="rebuilt-launch">.*?</p>', page, re.DOTALL).group()
    notebook = "notebooks/signals/moving_mean/moving_mean.ipynb"
    raw = f"https://raw.githubusercontent.com/example/small/learn-v9.9.9/{notebook}"
    assert re.findall(r'href="([^"]+)">(\w+)<', row) == [
        (f"https://colab.research.google.com/github/example/small/blob/learn-v9.9.9/{notebook}", "Colab"),
        (f"https://kaggle.com/kernels/welcome?src={raw}", "Kaggle"),
        (f"https://mybinder.org/v2/gh/example/small/learn-v9.9.9?urlpath=tree/{notebook}", "Binder"),
    ]
    menu = page.partition("dropdown-launch-buttons")[2].partition("</ul>")[0]
    assert "example/small/blob/learn-v9.9.9/" in menu and "mybinder.org/v2/gh/example/small/learn-v9.9.9?" in menu


def test_a_page_says_its_objectives_and_prerequisites_once_and_from_the_card(built):
    page = chapter_page(built[1])
    article = page[page.index('<article class="bd-article">') : page.index("</article>")]
    assert len(re.findall("Afterwards you can", article)) == len(re.findall("You should know", article)) == 1
    assert re.search(r"Afterwards you can</strong></p>\s*<ul[^>]*>\s*<li><p>smooth a stream</p></li>", article)
    assert re.search("You should know</strong> arrays", article)


def test_the_notebooks_for_a_class_can_be_had_from_the_page(built):
    import nbformat

    page = chapter_page(built[1])
    row = re.findall(r'<p class="rebuilt-launch">.*?</p>', page, re.DOTALL)[1]
    links = re.findall(r'href="([^"]+)" download(?:="")?>([^<]+)<', row)
    *links, (start, words) = links
    assert words == "the module that they start from" and start.endswith("/start_here_moving_mean.py")
    assert "def start(section)" in (built[1] / "notebooks/signals/moving_mean" / start).read_text()
    assert [kind for _, kind in links] == ["student", "solution", "instructor"]
    for address, kind in links:
        notebook = nbformat.read(built[1] / "notebooks/signals/moving_mean" / address, as_version=4)
        assert notebook.metadata["rebuilt"]["variant"] == kind


def test_a_service_that_the_configuration_does_not_name_has_no_button(small):
    config = (small.root / "_config.yml").read_text()
    (small.root / "_config.yml").write_text(config.replace('kaggle_url: "https://kaggle.com"', ""))
    repository = small.repository
    assert list(generated.addresses(repository, repository.chapters[0])) == ["Colab", "Binder"]


def test_the_fit_card_lists_every_tier_and_says_what_was_not_measured(built):
    page = chapter_page(built[1])
    card = re.search(r'<p class="rebuilt-needs">.*?</div>', page, re.DOTALL).group()
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", card).replace("\u00a0", " ").replace("&nbsp;", " "))
    assert "15 minutes of your time, 10 of them exercises; data to download: 12 B" in text
    assert "needs 0.5 GB memory, 1 MB disk, a GPU is optional" in text
    assert "0.2 min 345 MB Test CPU 2026-01-02" in text
    assert text.count("not measured") == 2 and "one 16 GB GPU" in text and "one data-centre GPU" in text
    assert card.count('scope="row"') == 3 and card.count('scope="col"') == 5


def test_the_fit_card_prefers_a_run_of_today_s_code(small):
    executed(small)
    old = receipt(small, tier="big", date="2026-06-01T00:00:00Z", code="0" * 64, seconds=600)
    small.write("data/receipts/moving_mean/big-old.json", json.dumps(old))
    (chapter,) = small.repository.chapters
    stale = generated.fit(gather(small.repository).entries[0], [])
    assert "10.0&nbsp;min" in stale and stale.count("the code has changed since") == 1
    now = receipt(small, tier="big", date="2026-05-01T00:00:00Z", seconds=300)
    small.write("data/receipts/moving_mean/big-now.json", json.dumps(now))
    fresh = generated.fit(gather(small.repository).entries[0], [])
    assert "5.0&nbsp;min" in fresh and "changed" not in fresh


def test_solution_and_setup_are_folded_and_the_injected_cell_is_gone(built):
    page = chapter_page(built[1])
    assert 'TIER = "cpu"' not in re.sub(r"<[^>]+>", "", page)
    assert page.count("tag_hide-input") == 3
    assert page.count("a wrong answer ran") == 0


def test_generated_links_and_anchors_exist(built):
    html = built[1]
    for name in ("claims", "status", "welcome"):
        page = (html / f"book/{name}.html").read_text(encoding="utf-8")
        assert "press:" not in page
        for target in re.findall(r'href="(\.\./[^"#?]+)', page):
            assert (html / "book" / target).exists(), target
    assert "finding holds-here" in (html / "book/claims.html").read_text(encoding="utf-8")
    assert (html / ".nojekyll").exists()


def test_the_verified_line_is_the_machine_s(built):
    page = chapter_page(built[1])
    page = re.sub(r"</?time[^>]*>", "", page)
    assert "This run: Test CPU, 2026-01-02, tier cpu, from top to bottom" in page
    assert re.search(r"in 12.3(&nbsp;|\u00a0)s", page) and "345 MB" in page
    assert "Claims decided: 1 of 1 (1 holds here)" in page and "kept" not in page


def test_jupyter_book_executes_nothing_whatever_the_configuration_says(small, built):
    page = chapter_page(built[1])
    assert "a wrong answer ran" not in page and "Traceback" not in page
    config = small.root / "_config.yml"
    config.write_text(config.read_text().replace('"off"', '"auto"'))
    folder = source.assemble(executed(small), gather(small.repository))
    assert yaml.safe_load((folder / "_config.yml").read_text())["execute"] == {"execute_notebooks": "off"}


def test_a_warning_stops_the_build_and_the_old_book_stays(mine):
    page = mine.root / "book/welcome.md"
    page.write_text(page.read_text() + "\n\n{ref}`nowhere`\n")
    with pytest.raises(PressError, match="welcome.md.*nowhere"):
        build(mine.repository)
    assert (mine.root / "_build/html/index.html").exists()


def test_a_book_without_an_executed_copy_is_not_built(small):
    with pytest.raises(PressError, match="has not been executed.*press run"):
        build(small.repository)
    assert not (small.root / "_build/html").exists()


def test_a_failing_notebook_stops_the_build(small, capsys, monkeypatch):
    failed = Outcome(small.repository.chapters[0], "failed", message="ZeroDivisionError in cell 3")
    monkeypatch.setattr(run, "run", lambda *_: [failed])
    assert main(["--root", str(small.root), "build"]) == 1
    said = capsys.readouterr().err
    assert "ZeroDivisionError" in said and "the book was not built" in said
    assert not (small.root / "_build/html").exists()


def test_a_part_without_chapters_has_its_page_which_says_so(small):
    repository = executed(small)
    new_part(repository, "speech")
    folder = source.assemble(small.repository, gather(small.repository))
    captions = [part["caption"] for part in yaml.safe_load((folder / "_toc.yml").read_text())["parts"]]
    assert captions == ["Signals", "Speech", "Ledger"]
    assert "No chapter yet." in (folder / "book/part_speech.md").read_text()


def test_an_unknown_marker_is_refused(small):
    repository = executed(small)
    with pytest.raises(PressError, match="press:claim;.*claims"):
        source.fill("<!-- press:claim -->", generated.markers(repository, gather(repository)))


def test_start_pages_and_data_come_from_cards_and_registry(small):
    repository = executed(small)
    written = generated.markers(repository, gather(repository))
    interest = written["start-by-interest"]()
    assert "time series" in interest and "../notebooks/signals/moving_mean/moving_mean.html" in interest
    hardware = written["start-by-hardware"]()
    assert "0.5 GB memory" in hardware and "12.3&nbsp;s on Test CPU" in hardware and hardware.count("not measured") == 2
    data = written["datasets"]()
    assert "<code>beats</code>" in data and "CC0" in data and "Smooth a stream" in data


def test_generated_blocks_are_one_block_and_escape_what_they_print(small):
    small.write_card(summary="s", claims=[{**small.card["claims"][0], "quote": "a <b> & 'c'\n\nd"}])
    repository = executed(small)
    for write in generated.markers(repository, gather(repository)).values():
        page = write()
        assert "\n\n" not in page and "<b>" not in page


def test_the_verified_line_stands_under_the_title_only():
    cells = [markdown("# T\n\nText\n\n# no title"), code("1", "solution"), code("show.source(f)")]
    page = source.page(nbformat.v4.new_notebook(cells=cells), "LINE", end="END")
    assert page.cells[0].source == "# T\n\nLINE\n\nText\n\n# no title" and page.cells[-1].source == "END"
    tags = [cell.metadata.tags for cell in page.cells[1:3]]
    assert tags == [["solution", "hide-input"], ["hide-input", "plumbing"]], "a switch hides plumbing alone"


def test_a_chapter_whose_article_has_no_address_is_refused(small):
    executed(small)
    path = small.root / "book/references.bib"
    path.write_text(path.read_text().replace("url = ", "note = "))
    with pytest.raises(PressError, match="someone2020 is not in book/references.bib, with its `url`"):
        source.assemble(small.repository, gather(small.repository))


def test_what_can_be_touched_stands_on_the_card_and_the_link_leads_there(small):
    path = executed(small).chapters[0].executed
    notebook = nbformat.read(path, as_version=4)
    shown = {"text/html": "<div class='knob'></div><script>1</script>"}
    notebook.cells[6].outputs.append(nbformat.v4.new_output("display_data", data=shown))
    nbformat.write(notebook, path)
    with pytest.raises(PressError, match="there are 1 such outputs"):
        source.assemble(small.repository, gather(small.repository))
    small.write_card(touch="turn the knob")
    folder = source.assemble(small.repository, gather(small.repository))
    made = nbformat.read(folder / "notebooks/signals/moving_mean/moving_mean.ipynb", as_version=4)
    assert '<a href="#touch-it">turn the knob</a>' in made.cells[0].source
    found = [out.get("data", {}).get("text/html", "") for cell in made.cells for out in cell.get("outputs", [])]
    assert [text.startswith(source.TOUCH) for text in found if "knob" in text] == [True]


def test_serve_shows_the_book_on_this_machine_only(built):
    with server(built[0].repository, 0) as serving:
        thread = threading.Thread(target=serving.serve_forever, daemon=True)
        thread.start()
        host, port = serving.server_address
        assert host == "127.0.0.1"
        page = urllib.request.urlopen(f"http://127.0.0.1:{port}/book/welcome.html").read()
        assert b"Welcome" in page
        with pytest.raises(PressError, match=f"port {port} is taken.*--port"):
            server(built[0].repository, port)
        serving.shutdown()


def test_serve_says_that_there_is_no_book(small):
    with pytest.raises(PressError, match="no built book yet"):
        server(small.repository, 0)


def test_a_wrong_port_is_refused(built):
    with pytest.raises(PressError, match="0 to 65535"):
        server(built[0].repository, 70000)
    assert socket.gethostbyname("127.0.0.1") == "127.0.0.1"


def test_without_a_browser_the_book_is_whole_and_says_what_it_lacks(reprinted, monkeypatch, capsys):
    monkeypatch.setenv("REBUILT_CHROMIUM", "")
    html = build(reprinted.repository)
    assert "no Chromium was found" in capsys.readouterr().out
    assert (html / "index.html").is_file() and not list(html.glob("*.pdf"))
    written = generated.markers(reprinted.repository, gather(reprinted.repository))
    assert written["pdf"]() == ""
    assert "Not measured: no Chromium was found" in written["page-weight"]()


def test_the_pdfs_are_named_after_the_book_and_its_parts_with_chapters(built):
    if not chromium.find():
        pytest.skip("no Chromium")
    names = ["a-small-book-signals.pdf", "a-small-book.pdf"]
    assert sorted(path.name for path in built[1].glob("*.pdf")) == names
    welcome = (built[1] / "book/welcome.html").read_text(encoding="utf-8")
    assert sorted(re.findall(r'href="\.\./([^"]*\.pdf)"', welcome)) == names


def test_each_page_of_the_book_stands_in_one_pdf(built):
    repository = built[0].repository
    found = [one for name in volumes(repository) for one in pdf.pages(repository, name)]
    assert sorted(found) == sorted(repository.toc_files)
    assert {one.document for one in repository.chapters} <= set(pdf.pages(repository, "Signals"))


def test_the_pdf_has_its_facts_its_tags_and_its_outline(built):
    if not chromium.find():
        pytest.skip("no Chromium")
    made = PdfReader(built[1] / "a-small-book-signals.pdf")
    assert (made.metadata.title, made.metadata.creator) == ("A small book: Signals", "press build")
    assert made.root_object["/MarkInfo"]["/Marked"] and "/StructTreeRoot" in made.root_object
    assert {"Contents", "Smooth a stream", "The idea", pdf.ANSWERS["title"]} <= set(pdf.outline(made))


def test_clean_forgets_everything_but_the_data(small, capsys):
    small.write("_build/data/beats/b.bin", "x")
    for name in ("cache/k/notebook.ipynb", "html/index.html", "receipts/moving_mean.cpu.json"):
        small.write(f"_build/{name}", "x")
    assert main(["--root", str(small.root), "clean"]) == 0
    assert [path.name for path in (small.root / "_build").iterdir()] == ["data"]
    assert "cache" in capsys.readouterr().out


def test_a_note_links_a_chapter_that_stands_and_calls_another_planned(small):
    repository = executed(small)
    written = generated.markers(repository, gather(repository))
    text = "Read <!-- press:chapter signals/moving_mean the mean --> or <!-- press:chapter signals/sum <b>sums -->."
    said = source.fill(text.replace("<b>", ""), written)
    assert 'href="../notebooks/signals/moving_mean/moving_mean.html"' in said and "*sums* (signals, planned)." in said
    assert source.fill("<!-- press:count -->", written).startswith("1 chapter stands today: <a href=")


def test_the_page_of_a_built_chapter_has_the_book_s_menu_labels_and_contents(built):
    page = chapter_page(built[1])
    assert page.count('<details class="rebuilt-part"') == 2 and "Toggle hidden content" not in page
    labels = re.findall(r'<p class="collapsed admonition-title">(.*?)</p>', page)
    assert labels[0].startswith("Setup, ") and {"Checker, 3 lines", "Solution, 3 lines"} <= set(labels)
    assert '<span class="number">1</span> The idea <span class="minutes">5 min</span>' in page
    places = ['href="https://example.org/means"', 'class="question"', "You smooth a stream", 'class="rebuilt-about"']
    places += ["rebuilt-verified", "rebuilt-needs", "rebuilt-cite"]
    assert sorted(map(page.index, places)) == [*map(page.index, places)], "what is asked of a reader comes last"
    assert page.count("<summary>About this page</summary>") == 1


def test_the_search_reads_the_book_s_own_index(built):
    text = (built[1] / "search.html").read_text(encoding="utf-8")
    assert "_static/search-index.js" in text and "searchtools.js" not in text
    index = (built[1] / "_static/search-index.js").read_text(encoding="utf-8")
    assert (
        "You smooth a stream" in index and "sorted(values)" not in index and not (built[1] / "searchindex.js").exists()
    )


def test_a_pdf_is_printed_again_only_where_what_is_printed_has_changed(built, monkeypatch, tmp_path):
    if not chromium.find():
        pytest.skip("no Chromium")
    repository, html, finished = built[0].repository, tmp_path / "html", []
    shutil.copytree(built[1], html)
    monkeypatch.setenv("REBUILT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(pdf, "finish", lambda repository, path, headings, name: finished.append(name))

    def printed():
        finished.clear()
        with site(html) as address, chromium.browser() as browser:
            return [path.read_bytes() for path in pdf.print_book(repository, html, address, browser)], finished

    first = printed()[0]
    assert printed() == (first, []), "what was kept is what was printed"
    page = html / f"{repository.chapters[0].document}.html"
    page.write_text(page.read_text().replace("</article>", '<img src="one.svg" alt=""></article>'))
    assert printed()[1] == ["Signals"]
    (page.parent / "one.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"></svg>')
    assert printed()[1] == ["Signals"]
