"""The text of a PDF, read by pypdf in a process of its own that may use little and is killed.

A PDF is a program as much as a page: a stream of a megabyte may unpack to many gigabytes, and
a page tree may be its own child. So limits are the operating system's, not the reader's.
"""

import io
import subprocess
import sys

SECONDS, MEGABYTES, PAGES, CHARACTERS = 5, 512, 200, 400_000


class Unreadable(ValueError):
    """A document of which nothing is indexed, and why."""


def pdf_text_of(body: bytes, seconds: float = SECONDS) -> str:
    """The text of all pages, a blank line between them. Unreadable where it takes too long or
    too much memory, or is no PDF.
    """
    code = [sys.executable, __file__, str(MEGABYTES)]
    try:
        done = subprocess.run(
            code, input=body, capture_output=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        raise Unreadable(f"PDF not read within {seconds:g} s") from None
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["killed"]
        raise Unreadable(f"PDF not read: {last[0][:200]}")
    return done.stdout.decode(errors="replace")


def pdf_of(lines: list[str]) -> bytes:
    """A PDF of one page with these lines of Latin text, for the served site."""
    told = [one.translate({40: r"\(", 41: r"\)", 92: r"\\"}) for one in lines]
    stream = "BT /F 11 Tf 14 TL 50 780 Td " + " ".join(f"({one}) Tj T*" for one in told) + " ET"
    return pdf_with(stream.encode("latin-1", "replace"))


def pdf_with(stream: bytes, extra: str = "") -> bytes:
    """A PDF of one page that this content stream draws; `extra` goes to its dictionary."""
    parts = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents 4 0 R"
        b"/Resources<</Font<</F 5 0 R>>>>>>",
        f"<</Length {len(stream)}{extra}>>stream\n".encode() + stream + b"\nendstream",
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
    ]
    file, places = b"%PDF-1.4\n", []
    for number, part in enumerate(parts, 1):
        places.append(len(file))
        file += f"{number} 0 obj".encode() + part + b"endobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    end = f"trailer<</Size 6/Root 1 0 R>>\nstartxref\n{len(file)}\n%%EOF"
    return file + f"xref\n0 6\n0000000000 65535 f \n{table}{end}".encode()


def _child() -> None:
    import logging
    import resource

    logging.disable()  # or a file may have a gigabyte of warnings written
    size = int(sys.argv[1]) * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    import pypdf

    pages = pypdf.PdfReader(io.BytesIO(sys.stdin.buffer.read())).pages
    if len(pages) > PAGES:
        raise ValueError(f"{len(pages)} pages; at most {PAGES} are read")
    text = "\n\n".join(page.extract_text() for page in pages)
    if len(text) > CHARACTERS:
        raise ValueError(f"{len(text)} characters; at most {CHARACTERS} are read")
    sys.stdout.buffer.write(text.encode())


if __name__ == "__main__":
    _child()
