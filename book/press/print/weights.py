"""How heavy the built pages are and how soon they show something, measured with Chromium, for the status page."""

import platform
import statistics
import time
from pathlib import Path

from helpers.show import number, tag

from .. import chromium
from ..files import write_json, write_text
from ..markup import html_table, row
from ..repository import Repository
from ..reuse.machine import hardware

PLACE = '<div id="rebuilt-page-weight"></div>'
VISITS = 3  # of the first and the heaviest chapter's page, for a spread; the others are visited once
WEIGHT = """() => {
  const own = performance.getEntriesByType("navigation").concat(performance.getEntriesByType("resource"));
  const paint = performance.getEntriesByName("first-contentful-paint")[0];
  return {bytes: own.reduce((sum, one) => sum + one.encodedBodySize, 0), requests: own.length,
          paint_ms: paint ? paint.startTime : null};
}"""


def record(repository: Repository, html: Path, address: str, browser: object) -> dict:
    """Measure every page of the book, keep it as `_build/page-weight.json`, write it into the status page.

    `browser` visits the pages of the folder `html` at `address`.
    """
    pages = {name: _visits(browser, address, name, 1) for name in repository.toc_files}
    heaviest = max(pages, key=lambda name: pages[name]["bytes"])
    for name in {repository.toc_files[0], heaviest}:
        pages[name] = _visits(browser, address, name, VISITS)
    found = {
        "schema": 2,
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": {"cpu": hardware()["cpu"], "system": platform.system(), "chromium": browser.version},
        "pages": pages,
    }
    write_json(repository.build / "page-weight.json", found)
    for page in (html / "book").glob("*.html"):
        before = page.read_text(encoding="utf-8")
        if PLACE in before:
            write_text(page, before.replace(PLACE, shown(found)))
    return found


def _visits(browser: object, address: str, name: str, visits: int) -> dict:
    """Weight and paint of one page, each visit in a window that has cached nothing."""
    found = []
    for visit in range(visits):
        window = browser.new_context(viewport={"width": 1400, "height": 900})
        page = chromium.page(window, address)
        page.goto(f"{address}{name}.html", wait_until="load")
        page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length", timeout=60_000)
        if not visit:  # what comes late counts as weight; it takes half a second to be sure
            page.wait_for_load_state("networkidle")
        found.append(page.evaluate(WEIGHT))
        title = page.title().rpartition(" — ")[0] or page.title()
        window.close()
    paints = [one["paint_ms"] for one in found]
    return {
        "title": title,
        "visits": visits,
        "bytes": max(one["bytes"] for one in found),
        "requests": max(one["requests"] for one in found),
        "paint_ms": round(statistics.median(paints), 1),
        "paint_low_ms": round(min(paints), 1),
        "paint_high_ms": round(max(paints), 1),
    }


def shown(found: dict) -> str:
    """The table of the status page; the numbers are those of the record."""
    rows = []
    for name, page in found["pages"].items():
        middle, low, high = (number(page[key] / 1e3, "s") for key in ("paint_ms", "paint_low_ms", "paint_high_ms"))
        spread = f"{middle} ({low} to {high}, {page['visits']} visits)" if page["visits"] > 1 else middle
        title = tag("a", page["title"], href=f"../{name}.html")
        rows.append(row(title, number(float(page["bytes"]), "B"), str(page["requests"]), spread))
    machine = found["machine"]
    told = f"Pages of this build, {found['date'][:10]}: {machine['cpu']}, Chromium {machine['chromium']}"
    head = ["page", "weight", "files", "first paint"]
    return html_table(told, head, [rows], "rebuilt-table rebuilt-weights")
