"""The search of the built book: by section, in whole words, without what is folded.

The index is a classic script, because a page opened from a folder may not fetch; `search.js` reads it.
"""

import html
import json
import re
from pathlib import Path

from ..files import remove, sha256, write_text
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
    pages, found = [], []  # (address, title); (number of its page, anchor, heading, words)
    for name in repository.toc_files:
        article = ARTICLE.search((made / f"{name}.html").read_text(encoding="utf-8"))
        if parts := sections(article[1]) if article else []:
            found += [[len(pages), *part] for part in parts]
            pages.append([f"{name}.html", parts[0][1]])
    index = json.dumps({"pages": pages, "sections": found}, ensure_ascii=False, separators=(",", ":"))
    scripts = {"search.js": Path(__file__).with_name("search.js").read_text(encoding="utf-8")}
    scripts["search-index.js"], own = f"rebuiltSearch({index});\n", ""
    for name, script in scripts.items():
        write_text(made / "_static" / name, script)
        own += f'<script defer src="_static/{name}?v={sha256(script)[:8]}"></script>'
    text = OLD.sub("", (made / "search.html").read_text(encoding="utf-8"))
    write_text(made / "search.html", text.replace("</head>", f"{own}</head>", 1))
    for name in ("searchindex.js", "_static/searchtools.js", "_static/language_data.js"):
        remove(made / name)


def sections(article: str) -> list[list[str]]:
    """(anchor, heading, words) of each section of an article, in order; code last, so that prose is shown first."""
    article = LEFT_OUT.sub(" ", article)
    headings = list(HEADING.finditer(article))
    ends = [one.start() for one in headings[1:]] + [len(article)]
    bodies = [article[one.end() : end] for one, end in zip(headings, ends, strict=True)]
    said = [_plain(CODE.sub(" ", body) + " ".join(CODE.findall(body))) for body in bodies]
    return [[one[3], _plain(one[2]), words] for one, words in zip(headings, said, strict=True)]


def _plain(text: str) -> str:
    """The words of some HTML. Inline marks part no word, everything else does."""
    text = re.sub(r"</?(?:span|em|strong|b|i|a|code|sub|sup|q|wbr)\b[^>]*>", "", text)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", text)).split())
