"""The data of figures beside the book: CSV files in `_data/`, and a link under each figure."""

from pathlib import Path

import nbformat

from ..files import write_text
from ..repository import Chapter
from ..run.figure_data import MIME


def publish(notebook: nbformat.NotebookNode, chapter: Chapter, source: Path) -> None:
    """Write each figure's CSV below `source/_data` and a link into its output; the notebook is changed in place."""
    count = 0
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            found = output.get("data", {}).pop(MIME, None)
            if not found or not found["rows"]:
                continue
            count += 1
            name = f"_data/{chapter.name}-figure-{count}.csv"
            write_text(source / name, found["csv"])
            output.data["text/html"] += link(f"../../../{name}", found)


def link(address: str, found: dict) -> str:
    """The link, with how many rows the file has; a thinned one says so."""
    rows = f"{found['rows']:,} row{'s' * (found['rows'] != 1)}"
    thinned = f", evenly taken from {found['of']:,}" if found["of"] > found["rows"] else ""
    return f'\n<p class="rebuilt-figure-data"><a href="{address}" download>Data (CSV, {rows}{thinned})</a></p>'
