"""A resident's conversation with the city: who may be written to, where a talk stands, tickets.

All state lies in SQLite, in the table that the message came with, so whatever process answers
next goes on. The words that stop and start come before everything else: those that a gateway
acts on itself (https://help.twilio.com/articles/223134027; `revoke` and `optout` since 2025),
also written apart, such as 'opt out'.
"""

import sqlite3
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bm25 import words

STOP = frozenset(
    ["stop", "stopall", "unsubscribe", "cancel", "end", "quit", "revoke", "optout"]
)
START, HELP = frozenset(["start", "unstop", "yes"]), frozenset(["help", "info"])
WRONG = "bad"
FORGET_S = 3600  # a talk that rests for longer begins anew
MOST = 300  # characters of what a resident reports

TABLES = """
CREATE TABLE IF NOT EXISTS residents (sender TEXT PRIMARY KEY, stopped INT);
CREATE TABLE IF NOT EXISTS alerts (sender TEXT, city TEXT, UNIQUE (sender, city));
CREATE TABLE IF NOT EXISTS talks
  (sender TEXT PRIMARY KEY, step TEXT, held TEXT, city TEXT, at REAL);
CREATE TABLE IF NOT EXISTS tickets
  (number INTEGER PRIMARY KEY, sender TEXT, what TEXT, place TEXT, city TEXT, at REAL);
CREATE TABLE IF NOT EXISTS answers (sender TEXT PRIMARY KEY, question TEXT, answer TEXT);
CREATE TABLE IF NOT EXISTS review
  (sender TEXT, question TEXT, answer TEXT, UNIQUE (sender, question, answer));
CREATE TABLE IF NOT EXISTS switch (one INTEGER PRIMARY KEY CHECK (one = 1), version TEXT);
CREATE TABLE IF NOT EXISTS begun (sender TEXT PRIMARY KEY, version TEXT);
"""


@dataclass
class Talk:
    """Where a resident's talk stands: the next step, what it holds, and the city."""

    step: str = ""
    held: str = ""
    city: str = ""


@dataclass(frozen=True)
class Desk:
    """What answers messages. `understand(text)` names an intent or None; `search(text, city)`
    an answer or None; `cities` are known by how their callers' numbers begin.
    """

    understand: Callable[[str], str | None]
    search: Callable[[str, str], str | None]
    cities: Mapping[str, str] = field(default_factory=dict)
    home: str = ""
    clock: Callable[[], float] = time.time

    def answer(self, table: sqlite3.Connection, sender: str, text: str) -> str:
        """The reply to a message, "" where none may be sent."""
        ready(table)
        said = "".join(words(text))
        if said in STOP:
            return _stop(table, sender)
        if said in START and stopped(table, sender):
            table.execute("UPDATE residents SET stopped = 0 WHERE sender = ?", (sender,))
            return "You get texts again. Reply STOP to end."
        if stopped(table, sender):
            return ""
        if said in HELP:
            return "Ask about your city, or report a problem. Reply STOP to end."
        talk = self._talk(table, sender, text)
        reply = STEPS[talk.step](self, table, sender, text, talk)
        row = (sender, talk.step, talk.held, talk.city, self.clock())
        table.execute("INSERT OR REPLACE INTO talks VALUES (?, ?, ?, ?, ?)", row)
        return reply

    def open(self, table: sqlite3.Connection, sender: str) -> bool:
        """Whether the sender's talk has a step to go on with."""
        step = "SELECT 1 FROM talks WHERE sender = ? AND at > ? AND step <> ''"
        return bool(table.execute(step, (sender, self.clock() - FORGET_S)).fetchone())

    def _talk(self, table, sender, text) -> Talk:
        """The talk so far; a city that the message names wins over the last, and over the
        caller's own.
        """
        row = table.execute(
            "SELECT step, held, city FROM talks WHERE sender = ? AND at > ?",
            (sender, self.clock() - FORGET_S),
        ).fetchone()
        by_number = (c for c, start in self.cities.items() if sender.startswith(start))
        talk = Talk(*row) if row else Talk(city=next(by_number, self.home))
        said = f" {' '.join(words(text))} "
        named = [c for c in self.cities if f" {' '.join(words(c))} " in said]
        talk.city = max(named, key=len) if named else talk.city  # "New Wick" is not "Wick"
        return talk

    def _first(self, table, sender, text, talk):
        if words(text) == [WRONG]:
            return _flag(table, sender)
        intent = self.understand(text)
        if intent == "report":
            talk.step, talk.held = "where", text[:MOST]
            return "Thank you. Where is it? A street and a number will do."
        if intent == "alerts":
            talk.step = "confirm"
            return f"Alerts of {talk.city} by text? Reply YES to get them, STOP to end."
        found = self.search(text, talk.city)
        if not found:
            return "I do not know that. The city's clerks do: call the number on its page."
        table.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", (sender, text, found))
        return f"{found} Wrong? Reply BAD."

    def _where(self, table, sender, text, talk):
        if not words(text):
            return "Where is it? A street and a number will do."
        row = (sender, talk.held, text[:MOST], talk.city, self.clock())
        made = table.execute(
            "INSERT INTO tickets (sender, what, place, city, at) VALUES (?, ?, ?, ?, ?)", row
        )
        talk.step = talk.held = ""
        return f"Ticket {made.lastrowid} for {talk.city}: noted. We text you when it is done."

    def _confirm(self, table, sender, text, talk):
        talk.step = ""
        if "".join(words(text)) != "yes":
            return self._first(table, sender, text, talk)
        row = (sender, talk.city)
        table.execute("INSERT OR IGNORE INTO alerts VALUES (?, ?)", row)
        return f"You get alerts of {talk.city}. Reply STOP to end."


STEPS = {"": Desk._first, "where": Desk._where, "confirm": Desk._confirm}


@dataclass(frozen=True)
class Versions:
    """Two versions of a desk, or more, and a switch: `first` answers until another is switched
    to, in a row of the table, so every process switches with the next message. A talk with a
    step open stays with the version that began it: no step meets a version that knows it not.
    """

    desks: Mapping[str, Desk]
    first: str

    def use(self, table: sqlite3.Connection, version: str) -> None:
        """Switches to a version, for all who have no step open. ValueError for another
        name.
        """
        if version not in self.desks:
            raise ValueError(f"version={version!r}; one of {sorted(self.desks)} is wanted")
        ready(table)
        table.execute("INSERT OR REPLACE INTO switch VALUES (1, ?)", (version,))

    def used(self, table: sqlite3.Connection) -> str:
        """The version that answers who has no step open."""
        ready(table)
        row = table.execute("SELECT version FROM switch").fetchone()
        return row[0] if row and row[0] in self.desks else self.first

    def answer(self, table: sqlite3.Connection, sender: str, text: str) -> str:
        """The reply of the version that began the sender's talk, else of the one in use."""
        version = self.used(table)
        row = table.execute("SELECT version FROM begun WHERE sender = ?", (sender,)).fetchone()
        if row and row[0] in self.desks and self.desks[row[0]].open(table, sender):
            version = row[0]
        table.execute("INSERT OR REPLACE INTO begun VALUES (?, ?)", (sender, version))
        return self.desks[version].answer(table, sender, text)


def ready(table: sqlite3.Connection) -> None:
    """Makes the tables where there are none, inside whatever transaction is open."""
    for statement in filter(str.strip, TABLES.split(";")):
        table.execute(statement)


def stopped(table: sqlite3.Connection, sender: str) -> bool:
    """Whether nothing may be sent there."""
    row = table.execute("SELECT stopped FROM residents WHERE sender = ?", (sender,)).fetchone()
    return bool(row and row[0])


def alert(
    table: sqlite3.Connection, city: str, text: str, send: Callable[[str, str], None]
) -> int:
    """How many residents of the city were sent the alert: those who asked for it. The table is
    asked again before each, so who stops while others are being sent to gets none.
    """
    ready(table)
    asked = table.execute("SELECT sender FROM alerts WHERE city = ?", (city,)).fetchall()
    sent = 0
    for (sender,) in asked:
        still = "SELECT 1 FROM alerts WHERE sender = ? AND city = ?"  # a STOP takes them out
        if table.execute(still, (sender, city)).fetchone():
            send(sender, text)
            sent += 1
    return sent


def _stop(table, sender):
    """The one confirmation; the talk, its report and the alerts go."""
    before = stopped(table, sender)
    table.execute("DELETE FROM talks WHERE sender = ?", (sender,))
    table.execute("DELETE FROM alerts WHERE sender = ?", (sender,))
    table.execute("INSERT OR REPLACE INTO residents VALUES (?, 1)", (sender,))
    return "" if before else "You get no more texts. Reply START to begin again."


def _flag(table, sender):
    """One vote a resident and answer, for a person to look at; nothing else follows from it."""
    row = table.execute(
        "SELECT sender, question, answer FROM answers WHERE sender = ?", (sender,)
    ).fetchone()
    if not row:
        return "There is no answer of mine to review."
    table.execute("INSERT OR IGNORE INTO review VALUES (?, ?, ?)", row)
    return "Thank you. A person will look at that answer."
