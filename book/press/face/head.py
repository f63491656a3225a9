"""What machines read of a page: a chapter as a learning resource (JSON-LD), with its own picture; titles said once."""

import html
import io
import json
import re
from pathlib import Path

from ..files import write_bytes
from ..repository import Chapter, Repository
from ..teach import length
from .gallery import drawing

TEXT_LICENCE, CODE_LICENCE = "https://creativecommons.org/licenses/by/4.0/", "https://spdx.org/licenses/BSD-3-Clause"
CONFORMS = "https://bioschemas.org/profiles/TrainingMaterial/1.0-RELEASE"
TITLE = re.compile(r"<title>(.*?) (?:—|&#8212;) \1</title>", re.DOTALL)
SHARED = 1200  # pixels of a picture that others show beside a link, at most


def described(repository: Repository, chapter: Chapter, image: str = "") -> dict:
    """The chapter in the words of schema.org, each from its card; `image` is the address of its picture."""
    card, base = chapter.card, repository.site
    article = card["article"]
    cited = {"@type": "Article", "name": article["title"], "author": [_author(name) for name in article["authors"]]}
    cited |= {"publisher": {"@type": "Organization", "name": article["publisher"]}, "datePublished": str(article["year"])}
    cited |= {"url": article["url"]} if "url" in article else {}
    found = {
        "@context": "https://schema.org",
        "@type": "LearningResource",
        "http://purl.org/dc/terms/conformsTo": {"@type": "CreativeWork", "@id": CONFORMS},
        "url": f"{base}{chapter.document}.html",
        "name": card["title"],
        "description": card["summary"].strip(),
        "teaches": card["objectives"],
        "competencyRequired": card["prerequisites"],
        "timeRequired": f"PT{length.of(chapter).whole:g}M",
        "educationalLevel": card.get("level"),
        "keywords": card["interests"],
        "learningResourceType": "notebook",
        "inLanguage": repository.config.get("sphinx", {}).get("config", {}).get("language", "en"),
        "license": TEXT_LICENCE,
        "version": repository.version,
        "isAccessibleForFree": True,
        "image": image,
        "author": {"@type": "Organization", "name": str(repository.config.get("author", ""))},
        "isPartOf": {"@type": "Book", "name": str(repository.config.get("title", "")), "url": base},
        "hasPart": {"@type": "SoftwareSourceCode", "codeRepository": repository.url, "license": CODE_LICENCE},
        "citation": cited,
    }
    return {name: value for name, value in found.items() if value}


def _author(name: str) -> dict:
    """A person, or where the card gives one word, the company that signs."""
    return {"@type": "Person" if " " in name else "Organization", "name": name}


def _shared(png: bytes) -> bytes:
    """The drawing on white, as wide as what others show beside a link."""
    from PIL import Image

    with Image.open(io.BytesIO(png)) as drawn:
        ground, file = Image.new("RGB", drawn.size, "white"), io.BytesIO()
        ground.paste(drawn, mask=drawn.convert("RGBA").getchannel("A"))
    ground.thumbnail((SHARED, ground.height))
    ground.save(file, "PNG")
    return file.getvalue()


def written(repository: Repository, chapter: Chapter | None, text: str, made: Path) -> str:
    """The page with its title once; a chapter's with JSON-LD and with its own picture, which is put below `made`."""
    text = TITLE.sub(r"<title>\1</title>", text)
    if chapter is None:
        return text
    own, image = {"type": "article"}, ""
    if found := drawing(chapter):
        path = f"_data/{chapter.name}.png"
        write_bytes(made / path, _shared(found[0]))
        own |= {"image": (image := f"{repository.site}{path}"), "image:alt": html.unescape(found[1])}
    for name, value in own.items():
        tag = re.compile(rf'<meta (?:property|name)="og:{name}" content="[^"]*" ?/?>')
        text = tag.sub(lambda _, n=name, v=value: f'<meta property="og:{n}" content="{html.escape(v)}" />', text)
    told = json.dumps(described(repository, chapter, image), ensure_ascii=False, separators=(",", ":"))
    told = told.replace("<", "\\u003c")  # so that no text ends the script
    return text.replace("</head>", f'<script type="application/ld+json">{told}</script>\n</head>', 1)
