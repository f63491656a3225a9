import functools
import math
import sys

import pytest

from helpers import bench, check, show


@pytest.fixture
def shown(monkeypatch):
    """What was displayed, as a list of (bundle, plain text)."""
    displayed = []
    monkeypatch.setattr(show, "display", lambda bundle, plain: displayed.append((bundle, plain)))
    return displayed


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1.6e9, "alignments/s", "1.6 billion alignments/s"),
        (20140000, "", "20,140,000"),
        (20140000, "points", "20.1 million points"),
        (0.0123, "s", "12.3 ms"),
        (1.0, "s", "1 s"),
        (90.0, "s", "90 s"),
        (4.56e-6, "s", "4.56 µs"),
        (7e-10, "s", "0.7 ns"),
        (0.0, "s", "0 ns"),
        (2.5e9, "B/s", "2.5 GB/s"),
        (512, "B", "512 B"),
        (1.23e12, "FLOP/s", "1.23 TFLOP/s"),
        (15.234, "×", "15.2×"),
        (99.95, "%", "100%"),
        (1234.5, "", "1,230"),
        (0.97, "", "0.97"),
        (0.000123, "", "0.000123"),
        (1.234e-9, "", "1.23e-09"),
        (-2.5, "mV", "-2.5 mV"),
        (0, "", "0"),
        (0.0, "m", "0 m"),
        (math.nan, "s", "nan"),
        (math.inf, "", "inf"),
        (3.2e15, "", "3,200 trillion"),
    ],
)
def test_numbers_are_short_and_readable(value, unit, text):
    assert show.number(value, unit) == text


def test_md_rounds_and_shows_medians(shown):
    took = bench.Measurement(0.0123, 0.01, 0.02, (0.0123,), None, "cpu")
    show.md(
        "{n} points in {took}, {ratio:.1f} times, {x}, {name}", n=1000000, took=took, ratio=2.34, x=2 / 3, name="us"
    )
    text = "1,000,000 points in 12.3 ms, 2.3 times, 0.667, us"
    assert shown == [({"text/markdown": text}, text)]


@pytest.mark.parametrize(
    ("template", "values"), [("{a}", {}), ("{a}", {"a": 1, "b": 2}), ("none", {"a": 1}), ("{}", {})]
)
def test_md_wants_just_the_values_it_names(shown, template, values):
    with pytest.raises(ValueError, match="they must agree"):
        show.md(template, **values)
    assert shown == []


def test_md_reaches_into_values(shown):
    show.md("{r.median:.1f} {d[a]}", r=bench.Ratio(2.0, 1, 3, 5, "range"), d={"a": 7})
    assert shown[0][1] == "2.0 7"


def test_source_is_the_real_one_and_says_where_it_stands(shown):
    show.source(check.that)
    markdown, plain = shown[0][0]["text/markdown"], shown[0][1]
    first = check.that.__code__.co_firstlineno
    assert markdown.startswith(f"*check.py, lines {first} to {first + 3}*\n\n```python\ndef that(ok, message):\n")
    assert markdown.endswith("        raise Failed(message)\n```")
    assert "```" not in plain


def test_source_without_its_docstring(shown):
    show.source(check.that, check.Failed, docstring=False)
    assert '"""' not in shown[0][1] and "raise Failed(message)" in shown[0][1] and "class Failed" in shown[0][1]


def test_source_of_a_module_a_method_and_a_wrapped_function(shown):
    show.source(check)
    assert shown[0][1].startswith("check.py, lines 1 to ")
    show.source(bench.Race.table)
    assert "\ndef table(self):" in shown[1][1]
    show.source(functools.wraps(check.that)(lambda *args: None))
    assert shown[2][1].startswith("check.py, lines") and "def that(" in shown[2][1]


def fenced():
    return "```"


def test_a_fence_is_longer_than_any_in_the_source(shown):
    show.source(fenced)
    assert "\n````python\n" in shown[0][0]["text/markdown"]


@pytest.mark.parametrize("thing", [len, 3, math])
def test_what_has_no_source_is_refused(thing):
    with pytest.raises(ValueError, match="no Python source; allowed are functions, classes, modules"):
        show.source(thing)


def test_a_table_is_escaped_and_has_header_cells():
    table = show.Table("race", ("a", "b|c"), [("<x>", "1|2"), ("y", "two\nlines")], "Five & more.")
    page = table._repr_html_()
    assert page.startswith('<table class="rebuilt-race" tabindex="0"><caption>Five &amp; more.</caption>')
    assert '<th scope="row">&lt;x&gt;</th><td>1|2</td>' in page and '<th scope="col">a</th>' in page
    assert repr(table) == "| a | b\\|c |\n| --- | --- |\n| <x> | 1\\|2 |\n| y | two lines |\n\nFive & more."


def test_a_table_has_no_line_that_would_end_a_block_of_html_in_markdown():
    made = show.Table("race", ("c\n\nd", "e"), [("f\n\ng", 1)], "A\n\nb")._repr_html_()
    assert "" not in made.splitlines() and "<caption>A b</caption>" in made and '<th scope="row">f g</th>' in made


def test_an_attribute_cannot_leave_its_quotes():
    assert show.tag("td", "x", title='a" onclick="b') == '<td title="a&quot; onclick=&quot;b">x</td>'


def test_display_prints_where_there_is_no_page(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "IPython.display", None)
    show.display({"text/html": "<b>x</b>"}, "plain")
    assert capsys.readouterr().out == "plain\n"


def test_display_gives_the_page_the_bundle_and_the_text(monkeypatch):
    import IPython.display

    given = []
    monkeypatch.setattr(IPython.display, "display", lambda bundle, raw: given.append((bundle, raw)))
    show.display({"text/html": "<b>x</b>"}, "plain")
    assert given == [({"text/html": "<b>x</b>", "text/plain": "plain"}, True)]
