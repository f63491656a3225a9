"""`press build`, `serve` and `clean` on the small book: pages, links, generated tables, verdicts."""

import json
import re
import socket
import threading
import urllib.request

import nbformat
import pytest
import yaml

from helpers import receipts
from press import PressError, chromium
from press.cli import main
from press.conftest import code, make, markdown
from press.ledger import Ledger
from press.print import generated, launch, pdf, source
from press.print.build import build
from press.scaffold.new import new_part
from press.server import server


def executed(small, **metrics):
    """The small repository as if its notebook had run: an executed copy, a record, a receipt."""
    repository = small.repository
    chapter = repository.chapters[0]
    notebook = nbformat.read(small.notebook_path, as_version=4)
    injected = code('TIER = "cpu"', "injected-parameters")
    notebook.cells = [cell for cell in notebook.cells if "wrong" not in cell.metadata.tags]
    notebook.cells.insert(3, injected)
    notebook.cells[6].outputs = [nbformat.v4.new_output("stream", text="[1.5, 2.5, 3.5]\n")]
    chapter.executed.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, chapter.executed)
    content = receipt(small, **metrics)
    small.write("_build/receipts/moving_mean.cpu.json", json.dumps(content))
    record = {"made_of": {}, "receipts": {"moving_mean.cpu.json": content}, "cached": False, "date": content["date"]}
    chapter.run_record.write_text(json.dumps(record))
    return small.repository


def receipt(small, value=2100.0, **changes):
    """A receipt of today's code that measured `value`."""
    content = {
        "schema": 1,
        "chapter": "signals/moving_mean",
        "notebook": "moving_mean",
        "tier": "cpu",
        "date": "2026-01-02T03:04:05Z",
        "commit": "c0ffee",
        "dirty": False,
        "code": receipts.code_hash(small.notebook_path),
        "machine": {"cpu": "Test CPU", "gpu": None, "slug": "test-cpu"},
        "versions": {},
        "seconds": 12.34,
        "peak_memory_bytes": 345e6,
        "metrics": {"mean_rate": {"value": value, "unit": "points/s"}},
    }
    return {**content, **changes}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The small book, built once: (repository, folder of the HTML)."""
    small = make(tmp_path_factory.mktemp("built") / "small")
    repository = executed(small)
    return small, build(repository)


def chapter_page(html):
    """The text of the chapter's page."""
    return (html / "notebooks/signals/moving_mean/moving_mean.html").read_text(encoding="utf-8")


def test_the_page_shows_the_outputs_of_the_run(built):
    assert "[1.5, 2.5, 3.5]" in chapter_page(built[1])


def test_source_and_colab_links_point_at_the_original_notebook(built):
    page = chapter_page(built[1])
    path = "example/small/blob/v9.9.9/notebooks/signals/moving_mean/moving_mean.ipynb"
    assert f"https://colab.research.google.com/github/{path}" in page
    assert f"https://github.com/{path}" in page
    assert "_build" not in re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert (built[0].root / path.partition("v9.9.9/")[2]).is_file()


def test_every_service_has_a_button_at_the_notebook(built):
    page = chapter_page(built[1])
    row = re.search(r'<p class="rebuilt-launch">.*?</p>', page, re.DOTALL).group()
    notebook = "notebooks/signals/moving_mean/moving_mean.ipynb"
    raw = f"https://raw.githubusercontent.com/example/small/v9.9.9/{notebook}"
    assert re.findall(r'href="([^"]+)">(\w+)<', row) == [
        (f"https://colab.research.google.com/github/example/small/blob/v9.9.9/{notebook}", "Colab"),
        (f"https://kaggle.com/kernels/welcome?src={raw}", "Kaggle"),
        (f"https://mybinder.org/v2/gh/example/small/v9.9.9?urlpath=tree/{notebook}", "Binder"),
    ]
    menu = page.partition("dropdown-launch-buttons")[2].partition("</ul>")[0]
    assert "example/small/blob/v9.9.9/" in menu and "mybinder.org/v2/gh/example/small/v9.9.9" in menu


def test_the_notebooks_for_a_class_can_be_had_from_the_page(built):
    import nbformat

    page = chapter_page(built[1])
    row = re.findall(r'<p class="rebuilt-launch">.*?</p>', page, re.DOTALL)[1]
    links = re.findall(r'href="([^"]+)" download="">(\w+)<|href="([^"]+)" download>(\w+)<', row)
    links = [(one[0] or one[2], one[1] or one[3]) for one in links]
    assert [kind for _, kind in links] == ["student", "solution", "instructor"]
    for address, kind in links:
        notebook = nbformat.read(built[1] / "notebooks/signals/moving_mean" / address, as_version=4)
        assert notebook.metadata["rebuilt"]["variant"] == kind


def test_a_service_that_the_configuration_does_not_name_has_no_button(small):
    config = (small.root / "_config.yml").read_text()
    (small.root / "_config.yml").write_text(config.replace('kaggle_url: "https://kaggle.com"', ""))
    repository = small.repository
    assert list(launch.addresses(repository, repository.chapters[0])) == ["Colab", "Binder"]


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
    stale = generated.fit(chapter, Ledger(small.repository))
    assert "10.0&nbsp;min" in stale and stale.count("the code has changed since") == 1
    now = receipt(small, tier="big", date="2026-05-01T00:00:00Z", seconds=300)
    small.write("data/receipts/moving_mean/big-now.json", json.dumps(now))
    fresh = generated.fit(chapter, Ledger(small.repository))
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
    assert "verdict reproduced" in (html / "book/claims.html").read_text(encoding="utf-8")
    assert (html / ".nojekyll").exists()


def test_the_verified_line_is_the_machine_s(built):
    page = chapter_page(built[1])
    page = re.sub(r"</?time[^>]*>", "", page)
    assert "Verified 2026-01-02 on Test CPU, tier cpu" in page
    assert (
        re.search(r"in 12.3(&nbsp;|\u00a0)s", page)
        and "345 MB" in page
        and "Claims tested: 1 of 1 (1 reproduced)" in page
    )


def test_jupyter_book_executes_nothing(built):
    assert "raise" not in chapter_page(built[1])
    small = built[0]
    config = (small.root / "_config.yml").read_text().replace('"off"', '"auto"')
    (small.root / "_config.yml").write_text(config)
    try:
        with pytest.raises(PressError, match='must be "off"'):
            build(small.repository)
    finally:
        (small.root / "_config.yml").write_text(config.replace('"auto"', '"off"'))


def test_a_warning_stops_the_build_and_the_old_book_stays(built):
    small, html = built
    page = small.root / "book/welcome.md"
    before = page.read_text()
    page.write_text(before + "\n\n{ref}`nowhere`\n")
    try:
        with pytest.raises(PressError, match="welcome.md.*nowhere"):
            build(small.repository)
    finally:
        page.write_text(before)
    assert (html / "index.html").exists()


def test_a_page_without_its_source_link_is_not_published(built):
    small, _ = built
    config = small.root / "_config.yml"
    before = config.read_text()
    config.write_text(before.replace("use_source_button: true", "use_source_button: false"))
    try:
        with pytest.raises(
            PressError, match="no link to https://github.com/example/small/blob/main.*use_source_button"
        ):
            build(small.repository)
    finally:
        config.write_text(before)


def test_a_book_without_an_executed_copy_is_not_built(small):
    with pytest.raises(PressError, match="has not been executed.*press run"):
        build(small.repository)
    assert not [path for path in (small.root / "_build").iterdir() if path.suffix == ".part"]


def test_a_failing_notebook_stops_the_build(small, capsys):
    small.write_notebook(small.cells(code("1 / 0")))
    assert main(["--root", str(small.root), "build"]) == 1
    said = capsys.readouterr().err
    assert "ZeroDivisionError" in said and "the book was not built" in said


def test_a_part_without_chapters_is_left_out_of_the_book(small):
    repository = executed(small)
    new_part(repository, "speech")
    folder = source.assemble(small.repository)
    captions = [part["caption"] for part in yaml.safe_load((folder / "_toc.yml").read_text())["parts"]]
    assert captions == ["Signals", "Ledger"]


def test_an_unknown_marker_is_refused(small):
    repository = executed(small)
    with pytest.raises(PressError, match="press:claim;.*claims"):
        source.fill("<!-- press:claim -->", repository, Ledger(repository))


@pytest.mark.parametrize(
    ("value", "tier", "verdict"),
    [
        (2100.0, "cpu", "reproduced"),
        (1910.0, "cpu", "reproduced"),
        (1500.0, "cpu", "partly"),
        (900.0, "cpu", "not reproduced"),
        (2100.0, "gpu", "not testable here"),
    ],
)
def test_the_ledger_gives_every_verdict(small, value, tier, verdict):
    repository = executed(small, value=value, tier=tier)
    ledger = Ledger(repository)
    assert [finding.verdict for finding in ledger.findings] == [verdict]
    assert ledger.totals()[verdict] == 1 and sum(ledger.totals().values()) == 1
    page = generated.claims(repository, ledger)
    assert page.count("verdict not-measured") == 1, "every verdict has its row in the totals, also at zero"
    assert "points/s" in page and "one abacus" in page and "more than 2 thousand points per second" in page


def test_a_spread_names_its_unit_once(small):
    metric = {"value": 2100.0, "low": 2000.0, "high": 2200.0, "unit": "points/s"}
    assert generated.measured(metric) == "2,100 points/s (2,000 to 2,200 points/s)"
    assert generated.measured(None) == "–"


def test_a_claim_without_its_metric_is_not_measured(small):
    repository = executed(small, metrics={})
    assert Ledger(repository).findings[0].verdict == "not measured"


def test_the_newest_able_run_of_today_s_code_decides_however_it_came_out(small):
    executed(small, value=2100.0)
    worse = receipt(small, 900.0, date="2026-05-01T00:00:00Z")
    small.write("data/receipts/moving_mean/cpu-newer.json", json.dumps(worse))
    old = receipt(small, 4000.0, date="2026-06-01T00:00:00Z", code="0" * 64)
    small.write("data/receipts/moving_mean/cpu-stale.json", json.dumps(old))
    unable = receipt(small, 9000.0, tier="big", date="2026-07-01T00:00:00Z")
    small.write("data/receipts/moving_mean/big-x.json", json.dumps(unable))
    repository = small.repository
    (finding,) = Ledger(repository).findings
    assert finding.verdict == "not reproduced" and finding.run.date == "2026-05-01"
    assert len(finding.others) == 3
    page = generated.claims(repository, Ledger(repository))
    assert page.count("rebuilt-stale") == 1 and page.count("(recorded)") == 3
    assert generated.status(repository, Ledger(repository)).count("changed since") == 1


def test_a_benchmark_s_receipt_does_not_hide_the_page_s(small):
    executed(small, value=2100.0)
    by_hand = receipt(small, 3000.0, date="2026-01-03T00:00:00Z", seconds=1.0)
    small.write("_build/receipts/moving_mean.cpu.json", json.dumps(by_hand))
    ledger = Ledger(small.repository)
    (chapter,) = small.repository.chapters
    assert [run.origin for run in ledger.runs(chapter)] == ["fresh", "by hand"]
    assert "12.3&nbsp;s" in generated.verified(chapter, ledger)


def test_a_metric_in_another_unit_is_refused(small):
    repository = executed(small, metrics={"mean_rate": {"value": 1.0, "unit": "kg"}})
    with pytest.raises(PressError, match="moving_mean.yml.*kg"):
        Ledger(repository).findings  # noqa: B018  reading it is the test


def test_a_broken_receipt_is_named(small):
    executed(small)
    small.write("data/receipts/moving_mean/cpu-broken.json", "{")
    with pytest.raises(PressError, match="cpu-broken.json"):
        Ledger(small.repository).findings  # noqa: B018  reading it is the test


def test_start_pages_and_data_come_from_cards_and_registry(small):
    repository = executed(small)
    ledger = Ledger(repository)
    interest = generated.start_by_interest(repository, ledger)
    assert "time series" in interest and "../notebooks/signals/moving_mean/moving_mean.html" in interest
    hardware = generated.start_by_hardware(repository, ledger)
    assert "0.5 GB memory" in hardware and "12.3&nbsp;s on Test CPU" in hardware and hardware.count("not measured") == 2
    data = generated.datasets(repository, ledger)
    assert "<code>beats</code>" in data and "CC0" in data and "Smooth a stream" in data


def test_generated_blocks_are_one_block_and_escape_what_they_print(small):
    small.write_card(summary="s", claims=[{**small.card["claims"][0], "quote": "a <b> & 'c'\n\nd"}])
    repository = executed(small)
    for write in generated.MARKERS.values():
        page = write(repository, Ledger(repository))
        assert "\n\n" not in page and "<b>" not in page


def test_the_verified_line_stands_under_the_title_only():
    notebook = nbformat.v4.new_notebook(cells=[markdown("# T\n\nText\n\n# no title"), code("1", "solution")])
    page = source.page(notebook, "LINE")
    assert page.cells[0].source == "# T\n\nLINE\n\nText\n\n# no title"
    assert page.cells[1].metadata.tags == ["solution", "hide-input"]


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


def test_without_a_browser_the_book_is_whole_and_says_what_it_lacks(small, monkeypatch, capsys):
    monkeypatch.setenv("REBUILT_CHROMIUM", "")
    page = small.root / "book/welcome.md"
    page.write_text(page.read_text() + "\n<!-- press:pdf -->\n\n<!-- press:page-weight -->\n")
    html = build(executed(small))
    assert "no Chromium was found" in capsys.readouterr().out
    text = (html / "book/welcome.html").read_text(encoding="utf-8")
    assert "Not measured: no Chromium was found" in text and "a-small-book.pdf" not in text
    assert not list(html.glob("*.pdf"))


def test_the_pdf_is_named_after_the_book(built):
    if not chromium.find():
        pytest.skip("no Chromium")
    assert [path.name for path in built[1].glob("*.pdf")] == ["a-small-book.pdf"]
    assert not (built[1] / pdf.SHEET).exists()


def test_rows_carry_the_facts_of_their_receipts(small):
    executed(small)
    old = receipt(small, tier="big", date="2026-06-01T00:00:00Z", code="0" * 64)
    old["machine"] = {"cpu": "Test CPU", "gpu": 'GPU "X"'}
    small.write("data/receipts/moving_mean/big-old.json", json.dumps(old))
    page = generated.claims(small.repository, Ledger(small.repository))
    fresh, stale = re.findall(r"<tr (data-part[^>]*)>", page)
    assert 'data-part="signals" data-verdict="reproduced" data-hardware="Test CPU" data-tier="cpu"' in fresh
    assert 'data-date="2026-01-02" data-code="the same"' in fresh
    assert "GPU &quot;X&quot;" in stale and 'data-date="2026-06-01" data-code="changed"' in stale
    assert re.findall(r'data-count="([^"]+)">1<', page) == ["|reproduced", "signals|reproduced"]


def test_clean_forgets_everything_but_the_data(small, capsys):
    small.write("_build/data/beats/b.bin", "x")
    for name in ("cache/k/notebook.ipynb", "html/index.html", "receipts/moving_mean.cpu.json"):
        small.write(f"_build/{name}", "x")
    assert main(["--root", str(small.root), "clean"]) == 0
    assert [path.name for path in (small.root / "_build").iterdir()] == ["data"]
    assert "cache" in capsys.readouterr().out
