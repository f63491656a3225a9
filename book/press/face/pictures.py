"""The picture of a chapter: a figure that its run drew, small enough for a card or a first screen."""

import base64
import html
import io
import re
from dataclasses import dataclass
from functools import lru_cache

from helpers.show import Markup

from ..errors import PressError
from ..repository import Chapter, read_notebook

FIGURE = re.compile(r'<figure class="rebuilt"><img src="data:image/png;base64,([^"]+)"[^>]*?alt="([^"]*)"')
QUALITY = 70
WIDTHS = {"card": 480, "page": 720}


@dataclass(frozen=True)
class Picture:
    """A figure as the run drew it: its PNG and the words that say what it shows."""

    png: bytes
    alt: str

    def image(self, size: str, **attributes: str) -> Markup:
        """The `<img>` at one of the `WIDTHS`, held in the page: thirty cards ask for no file of their own."""
        data, width, height = _webp(self.png, WIDTHS[size])
        more = "".join(f' {name}="{html.escape(value)}"' for name, value in attributes.items())
        source = f"data:image/webp;base64,{base64.b64encode(data).decode()}"
        alt = html.escape(self.alt)
        return Markup(f'<img src="{source}" width="{width}" height="{height}" alt="{alt}" decoding="async"{more}>')


@lru_cache(maxsize=256)
def _webp(png: bytes, width: int) -> tuple[bytes, int, int]:
    """The picture no wider than `width`, on white, with its size in pixels."""
    from PIL import Image

    with Image.open(io.BytesIO(png)) as drawn:
        ground = Image.new("RGB", drawn.size, "white")
        ground.paste(drawn, mask=drawn.convert("RGBA").getchannel("A"))
    if ground.width > width:
        ground = ground.resize((width, round(ground.height * width / ground.width)), Image.Resampling.LANCZOS)
    file = io.BytesIO()
    ground.save(file, "WEBP", quality=QUALITY, method=4)
    return file.getvalue(), *ground.size


def picture(chapter: Chapter) -> Picture | None:
    """The first figure of the section that the card names as `picture`, else of the notebook; None without figures.

    Raises PressError where the named section has drawn nothing.
    """
    wanted, section = chapter.card.get("picture"), ""
    for cell in read_notebook(chapter.executed).cells:
        if cell.cell_type == "markdown":
            section = ([section] + re.findall(r"^## (.+?)\s*$", cell.source, re.MULTILINE))[-1]
        for output in cell.get("outputs", []) if wanted in (None, section) else []:
            found = FIGURE.search("".join(output.get("data", {}).get("text/html", "")))
            if found:
                return Picture(base64.b64decode(found.group(1)), html.unescape(found.group(2)))
    if wanted:
        raise PressError(f"{chapter}: the section {wanted!r}, which the card names as `picture`, has drawn no figure")
    return None
