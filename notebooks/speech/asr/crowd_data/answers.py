"""What a client reads from HTTP answers: words of errors, JSON, ranges, hashes.

Pure functions, apart from reading an answer's body, and the errors that `client` raises.
An answer is a `requests.Response` whose body is not yet read. Sources: RFC 9110 for
Content-Range, RFC 9530 for Repr-Digest.
"""

import base64
import contextlib
import json
import re
from urllib.parse import urlsplit

MAX_JSON_BYTES = 10**7


class CrowdError(RuntimeError):
    """The API did not give what was asked for; the message has what it said."""


class AccessError(CrowdError):
    """Wrong client id or secret, wrong scope, or a token that is refused though it is new."""


class DamagedError(CrowdError):
    """A download without its stated hash; nothing of it is kept."""


class PassingError(CrowdError):
    """A failure that may pass: no connection, a time-out, a busy server, a short body."""


def checked_address(url):
    """`url` without a slash at its end, and whether it is this machine's own.

    Raises ValueError where a secret must not go: http to another machine, or no address.
    """
    try:
        parts = urlsplit(url)
        here = parts.hostname in ("127.0.0.1", "::1", "localhost")
        safe = parts.hostname and (parts.scheme == "https" or (parts.scheme == "http" and here))
    except ValueError:
        safe = False
    if not safe or parts.username or parts.query or parts.fragment:
        need = "https is needed, or http to this machine, without user, query or fragment"
        raise ValueError(f"address at {url.rpartition('@')[2]!r}: {need}: a secret goes there")
    return url.rstrip("/"), here


def said(answer):
    """The request, the status and the server's own words, in one line of bounded length."""
    line = f"{answer.request.method} {answer.url}: {answer.status_code} {answer.reason}"
    with contextlib.suppress(Exception):  # whatever the body is, the status is the news
        told = json.loads(answer.raw.read(1000, decode_content=True))
        keys = [key for key in ("error", "error_description", "message") if told.get(key)]
        line = ": ".join([line, *(" ".join(str(told[key]).split()) for key in keys)])
    return line


def parsed(answer):
    """The JSON of an answer; CrowdError for anything else, or more than `MAX_JSON_BYTES`."""
    body = answer.raw.read(MAX_JSON_BYTES + 1, decode_content=True)
    if len(body) > MAX_JSON_BYTES:
        raise CrowdError(f"{answer.url}: more than {MAX_JSON_BYTES:,} bytes of JSON")
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise CrowdError(f"{answer.url}: no JSON: {error}") from error


def span(answer, asked):
    """(first byte, bytes in all) of a download; `asked` is the first byte that was asked for.

    Bytes in all are None where the server does not say. PassingError, to begin anew, where the
    piece is another than what was asked for.
    """
    if answer.status_code == 200:  # the whole file, whatever was asked for
        length = answer.headers.get("Content-Length", "")
        return 0, int(length) if re.fullmatch(r"\d{1,18}", length) else None
    told = answer.headers.get("Content-Range", "")
    piece = re.fullmatch(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})", told)
    if answer.status_code != 206 or not piece or int(piece[1]) != asked:
        raise PassingError(f"{said(answer)}: Content-Range {told!r} for bytes={asked}-")
    return asked, int(piece[3])


def stated_sha256(answer):
    """The SHA-256 that the server states for the whole file, 32 bytes, or None."""
    told = answer.headers.get("Repr-Digest", "")
    match = re.search(r"(?:^|[,\s])sha-256=:([A-Za-z0-9+/]{43}=):", told)
    return base64.b64decode(match[1]) if match else None
