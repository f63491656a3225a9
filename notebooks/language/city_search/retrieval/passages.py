"""The index: passages of pages in SQLite, found by their words (FTS5) and by their vectors.

A passage is a verbatim piece of its page, so an excerpt can be found there. What decides where
an answer may come from stands beside it: city, state, date, source, and the last day on which
it may be shown.
"""

import re
import sqlite3
from typing import NamedTuple

import torch
from bm25 import words

TABLES = """
CREATE TABLE IF NOT EXISTS documents (url TEXT PRIMARY KEY, original TEXT, title TEXT,
  city TEXT, state TEXT, source TEXT, date TEXT, language TEXT, until TEXT);
CREATE TABLE IF NOT EXISTS passages
  (number INTEGER PRIMARY KEY, url TEXT, heading TEXT, text TEXT, vector BLOB);
CREATE INDEX IF NOT EXISTS owned ON passages (url);
CREATE VIRTUAL TABLE IF NOT EXISTS found USING fts5(heading, text, tokenize='unicode61');
"""
MOST_WORDS = 60  # of a passage: about what three segments hold beside a link
SENTENCE = re.compile(r"(?<=[.!?])\s+|\n")
FIELDS = ("city", "state", "source", "date")


class Passage(NamedTuple):
    """A piece of a page, verbatim, with its heading, its address and the original one."""

    number: int
    heading: str
    text: str
    url: str
    original: str
    city: str
    state: str
    source: str
    date: str


def pieces(text: str, most: int = MOST_WORDS) -> list[str]:
    """The text cut at ends of sentences or lines, each piece verbatim and of at most so many
    words; a longer sentence is cut after so many words.
    """
    ends = [match.end() for match in SENTENCE.finditer(text)] + [len(text)]
    made, begin, last = [], 0, 0
    for end in ends:
        if last > begin and len(text[begin:end].split()) > most:
            made.append(text[begin:last])
            begin = last
        last = end
        while len(text[begin:end].split()) > most:
            cut = [match.end() for match in re.finditer(r"\S+\s*", text[begin:end])][most - 1]
            made.append(text[begin : begin + cut])
            begin += cut
    return [one.strip() for one in [*made, text[begin:]] if one.strip()]


class Passages:
    """The index in one SQLite file. `encode(texts)` gives a unit vector for each, or None for
    an index of words alone. `table` commits when told (`crawling.connect`). `about(url)` gives
    fields of a page that it cannot say otherwise itself: whose page it is, say.
    """

    def __init__(self, table: sqlite3.Connection, encode=None, about=lambda url: {}):
        self.table, self.encode, self.about = table, encode, about
        for statement in filter(str.strip, TABLES.split(";")):
            table.execute(statement)

    def put(self, url: str, page, until: str = "") -> None:
        """Puts a page in the place of what was there under its address."""
        self.drop(url)
        told = {**page.attributes, **self.about(url)}
        row = (url, told.get("canonical", url), page.title, *(told.get(f, "") for f in FIELDS))
        self.table.execute(
            "INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*row, page.language, until),
        )
        cut = [(head, piece) for head, text in page.sections for piece in pieces(text)]
        made = self.encode([f"{h} {p}" for h, p in cut]) if self.encode and cut else None
        for at, (heading, text) in enumerate(cut):
            vector = None if made is None else made[at].float().numpy().tobytes()
            new = self.table.execute(
                "INSERT INTO passages (url, heading, text, vector) VALUES (?, ?, ?, ?)",
                (url, heading, text, vector),
            )
            line = "INSERT INTO found (rowid, heading, text) VALUES (?, ?, ?)"
            self.table.execute(line, (new.lastrowid, heading, text))

    def drop(self, url: str) -> None:
        """Takes a page out."""
        own = "SELECT number FROM passages WHERE url = ?"
        self.table.execute(f"DELETE FROM found WHERE rowid IN ({own})", (url,))
        for name in ("passages", "documents"):
            self.table.execute(f"DELETE FROM {name} WHERE url = ?", (url,))

    def by_words(self, query: str, most: int = 10, today: str = "", **only: str):
        """[(passage, score)]: by FTS5's BM25 (k1 1.2), best first, of documents whose fields
        are as `only` says, or of that date or later, and that may be shown today.
        """
        asked = " OR ".join(f'"{word}"' for word in dict.fromkeys(words(query)))
        if not asked:
            return []
        where, given = self._where(today, only)
        rows = self.table.execute(
            f"SELECT {SHOWN}, -bm25(found) FROM found JOIN passages p ON p.number = found.rowid"
            f" JOIN documents d USING (url) WHERE found MATCH ? AND {where}"
            " ORDER BY bm25(found), p.number LIMIT ?",
            (asked, *given, most),
        )
        return [(Passage(*row[:-1]), row[-1]) for row in rows]

    def by_vector(self, query: str, most: int = 10, today: str = "", **only: str):
        """[(passage, cosine)], best first, of the same documents."""
        where, given = self._where(today, only)
        rows = self.table.execute(
            f"SELECT {SHOWN}, p.vector FROM passages p JOIN documents d USING (url)"
            f" WHERE p.vector IS NOT NULL AND {where} ORDER BY p.number",
            given,
        ).fetchall()
        if not rows:
            return []
        packed = bytearray(b"".join(row[-1] for row in rows))
        vectors = torch.frombuffer(packed, dtype=torch.float32).view(len(rows), -1)
        best = torch.topk(vectors @ self.encode([query])[0].float(), min(most, len(rows)))
        pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
        return [(Passage(*rows[at][:-1]), score) for at, score in pairs]

    def all(self, today: str = "", **only: str) -> list[Passage]:
        """The passages that may be shown, in order."""
        where, given = self._where(today, only)
        sql = f"SELECT {SHOWN} FROM passages p JOIN documents d USING (url) WHERE {where}"
        return [Passage(*row) for row in self.table.execute(sql + " ORDER BY p.number", given)]

    def version(self) -> tuple[int, int]:
        """Another pair after each change, by this process or another."""
        (theirs,) = self.table.execute("PRAGMA data_version").fetchone()
        return theirs, self.table.total_changes

    def _where(self, today: str, only: dict[str, str]):
        if odd := set(only) - set(FIELDS):
            raise ValueError(f"filters {sorted(odd)}; {FIELDS} are known")
        parts = ["(d.until = '' OR d.until >= ?)"] + [
            f"d.{name} {'>=' if name == 'date' else '='} ?" for name in only
        ]
        return " AND ".join(parts), [today, *only.values()]


SHOWN = "p.number, p.heading, p.text, p.url, d.original, d.city, d.state, d.source, d.date"
