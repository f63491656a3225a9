"""What a figure shows, as the rows of a CSV file: one row a point, columns named by the axis labels with their units.
`press run` has each kernel load this file; from then on `plot.show` adds it to its output, under `MIME`."""

import csv
import io

MIME = "application/vnd.rebuilt.figure-data+json"
MOST_ROWS = 10_000  # a figure; what has more is thinned evenly, and the page says so
ASIDE = ("panel", "series")  # columns that are left out when they say one thing only

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
    plotted = [[dict(zip(block, row, strict=True)) for row in zip(*block.values(), strict=True)] for block in found]
    count = sum(map(len, plotted))
    rows = [row for block in plotted for row in block[:: max(1, -(-count // MOST_ROWS))]]
    rows = [{name: told(value) for name, value in row.items()} for row in rows]
    names = dict.fromkeys(name for row in rows for name in row)
    names = [name for name in names if name not in ASIDE or len({row.get(name) for row in rows}) > 1]
    text = io.StringIO()
    writer = csv.DictWriter(text, names, restval="", extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return {"csv": text.getvalue(), "rows": len(rows), "of": count}


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
        bars = [one for one in ax.containers if hasattr(one, "orientation")]
        for count, artist in enumerate([*ax.lines, *bars, *ax.collections, *ax.images], start=1):
            columns = _columns(ax, artist, x, y if y != x else f"{y} (y)")
            if size := len(next(iter(columns.values()), ())):
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
    colour = _hex(one.get_color() if hasattr(one, "get_color") else getattr(one, "get_facecolor", list)())
    beside = {" ".join(text.get_text().split()) for text in ax.texts if _hex(text.get_color()) == colour}
    own = [role for role, style in roles.items() if _hex(style["color"]) == colour]
    return beside.pop() if len(beside) == 1 else next(iter(own), "")


def _hex(colour: object) -> str | None:
    from matplotlib.colors import to_hex, to_rgba_array

    return next(map(to_hex, to_rgba_array(colour)), None)


def _columns(ax, artist, x: str, y: str) -> Columns:
    """What an artist draws; nothing where that is no data."""
    import numpy as np

    kind = type(artist).__name__
    if isinstance(artist, tuple):
        return _bars(ax, artist, x, y)
    if hasattr(artist, "get_xydata"):  # a line; a rule across the axes stands for one number
        inside = artist.get_transform().contains_branch_seperately(ax.transData)
        parts = zip((x, y), artist.get_data(), inside, strict=True)
        return {name: values if all(inside) else values[:1] for name, values, shown in parts if shown}
    values = artist.get_array()
    if kind == "PathCollection":
        return dict(zip((x, y), artist.get_offsets().T, strict=True)) | ({} if values is None else {"value": values})
    if kind == "LineCollection":
        return dict(zip((x, y), np.concatenate([path.vertices for path in artist.get_paths()]).T, strict=True))
    if kind == "FillBetweenPolyCollection":
        edges = [np.split(path.vertices[:-1], 2) for path in artist.get_paths()]  # out along one, back along the other
        low, high = np.concatenate([out[1:] for out, _ in edges]), np.concatenate([back[:0:-1] for _, back in edges])
        return {x: low[:, 0], f"{y}, from": low[:, 1], f"{y}, to": high[:, 1]}
    if kind not in ("QuadMesh", "AxesImage") or values.ndim > 2:  # colour channels are no data
        return {}
    if kind == "AxesImage":
        (rows, columns), (left, right, *ends) = values.shape, artist.get_extent()
        ends = ends if artist.origin == "lower" else ends[::-1]
        corners = np.dstack(np.meshgrid(np.linspace(left, right, columns + 1), np.linspace(*ends, rows + 1)))
    else:
        corners = artist.get_coordinates()
    places = ((corners[1:, 1:] + corners[:-1, :-1]) / 2).reshape(-1, 2)
    return {x: places[:, 0], y: places[:, 1], "value": np.ma.filled(values.astype(float), np.nan).ravel()}


def _bars(ax, bars, x: str, y: str) -> Columns:
    """The bars' sizes at their middles, or at the words under them."""
    import numpy as np

    lying = int(bars.orientation == "horizontal")
    axis, corners = (ax.yaxis if lying else ax.xaxis), np.array([bar.get_bbox().get_points() for bar in bars])
    middles, sizes = corners[:, :, lying].mean(axis=1), np.diff(corners[:, :, 1 - lying])[:, 0]
    texts = [text.get_text() for text in axis.get_ticklabels()]
    words = dict(zip(np.round(axis.get_ticklocs(), 6), texts, strict=False))
    named = [words.get(at, "") for at in np.round(middles, 6)]
    numbers = not all(name and not name.replace("−", "").replace(".", "").isdigit() for name in named)
    return {(x, y)[lying]: middles if numbers else named, (y, x)[lying]: sizes}
