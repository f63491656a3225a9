"""Who may stream, and how much: keys, quotas, and the browsers' pages that may call.

The article: "Quota limits can also be set to minimize the infrastructure cost". A file of JSON
names the accounts, by the SHA-256 of their keys, so that who reads it can use nobody's account:

    {"<sha256 of the key, hex>": {"name": "bank", "streams": 8, "audio_s": 36000}}

`streams` may be open at once, `audio_s` seconds of sound may come in a day (UTC); what is left
out has no limit. Each front counts by itself: several that count together need a common store.
"""

import hashlib
import time
from pathlib import Path

from pydantic import BaseModel, Field, RootModel

from .protocol import Refused

__all__ = ["Account", "Accounts"]


class Account(BaseModel, extra="forbid"):
    """One customer: what is allowed, and what was used today."""

    name: str
    streams: int | None = Field(None, ge=0)
    audio_s: float | None = Field(None, ge=0)
    _open: int = 0
    _day: int = -1
    _used_s: float = 0.0

    def enter(self):
        """None; counts a stream, until `leave`. Refused where no stream or sound is left."""
        if self.streams is not None and self._open >= self.streams:
            raise Refused("quota", f"{self.streams} streams of this account are open already")
        self.spend(0)
        self._open += 1

    def leave(self):
        """None; one stream less."""
        self._open -= 1

    def spend(self, seconds):
        """None; counts sound. Refused once the day's share is used up."""
        if self._day != (today := int(time.time() // 86_400)):
            self._day, self._used_s = today, 0.0
        if self.audio_s is not None and self._used_s >= self.audio_s:
            raise Refused("quota", f"this account's {self.audio_s:g} s for today are used up")
        self._used_s += seconds


class Accounts(RootModel[dict[str, Account]]):
    """The accounts of a file: `Accounts.of("accounts.json").who(key)`."""

    @classmethod
    def of(cls, path):
        """The Accounts of a file; pydantic's ValidationError says what is wrong with it."""
        return cls.model_validate_json(Path(path).read_text())

    def who(self, key):
        """The Account of a key; Refused without one. Comparing hashes, time tells nothing."""
        found = self.root.get(hashlib.sha256(key.encode()).hexdigest())
        if found is None:
            raise Refused("no_account", "this key opens no account here")
        return found
