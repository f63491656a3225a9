"""Page numbers in the contents of the printed book, written beside the links that Chromium has made of its entries.

A style sheet cannot ask Chromium on which page something will stand. The finished file knows: each entry is a link with
its place on the sheet and its target, so a number drawn at the right margin needs no second print.
"""

from pathlib import Path

RIGHT, SIZE = 541.0, 9.0  # points from the left edge of A4 to the numbers' end; the letters' size
DIGIT = 0.556  # of the letters' size: the width of Helvetica's digits


def targets(reader: object) -> dict[str, int]:
    """The page, counted from 1, of each anchor that something in the file links to."""
    found = {}
    for name, place in reader.named_destinations.items():
        number = reader.get_destination_page_number(place)
        if number is not None and number >= 0:
            found[str(name).lstrip("/")] = number + 1
    return found


def entries(reader: object, anchors: set[str]) -> dict[int, list[tuple[float, int]]]:
    """For each page of the contents, counted from 0: (height above its lower edge, page number) of each entry."""
    where, found = targets(reader), {}
    first = min((where[name] for name in anchors if name in where), default=1)  # of what the contents lead to
    for index, page in enumerate(reader.pages[: first - 1]):
        rows = {}
        for reference in page.get("/Annots") or []:
            link = reference.get_object()
            name = str(link.get("/Dest", (link.get("/A") or {}).get("/D", ""))).lstrip("/")
            if name in anchors and name in where:
                low = float(link["/Rect"][1])
                rows[name] = min(low, rows.get(name, (low, 0))[0]), where[name]
        if rows:
            found[index] = list(rows.values())
    return found


def drawn(rows: list[tuple[float, int]]) -> bytes:
    """The content of a page that writes the numbers, marked as no part of the text: the links themselves lead there."""
    lines = [
        f"BT /RebuiltNumbers {SIZE:g} Tf 1 0 0 1 {RIGHT - len(str(number)) * DIGIT * SIZE:.2f} {low + 3:.2f} Tm "
        f"({number}) Tj ET"
        for low, number in rows
    ]
    return ("/Artifact BMC q 0.2 0.2 0.2 rg\n" + "\n".join(lines) + "\nQ EMC\n").encode("ascii")


def added(reader: object, path: Path, anchors: set[str], append: object) -> int:
    """How many entries of the contents got a number; `append` adds new forms of objects to the file at `path`."""
    from pypdf.generic import ArrayObject, DictionaryObject, IndirectObject, NameObject, StreamObject

    pages = entries(reader, anchors)
    following = int(reader.trailer["/Size"])
    changed = {}
    letters = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica"}
    font = DictionaryObject({NameObject(key): NameObject(value) for key, value in letters.items()})
    changed[following] = font
    for index, rows in pages.items():
        page = reader.pages[index]
        before, after = StreamObject(), StreamObject()
        before.set_data(b"q\n")
        after.set_data(b"Q\n" + drawn(rows))
        changed[following + 1], changed[following + 2] = before, after
        old = page.raw_get("/Contents")
        middle = list(old) if isinstance(old, ArrayObject) else [old]
        ends = [IndirectObject(following + 1, 0, reader), IndirectObject(following + 2, 0, reader)]
        page[NameObject("/Contents")] = ArrayObject([ends[0], *middle, ends[1]])
        resources = DictionaryObject(page["/Resources"].get_object())
        fonts = DictionaryObject(resources.get("/Font", DictionaryObject()).get_object())
        fonts[NameObject("/RebuiltNumbers")] = IndirectObject(int(reader.trailer["/Size"]), 0, reader)
        resources[NameObject("/Font")] = fonts
        page[NameObject("/Resources")] = resources
        changed[page.indirect_reference.idnum] = page
        following += 2
    if pages:
        append(path, reader, changed)
    return sum(map(len, pages.values()))
