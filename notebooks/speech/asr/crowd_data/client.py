"""A client of the speech-data API: it gets a deliverable whole and verified, or says why not.

    token         kept until shortly before its end; after a 401 one new token, and once again
    retries       for what may pass (no connection, time-outs, 408, 429, 5xx): urllib3's
                  `Retry`, waits that double, with jitter, or what Retry-After says
    resumption    a broken download goes on from the bytes that are there while the file has
                  its ETag (RFC 9110: Range with If-Range)
    verification  length, and SHA-256 where the server states it (RFC 9530, Repr-Digest)

The article makes each request once, and keeps the zip in memory."""

import base64
import contextlib
import hashlib
import json
import os
import re
import time
from pathlib import Path
from urllib.parse import quote, urlsplit

import requests
import urllib3

SCOPE, PASSING = "PublicAPIv2", {408, 429, 500, 502, 503, 504}
LONGEST_WAIT_S = 60  # between two tries, whatever Retry-After says
CHUNK_BYTES, MAX_JSON_BYTES = 2**16, 10**7
USUAL = {"tries": 5, "backoff_s": 0.5, "timeout_s": 20.0, "max_bytes": 10**10}
TOKEN_MARGIN_S = 30.0  # a token is renewed this long before its end, at most half its life


class CrowdError(RuntimeError):
    """The API did not give what was asked for; the message has what it said."""


class AccessError(CrowdError):
    """Wrong client id or secret, wrong scope, or a token that is refused though it is new."""


class DamagedError(CrowdError):
    """A download without its stated hash; nothing of it is kept."""


class PassingError(CrowdError):
    """A failure that may pass: no connection, a time-out, a busy server, a short body."""


class CrowdClient:
    """A client for one account, with its token and connections.

    >>> with CrowdClient(auth_url, api_url, client_id, client_secret) as client:
    ...     found = client.deliverables(project_id)
    ...     path = client.download(project_id, found[0]["id"], "deliverable.zip")

    `tries`: how often in a row a request may fail without a new byte; `retries` counts those
    made again; `USUAL` has all options. The secret goes over https alone, except to this
    machine: ValueError for other addresses. The methods raise a CrowdError of some kind."""

    def __init__(self, auth_url, api_url, client_id, client_secret, *, scope=SCOPE, **how):
        (self.auth_url, here), (self.api_url, near) = map(_checked, (auth_url, api_url))
        self.client_id, self._secret, self.scope = client_id, client_secret, scope
        if unknown := sorted(how.keys() - USUAL):
            raise TypeError(f"options {unknown}: allowed are {sorted(USUAL)}")
        self.tries, self.backoff_s, self.timeout_s, self.max_bytes = (USUAL | how).values()
        self.retries, self._etag = 0, ""  # of the download under way
        self._token, self._token_end, self._session = None, 0.0, requests.Session()
        self._session.trust_env = not (here and near)  # no proxy between a machine and itself
        how = {"backoff_factor": self.backoff_s, "backoff_jitter": self.backoff_s}
        how |= {"allowed_methods": None}  # a token may be asked for again, too
        patience = _Patience(self.tries - 1, status_forcelist=PASSING, **how)
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
            listed = _parsed(answer)
        known = isinstance(listed, list) and all(isinstance(one, dict) for one in listed)
        if not known or not all(isinstance(one.get("id"), str) for one in listed):
            raise CrowdError(f"{self.api_url}{route}: a list of deliverables was expected")
        return listed

    def download(self, project_id, deliverable_id, path):
        """The `path` (a Path) of a deliverable's verified zip; nothing else gets that name."""
        path, failures, self._etag = Path(path), 0, ""
        path.parent.mkdir(parents=True, exist_ok=True)
        ids = quote(project_id, ""), quote(deliverable_id, "")
        route = "/projects/{}/deliverables/{}/download".format(*ids)
        part = path.with_name(f".{path.name}.part")
        try:
            with part.open("w+b") as out:
                while failures < self.tries:
                    before = out.tell()
                    try:
                        self._receive(route, out)
                        break
                    except PassingError:
                        failures = 1 if out.tell() > before else failures + 1
                        if failures == self.tries:
                            raise
                    self.retries += 1
                    time.sleep(self.backoff_s * (failures - 1))
            os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)
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
                    raise AccessError(f"{_said(answer)} (the token was new)")
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
                    raise AccessError(_said(answer))
                told = _parsed(answer)
            told = told if isinstance(told, dict) else {}
            token, life_s = told.get("access_token"), told.get("expires_in", 3600)
            if not isinstance(token, str) or not isinstance(life_s, int | float):
                raise CrowdError(f"{url}: access_token and expires_in were expected")
            self._token = token
            self._token_end = time.monotonic() + max(life_s - TOKEN_MARGIN_S, life_s / 2)
        return self._token

    @contextlib.contextmanager
    def _sent(self, method, url, **more):
        """The answer to one request, its body not yet read: 200, 206, 401, 403 or 416. Others
        raise, redirections too: the secret must not follow elsewhere."""
        more |= {"timeout": self.timeout_s, "stream": True, "allow_redirects": False}
        try:
            with self._session.request(method, url, **more) as answer:
                self.retries += len(answer.raw.retries.history)
                known = {200, 206, 416, 401, 403} | ({400} if method == "POST" else set())
                if answer.status_code not in known:
                    raise CrowdError(_said(answer))
                yield answer
        except (requests.ConnectionError, requests.exceptions.RetryError) as error:
            raise PassingError(f"{self.tries} tries failed: {method} {url}: {error}") from error
        except urllib3.exceptions.HTTPError as error:  # while the body came
            raise PassingError(f"{method} {url}: {error}") from error
        except requests.RequestException as error:
            raise CrowdError(f"{method} {url}: {error}") from error

    def _receive(self, route, out):
        """None, once `out` is whole and verified; it goes on from the bytes that are there."""
        asked = max(0, out.tell() - 1) if self._etag else 0  # a byte again: no range is empty
        headers = {"Accept-Encoding": "identity"}
        headers |= {"Range": f"bytes={asked}-", "If-Range": self._etag} if asked else {}
        with self._asked(route, headers) as answer:
            self._etag = ""  # whatever goes wrong from here to the span begins anew
            start, total = _span(answer, asked)
            etag = answer.headers.get("ETag", "")
            self._etag = etag if etag.startswith('"') else ""  # a weak one vouches for no byte
            limit = self.max_bytes if total is None else total
            if limit > self.max_bytes:
                raise CrowdError(f"{answer.url}: {total:,} bytes, max_bytes={self.max_bytes:,}")
            out.seek(start)
            out.truncate()
            while chunk := answer.raw.read1(CHUNK_BYTES):
                if out.tell() + len(chunk) > limit:
                    raise CrowdError(f"{answer.url}: more than {limit:,} bytes")
                out.write(chunk)
            if total is not None and out.tell() < total:
                told = f"ended after {out.tell():,} of {total:,} bytes"
                raise PassingError(f"{answer.url}: {told}")
            _verify(answer, out)


class _Patience(urllib3.Retry):
    """urllib3's rule of retries, which waits no longer than `LONGEST_WAIT_S`."""

    def get_retry_after(self, response):
        return min(super().get_retry_after(response) or 0, LONGEST_WAIT_S)


def _bearer(token):
    """What puts a token into a request; as `auth`, since ~/.netrc would replace a header."""

    def signed(request):
        request.headers.update({"Authorization": f"Bearer {token}"} if token else {})
        return request

    return signed


def _checked(url):
    """`url` without a slash at its end, and whether it is this machine's own; ValueError where
    a secret must not go: http to another machine, or no address."""
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


def _said(answer):
    """The request, the status and the server's own words, in one line of bounded length."""
    line = f"{answer.request.method} {answer.url}: {answer.status_code} {answer.reason}"
    with contextlib.suppress(Exception):  # whatever the body is, the status is the news
        told = json.loads(answer.raw.read(1000, decode_content=True))
        keys = [key for key in ("error", "error_description", "message") if told.get(key)]
        line = ": ".join([line, *(" ".join(str(told[key]).split()) for key in keys)])
    return line


def _parsed(answer):
    """The JSON of an answer; CrowdError for anything else, or more than `MAX_JSON_BYTES`."""
    body = answer.raw.read(MAX_JSON_BYTES + 1, decode_content=True)
    try:
        if len(body) > MAX_JSON_BYTES:
            raise ValueError(f"more than {MAX_JSON_BYTES:,} bytes")
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise CrowdError(f"{answer.url}: no JSON: {error}") from error


def _span(answer, asked):
    """(first byte, bytes in all or None) of a download; `asked` is the first byte asked for.
    PassingError, to begin anew, where the piece is another."""
    if answer.status_code == 200:  # the whole file, whatever was asked for
        length = answer.headers.get("Content-Length", "")
        return 0, int(length) if re.fullmatch(r"\d{1,18}", length) else None
    told = answer.headers.get("Content-Range", "")
    piece = re.fullmatch(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})", told)
    if answer.status_code != 206 or not piece or int(piece[1]) != asked:
        raise PassingError(f"{_said(answer)}: Content-Range {told!r} for bytes={asked}-")
    return asked, int(piece[3])


def _verify(answer, out):
    """None; DamagedError where the server states another SHA-256 than the file has."""
    told = re.search(r"\bsha-256=:([A-Za-z0-9+/]{43}=):", answer.headers.get("Repr-Digest", ""))
    out.seek(0)
    found = hashlib.file_digest(out, "sha256").digest()
    if told and base64.b64decode(told[1]) != found:
        raise DamagedError(f"{answer.url}: SHA-256 {found.hex()}, stated was {told[1]}")
