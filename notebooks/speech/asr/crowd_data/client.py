"""A client of the speech-data API: it gets a deliverable whole and verified, or says why not.

    token         kept until shortly before its end; after a 401 one new token, and the request
                  again
    retries       for what may pass (no connection, time-outs, 408, 429, 5xx): urllib3's
                  `Retry`, waits that double, with jitter, or what Retry-After says
    resumption    a broken download goes on from the bytes that are there while the file has
                  its ETag (RFC 9110: Range with If-Range), in this run or a later one
    verification  length, and SHA-256 where the server states it (RFC 9530, Repr-Digest); only
                  then the file gets its name

Where we differ from the article: it makes each request once, and keeps the zip in memory.
"""

import contextlib
import hashlib
import os
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
    said,
    span,
    stated_sha256,
)

__all__ = ["SCOPE", "AccessError", "CrowdClient", "CrowdError", "DamagedError", "PassingError"]
SCOPE = "PublicAPIv2"
PASSING = {408, 429, 500, 502, 503, 504}
LONGEST_WAIT_S = 60  # who is asked to wait longer gives up
CHUNK_BYTES = 2**16
TOKEN_MARGIN_S = 30.0  # a token is renewed this long before its end, at most half its life


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
        timeout_s=20.0,
        max_bytes=10**10,
    ):
        (self.auth_url, here), (self.api_url, near) = map(checked_address, (auth_url, api_url))
        self.client_id, self._secret, self.scope = client_id, client_secret, scope
        self.tries, self.backoff_s, self.timeout_s = tries, backoff_s, timeout_s
        self.max_bytes, self.retries = max_bytes, 0
        self._token, self._token_end, self._session = None, 0.0, requests.Session()
        self._session.trust_env = not (here and near)  # no proxy between a machine and itself
        patience = _Patience(
            tries - 1,
            status_forcelist=PASSING,
            allowed_methods=None,  # a token may be asked for again, too
            backoff_factor=backoff_s,
            backoff_jitter=backoff_s,
        )
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, requests.adapters.HTTPAdapter(max_retries=patience))

    def __repr__(self):
        return f"CrowdClient({self.api_url!r}, client_id={self.client_id!r})"  # no secret

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._session.close()

    def deliverables(self, project_id):
        """The project's deliverables, dicts with the fields that the article shows."""
        route = f"/projects/{quote(project_id, '')}/deliverables"
        with self._asked(route) as answer:
            listed = parsed(answer)
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
        part, failures = path.with_name(f".{path.name}.part"), 0
        while failures < self.tries:
            before = _size(part)
            try:
                self._receive(route, part)
                break
            except PassingError:
                failures = 1 if _size(part) > before else failures + 1
                if failures == self.tries:
                    raise
                self.retries += 1
                time.sleep(self.backoff_s * (failures - 1))
        os.replace(part, path)
        _etag_of(part).unlink(missing_ok=True)
        return path

    @contextlib.contextmanager
    def _asked(self, route, headers=None):
        """The answer to a request with a token; with a new one when the first is refused."""
        for renewed in (False, True):
            bearer = _bearer(self._access(renewed))
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
            with self._sent("POST", url, auth=_bearer(None), data=form) as answer:
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
                self.retries += len(answer.raw.retries.history)
                known = {200, 206, 416, 401, 403} | ({400} if method == "POST" else set())
                if answer.status_code not in known:
                    raise CrowdError(said(answer))
                yield answer
        except (requests.ConnectionError, requests.exceptions.RetryError) as error:
            raise PassingError(f"{self.tries} tries failed: {method} {url}: {error}") from error
        except urllib3.exceptions.HTTPError as error:  # while the body came
            raise PassingError(f"{method} {url}: {error}") from error
        except requests.RequestException as error:
            raise CrowdError(f"{method} {url}: {error}") from error

    def _receive(self, route, part):
        """None, once `part` is whole and verified; it goes on from the bytes that are there."""
        note = _etag_of(part)
        etag = note.read_text(errors="replace") if note.is_file() else ""
        usable = etag.startswith('"') and etag.isprintable()  # no weak one, no header in it
        asked = max(0, _size(part) - 1) if usable else 0  # one byte again: no range is empty
        headers = {"Accept-Encoding": "identity"}
        headers |= {"Range": f"bytes={asked}-", "If-Range": etag} if asked else {}
        with self._asked(route, headers) as answer:
            try:
                start, total = span(answer, asked)
            except PassingError:
                part.unlink(missing_ok=True)
                raise
            coding = answer.headers.get("Content-Encoding", "identity")
            if (total or 0) > self.max_bytes or coding != "identity":
                told = f"{total or 0:,} bytes, Content-Encoding {coding}"
                need = f"allowed are {self.max_bytes:,} (max_bytes), as they are"
                raise CrowdError(f"{answer.url}: {told}; {need}")
            note.write_text(answer.headers.get("ETag", ""))
            with part.open("ab") as out:
                out.truncate(start)
                out.seek(start)
                self._copy(answer, out, total)
            if total is not None and _size(part) < total:
                told = f"ended after {_size(part):,} of {total:,} bytes"
                raise PassingError(f"{answer.url}: {told}")
            _verify(answer, part, start)

    def _copy(self, answer, out, total):
        """Write the body to `out` as it comes, up to its stated or allowed size."""
        limit = self.max_bytes if total is None else total
        while chunk := answer.raw.read1(CHUNK_BYTES):
            if out.tell() + len(chunk) > limit:
                raise CrowdError(f"{answer.url}: more than {limit:,} bytes")
            out.write(chunk)


class _Patience(urllib3.Retry):
    """urllib3's rule of retries, except that a very long Retry-After ends them."""

    def get_retry_after(self, response):
        wait_s = super().get_retry_after(response)
        if (wait_s or 0) > LONGEST_WAIT_S:
            why = f"given up: come back in {wait_s:.0f} s, it says"
            raise urllib3.exceptions.HTTPError(why)
        return wait_s


def _bearer(token):
    """What puts a token into a request; as `auth`, since ~/.netrc would replace a header."""

    def signed(request):
        request.headers.update({"Authorization": f"Bearer {token}"} if token else {})
        return request

    return signed


def _verify(answer, part, start):
    """Hold `part` against the stated hash; a wrong file is removed."""
    stated = stated_sha256(answer)
    with part.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").digest()
    if stated not in (None, found):
        part.unlink()
        problem = f"{answer.url}: SHA-256 {found.hex()}, stated {stated.hex()}; nothing is kept"
        raise PassingError(problem) if start else DamagedError(problem)  # an old piece may err


def _etag_of(part):
    """Where the ETag of the file stands that `part` is a piece of."""
    return part.with_name(part.name + ".etag")


def _size(path):
    return path.stat().st_size if path.exists() else 0
