"""What client and server say to each other, who may, how much, and what is refused.

One WebSocket carries a stream; text is JSON, binary messages 16-bit little-endian PCM at 16
kHz:

    client  {"type": "start"}, with "key", "phrases": {"nine": 1.0}; or to go on with a stream,
             "resume": "<stream>", "ack": n
    server  {"type": "ready", "stream", "samples", "chunk_ms", "right_ms", "port"}
    client  binary sound, in pieces of any size up to a second ...
    server  {"n", "type": "partial" | "final", "text", "start_ms", "to_ms", "heard_ms",
             "response_ms", "queue_ms", "compute_ms", "batch"}      for every chunk
    client  {"type": "ack", "n": n} at least for each final, and {"type": "end"}
    server  {"n", "type": "done", "samples", "reason"}, and closes once that is acknowledged
    server  {"n", "type": "throttled" | "late", "code", "message"}  where need be
    server  {"type": "error", "code", "message"}, and closes

What has a number `n` is kept until it is acknowledged, and sent again to a client that resumes;
"samples", heard so far, tells it where to go on, "port" where this very process listens. A file
of JSON names accounts by the SHA-256 of their keys, so that who reads it can use none:

    {"<sha256 of the key, hex>": {"name": "bank", "streams": 8, "audio_s": 36000}}

`streams` may be open at once, `audio_s` seconds of sound may come in a day (UTC); what is left
out has no limit. Each front counts by itself."""

import hashlib
import time
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import torch
from pydantic import BaseModel, Field, RootModel, StringConstraints, ValidationError

RATE_HZ, LONGEST_MESSAGE_BYTES = 16_000, 32_000
Phrase = Annotated[str, StringConstraints(strip_whitespace=True, pattern=r"^[a-z' ]{1,64}$")]
Weight = Annotated[float, Field(ge=-10, le=10)]  # a natural logarithm for each letter


class Start(BaseModel, extra="forbid"):
    """A client's first message."""

    type: Literal["start"]
    rate_hz: Literal[16_000] = RATE_HZ
    key: str = Field("", max_length=256)
    phrases: dict[Phrase, Weight] = Field({}, max_length=64)
    resume: str | None = Field(None, max_length=64)
    ack: int = Field(0, ge=0)


class Later(BaseModel, extra="forbid"):
    """What a client may say in text once its sound flows."""

    type: Literal["end", "ack"]
    n: int = Field(0, ge=0)


class Refused(Exception):
    """A message the server will not take: `code` for programs, words for people."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def parsed(kind, text, code):
    """The message as a `kind`, Start or Later; Refused for whatever else came."""
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))[:80] or "the message"
        words = f"no {kind.__name__} message: {where}: {first['msg'][:160]}"
        raise Refused(code, words) from None


def pcm16(message):
    """The samples of one binary message, float32 (N,) in [-1, 1); Refused for half a sample."""
    if not message or len(message) % 2 or len(message) > LONGEST_MESSAGE_BYTES:
        words = f"{len(message)} bytes: 16-bit samples are wanted, so an even number of bytes"
        raise Refused("bad_audio", f"{words} from 2 to {LONGEST_MESSAGE_BYTES} (one second)")
    return torch.from_numpy(np.frombuffer(message, "<i2").astype(np.float32) / 32768)


class Account(BaseModel, extra="forbid"):
    """One customer: what is allowed, and what was used today."""

    name: str
    streams: int | None = Field(None, ge=0)
    audio_s: float | None = Field(None, ge=0)
    _open: int = 0
    _day: int = -1
    _used_s: float = 0.0

    def enter(self):
        """None; counts a stream, until `leave`. Refused where none, or no sound, is left."""
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
        """The Accounts of a file; ValidationError says what is wrong with it."""
        return cls.model_validate_json(Path(path).read_text())

    def who(self, key):
        """The Account of a key; Refused without one. Comparing hashes, time tells nothing."""
        found = self.root.get(hashlib.sha256(key.encode()).hexdigest())
        if found is None:
            raise Refused("no_account", "this key opens no account here")
        return found
