"""One quiet figure style: colour and line style say a role, labels stand on curves, alt text is required."""

import base64
import html
import io
import sys

from helpers.show import display

MAX_WIDTH, PIXELS = 7, 96  # inches, the book's text column; CSS pixels an inch
ROLES = {  # dark variants of the Okabe-Ito palette, 4.5:1 or more against white: a label wears its curve's colour
    "reference": {"color": "#1F1F1F", "linestyle": "--", "marker": "s"},
    "ours": {"color": "#0066A6", "linestyle": "-", "marker": "o"},
    "peer": {"color": "#B34700", "linestyle": "-.", "marker": "^"},
    "peer2": {"color": "#9C4580", "linestyle": (0, (6, 1.5, 1, 1.5, 1, 1.5)), "marker": "v"},
    "peer3": {"color": "#007553", "linestyle": ":", "marker": "D"},
    "accent": {"color": "#8A6100", "linestyle": "-", "marker": "*"},
    "neutral": {"color": "#6B7178", "linestyle": "-", "marker": "."},
}
# A 7 inch figure is halved on a phone: with 13 points, letters stay above 6.
STYLE = {"font.size": 13, "lines.linewidth": 1.8, "grid.color": "#E3E5E8", "axes.titlelocation": "left"}
STYLE |= dict.fromkeys(("axes.grid", "axes.axisbelow"), True)
STYLE |= dict.fromkeys(("axes.spines.top", "axes.spines.right", "legend.frameon"), False)
WITNESSES = []  # functions of (fig, data) that add to what `show` displays: the press keeps what was plotted as CSV


def figure(width=MAX_WIDTH, height=3.6, rows=1, cols=1, **options):
    """A figure of the book's style and its axes, in inches: `fig, (top, low) = plot.figure(rows=2, sharex=True)`."""
    import matplotlib
    from matplotlib.figure import Figure  # not pyplot: nothing global to close, nothing shown twice

    with matplotlib.rc_context(STYLE):
        fig = Figure(figsize=(width, height), layout="constrained")
        return fig, fig.subplots(rows, cols, **options)


def line(ax, x, y, role, label=None, at=-1, **options):
    """The drawn `Line2D` of arrays, lists or tensors of shape (N,), in its role's style; ValueError for an unknown one.
    The label stands on the curve, right of the last finite point, or above that with index `at`.
    """
    import numpy as np

    x, y = (np.asarray(v.detach().cpu() if hasattr(v, "detach") else v) for v in (x, y))
    style = style_of(role) | {"linewidth": STYLE["lines.linewidth"]} | ({} if len(x) <= 30 else {"marker": ""})
    (drawn,) = ax.plot(x, y, **(style | options))
    finite = np.flatnonzero(np.isfinite(y))
    if label and len(finite):
        drawn.set_label(label)
        at, *place = (finite[-1], (7, 0), "left", "center") if at == -1 else (at, (0, 7), "center", "bottom")
        place = dict(zip(("xytext", "ha", "va"), place, strict=True)) | {"color": drawn.get_color()}
        how = {"textcoords": "offset points", "fontsize": STYLE["font.size"], "annotation_clip": False}
        ax.annotate(label, (x[at], y[at]), **place, **how)
    return drawn


def style_of(role):
    """The colour, line style and marker of a role: `ax.bar(x, y, color=style_of("ours")["color"])`."""
    if role not in ROLES:
        raise ValueError(f"no role {role!r}; allowed are {', '.join(ROLES)}: a role has one colour everywhere")
    return dict(ROLES[role])


def show(fig, alt, caption=None, data=None):
    """None; shows the figure as an HTML `<figure>` with its alt text, and closes it.
    `plot.show(fig, alt="Time by query length: the FFT is flat.")`. The book offers what is plotted as CSV, or `data`, a
    dict of columns. Raises ValueError without an alt text of 20 characters or more, and for one wider than 7 inches.
    """
    alt = " ".join(str(alt or "").split())
    if len(alt) < 20:
        raise ValueError(f"alt={alt!r}: say what the figure shows, in 20 characters or more")
    if fig.get_figwidth() > MAX_WIDTH:
        raise ValueError(f"figure {fig.get_figwidth():g} inches wide; {MAX_WIDTH} are allowed, the text's width")
    file = io.BytesIO()
    fig.savefig(file, format="png", dpi=2 * PIXELS, facecolor="white")
    width, height = (round(inches * PIXELS) for inches in fig.get_size_inches())
    image = f'<img src="data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}" alt="{html.escape(alt)}"'
    image += f' width="{width}" height="{height}" style="width:100%;max-width:{width}px;height:auto">'
    image += f"<figcaption>{html.escape(caption)}</figcaption>" if caption else ""
    if "matplotlib.pyplot" in sys.modules:  # a figure of the reader's own making
        sys.modules["matplotlib.pyplot"].close(fig)
    more = {kind: content for witness in WITNESSES for kind, content in witness(fig, data).items()}
    display({"text/html": f'<figure class="rebuilt">{image}</figure>'} | more, alt)
