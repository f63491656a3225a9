"""HTML for written pages: what is escaped, and what stands as it was made."""

from helpers.show import Markup, tag
from press.markup import html_table, row


def test_texts_of_a_table_are_escaped_and_its_markup_is_not():
    made = html_table('A "b"', ("<c>", tag("em", "d & e")), [[("f\n g", Markup("<b>h</b>"))]])
    assert made.startswith('<div class="rebuilt-table" role="region" tabindex="0" aria-label="A &quot;b&quot;">')
    assert '<th scope="col">&lt;c&gt;</th><th scope="col"><em>d &amp; e</em></th>' in made
    assert '<tr><th scope="row">f g</th><td><b>h</b></td></tr>' in made
    assert made.endswith("</tbody></table></div>") and isinstance(made, Markup)


def test_rows_bodies_and_cells_may_be_made_before():
    title = row(tag("th", "part", scope="rowgroup", colspan=2))
    counted = row("all", tag("td", 5, data_count="signals|partly"), data_tier="cpu", data_none=None)
    body = tag("tbody", Markup(title + counted), class_="chapter")
    made = html_table("Runs", ("a", "b"), [body, [title, ("x", 1)]], "rebuilt-claims totals")
    assert '<tbody class="chapter"><tr><th scope="rowgroup" colspan="2">part</th></tr><tr data-tier="cpu">' in made
    assert '<td data-count="signals|partly">5</td>' in made and "data-none" not in made
    assert made.count("<tbody") == 2 and '<tr><th scope="row">x</th><td>1</td></tr>' in made


def test_a_table_has_no_line_that_would_end_a_block_of_html_in_markdown():
    made = html_table("A\n\nb", ("c\n\nd",), [[("e\n\nf",)], []])
    assert "" not in made.splitlines()
