"""What machines read of a page: a chapter as a learning resource (JSON-LD), with its own picture; titles said once."""

import html
import io
import re
from pathlib import Path

from ..files import write_bytes
from ..ledger.tables import block
from ..repository import Chapter, Repository
from ..teach import length
from .gallery import article, drawing

TITLE = re.compile(r"<title>(.*?) (?:—|&#8212;) \1</title>", re.DOTALL)
SHARED = 1200  # pixels of a picture that others show beside a link, at most


def described(repository: Repository, chapter: Chapter, image: str = "") -> str:
    """The script that says of a chapter what its card says; `image` is the address of its picture."""
    own = article(repository, chapter), f"{length.of(chapter).whole:g}"
    return block("face/learning.html", "described", repository, chapter, image, *own)


def written(repository: Repository, chapter: Chapter | None, text: str, made: Path) -> str:
    """The page with its title once; a chapter's with JSON-LD and with its own picture, which is put below `made`."""
    text = TITLE.sub(r"<title>\1</title>", text)
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
