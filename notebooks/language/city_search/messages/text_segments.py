"""A text message is billed and sent by segments: 160 characters of a small alphabet, 70 of any
other.

Joined segments give up seven characters, or three, to a header that says which one comes where
(3GPP TS 23.040). The alphabet is GSM 7 bit with its extension table (3GPP TS 23.038), whose
characters take two places: an escape and themselves.
"""

import regex

BASIC = frozenset(
    "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?¡"
    "ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"
)
EXTENSION = frozenset("\f^{}\\[~]|€")
ALONE, JOINED = (
    {True: 160, False: 70},
    {True: 153, False: 67},
)  # by whether the alphabet is basic
MOST = 1600  # characters that a gateway takes in one message


def basic(text: str) -> bool:
    """Whether GSM 7 bit can write a text."""
    return BASIC.union(EXTENSION).issuperset(text)


def places(text: str) -> int:
    """How many places a text takes: septets of GSM 7 bit where it can be written so, else units
    of UTF-16, of which an emoji takes two and more.
    """
    if basic(text):
        return len(text) + sum(letter in EXTENSION for letter in text)
    return len(text.encode("utf-16-be", "surrogatepass")) // 2


def segments(text: str) -> list[str]:
    """The segments that a text is sent in, which joined are the text: one of at most 160 places
    (70 beyond GSM 7 bit), else each of at most 153 (67). Neither an escape nor what is seen as
    one character, such as an emoji of several code points, is split; none of an empty text.

    Raises ValueError above 1,600 characters: a gateway refuses them.
    """
    if len(text) > MOST:
        raise ValueError(
            f"a text of {len(text):,} characters; a gateway takes {MOST:,}: shorten it first"
        )
    plain = basic(text)
    if places(text) <= ALONE[plain]:
        return [text] if text else []
    found, room = [""], JOINED[plain]
    for whole in regex.findall(r"\X", text):
        for part in (
            [whole] if _size(whole, plain) <= room else list(whole)
        ):  # marks piled up without end
            if _size(found[-1], plain) + _size(part, plain) > room:
                found.append("")
            found[-1] += part
    return found


def _size(text: str, plain: bool) -> int:
    """As `places`, by the alphabet of the whole message."""
    return places(text) if plain else len(text.encode("utf-16-be", "surrogatepass")) // 2
