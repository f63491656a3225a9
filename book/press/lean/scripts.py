"""One script for the book, read when the page stands."""

import re
from pathlib import Path

OWN = re.compile(r"\s*<script([^>]*)\ssrc=\"([^\"?]*)(?:\?[^\"]*)?\"([^>]*)></script>")
CONSTANT = re.compile(r"\s*<script>\s*((?:let|var|const)\s+toggle\w+\s*=\s*[^<]*?)\s*</script>")
PAGE_NAME = re.compile(r"\s*<script>DOCUMENTATION_OPTIONS\.pagename = [^<]*</script>")
THEBE = re.compile(
    r"\s*<script type=\"text/x-thebe-config\">.*?</script>|\s*<script>\s*kernelName = [^<]*</script>", re.DOTALL
)
APART = ("mathjax/", "search.js", "search-index.js", "fontawesome/")  # what only some pages need, or none


def common(page: str) -> list[str]:
    """The scripts below `_static` that the page loads and that all pages share, in order; constants as they stand."""
    return [address for _, address, _ in OWN.findall(page) if "_static/" in address and not _apart(address)]


def _apart(address: str) -> bool:
    return any(one in address for one in APART)


def constants(page: str) -> list[str]:
    """The theme's settings that stand as scripts of their own."""
    return [" ".join(found.split()).rstrip(";") + ";" for found in CONSTANT.findall(page)]


def joined(made: Path, names: list[str], settings: list[str]) -> str:
    """One script of the files `names` below `made`, after the settings.

    It begins with an empty statement, so that a `"use strict"` of the first file holds for no other.
    """
    parts = [f"/* {name} */\n{(made / name).read_text(encoding='utf-8').strip()}" for name in names]
    return ";\n" + "\n;\n".join([*dict.fromkeys(settings), *parts]) + "\n"


def replaced(page: str, address: str) -> str:
    """The page with one deferred script at `address` in place of those that it joins."""

    def one(found: re.Match) -> str:
        before, source, after = found.groups()
        if "_static/" not in source or (_apart(source) and "fontawesome/" not in source):
            return found.group()
        return ""

    page = THEBE.sub("", PAGE_NAME.sub("", CONSTANT.sub("", OWN.sub(one, page))))
    own = f'<script defer data-sd-tabs-storage-prefix="sphinx-design-tab-id-" src="{address}"></script>'
    at = page.index("</head>")
    first = re.search(r"<script defer[^>]*search\.js", page[:at])
    at = first.start() if first else at
    return f"{page[:at]}{own}\n{page[at:]}"
