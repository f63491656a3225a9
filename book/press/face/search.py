"""The search of the built book: by section, in whole words, without what is folded.

The index is a classic script, because a page opened from a folder may not fetch; `search.js` reads it.
"""

import html
import json
import re
from pathlib import Path

from ..files import sha256, write_text
from ..repository import Repository

ARTICLE = re.compile(r'<article class="bd-article">(.*?)</article>', re.DOTALL)
HEADING = re.compile(
    r'<h([1-3])[^>]*>((?:(?!</h\1>).)*?)<a class="headerlink" href="#([^"]*)"[^>]*>[^<]*</a></h\1>', re.DOTALL
)
LEFT_OUT = re.compile(
    r'<details class="admonition hide above-input">.*?</details>|<script.*?</script>|<style.*?</style>'
    r'|<svg.*?</svg>|<span class="rebuilt-further">.*?</span>'
    r'|<(?:span|div) class="math [^>]*>.*?</(?:span|div)>|<div class="rebuilt-first">.*?</dl>',
    re.DOTALL,
)
CODE = re.compile(r"<pre\b.*?</pre>", re.DOTALL)
OLD = re.compile(r'\s*<script[^>]*src="[^"]*(?:searchtools|language_data|searchindex)\.js[^"]*"[^>]*></script>')


def publish(repository: Repository, made: Path) -> None:
    """Write the index beside the pages, and let the page of the search read it instead of the theme's."""
    page = made / "search.html"
    if not page.is_file():
        return
    script = f"rebuiltSearch({json.dumps(index(repository, made), ensure_ascii=False, separators=(',', ':'))});\n"
    write_text(made / "_static" / "search-index.js", script)
    write_text(made / "_static" / "search.js", Path(__file__).with_name("search.js").read_text(encoding="utf-8"))
    text = OLD.sub("", page.read_text(encoding="utf-8"))
    own = "".join(
        f'<script defer src="_static/{name}?v={sha256((made / "_static" / name).read_bytes())[:8]}"></script>'
        for name in ("search.js", "search-index.js")
    )
    write_text(page, text.replace("</head>", f"{own}</head>", 1))
    for name in ("searchindex.js", "_static/searchtools.js", "_static/language_data.js"):
        (made / name).unlink(missing_ok=True)


def index(repository: Repository, made: Path) -> dict:
    """Every section of every page: the number of its page, its anchor, its heading, its words."""
    pages, found = [], []
    for name in repository.toc_files:
        article = ARTICLE.search((made / f"{name}.html").read_text(encoding="utf-8"))
        parts = sections(article[1]) if article else []
        if parts:
            pages.append([f"{name}.html", parts[0][1]])
            found += [[len(pages) - 1, *part] for part in parts]
    return {"pages": pages, "sections": found}


def sections(article: str) -> list[list[str]]:
    """(anchor, heading, words) of each section of an article, in order; code last, so that prose is shown first."""
    article = LEFT_OUT.sub(" ", article)
    headings = list(HEADING.finditer(article))
    ends = [one.start() for one in headings[1:]] + [len(article)]
    bodies = [article[one.end() : end] for one, end in zip(headings, ends, strict=True)]
    said = [plain(CODE.sub(" ", body) + " ".join(CODE.findall(body))) for body in bodies]
    return [[one[3], plain(one[2]), words] for one, words in zip(headings, said, strict=True)]


def plain(text: str) -> str:
    """The words of some HTML. Inline marks part no word, everything else does."""
    text = re.sub(r"</?(?:span|em|strong|b|i|a|code|sub|sup|q|wbr)\b[^>]*>", "", text)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", text)).split())
