"""The small book as if its notebook had run, and built once for all tests of a session."""

import fcntl
import json
import os
import shutil

import nbformat
import pytest

from helpers import cards
from press import conftest as small_book
from press.conftest import code, markdown
from press.print.build import build
from press.repository import HOME


def executed(small, **metrics):
    """The small repository as if its notebook had run: an executed copy, a record, a receipt."""
    repository = small.repository
    chapter = repository.chapters[0]
    notebook = nbformat.read(small.notebook_path, as_version=4)
    injected = code('TIER = "cpu"', "injected-parameters")
    notebook.cells = [cell for cell in notebook.cells if "wrong" not in cell.metadata.tags]
    notebook.cells.insert(3, injected)
    notebook.cells[6].outputs = [nbformat.v4.new_output("stream", text="[1.5, 2.5, 3.5]\n")]
    shown = {"text/markdown": "what ~~no~~ did it cost", "text/plain": ""}
    notebook.cells[6].outputs.append(nbformat.v4.new_output("display_data", data=shown))
    chapter.executed.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, chapter.executed)
    content = receipt(small, **metrics)
    small.write("_build/receipts/moving_mean.cpu.json", json.dumps(content))
    record = {"made_of": {}, "receipts": {"moving_mean.cpu.json": content}, "cached": False, "date": content["date"]}
    chapter.run_record.write_text(json.dumps(record))
    return small.repository


def exact(value, unit="points/s"):
    """A metric without a doubt."""
    return {"value": value, "unit": unit, "interval": "exact"}


def receipt(small, value=2100.0, **changes):
    """A receipt of today's code that measured `value` on a quiet machine."""
    content = {
        "schema": 1,
        "chapter": "signals/moving_mean",
        "notebook": "moving_mean",
        "tier": "cpu",
        "date": "2026-01-02T03:04:05Z",
        "commit": "c0ffee",
        "dirty": False,
        "code": cards.code_hash(small.notebook_path),
        "machine": {"cpu": "Test CPU", "gpu": None, "slug": "test-cpu"},
        "versions": {},
        "seconds": 12.34,
        "peak_memory_bytes": 345e6,
        "busy_cores": {"before": 0.0, "after": 0.1},
        "calibration": {"before_s": 0.4, "after_s": 0.4, "unit_s": 0.2},
        "metrics": {"mean_rate": exact(value)},
    }
    return {**content, **changes}


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """The small book, built once: (the small repository, folder of the HTML). Tests leave it as it is: other
    processes read it at the same time."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base  # by the processes of one session
    small = small_book.Small(shared / "built")
    with (shared / "built.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        html = small.root / "_build" / "html"
        return small, html if html.is_dir() else _build(small.root)


def _build(root):
    small = small_book.make(root)
    page = small.root / "book/welcome.md"
    page.write_text(page.read_text() + "\n<!-- press:pdf -->\n")
    small.write_notebook([*small.cells(), markdown("## Recap")])  # no points, so no kit
    for name in ("acts.js", "custom.css"):
        small.write(f"book/_static/{name}", (HOME / "book/_static" / name).read_text(encoding="utf-8"))
    config = (small.root / "_config.yml").read_text()
    own = "  config:\n    html_static_path: [book/_static]\n    html_css_files: [custom.css]\n"
    own += "    html_js_files: [acts.js]\n"
    small.write("_config.yml", config.replace("  config:\n", own))
    page = small.root / "book/status.md"
    page.write_text(page.read_text() + "\n<!-- press:page-weight -->\n")
    return build(executed(small))


@pytest.fixture
def mine(built, tmp_path):
    """The small repository with its built book, to be changed."""
    return small_book.Small(shutil.copytree(built[0].root, tmp_path / "mine"))


@pytest.fixture
def reprinted(small, built, monkeypatch):
    """The small repository with an executed copy, to build where what Jupyter Book makes is that of `built`."""

    def copied(repository, source, side):
        shutil.copytree(built[1], side / "_build" / "html", ignore=shutil.ignore_patterns("_data", "_live", "*.pdf"))

    monkeypatch.setattr("press.print.build._jupyter_book", copied)
    executed(small)
    return small
