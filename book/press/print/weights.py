"""How heavy the built pages are and how soon they show something, measured with Chromium, for the status page."""

import platform
import statistics
import time
from pathlib import Path

from helpers.show import number

from .. import chromium
from ..files import read_json, write_json, write_text
from ..ledger.tables import row, table, text
from ..repository import Repository
from ..run import cache

PLACE = '<div id="rebuilt-page-weight"></div>'
VISITS = 3
WEIGHT = """() => {
  const own = performance.getEntriesByType("navigation").concat(performance.getEntriesByType("resource"));
  const paint = performance.getEntriesByName("first-contentful-paint")[0];
  return {bytes: own.reduce((sum, one) => sum + one.encodedBodySize, 0), requests: own.length,
          paint_ms: paint ? paint.startTime : null};
}"""


def record(repository: Repository, html: Path) -> dict:
    """Measure every page of the book, keep it as `_build/page-weight.json`, write it into the status page."""
    with chromium.site(html) as address, chromium.browser() as browser:
        pages = {name: _visits(browser, address, name) for name in repository.toc_files}
        version = browser.version
    found = {
        "schema": 1,
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": {"cpu": cache.hardware()["cpu"], "system": platform.system(), "chromium": version},
        "visits": VISITS,
        "pages": pages,
    }
    write_json(repository.build / "page-weight.json", found)
    for page in html.rglob("*.html"):
        before = page.read_text(encoding="utf-8")
        if PLACE in before:
            write_text(page, before.replace(PLACE, shown(found)))
    return read_json(repository.build / "page-weight.json")


def _visits(browser, address: str, name: str) -> dict:
    """Weight and paint of one page, each visit in a window that has cached nothing."""
    found = []
    for visit in range(VISITS):
        window = browser.new_context(viewport={"width": 1400, "height": 900})
        page = chromium.page(window, address)
        page.goto(f"{address}{name}.html", wait_until="load")
        page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length", timeout=20_000)
        if not visit:  # what comes late counts as weight; it takes half a second to be sure
            page.wait_for_load_state("networkidle")
        found.append(page.evaluate(WEIGHT))
        title = page.title().rpartition(" — ")[0] or page.title()
        window.close()
    paints = [one["paint_ms"] for one in found]
    return {
        "title": title,
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
        seconds = [number(page[key] / 1e3, "s") for key in ("paint_ms", "paint_low_ms", "paint_high_ms")]
        spread = f"{seconds[0]} ({seconds[1]} to {seconds[2]})"
        title = f'<a href="../{name}.html">{text(page["title"])}</a>'
        rows.append(row(title, number(float(page["bytes"]), "B"), str(page["requests"]), spread))
    machine = found["machine"]
    told = f"Pages of this build, {found['date'][:10]}: {machine['cpu']}, Chromium {machine['chromium']}"
    head = ["page", "weight", "files", "first paint"]
    return table(told, head, [f"<tbody>{''.join(rows)}</tbody>"], "rebuilt-table rebuilt-weights")
