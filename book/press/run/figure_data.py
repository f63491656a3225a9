"""What a figure shows, as the rows of a CSV file. It runs in the kernel of an executed notebook, and needs no press.

`press run` has each kernel load this file at its start. From then on `plot.show` adds to its output, under `MIME`,
what was plotted: one row a point, columns named by the axis labels with their units, series named by their labels.
"""

import csv
import io

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
    number = float("nan" if value is None else value)
    return "" if number != number else f"{number:.7g}"


def blocks(fig, roles: dict) -> list[Columns]:
    """The columns of each line, rule, bar, band, image, mesh and cloud of points; other things have none."""
    found = []
    for index, ax in enumerate(ax for ax in fig.axes if not getattr(ax, "_colorbar", None)):
        panel = ax.get_title() or ax.get_title(loc="left") or str(index + 1)
        x, y = (_label(ax, which) for which in "xy")
        bars = [one for one in ax.containers if type(one).__name__ == "BarContainer"]
        for count, artist in enumerate([*ax.lines, *bars, *ax.collections, *ax.images], start=1):
            columns = _columns(ax, artist, x, y if y != x else f"{y} (y)")
            columns = {name: list(values) for name, values in columns.items()}
            size = len(next(iter(columns.values()), []))
            if size:
                series = _series(ax, artist, roles) or f"series {count}"
                found.append({"panel": [panel] * size, "series": [series] * size} | columns)
    return found


def _label(ax, which: str) -> str:
    """The label of an axis; one that a shared axis leaves out comes from its siblings."""
    sharing = [ax, *getattr(ax, f"get_shared_{which}_axes")().get_siblings(ax)]
    return next(filter(None, (getattr(one, f"get_{which}label")() for one in sharing)), which)


def _series(ax, artist, roles: dict) -> str:
    """What the series is called: its label, the one text of its colour beside it, or its role."""
    label = str(artist.get_label() or "")
    if label and not label.startswith("_"):
        return label
    one = artist[0] if isinstance(artist, tuple) else artist
    read = getattr(one, "get_color", None) or getattr(one, "get_facecolor", None)
    colour = _hex(read()) if read else None
    beside = {text.get_text() for text in ax.texts if _hex(text.get_color()) == colour}
    if len(beside) == 1:
        return " ".join(beside.pop().split())
    return next((role for role, style in roles.items() if _hex(style["color"]) == colour), "")


def _hex(colour: object) -> str | None:
    from matplotlib.colors import to_hex, to_rgba_array

    shades = to_rgba_array(colour)
    return to_hex(shades[0]) if len(shades) else None


def _columns(ax, artist, x: str, y: str) -> Columns:
    """What an artist draws; nothing where that is no data."""
    import numpy as np

    kind = type(artist).__name__
    if kind == "BarContainer":
        return _bars(ax, artist, x, y)
    if hasattr(artist, "get_xydata"):  # a line; a rule across the axes stands for one number
        inside = artist.get_transform().contains_branch_seperately(ax.transData)
        parts = zip((x, y), artist.get_data(), inside, strict=True)
        return {name: values if all(inside) else values[:1] for name, values, shown in parts if shown}
    values = artist.get_array()
    if kind == "PathCollection":
        return dict(zip((x, y), artist.get_offsets().T, strict=True)) | ({} if values is None else {"value": values})
    if kind in ("LineCollection", "FillBetweenPolyCollection") and artist.get_paths():
        paths = [path.vertices for path in artist.get_paths()]
        if kind == "LineCollection":
            return dict(zip((x, y), np.concatenate(paths).T, strict=True))
        edges = [np.split(path[:-1], 2) for path in paths]  # out along one, back along the other
        low, high = np.concatenate([out[1:] for out, _ in edges]), np.concatenate([back[:0:-1] for _, back in edges])
        return {x: low[:, 0], f"{y}, from": low[:, 1], f"{y}, to": high[:, 1]}
    if kind not in ("QuadMesh", "AxesImage") or values.ndim > 2:  # colour channels are no data
        return {}
    corners = artist.get_coordinates() if kind == "QuadMesh" else _corners(artist)
    middles = (corners[1:, 1:] + corners[:-1, :-1]) / 2
    places = middles if middles[..., 0].size == values.size else corners
    return {
        x: places[..., 0].ravel(),
        y: places[..., 1].ravel(),
        "value": np.ma.filled(values.astype(float), np.nan).ravel(),
    }


def _corners(image):
    """The corners of an image's pixels, (rows + 1, columns + 1, 2)."""
    import numpy as np

    (rows, columns), (left, right, bottom, top) = image.get_array().shape, image.get_extent()
    ends = (bottom, top) if image.origin == "lower" else (top, bottom)
    return np.stack(np.meshgrid(np.linspace(left, right, columns + 1), np.linspace(*ends, rows + 1)), axis=-1)


def _bars(ax, bars, x: str, y: str) -> Columns:
    """The bars' sizes at their middles, or at the words under them."""
    upright = bars.orientation != "horizontal"
    axis, boxes = (ax.xaxis if upright else ax.yaxis), [bar.get_bbox() for bar in bars]
    middles = [(box.x0 + box.x1) / 2 if upright else (box.y0 + box.y1) / 2 for box in boxes]
    ticks = zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=False)
    words = {round(float(at), 6): text.get_text() for at, text in ticks}
    named = [words.get(round(float(at), 6), "") for at in middles]
    if all(name and not name.replace("−", "").replace(".", "").isdigit() for name in named):
        middles = named
    sizes = [box.height if upright else box.width for box in boxes]
    return {x if upright else y: middles, y if upright else x: sizes}
