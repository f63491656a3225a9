"""A sandbox of a speech-data company's API: OAuth 2 tokens, deliverables, a zip of recordings.

The article gets its data from DefinedCrowd's API, version 2, which takes a customer's account.
This server answers the three requests that the article makes, over real HTTP on loopback:

    POST /connect/token                              client credentials -> a token that expires
    GET  /projects/{id}/deliverables                 the list, with the article's fields
    GET  /projects/{id}/deliverables/{id}/download   a zip: metadata.tsv and Audio/*.wav

What the article does not show follows the standards: RFC 6749 (tokens and their errors), RFC
6750 (bearer tokens), RFC 9110 (ranges, If-Range, ETag, Retry-After), RFC 9530 (Repr-Digest).
`Faults` makes it misbehave as servers and networks do. It keeps everything in memory, has no
time limit for slow senders, and is no server to put on a network.
"""

import base64
import hashlib
import hmac
import re
import secrets
import socket
import threading
import time
import urllib.parse
import uuid
from dataclasses import dataclass, field

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

SCOPE = "PublicAPIv2"
MAX_BODY, MAX_HEADERS = (
    4096,
    16_384,
)  # bytes of a token request; of a request's line and headers


@dataclass
class Faults:
    """What goes wrong from now on; the server counts each down as it happens.

    >>> server.faults.drop_after_bytes += [50_000, 90_000]  # two broken downloads, then none
    """

    unavailable: int = 0  # this many requests to the API are answered with 503
    retry_after_s: float | None = None  # and tell when to come back
    expired_tokens: int = 0  # this many requests find their token expired
    drop_after_bytes: list = field(default_factory=list)  # downloads break after so many bytes
    corrupt: int = 0  # this many downloads have a wrong byte in the middle


class CrowdServer:
    """The sandbox, running: `with CrowdServer(zip_bytes) as server: server.url`.

    Its account is `client_id`, `client_secret` and `project_id`, new in each. `replace` puts
    another deliverable in place of the first; `faults` is a Faults; `log` has (method, path,
    status) of each answer. It listens on 127.0.0.1 alone, on a free port, in a thread that ends
    with the block. Tokens live for `token_lifetime_s`.
    """

    def __init__(self, zip_bytes, token_lifetime_s=3600.0):
        self.client_id, self.client_secret = (
            f"sandbox-{secrets.token_hex(4)}",
            secrets.token_urlsafe(32),
        )
        self.project_id, self.faults, self.log = str(uuid.uuid4()), Faults(), []
        self.token_lifetime_s, self.tokens, self.lock = token_lifetime_s, {}, threading.Lock()
        self.replace(zip_bytes)

    def replace(self, zip_bytes):
        """Make `zip_bytes` the project's one deliverable, under another ETag."""
        self.content, self.sha256 = zip_bytes, hashlib.sha256(zip_bytes)
        if not hasattr(self, "deliverable"):
            self.deliverable = {
                "projectId": self.project_id,
                "id": str(uuid.uuid4()),
                "type": "Flat",
            }
            self.deliverable |= {
                "fileName": "deliverable.zip",
                "createdTimestamp": "",
                "isPartial": False,
            }
            self.deliverable |= {"downloadCount": 0, "status": "Ready"}
        self.deliverable["createdTimestamp"] = time.strftime(
            "%Y-%m-%dT%H:%M:%S.0000000", time.gmtime()
        )

    def __enter__(self):
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        config = uvicorn.Config(
            make_app(self),
            loop="asyncio",
            http="h11",
            ws="none",
            lifespan="off",
            log_level="critical",
            h11_max_incomplete_event_size=MAX_HEADERS,
            limit_concurrency=64,
            timeout_keep_alive=5,
            timeout_graceful_shutdown=2,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), daemon=True
        )
        self._thread.start()
        deadline = time.monotonic() + 10
        while not self._server.started:
            if time.monotonic() > deadline or not self._thread.is_alive():
                self.__exit__()
                raise RuntimeError("the sandbox did not start within 10 s")
            time.sleep(0.01)
        return self

    def __exit__(self, *_):
        self._server.should_exit = True
        self._thread.join(10)
        self._socket.close()


def make_app(server):
    """The FastAPI application of a CrowdServer."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)

    def logged(request, answer):
        server.log.append((request.method, request.url.path, answer.status_code))
        return answer

    @app.post("/connect/token")
    async def token(request: Request):
        return logged(request, _token(server, request.headers, await _body(request)))

    @app.get("/projects/{project_id}/deliverables")
    async def deliverables(request: Request, project_id: str):
        refused = _refused(server, request.headers, project_id)
        return logged(request, refused or JSONResponse([server.deliverable]))

    @app.get("/projects/{project_id}/deliverables/{deliverable_id}/download")
    async def download(request: Request, project_id: str, deliverable_id: str):
        refused = _refused(server, request.headers, project_id, deliverable_id)
        return logged(request, refused or _download(server, request.headers))

    return app


async def _body(request):
    """The request's body, or None when it is longer than a token request can be."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY:
            return None
    return body


def _token(server, headers, body):
    """The answer to a token request, RFC 6749 sections 4.4 and 5."""

    def error(status, code, text):
        return JSONResponse(
            {"error": code, "error_description": text}, status, {"Cache-Control": "no-store"}
        )

    if body is None:
        return error(413, "invalid_request", f"more than {MAX_BODY} bytes")
    if not headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        return error(415, "invalid_request", "application/x-www-form-urlencoded is needed")
    try:
        form = urllib.parse.parse_qs(
            body.decode("ascii"), strict_parsing=True, max_num_fields=10
        )
    except ValueError:
        return error(400, "invalid_request", "the form cannot be read")
    if any(len(values) > 1 for values in form.values()):
        return error(400, "invalid_request", "a field stands there twice")
    name, secret, grant, scope = (
        form.get(key, [""])[0] for key in ("client_id", "client_secret", "grant_type", "scope")
    )
    # both comparisons, always, and each in the same time for any answer
    known = hmac.compare_digest(name.encode(), server.client_id.encode())
    if not known & hmac.compare_digest(secret.encode(), server.client_secret.encode()):
        return error(401, "invalid_client", "client_id or client_secret is wrong")
    if grant != "client_credentials":
        return error(400, "unsupported_grant_type", "grant_type must be client_credentials")
    if scope != SCOPE:
        return error(400, "invalid_scope", f"the scope of this API is {SCOPE}")
    token, now = secrets.token_urlsafe(32), time.monotonic()
    with server.lock:
        live = {digest: end for digest, end in server.tokens.items() if end > now}
        server.tokens = {**live, _hash(token): now + server.token_lifetime_s}
    answer = {
        "access_token": token,
        "expires_in": int(server.token_lifetime_s),
        "token_type": "Bearer",
    }
    return JSONResponse({**answer, "scope": SCOPE}, headers={"Cache-Control": "no-store"})


def _refused(server, headers, project_id, deliverable_id=None):
    """The answer to a request that may not pass, or None."""
    faults = server.faults
    with server.lock:
        if faults.unavailable > 0:
            faults.unavailable -= 1
            wait = (
                {}
                if faults.retry_after_s is None
                else {"Retry-After": str(faults.retry_after_s)}
            )
            return JSONResponse({"message": "try again later"}, 503, wait)
        scheme, _, token = headers.get("authorization", "").partition(" ")
        # looked up by its hash, so the time tells nothing about tokens that exist
        good = (
            scheme.lower() == "bearer" and server.tokens.get(_hash(token), 0) > time.monotonic()
        )
        if faults.expired_tokens > 0:
            faults.expired_tokens -= 1
            good, server.tokens = False, {}
    if not good:
        told = 'Bearer error="invalid_token", error_description="missing, unknown or expired"'
        return JSONResponse({"message": "no valid token"}, 401, {"WWW-Authenticate": told})
    if project_id != server.project_id or deliverable_id not in (
        None,
        server.deliverable["id"],
    ):
        return JSONResponse({"message": "no such project or deliverable"}, 404)
    return None


def _hash(token):
    return hashlib.sha256(token.encode()).digest()


def _download(server, headers):
    """The zip, or the piece that Range asks for while If-Range still holds."""
    with server.lock:
        content, digest, faults = server.content, server.sha256, server.faults
        drop = faults.drop_after_bytes.pop(0) if faults.drop_after_bytes else None
        if faults.corrupt > 0:
            faults.corrupt -= 1
            middle = len(content) // 2
            content = content[:middle] + bytes([content[middle] ^ 0xFF]) + content[middle + 1 :]
        server.deliverable |= {
            "downloadCount": server.deliverable["downloadCount"] + 1,
            "status": "Downloaded",
        }
    etag = f'"{digest.hexdigest()[:32]}"'
    told = {"ETag": etag, "Accept-Ranges": "bytes", "Content-Type": "application/zip"}
    told["Repr-Digest"] = f"sha-256=:{base64.b64encode(digest.digest()).decode()}:"
    asked, start, status = re.fullmatch(r"bytes=(\d{1,15})-", headers.get("range", "")), 0, 200
    if asked and headers.get("if-range", etag) == etag:
        start, status = int(asked[1]), 206
        if start >= len(content):
            return Response(
                status_code=416, headers={"Content-Range": f"bytes */{len(content)}"}
            )
        told["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
    told["Content-Length"] = str(len(content) - start)
    return StreamingResponse(_pieces(content[start:], drop), status, told)


async def _pieces(content, drop):
    for at in range(0, len(content), 2**16):
        piece = content[at : at + 2**16]
        if drop is not None and at + len(piece) > drop:
            yield piece[: max(0, drop - at)]
            raise ConnectionResetError("dropped on purpose")
        yield piece
