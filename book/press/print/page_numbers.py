"""Page numbers in the contents of the printed book, written beside the links that Chromium has made of its entries.

A style sheet cannot ask Chromium on which page something will stand. The finished file knows: each entry is a link with
its place on the sheet and its target, so a number drawn at the right margin needs no second print.
"""

RIGHT, SIZE = 541.0, 9.0  # points from the left edge of A4 to the numbers' end; the letters' size
DIGIT = 0.556  # of the letters' size: the width of Helvetica's digits


def targets(reader: object) -> dict[str, int]:
    """The page, counted from 1, of each anchor that something in the file links to."""
    numbers = {page.indirect_reference.idnum: number for number, page in enumerate(reader.pages, start=1)}
    places = {str(name).lstrip("/"): place.raw_get("/Page") for name, place in reader.named_destinations.items()}
    return {name: numbers[page.idnum] for name, page in places.items() if getattr(page, "idnum", 0) in numbers}


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


def write(writer: object, anchors: set[str]) -> None:
    """Draw the numbers on the pages of the contents."""
    from pypdf.generic import DictionaryObject, NameObject

    letters = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica"}
    font = DictionaryObject({NameObject(key): NameObject(value) for key, value in letters.items()})
    for index, rows in entries(writer, anchors).items():
        page = writer.pages[index]
        page["/Resources"]["/Font"][NameObject("/RebuiltNumbers")] = font
        content = page.get_contents()
        content.set_data(b"q\n" + content.get_data() + b"\nQ\n" + drawn(rows))
        page.replace_contents(content.flate_encode())
