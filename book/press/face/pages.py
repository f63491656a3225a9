"""Built pages: parts that fold in the menu, a chapter's sections with their minutes, what machines read of a page (its
title once, JSON-LD, a picture), and the search's index, in whole words instead of the theme's stems."""

import html
import io
import json
import re
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from posixpath import dirname, relpath

from ..files import remove, sha256, write_bytes, write_text
from ..ledger.tables import block
from ..repository import Chapter, Repository, documents, read_patterns
from ..teach import length
from .gallery import article, drawing, short, written

OWN = read_patterns(Path(__file__).with_name("markup.yml"))
FURTHER = '<span class="rebuilt-further">Further</span>'
SHARED = 1200  # pixels of a picture that others show beside a link, at most


def menu(repository: Repository) -> Callable[[str, str], str]:
    """A function from a page's name and its HTML to the HTML with the book's own menu."""
    names = {chapter.document: short(chapter) for chapter in repository.chapters}
    for page in repository.pages:
        heading, *_ = re.findall(r"^# (.+?)\s*$", page.read_text(encoding="utf-8"), re.MULTILINE) or [page.stem]
        names[f"book/{page.stem}"] = "Overview" if page.stem.startswith("part_") else heading
    home, *_ = repository.toc_files
    names[home] = "Welcome"
    parts = [(part.get("caption", ""), documents(part)) for part in repository.toc.get("parts") or []]

    def shown(page: str, text: str) -> str:
        def address(file: str) -> str:
            return "#" if file == page else relpath(f"{file}.html", dirname(page) or ".")

        made = written("menu", home, parts, names, page, address)
        return OWN.MENU.sub(lambda found: f"{found[1]}{made}{found[2]}", text, count=1)

    return shown


def sections(chapter: Chapter, text: str) -> str:
    """The chapter's page with its contents numbered, each section with its minutes; a mark beyond the core path."""
    listed, marks = chapter.card.get("sections") or [], [f" {FURTHER}" * beyond for beyond in length.further(chapter)]
    lists, rest = divmod(len(OWN.ENTRY.findall(text)), max(1, len(listed)))  # the theme writes one more for print
    if rest or not lists or not listed:
        return text
    numbered = cycle(enumerate(zip(listed, marks, strict=True), 1))

    def entry(found: re.Match) -> str:
        number, (section, mark) = next(numbered)
        minutes = f'<span class="minutes">{section["minutes"]} min</span>'
        return f'{found[1]}<span class="number">{number}</span> {found[2]} {minutes}{mark}'

    time = length.of(chapter)
    core = f"core {time.core} of {time.whole} min" if time.further else f"{time.whole} min"
    text, head = OWN.ENTRY.sub(entry, text), "</i> Contents"
    text = text.replace(f"{head}\n", f'{head} <span class="minutes">{core}</span>\n', 1)
    beside = iter(marks if len(OWN.HEADING.findall(text)) == len(marks) else ())
    return OWN.HEADING.sub(lambda found: found[0] + next(beside, ""), text)


def described(repository: Repository, chapter: Chapter, image: str = "") -> str:
    """The script that says of a chapter what its card says; `image` is the address of its picture."""
    own = article(repository, chapter), f"{length.of(chapter).whole:g}"
    return block("face/learning.html", "described", repository, chapter, image, *own)


def heading(repository: Repository, chapter: Chapter | None, text: str, made: Path) -> str:
    """The page with its title once; a chapter's with JSON-LD and with its own picture, which is put below `made`."""
    text = OWN.TWICE.sub(r"<title>\1</title>", text)
    if chapter is None:
        return text
    own, image = {"type": "article"}, ""
    if found := drawing(chapter):
        path, file = f"_data/{chapter.name}.png", io.BytesIO()
        found[0].thumbnail((SHARED, found[0].height))
        found[0].save(file, "PNG")
        write_bytes(made / path, file.getvalue())
        own |= {"image": (image := f"{repository.site}{path}"), "image:alt": html.unescape(found[1])}
    for name, value in own.items():
        tag = re.compile(rf'<meta (?:property|name)="og:{name}" content="[^"]*" ?/?>')
        text = tag.sub(lambda _, n=name, v=value: f'<meta property="og:{n}" content="{html.escape(v)}" />', text)
    return text.replace("</head>", f"{described(repository, chapter, image)}\n</head>", 1)


def search(repository: Repository, made: Path) -> None:
    """Index all sections in whole words, without what is folded, as a classic script: `search.js` may fetch no file."""
    pages, found = [], []  # (address, title); (number of its page, anchor, heading, words)
    for name in repository.toc_files:
        body = OWN.ARTICLE.search((made / f"{name}.html").read_text(encoding="utf-8"))
        if parts := indexed(body[1]) if body else []:
            found += [[len(pages), *part] for part in parts]
            pages.append([f"{name}.html", parts[0][1]])
    index = json.dumps({"pages": pages, "sections": found}, ensure_ascii=False, separators=(",", ":"))
    scripts = {"search.js": Path(__file__).with_name("search.js").read_text(encoding="utf-8")}
    scripts["search-index.js"], own = f"rebuiltSearch({index});\n", ""
    for name, script in scripts.items():
        write_text(made / "_static" / name, script)
        own += f'<script defer src="_static/{name}?v={sha256(script)[:8]}"></script>'
    text = OWN.OLD.sub("", (made / "search.html").read_text(encoding="utf-8"))
    write_text(made / "search.html", text.replace("</head>", f"{own}</head>", 1))
    for name in ("searchindex.js", "_static/searchtools.js", "_static/language_data.js"):
        remove(made / name)


def indexed(article: str) -> list[list[str]]:
    """(anchor, heading, words) of each section of an article, in order; code last, so that prose is shown first."""
    article = OWN.LEFT_OUT.sub(" ", article)
    headings = list(OWN.TITLE.finditer(article))
    ends = [one.start() for one in headings[1:]] + [len(article)]
    bodies = [article[one.end() : end] for one, end in zip(headings, ends, strict=True)]
    said = [_plain(OWN.CODE.sub(" ", body) + " ".join(OWN.CODE.findall(body))) for body in bodies]
    return [[one[3], _plain(one[2]), words] for one, words in zip(headings, said, strict=True)]


def _plain(text: str) -> str:
    """The words of some HTML. Inline marks part no word, everything else does."""
    text = re.sub(r'<a class="headerlink".*?</a>', "", text)
    text = re.sub(r"</?(?:span|em|strong|b|i|a|code|sub|sup|q|wbr)\b[^>]*>", "", text)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", text)).split())
