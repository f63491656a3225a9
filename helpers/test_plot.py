import base64
import itertools
import re
import struct

import numpy as np
import pytest
import torch

from helpers import plot

ALT = "Two lines: one rises steadily, the other stays flat."


@pytest.fixture
def shown(monkeypatch):
    displayed = []
    monkeypatch.setattr(plot, "display", lambda bundle, plain: displayed.append((bundle["text/html"], plain)))
    return displayed


def luminance(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("role", plot.ROLES)
def test_a_label_in_a_roles_colour_can_be_read(role):
    assert 1.05 / (luminance(plot.style_of(role)["color"]) + 0.05) >= 4.5


def test_roles_differ_by_more_than_colour():
    styles = [(str(s["linestyle"]), s["marker"]) for s in plot.ROLES.values()]
    assert len(set(styles)) == len(styles)
    lines = [str(plot.ROLES[role]["linestyle"]) for role in ("reference", "ours", "peer", "peer2", "peer3")]
    assert len(set(lines)) == 5


def test_colours_stay_apart_for_colour_blind_readers():
    # Viénot, Brettel and Mollon (1999): what a deuteranope sees, as a matrix on linear RGB.
    seen = np.array([[0.29275, 0.70725, 0], [0.29275, 0.70725, 0], [-0.02234, 0.02234, 1]])

    def seen_colour(role):
        rgb = [int(plot.ROLES[role]["color"][i : i + 2], 16) / 255 for i in (1, 3, 5)]
        return seen @ np.power(rgb, 2.2)

    for one, other in itertools.combinations(("reference", "ours", "peer", "peer2", "peer3"), 2):
        assert np.abs(seen_colour(one) - seen_colour(other)).max() > 0.04, (one, other)


def test_an_unknown_role_lists_the_allowed_ones():
    with pytest.raises(ValueError, match="no role 'hers'; allowed are reference, ours, peer"):
        plot.style_of("hers")


def test_a_roles_style_cannot_be_changed_by_its_user():
    plot.style_of("ours")["color"] = "red"
    assert plot.style_of("ours")["color"] != "red"


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor, lambda v: torch.tensor(v, requires_grad=True)])
def test_a_line_has_its_roles_style_and_its_label_beside_its_end(kind):
    _, ax = plot.figure()
    drawn = plot.line(ax, kind([1.0, 2.0, 3.0]), kind([4.0, 5.0, np.nan]), "peer", "theirs")
    assert (drawn.get_color(), drawn.get_linestyle(), drawn.get_marker()) == ("#B34700", "-.", "^")
    (label,) = ax.texts
    assert (label.get_text(), label.xy, label.get_color()) == ("theirs", (2.0, 5.0), "#B34700")


def test_a_label_may_stand_at_a_point_and_long_lines_have_no_markers():
    _, ax = plot.figure()
    drawn = plot.line(ax, range(31), range(31), "ours", "ours", at=10, linewidth=3)
    assert ax.texts[0].xy == (10, 10)
    assert drawn.get_marker() == "" and drawn.get_linewidth() == 3


@pytest.mark.parametrize("y", [[], [np.nan, np.nan]])
def test_a_line_without_finite_points_has_no_label(y):
    _, ax = plot.figure()
    plot.line(ax, range(len(y)), y, "ours", "ours")
    assert len(ax.texts) == 0


def test_show_gives_a_figure_with_alt_text_at_twice_the_resolution(shown):
    fig, ax = plot.figure(width=6, height=3)
    plot.line(ax, [1, 2], [1, 2], "ours", "ours")
    assert plot.show(fig, alt=f'  {ALT}\n "<b>" ', caption="a < b") is None
    page, plain = shown[0]
    assert plain == f'{ALT} "<b>"'
    assert page.startswith('<figure class="rebuilt"><img src="data:image/png;base64,')
    assert f'alt="{ALT} &quot;&lt;b&gt;&quot;"' in page and "max-width:576px" in page and "width:100%" in page
    assert page.endswith("<figcaption>a &lt; b</figcaption></figure>")
    png = base64.b64decode(re.search(r'base64,([^"]+)"', page)[1])
    assert struct.unpack(">II", png[16:24]) == (1152, 576)


@pytest.mark.parametrize("alt", [None, "", "too short", " " * 40])
def test_alt_text_is_required(shown, alt):
    with pytest.raises(ValueError, match="say what the figure shows"):
        plot.show(plot.figure()[0], alt=alt)
    assert shown == []


def test_a_figure_wider_than_the_text_is_refused(shown):
    with pytest.raises(ValueError, match="7.5 inches wide; 7 are allowed"):
        plot.show(plot.figure(width=7.5)[0], alt=ALT)


def test_a_pyplot_figure_is_closed(shown):
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    fig, _ = pyplot.subplots(figsize=(4, 3))
    plot.show(fig, alt=ALT)
    assert pyplot.get_fignums() == []


def test_the_style_stays_in_its_figures():
    import matplotlib

    _, ax = plot.figure()
    assert {key for key in plot.STYLE if matplotlib.rcParams[key] == plot.STYLE[key]} == set()
    assert not ax.spines["top"].get_visible()


def test_several_axes():
    _, axes = plot.figure(rows=2, sharex=True)
    assert axes.shape == (2,)
