"""The data of figures: what is drawn comes back as rows, named by labels, bounded in size."""

import csv
import io

import nbformat
import numpy as np
import pytest

from helpers import plot
from press.print import source
from press.print.generated import block
from press.run import figure_data

ALT = "Two lines: one rises steadily, the other stays flat."


def rows_of(fig, data=None):
    """The CSV's rows, its header first, and the facts beside it."""
    found = figure_data.bundle(figure_data.blocks(fig, plot.ROLES) if data is None else [data])
    return list(csv.reader(io.StringIO(found["csv"]))), found


def test_lines_become_rows_with_the_labels_and_units_of_the_axes():
    fig, ax = plot.figure()
    plot.line(ax, [1, 2], [3.5, np.nan], "ours", "FFT")
    ax.plot([1, 2], [5, 6], color=plot.style_of("peer")["color"])
    ax.text(1, 5, "loop", color=plot.style_of("peer")["color"])
    ax.set(xlabel="length in points", ylabel="time in ms")
    head, *rows = rows_of(fig)[0]
    assert head == ["series", "length in points", "time in ms"]
    assert rows == [["FFT", "1", "3.5"], ["FFT", "2", ""], ["loop", "1", "5"], ["loop", "2", "6"]]


def test_a_series_without_a_label_has_its_role_and_one_alone_needs_no_name():
    fig, ax = plot.figure()
    plot.line(ax, [1], [2], "ours")
    assert rows_of(fig)[0] == [["x", "y"], ["1", "2"]]
    plot.line(ax, [1], [3], "peer2")
    assert [row[0] for row in rows_of(fig)[0]] == ["series", "ours", "peer2"]


def test_panels_share_the_label_of_a_shared_axis():
    fig, (left, right) = plot.figure(cols=2, sharey=True)
    left.set(ylabel="mV", xlabel="a", title="one")
    right.set(xlabel="b", title="two")
    plot.line(left, [1], [2], "ours")
    plot.line(right, [3], [4], "ours")
    assert rows_of(fig)[0] == [["panel", "a", "mV", "b"], ["one", "1", "2", ""], ["two", "", "4", "3"]]


def drawn(kind):
    """A figure with one thing of a kind, and the rows it should give."""
    fig, ax = plot.figure()
    if kind == "bars":
        ax.bar(["a", "b"], [1, 2])
        return fig, [["x", "y"], ["a", "1"], ["b", "2"]]
    if kind == "bars lying down":
        ax.barh([1, 2], [3, 4])
        return fig, [["y", "x"], ["1", "3"], ["2", "4"]]
    if kind == "points":
        ax.scatter([1, 2], [3, 4], c=[5, 6])
        return fig, [["x", "y", "value"], ["1", "3", "5"], ["2", "4", "6"]]
    if kind == "band":
        ax.fill_between([1, 2], [3, 4], [5, 6])
        return fig, [["x", "y, from", "y, to"], ["1", "3", "5"], ["2", "4", "6"]]
    if kind == "image":
        ax.imshow([[1, 2], [3, 4]])
        return fig, [["x", "y", "value"], ["0", "0", "1"], ["1", "0", "2"], ["0", "1", "3"], ["1", "1", "4"]]
    if kind == "mesh":
        ax.pcolormesh([0, 2, 4], [0, 2], [[1, 2]])
        return fig, [["x", "y", "value"], ["1", "1", "1"], ["3", "1", "2"]]
    if kind == "upright lines":
        ax.vlines([1, 2], 0, [3, 4])
        return fig, [["x", "y"], ["1", "0"], ["1", "3"], ["2", "0"], ["2", "4"]]
    ax.axvline(7)
    return fig, [["x"], ["7"]]


@pytest.mark.parametrize(
    "kind", ["bars", "bars lying down", "points", "band", "image", "mesh", "upright lines", "rule"]
)
def test_every_kind_of_drawing_gives_its_data(kind):
    fig, wanted = drawn(kind)
    if kind.startswith("bars"):
        fig.savefig(io.BytesIO(), format="png")
    assert rows_of(fig)[0] == wanted


def test_a_large_figure_is_thinned_evenly_and_says_so():
    fig, ax = plot.figure()
    plot.line(ax, range(25_000), range(25_000), "ours")
    rows, found = rows_of(fig)
    assert found["rows"] == len(rows) - 1 <= figure_data.MOST_ROWS and found["of"] == 25_000
    assert rows[1:4] == [["0", "0"], ["3", "3"], ["6", "6"]]
    assert "8,334 rows, evenly taken from 25,000" in block("figure_data", "a.csv", found)


def test_show_adds_the_data_only_where_the_press_runs_it(monkeypatch):
    shown = []
    monkeypatch.setattr(plot, "display", lambda bundle, plain: shown.append(bundle))
    monkeypatch.setattr(plot, "WITNESSES", [])
    fig, ax = plot.figure()
    plot.line(ax, [1], [2], "ours")
    plot.show(fig, alt=ALT)
    figure_data.install()
    plot.show(fig, alt=ALT)
    plot.show(fig, alt=ALT, data={"time in s": [1.0, 2.0], "kind": ["a", "b"]})
    assert list(shown[0]) == ["text/html"]
    assert shown[1][figure_data.MIME]["csv"] == "x,y\n1,2\n"
    assert shown[2][figure_data.MIME]["csv"] == "time in s,kind\n1,a\n2,b\n"


def test_the_page_has_a_link_and_the_file_lies_beside_the_book(small, tmp_path):
    data = {"text/html": "<figure></figure>", figure_data.MIME: {"csv": "x\n1\n", "rows": 1, "of": 1}}
    cell = nbformat.v4.new_code_cell("", outputs=[nbformat.v4.new_output("display_data", data=data)])
    (chapter,) = small.repository.chapters
    source.figure_data(nbformat.v4.new_notebook(cells=[cell]), chapter, tmp_path)
    name = "_data/signals/moving_mean/moving_mean-figure-1.csv"
    assert (tmp_path / name).read_text() == "x\n1\n"
    assert f'<a href="../../../{name}" download>Data (CSV, 1 row)</a>' in cell.outputs[0].data["text/html"]
    assert figure_data.MIME not in cell.outputs[0].data
