"""HTML for the pages that the machine writes: rows and tables of `helpers.show.tag`, every text escaped."""

from collections.abc import Iterable, Sequence

from helpers.show import Markup, tag


def row(first: object, *cells: object, **attributes: object) -> Markup:
    """A table row as Markup, its first cell the header; a cell made by `tag("td", …)` or `tag("th", …)` stays as is."""
    named = [("th", first, {"scope": "row"}), *(("td", cell, {}) for cell in cells)]
    made = [cell if _is_cell(cell) else tag(name, cell, **scope) for name, cell, scope in named]
    return tag("tr", Markup("".join(made)), **attributes)


def html_table(caption: str, head: Sequence, bodies: Iterable, css: str = "rebuilt-table") -> Markup:
    """A table as Markup: `html_table("Runs", ("tier", "time"), [[("cpu", "62 s")]])`; texts are escaped.

    A body is a list of rows, or a ready `<tbody>`; a row is a sequence of cells (see `row`), or a ready `<tr>`. The
    table stands in a labelled box of class `css`, which scrolls and which the keyboard reaches.
    """
    cells = [cell if _is_cell(cell) else tag("th", cell, scope="col") for cell in head]
    whole = [tag("caption", caption), tag("thead", tag("tr", Markup("".join(cells))))]
    for body in bodies:
        lines = [] if isinstance(body, Markup) else [r if isinstance(r, Markup) else row(*r) for r in body]
        whole.append(tag("tbody", Markup("\n".join(lines))) if lines or not body else body)
    table = tag("table", Markup("\n".join(whole)), class_="table")
    return tag("div", table, class_=css, role="region", tabindex=0, aria_label=caption)


def _is_cell(value: object) -> bool:
    return isinstance(value, Markup) and value.startswith(("<td", "<th"))
