"""What client and server say to each other, and what is refused.

One WebSocket carries a stream; text messages are JSON, binary ones 16-bit little-endian PCM at
16 kHz:

    client  {"type": "start"}, with "key", "phrases": {"nine": 1.0}; or to go on with a stream,
             "resume": "<stream>", "ack": n
    server  {"type": "ready", "stream", "samples", "chunk_ms", "right_ms", "port"}
    client  binary sound, in pieces of any size up to a second ...
    server  {"n", "type": "partial" | "final", "text", "start_ms", "to_ms", "heard_ms",
             "response_ms", "queue_ms", "compute_ms", "batch"}      for every chunk
    client  {"type": "ack", "n": n}                                 at least for each final
    client  {"type": "end"}
    server  {"n", "type": "done", "samples", "reason"}, and closes once that is acknowledged
    server  {"n", "type": "throttled" | "late", "code", "message"}  where need be
    server  {"type": "error", "code", "message"}, and closes

What has a number `n` is kept until a client acknowledges it, and sent again to one that
resumes, so that no text is lost in a connection that was already dead. "samples", the number
heard so far, tells such a client where to go on; "port" is where this very process listens.
"""

from typing import Annotated, Literal

import numpy as np
import torch
from pydantic import BaseModel, Field, StringConstraints, ValidationError

__all__ = ["LONGEST_MESSAGE_BYTES", "RATE_HZ", "Later", "Refused", "Start", "parsed", "pcm16"]

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
