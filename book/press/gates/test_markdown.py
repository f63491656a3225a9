"""Markdown as the gates see it: which words are the author's, on which line, and what a link may name."""

import pytest

from press.gates import markdown
from press.repository import HOME, read_yaml

PAGE = """\
# T `x`

word `code` and $x = 1$
more ``y`` [text](c.md "t") ![an alt](d.png)

> quoted
lazy

- item <!-- a
b --> after

```python
# no heading
```

| a | b |
|---|---|
| cell | {ref}`there` |
"""


def test_prose_is_what_the_author_says_on_its_line():
    said = [(line, " ".join(words.split())) for line, words in markdown.prose(PAGE)]
    assert said == [(1, "T"), (3, "word and more text an alt"), (9, "item after"), (16, "a"), (16, "b"), (18, "cell")]
    assert dict(markdown.prose(PAGE))[3].count("\n") == 1


def test_headings_links_roles_and_images_are_found_with_their_lines():
    assert markdown.headings(PAGE) == [(1, "T `x`")]
    assert markdown.links(PAGE) == [(4, "c.md"), (4, "d.png")]
    assert markdown.roles(PAGE) == [(18, "ref", "there")]
    assert markdown.images(PAGE) == [(4, "an alt")]


def test_a_definition_and_html_have_their_lines_too():
    text = 'x\n\n<div>\n<!-- <a href="no"> -->\n<a href="b.md">b</a>\n</div>\n\n[a]: a.md\n'
    assert markdown.links(text) == [(5, "b.md"), (8, "a.md")]
    assert markdown.images('one\ntwo <b>\n</b> <img src="x" alt="seen">\n') == [(3, "seen")]


def test_anchors_are_slugs_labels_ids_and_names():
    text = "## A `b` & C!\n\n## A `b` & C!\n\n(label)=\n### Ünï 2\n\n```{figure} x\n:name: fig\n```\n\n{doc}`x`\n"
    assert markdown.anchors(text + '\n<b id="own">x</b>\n') == {"a-b--c", "a-b--c-1", "label", "ünï-2", "fig", "own"}


@pytest.mark.parametrize(
    "words", ["Say what “similar” means", "What the article claimed, and what you measured", "A_b-c 1.5×"]
)
def test_a_slug_is_the_one_that_the_book_makes(words):
    from myst_parser.mdit_to_docutils.base import default_slugify

    assert markdown.anchors(f"# {words}") == {default_slugify(words)}


def test_nested_directives_are_prose_and_code_in_them_is_not():
    text = "::::{grid}\n:gutter: 3\n:::{card}\nseen\n:::\n```sh\nhidden\n```\n::::\n\n"
    text += "````{note}\nseen\n```py\nhidden\n```\n````\nend\n\n```{code-block} py\nhidden\n```"
    assert [(line, words) for line, words in markdown.prose(text)] == [(4, "seen"), (12, "seen"), (17, "end")]


def test_the_gates_read_markdown_with_the_book_s_extensions():
    assert set(read_yaml(HOME / "_config.yml")["parse"]["myst_enable_extensions"]) == markdown.EXTENSIONS
