"""What a figure shows, as the rows of a CSV file. It runs in the kernel of an executed notebook, and needs no press.

`press run` has each kernel load this file at its start. From then on `plot.show` adds to its output, under `MIME`,
what was plotted: one row a point, columns named by the axis labels with their units, series named by their labels.
"""

import csv
import io
from collections.abc import Iterator

MIME = "application/vnd.rebuilt.figure-data+json"
MOST_ROWS = 10_000  # a figure; what has more is thinned evenly, and the page says so

Columns = dict[str, list]  # the name of a column to its values, all of one length


def install() -> None:
    """None; has `helpers.plot.show` add the data. Does nothing where there is no such helper."""
    try:
        from helpers import plot
    except ImportError:
        return
    plot.WITNESSES[:] = [lambda fig, data: {MIME: bundle(blocks(fig, plot.ROLES) if data is None else [data])}]


def bundle(found: list[Columns]) -> dict:
    """`{"csv": text, "rows": kept, "of": plotted}` of blocks of columns; empty cells where a block lacks a column."""
    sizes = [len(next(iter(block.values()), [])) for block in found]
    step = max(1, -(-sum(sizes) // MOST_ROWS))
    names = list(dict.fromkeys(name for block in found for name in block))
    names = [name for name in names if len({str(v) for b in found for v in b.get(name, [""])}) > 1 or name not in ASIDE]
    text, kept = io.StringIO(), 0
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    for block, size in zip(found, sizes, strict=True):
        for at in range(0, size, step):
            writer.writerow([told(block[name][at]) if name in block else "" for name in names])
            kept += 1
    return {"csv": text.getvalue(), "rows": kept, "of": sum(sizes)}


ASIDE = ("panel", "series")  # columns that are left out when they say one thing only


def told(value: object) -> str:
    """A cell: seven digits of a number, nothing for a missing one, a text as it is."""
    if isinstance(value, str):
        return value
    number = float(value)
    return "" if number != number else f"{number:.7g}"


def blocks(fig, roles: dict) -> list[Columns]:
    """The columns of each thing drawn in the figure: lines, points, bars, bands, steps, meshes, images."""
    found = []
    for index, ax in enumerate(ax for ax in fig.axes if not getattr(ax, "_colorbar", None)):
        panel = ax.get_title() or ax.get_title(loc="left") or str(index + 1)
        for count, (artist, columns) in enumerate(_drawn(ax)):
            columns = {name: [_plain(v) for v in values] for name, values in columns.items()}
            size = len(next(iter(columns.values()), []))
            if size:
                name = _series(ax, artist, roles) or f"series {count + 1}"
                found.append({"panel": [panel] * size, "series": [name] * size} | columns)
    return found


def _plain(value: object) -> object:
    """A number out of a masked array or one of NumPy's types."""
    return float("nan") if getattr(value, "mask", False) is True or value is None else value


def _labels(ax) -> tuple[str, str]:
    """The labels of both axes; one that a shared axis leaves out comes from its siblings."""

    def label(which: str) -> str:
        own = getattr(ax, f"get_{which}label")()
        siblings = getattr(ax, f"get_shared_{which}_axes")().get_siblings(ax)
        shared = [text for text in (getattr(other, f"get_{which}label")() for other in siblings) if text]
        return own or next(iter(shared), which)

    x, y = label("x"), label("y")
    return x, y if y != x else f"{y} (y)"


def _series(ax, artist, roles: dict) -> str:
    """What the series is called: its label, the one text of its colour beside it, or its role."""
    label = str(artist.get_label() or "")
    if label and not label.startswith("_"):
        return label
    colour = _colour(artist)
    beside = {text.get_text() for text in ax.texts if _hex(text.get_color()) == colour}
    if len(beside) == 1:
        return " ".join(beside.pop().split())
    return next((role for role, style in roles.items() if _hex(style["color"]) == colour), "")


def _colour(artist) -> str | None:
    for name in ("get_color", "get_facecolor", "get_edgecolor"):
        source = artist[0] if isinstance(artist, tuple) and len(artist) else artist
        if hasattr(source, name):
            return _hex(getattr(source, name)())
    return None


def _hex(colour: object) -> str | None:
    from matplotlib.colors import to_hex, to_rgba_array

    try:
        return to_hex(to_rgba_array(colour)[0])
    except (ValueError, IndexError, TypeError):
        return None


def _drawn(ax) -> Iterator[tuple[object, Columns]]:
    """(artist, columns) of all that stands in the axes, in a fixed order."""
    x, y = _labels(ax)
    for line in ax.lines:
        yield line, _line(ax, line, x, y)
    for bars in ax.containers:
        if type(bars).__name__ == "BarContainer":
            yield bars, _bars(ax, bars, x, y)
    for patch in ax.patches:
        if type(patch).__name__ == "StepPatch":
            values, edges, _ = patch.get_data()
            yield patch, {f"{x}, from": edges[:-1], f"{x}, to": edges[1:], y: values}
    for collection in ax.collections:
        yield collection, _collection(collection, x, y)
    for image in ax.images:
        yield image, _image(image, x, y)


def _line(ax, line, x: str, y: str) -> Columns:
    in_x, in_y = line.get_transform().contains_branch_seperately(ax.transData)
    if in_x and in_y:
        return {x: list(line.get_xdata()), y: list(line.get_ydata())}
    if in_x or in_y:  # a rule across the axes stands for one number
        return {x: [line.get_xdata()[0]]} if in_x else {y: [line.get_ydata()[0]]}
    return {}


def _bars(ax, bars, x: str, y: str) -> Columns:
    upright = bars.orientation != "horizontal"
    axis = ax.xaxis if upright else ax.yaxis
    middles = [p.get_x() + p.get_width() / 2 if upright else p.get_y() + p.get_height() / 2 for p in bars]
    sizes = [p.get_height() if upright else p.get_width() for p in bars]
    words = {
        round(float(at), 6): text.get_text()
        for at, text in zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=False)
    }
    named = [words.get(round(float(at), 6), "") for at in middles]
    words_only = all(name and not name.replace("−", "").replace(".", "").isdigit() for name in named)
    return {x if upright else y: named if words_only else middles, y if upright else x: sizes}


def _collection(collection, x: str, y: str) -> Columns:
    kind = type(collection).__name__
    if kind == "PathCollection":
        points, values = collection.get_offsets(), collection.get_array()
        more = {} if values is None else {"value": list(values)}
        return {x: [p[0] for p in points], y: [p[1] for p in points]} | more
    if kind == "LineCollection":
        points = [point for segment in collection.get_segments() for point in segment]
        return {x: [p[0] for p in points], y: [p[1] for p in points]}
    if kind == "QuadMesh":
        corners, values = collection.get_coordinates(), collection.get_array()
        middle = (corners[1:, 1:] + corners[:-1, :-1]) / 2
        middle = middle if middle[..., 0].size == values.size else corners
        return {x: list(middle[..., 0].ravel()), y: list(middle[..., 1].ravel()), "value": list(values.ravel())}
    if kind == "FillBetweenPolyCollection" and collection.get_paths():
        return _band(collection, x, y)
    return {}


def _band(collection, x: str, y: str) -> Columns:
    """The edges of a filled band: each path goes out along the first and comes back along the second."""
    along, low, high = [], [], []
    for path in collection.get_paths():
        size = (len(path.vertices) - 3) // 2
        out, back = path.vertices[1 : size + 1], path.vertices[size + 2 : 2 * size + 2][::-1]
        along += list(out[:, 0])
        low += list(out[:, 1])
        high += list(back[:, 1])
    return {x: along, f"{y}, from": low, f"{y}, to": high}


def _image(image, x: str, y: str) -> Columns:
    """A row for each pixel, at its middle; pictures with colour channels are no data."""
    values = image.get_array()
    if values is None or values.ndim != 2:
        return {}
    (rows, columns), (left, right, bottom, top) = values.shape, image.get_extent()
    first, last = (bottom, top) if image.origin == "lower" else (top, bottom)
    across = [left + (right - left) * (column + 0.5) / columns for column in range(columns)]
    down = [first + (last - first) * (row + 0.5) / rows for row in range(rows)]
    pairs = [(a, d) for d in down for a in across]
    return {x: [a for a, _ in pairs], y: [d for _, d in pairs], "value": list(values.ravel())}
