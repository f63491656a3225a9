"""Pictures and sounds that a page holds become files beside it, which a browser fetches when a reader comes near."""

import base64
import io
import re
from pathlib import Path

from ..files import sha256, write_bytes

PICTURE = re.compile(r'<img([^>]*?) src="data:image/png;base64,([^"]+)"([^>]*)>')
SOUND = re.compile(r'<(audio|source)([^>]*?) src="data:audio/([a-z0-9]+);base64,([^"]+)"([^>]*)>')
HELD = re.compile(r'src="(?:[^":]*/)?(_static/(?:images/)?(?:logo[\w-]*)\.(svg|png))(?:\?[^"]*)?"')
WIDEST = 1400  # pixels: figures are at most 7 inches wide on screens of two dots a pixel
KINDS = {"svg": "svg+xml", "png": "png"}


def outside(page: str, made: Path, up: str) -> str:
    """The page with its PNGs as WebP files and its sounds as files, below `made/_images`; `up` leads there."""

    def picture(found: re.Match) -> str:
        before, data, after = found.groups()
        content, width, height = _webp(base64.b64decode(data))
        address = _kept(made, content, "webp")
        size = "" if "width=" in before + after else f' width="{width}" height="{height}"'
        return f'<img{before} src="{up}{address}"{after.rstrip("/ ")}{size} loading="lazy" decoding="async">'

    def sound(found: re.Match) -> str:
        tag, before, kind, data, after = found.groups()
        address = _kept(made, base64.b64decode(data), kind)
        return f'<{tag}{before} src="{up}{address}"{after.replace("/", "")}>'

    page = SOUND.sub(sound, PICTURE.sub(picture, page))
    return re.sub(r"<audio(?![^>]*preload=)", '<audio preload="none"', page)


def inside(page: str, made: Path) -> str:
    """The page with its logos, a kilobyte or a few each, in its own text: no request for any of them."""

    def held(found: re.Match) -> str:
        path = made / found[1]
        if not path.is_file():
            return found.group()
        return f'src="data:image/{KINDS[found[2]]};base64,{base64.b64encode(path.read_bytes()).decode()}"'

    return HELD.sub(held, page)


def _kept(made: Path, content: bytes, kind: str) -> str:
    name = f"_images/{sha256(content)[:16]}.{kind}"
    if not (made / name).is_file():
        write_bytes(made / name, content)
    return name


def _webp(png: bytes) -> tuple[bytes, int, int]:
    """The smaller of a lossless and a fine lossy WebP, and the size at which a page shows it."""
    from PIL import Image

    with Image.open(io.BytesIO(png)) as drawn:
        picture = drawn.convert("RGBA" if "A" in drawn.getbands() or "transparency" in drawn.info else "RGB")
    width, height = picture.size
    if width > WIDEST:
        picture = picture.resize((WIDEST, round(height * WIDEST / width)), Image.Resampling.LANCZOS)
    forms = []
    for options in ({"lossless": True, "quality": 60}, {"quality": 82}):
        file = io.BytesIO()
        picture.save(file, "WEBP", method=3, **options)
        forms.append(file.getvalue())
    return min(forms, key=len), *picture.size
