"""What a gateway of text messages sends: a form that is signed, sometimes twice, sometimes by
somebody else.

The signature is Twilio's published one for forms. It names no time, so a copied request stays
valid for ever: only the message's own identifier tells a copy, which `Answered` never forgets.
"""

import base64
import hashlib
import hmac
import sqlite3
import time
from collections.abc import Callable, Mapping
from pathlib import Path


def signed_text(url: str, parameters: Mapping[str, str | list[str]]) -> str:
    """What is signed: the whole address, then each parameter, sorted by name, as name and value
    with nothing between. Of a name that comes more than once its different values follow each
    other, sorted.
    """
    text = [url]
    for name in sorted(parameters):
        given = parameters[name]
        text += [
            name + value
            for value in ([given] if isinstance(given, str) else sorted(set(given)))
        ]
    return "".join(text)


def sign(token: str, url: str, parameters: Mapping[str, str | list[str]]) -> str:
    """The signature, base64 of 20 bytes: HMAC-SHA1 of `signed_text` under the token.

    https://www.twilio.com/docs/usage/security
    """
    mac = hmac.new(token.encode(), signed_text(url, parameters).encode(), hashlib.sha1)
    return base64.b64encode(mac.digest()).decode()


def genuine(
    token: str, url: str, parameters: Mapping[str, str | list[str]], signature: str
) -> bool:
    """Whether the signature is right; how long that takes does not tell how much of it is."""
    return hmac.compare_digest(sign(token, url, parameters).encode(), signature.encode())


class Answered:
    """The replies by the message that they answer, in SQLite: a webhook that comes again, from
    the gateway or from somebody who copied it, gets the first reply and does nothing. After
    `keep_s` seconds the reply's text is dropped, the identifier never: a copy gets "" then.
    """

    def __init__(self, path: str | Path = ":memory:", keep_s: float = 7 * 86_400):
        self.keep_s = keep_s
        self.table = sqlite3.connect(path, isolation_level=None, timeout=10)
        self.table.execute(
            "CREATE TABLE IF NOT EXISTS answered"
            " (message TEXT PRIMARY KEY, reply TEXT, at REAL)"
        )
        self.table.execute(
            "CREATE INDEX IF NOT EXISTS aging ON answered (at) WHERE reply <> ''"
        )

    def once(self, message: str, answer: Callable[[], str], now: float | None = None) -> str:
        """The reply to a message: of `answer()` the first time, else the one that was kept. Two
        processes that hold the same message wait for each other. An answer that fails keeps
        nothing.
        """
        if not message:
            raise ValueError(
                "message is empty; its identifier is wanted, which tells copies apart"
            )
        now = time.time() if now is None else now
        self.table.execute("BEGIN IMMEDIATE")
        try:
            self.table.execute(
                "UPDATE answered SET reply = '' WHERE at < ? AND reply <> ''",
                (now - self.keep_s,),
            )
            kept = self.table.execute(
                "SELECT reply FROM answered WHERE message = ?", (message,)
            ).fetchone()
            reply = kept[0] if kept else answer()
            if not kept:
                self.table.execute(
                    "INSERT INTO answered VALUES (?, ?, ?)", (message, reply, now)
                )
        except BaseException:
            self.table.execute("ROLLBACK")
            raise
        self.table.execute("COMMIT")
        return reply

    def close(self) -> None:
        """Closes the table; what is kept stays in its file."""
        self.table.close()
