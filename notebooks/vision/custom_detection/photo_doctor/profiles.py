"""A colour profile made by hand, so that the chapter needs no other file: the primaries of ROMM
RGB (ISO 22028-2, known as ProPhoto), a plain power of 1.8, as an ICC profile of version 2.

Bytes in this space look pale where a program takes them for sRGB, since the same colour has
smaller numbers in a wider space.
"""

import io
import struct

import numpy as np
from PIL import Image, ImageCms

GAMMA = 1.8
PRIMARIES = (  # X, Y, Z of red, green, blue under the light of the profile (D50)
    (0.79767, 0.28804, 0.0),
    (0.13519, 0.71188, 0.0),
    (0.03134, 0.00009, 0.82491),
)
WHITE = (0.9642, 1.0, 0.8249)


def profile() -> bytes:
    """The ICC profile's bytes."""
    name = b"Wide"
    parts = {b"desc": b"desc" + bytes(4) + struct.pack(">I", len(name) + 1) + name + bytes(79)}
    parts[b"cprt"] = b"text" + bytes(4) + b"none\0"
    parts[b"wtpt"] = _xyz(WHITE)
    parts |= {
        key: _xyz(one) for key, one in zip((b"rXYZ", b"gXYZ", b"bXYZ"), PRIMARIES, strict=True)
    }
    curve = b"curv" + bytes(4) + struct.pack(">IH", 1, round(GAMMA * 256))
    parts |= dict.fromkeys((b"rTRC", b"gTRC", b"bTRC"), curve)
    table, body, start = struct.pack(">I", len(parts)), b"", 128 + 4 + 12 * len(parts)
    for key, part in parts.items():
        table += key + struct.pack(">II", start + len(body), len(part))
        body += part + bytes(-len(part) % 4)
    size = start + len(body)
    head = struct.pack(">I4sI4s4s4s", size, bytes(4), 0x02400000, b"mntr", b"RGB ", b"XYZ ")
    head += (
        struct.pack(">6H", 2026, 1, 1, 0, 0, 0)
        + b"acsp"
        + bytes(28)
        + _numbers(WHITE)
        + bytes(48)
    )
    return head + table + body


def _numbers(values) -> bytes:
    return struct.pack(">3i", *(round(value * 65536) for value in values))


def _xyz(values) -> bytes:
    return b"XYZ " + bytes(4) + _numbers(values)


def from_srgb(shown: Image.Image) -> tuple[Image.Image, bytes]:
    """(the same colours as bytes of the wide space, its profile)."""
    made = profile()
    wide = ImageCms.ImageCmsProfile(io.BytesIO(made))
    return ImageCms.profileToProfile(
        shown, ImageCms.createProfile("sRGB"), wide, outputMode="RGB"
    ), made


def plain(found: bytes | None) -> bool:
    """True where a profile is none or sRGB's: then bytes may be taken as they are."""
    if not found:
        return True
    try:
        opened = ImageCms.ImageCmsProfile(io.BytesIO(found))
        grey = Image.fromarray(
            np.array([[[200, 60, 40], [40, 200, 60], [60, 40, 200]]], dtype=np.uint8)
        )
        turned = ImageCms.profileToProfile(
            grey, opened, ImageCms.createProfile("sRGB"), outputMode="RGB"
        )
    except (ImageCms.PyCMSError, OSError):
        return False
    return int(np.abs(np.asarray(turned).astype(int) - np.asarray(grey)).max()) <= 4
