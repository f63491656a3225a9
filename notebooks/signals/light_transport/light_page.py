"""The room for the page: a reader drags the lamp, switches bounces, and leaves the balance.

What the script needs is the basis alone: the pictures of each tile, as one JPEG picture that a
browser unpacks by itself, in an eighth of the bytes of the numbers. Colours stay at full size:
shared by pixels side by side, as is usual, the red of a wall would run into the next picture.
Its values are square roots, since the eye sees steps in the dark first.
"""

import base64
import io
import json
from pathlib import Path

import light_basis
import torch
from PIL import Image

SCRIPT = Path(__file__).with_name("light_room.js")
LAMP = 0.18  # the lamp's width, in the room's
RADIANCE = (17.0, 12.0, 4.0)
EXPOSURE = 8.0  # of the shown picture, before the tone curve
QUALITY = 85  # of the JPEG: its loss is below the noise of the pictures


def packed(basis_TOHW3, quality=QUALITY):
    """(JPEG bytes of a sheet, the largest radiance of each kind): rows of the sheet are direct
    light, the first bounce, all later ones; columns are tiles. A value b of 0 to 255 stands for
    largest (b / 255)^2.
    """
    if basis_TOHW3.shape[1] < 3:
        raise ValueError(
            f"the basis holds scatterings 0 to {basis_TOHW3.shape[1] - 1}; "
            "the page needs direct light and a bounce"
        )
    later = basis_TOHW3[:, 3:].sum(1)
    kinds = torch.stack([basis_TOHW3[:, 1], basis_TOHW3[:, 2], later]).cpu().double()
    if not bool(torch.isfinite(kinds).all() and (kinds >= 0).all()):
        raise ValueError("a picture of the basis is negative or not finite; light is neither")
    largest = kinds.amax((1, 2, 3, 4)).clamp_min(1e-9)
    share = kinds / largest[:, None, None, None, None]
    values_KTHW3 = (share.sqrt() * 255).round().to(torch.uint8)
    sheet = values_KTHW3.permute(0, 2, 1, 3, 4).flatten(2, 3).flatten(0, 1)
    file = io.BytesIO()
    Image.fromarray(sheet.numpy()).save(
        file, "JPEG", quality=quality, subsampling=0, optimize=True
    )
    return file.getvalue(), largest.tolist()


def unpacked(content, largest, tiles):
    """Radiance (3, T, H, W, 3), float64, of a packed sheet: what a browser will have."""
    with Image.open(io.BytesIO(content)) as sheet:
        values = torch.frombuffer(bytearray(sheet.convert("RGB").tobytes()), dtype=torch.uint8)
        width, height = sheet.width // tiles, sheet.height // 3
    values_KTHW3 = values.view(3, height, tiles, width, 3).permute(0, 2, 1, 3, 4)
    scale = torch.tensor(largest, dtype=torch.float64)[:, None, None, None, None]
    return scale * (values_KTHW3.double() / 255) ** 2


def viewer(basis_TOHW3, words):
    """HTML of the room with its script; `words` stand there until a browser has run it."""
    tiles, _, height, width, _ = basis_TOHW3.shape
    across = round(tiles**0.5)
    middles, tile = light_basis.tiles(across)
    content, largest = packed(basis_TOHW3)
    about = {
        "across": across,
        "height": height,
        "width": width,
        "first": float(middles[0, 0]),
        "tile": tile,
        "lamp": LAMP,
        "radiance": RADIANCE,
        "exposure": EXPOSURE,
        "largest": largest,
        # a browser may hide pictures from scripts and hand out others: the mean tells
        "mean": float(unpacked(content, [1.0] * 3, tiles).sqrt().mean()),
    }
    values = base64.b64encode(content).decode()
    data = f"data-about='{json.dumps(about)}' data-values='{values}'"
    script = SCRIPT.read_text(encoding="utf-8")
    return f'<div class="light-room" {data}><p>{words}</p></div><script>{script}</script>'
