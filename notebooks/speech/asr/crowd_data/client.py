"""A client of the speech-data API: it gets a deliverable whole and verified, or says why not.

    token         kept until shortly before its end; after a 401 one new token, and the request
                  again
    retries       for what may pass (no connection, time-outs, 408, 429, 5xx, short bodies):
                  waits drawn evenly from 0 to backoff 2^n ("full jitter", M. Brooker, AWS
                  Architecture Blog, 2015), or what Retry-After says
    resumption    a broken download goes on from the bytes that are there while the file has
                  its ETag (RFC 9110: Range with If-Range), in this run or a later one
    verification  length, and SHA-256 where the server states it (RFC 9530, Repr-Digest); only
                  then the file gets its name

Where we differ from the article: it makes each request once, and keeps the zip in memory.
"""

import contextlib
import hashlib
import json
import os
import random
import time
from pathlib import Path
from urllib.parse import quote

import requests
import urllib3

from .answers import (
    AccessError,
    CrowdError,
    DamagedError,
    PassingError,
    checked_address,
    parsed,
    retry_after_s,
    said,
    span,
    stated_sha256,
)

__all__ = ["SCOPE", "AccessError", "CrowdClient", "CrowdError", "DamagedError", "PassingError"]
SCOPE = "PublicAPIv2"
PASSING = {408, 429, 500, 502, 503, 504}
CHUNK_BYTES = 2**16
TOKEN_MARGIN_S = 30.0  # a token is renewed this long before its end, at most half its life
GRACE_S, SLOWEST = 60, 20_000  # an attempt may take a minute and its bytes at 20 kB/s


class CrowdClient:
    """A client for one account, with its token and connections.

    >>> with CrowdClient(auth_url, api_url, client_id, client_secret) as client:
    ...     found = client.deliverables(project_id)
    ...     path = client.download(project_id, found[0]["id"], "deliverable.zip")

    `tries`: how often in a row a request may fail without a new byte; `retries` counts those
    made again. The secret goes over https alone, except to this machine. Raises ValueError for
    an address that is not allowed; the methods raise AccessError (wrong secret, scope, token),
    DamagedError, PassingError (no luck in `tries` tries), or another CrowdError.
    """

    def __init__(
        self,
        auth_url,
        api_url,
        client_id,
        client_secret,
        *,
        scope=SCOPE,
        tries=5,
        backoff_s=0.5,
        longest_wait_s=60.0,
        timeout_s=20.0,
        max_bytes=10**10,
    ):
        (self.auth_url, here), (self.api_url, near) = map(checked_address, (auth_url, api_url))
        self.client_id, self._secret, self.scope = client_id, client_secret, scope
        self.tries, self.backoff_s, self.longest_wait_s = tries, backoff_s, longest_wait_s
        self.timeout_s, self.max_bytes, self.retries = timeout_s, max_bytes, 0
        self._token, self._token_end, self._session = None, 0.0, requests.Session()
        self._session.trust_env = not (
            here and near
        )  # no proxy between this machine and itself

    def __repr__(self):
        return f"CrowdClient({self.api_url!r}, client_id={self.client_id!r})"  # no secret

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._session.close()

    def deliverables(self, project_id):
        """The project's deliverables, dicts with the fields that the article shows."""
        route = f"/projects/{quote(project_id, '')}/deliverables"
        listed = self._retried(lambda: self._json(route))
        known = isinstance(listed, list) and all(isinstance(one, dict) for one in listed)
        if not known or not all(isinstance(one.get("id"), str) for one in listed):
            raise CrowdError(f"{self.api_url}{route}: a list of deliverables was expected")
        return listed

    def download(self, project_id, deliverable_id, path):
        """The `path` (a Path) of a deliverable's verified zip.

        What an interruption leaves is beside it, `.<name>.part`; the next call goes on from it.
        """
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        ids = quote(project_id, ""), quote(deliverable_id, "")
        route = "/projects/{}/deliverables/{}/download".format(*ids)
        part = path.with_name(f".{path.name}.part")
        self._retried(lambda: self._receive(route, part), lambda: _size(part))
        os.replace(part, path)
        _notes(part).unlink(missing_ok=True)
        return path

    def _retried(self, action, progress=lambda: 0):
        """What `action` gives; it is done again after failures that may pass."""
        failures, reached = 0, progress()
        while True:
            try:
                return action()
            except PassingError as failure:
                now = progress()
                failures, reached = (1 if now > reached else failures + 1), max(now, reached)
                wait_s = random.uniform(0, self.backoff_s * 2 ** (failures - 1))
                wait_s = wait_s if failure.wait_s is None else failure.wait_s
                if failures >= self.tries or wait_s > self.longest_wait_s:
                    why = f"{failures} tries failed" if failures >= self.tries else "given up"
                    why += (
                        f", the next in {wait_s:.0f} s" if wait_s > self.longest_wait_s else ""
                    )
                    raise PassingError(f"{why}, at last with: {failure}", wait_s) from failure
            self.retries += 1
            time.sleep(wait_s)

    def _json(self, route):
        with self._asked(route) as answer:
            return parsed(answer)

    @contextlib.contextmanager
    def _asked(self, route, headers=None):
        """The answer to a request with a token; with a new one when the first is refused."""
        for renewed in (False, True):
            bearer = _Bearer(self._access(renewed))
            url = self.api_url + route
            with self._sent("GET", url, auth=bearer, headers=headers) as answer:
                if answer.status_code == 401 and not renewed:
                    continue
                if answer.status_code in (401, 403):
                    raise AccessError(f"{said(answer)} (the token was new)")
                yield answer
                return

    def _access(self, renew):
        """A token: the one at hand while it is good for a while."""
        if renew or time.monotonic() > self._token_end:
            form = {"client_id": self.client_id, "client_secret": self._secret}
            form |= {"grant_type": "client_credentials", "scope": self.scope}
            url = f"{self.auth_url}/connect/token"
            with self._sent("POST", url, auth=_Bearer(None), data=form) as answer:
                if answer.status_code != 200:
                    raise AccessError(said(answer))
                told = parsed(answer)
            told = told if isinstance(told, dict) else {}
            token, life_s = told.get("access_token"), told.get("expires_in", 3600)
            if not isinstance(token, str) or not isinstance(life_s, int | float):
                raise CrowdError(f"{url}: access_token and expires_in were expected")
            self._token = token
            self._token_end = time.monotonic() + max(life_s - TOKEN_MARGIN_S, life_s / 2)
        return self._token

    @contextlib.contextmanager
    def _sent(self, method, url, **more):
        """The answer to one request, its body not yet read: 200, 206, 401, 403 or 416.

        Other answers raise, redirections too: the secret must not follow elsewhere.
        """
        more |= {"timeout": self.timeout_s, "stream": True, "allow_redirects": False}
        try:
            with self._session.request(method, url, **more) as answer:
                if answer.status_code in PASSING:
                    raise PassingError(said(answer), retry_after_s(answer))
                known = {200, 206, 416, 401, 403} | ({400} if method == "POST" else set())
                if answer.status_code not in known:
                    raise CrowdError(said(answer))
                yield answer
        except (
            requests.ConnectionError,
            requests.Timeout,
            urllib3.exceptions.HTTPError,
        ) as error:
            raise PassingError(f"{method} {url}: {error}") from error
        except requests.RequestException as error:
            raise CrowdError(f"{method} {url}: {error}") from error

    def _receive(self, route, part):
        """None, once `part` is whole and verified; it goes on from the bytes that are there."""
        if part.is_symlink():
            part.unlink()
        etag = _etag(part)
        asked = max(0, _size(part) - 1) if etag else 0  # one byte again: no range is empty
        headers = {"Accept-Encoding": "identity"}
        headers |= {"Range": f"bytes={asked}-", "If-Range": etag} if asked else {}
        with self._asked(route, headers) as answer:
            try:
                start, total = span(answer, asked)
            except PassingError:
                part.unlink(missing_ok=True)
                raise
            self._check(answer, total)
            with part.open("ab") as out:
                _locked(out)
                _notes(part).write_text(json.dumps({"etag": answer.headers.get("ETag", "")}))
                out.truncate(start)
                out.seek(start)
                self._copy(answer, out, total)
            if total is not None and _size(part) < total:
                raise PassingError(
                    f"{answer.url}: ended after {_size(part):,} of {total:,} bytes"
                )
            _verify(answer, part, start)

    def _check(self, answer, total):
        if total is not None and total > self.max_bytes:
            limit = f"allowed are {self.max_bytes:,} (max_bytes)"
            raise CrowdError(f"{answer.url}: {total:,} bytes; {limit}")
        coding = answer.headers.get("Content-Encoding", "identity")
        if coding != "identity":
            raise CrowdError(
                f"{answer.url}: Content-Encoding {coding}, which was not asked for"
            )

    def _copy(self, answer, out, total):
        """Write the body to `out`, as it comes, with an eye on its size and speed."""
        limit, began, first = (
            self.max_bytes if total is None else total,
            time.monotonic(),
            out.tell(),
        )
        while chunk := answer.raw.read1(CHUNK_BYTES):
            if out.tell() + len(chunk) > limit:
                raise CrowdError(f"{answer.url}: more than {limit:,} bytes")
            out.write(chunk)
            took_s, got = time.monotonic() - began, out.tell() - first
            if took_s > GRACE_S + got / SLOWEST:
                raise CrowdError(f"{answer.url}: {got:,} bytes in {took_s:.0f} s, given up")


class _Bearer(requests.auth.AuthBase):
    """Puts a token into a request; as `auth`, because ~/.netrc would replace a mere header."""

    def __init__(self, token):
        self.token = token

    def __call__(self, request):
        if self.token is not None:
            request.headers["Authorization"] = f"Bearer {self.token}"
        return request


def _verify(answer, part, start):
    """Hold `part` against the stated hash; a wrong file is removed."""
    stated = stated_sha256(answer)
    with part.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").digest()
    if stated not in (None, found):
        part.unlink()
        problem = f"{answer.url}: SHA-256 {found.hex()}, stated {stated.hex()}; nothing is kept"
        if start:  # the piece from before may be the wrong one
            raise PassingError(problem, 0.0)
        raise DamagedError(problem)


def _locked(out):
    """Keep other processes from the same download; without locks, the hash decides."""
    with contextlib.suppress(ImportError):
        import fcntl

        try:
            fcntl.flock(out, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CrowdError(f"{out.name}: another download writes to it") from None


def _etag(part):
    """The ETag of the file that `part` is a piece of; "" for none, and for weak ones."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
        etag = json.loads(_notes(part).read_text())["etag"]
        return etag if etag.startswith('"') and etag.isprintable() else ""
    return ""


def _notes(part):
    return part.with_name(part.name + ".json")


def _size(path):
    return path.stat().st_size if path.exists() else 0
