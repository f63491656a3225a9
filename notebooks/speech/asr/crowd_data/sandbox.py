"""A sandbox of a speech-data company's API, over real HTTP on loopback: what the article asks.

    POST /connect/token                              client credentials -> a token that expires
    GET  /projects/{id}/deliverables                 the list, with the article's fields
    GET  /projects/{id}/deliverables/{id}/download   a zip: metadata.tsv and Audio/*.wav

What the article does not show follows RFC 6749 (tokens and their errors), 6750 (bearer tokens),
9110 (ranges, If-Range, ETag, Retry-After) and 9530 (Repr-Digest). `Faults` makes it misbehave
as servers and networks do. It keeps all in memory and is no server to put on a network."""

import base64
import hashlib
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


@dataclass
class Faults:
    """What goes wrong, counted down as it happens: `server.faults.unavailable = 2`."""

    unavailable: int = 0  # this many requests to the API are answered with 503
    retry_after_s: float | None = None  # and tell when to come back
    expired_tokens: int = 0  # this many requests find their token expired
    drop_after_bytes: list = field(default_factory=list)  # downloads break after so many bytes
    corrupt: int = 0  # this many downloads have a wrong byte in the middle


class CrowdServer:
    """The sandbox, running: `with CrowdServer(zip_bytes) as server: server.url`. Its account is
    `client_id`, `client_secret` and `project_id`, new in each; `content` is the project's one
    deliverable, `faults` a Faults, and `log` has (method, path, status) of each answer. It
    listens on a free port of 127.0.0.1, in a thread that ends with the block."""

    def __init__(self, zip_bytes, token_lifetime_s=3600.0):
        self.client_id = f"sandbox-{secrets.token_hex(4)}"
        self.client_secret, self.project_id = secrets.token_urlsafe(32), str(uuid.uuid4())
        self.content, self.faults, self.log = zip_bytes, Faults(), []
        self.token_lifetime_s, self.tokens, self.lock = token_lifetime_s, {}, threading.Lock()
        made = time.strftime("%Y-%m-%dT%H:%M:%S.0000000", time.gmtime())
        self.deliverable = {
            "projectId": self.project_id,
            "id": str(uuid.uuid4()),
            "type": "Flat",
        }
        self.deliverable |= {"fileName": "deliverable.zip", "createdTimestamp": made}
        self.deliverable |= {"isPartial": False, "downloadCount": 0, "status": "Ready"}

    def __enter__(self):
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        options = {"loop": "asyncio", "http": "h11", "ws": "none", "lifespan": "off"}
        options |= {"log_level": "critical", "timeout_graceful_shutdown": 1}
        self._server = uvicorn.Server(uvicorn.Config(make_app(self), **options))
        self._thread = threading.Thread(
            None, self._server.run, args=([self._socket],), daemon=True
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

    @app.middleware("http")
    async def logged(request, answer):
        given = await answer(request)
        server.log.append((request.method, request.url.path, given.status_code))
        return given

    @app.post("/connect/token")
    async def token(request: Request):
        return _token(server, urllib.parse.parse_qs((await request.body()).decode()))

    @app.get("/projects/{project_id}/deliverables")
    async def deliverables(request: Request, project_id: str):
        refused = _refused(server, request.headers, project_id)
        return refused or JSONResponse([server.deliverable])

    @app.get("/projects/{project_id}/deliverables/{deliverable_id}/download")
    async def download(request: Request, project_id: str, deliverable_id: str):
        refused = _refused(server, request.headers, project_id, deliverable_id)
        return refused or _download(server, request.headers)

    return app


def _token(server, form):
    """The answer to a token request, RFC 6749 sections 4.4 and 5."""
    told = {key: values[0] for key, values in form.items()}
    account, error = (told.get("client_id"), told.get("client_secret")), None
    unkept = {"Cache-Control": "no-store"}
    if account != (server.client_id, server.client_secret):
        error = "invalid_client", "client_id or client_secret is wrong"
    elif told.get("grant_type") != "client_credentials":
        error = "unsupported_grant_type", "grant_type must be client_credentials"
    elif told.get("scope") != SCOPE:
        error = "invalid_scope", f"the scope of this API is {SCOPE}"
    if error:
        answer = dict(zip(("error", "error_description"), error, strict=True))
        return JSONResponse(answer, 401 if error[0] == "invalid_client" else 400, unkept)
    token = secrets.token_urlsafe(32)
    with server.lock:
        server.tokens[token] = time.monotonic() + server.token_lifetime_s
    answer = {"access_token": token, "expires_in": int(server.token_lifetime_s)}
    return JSONResponse(answer | {"token_type": "Bearer", "scope": SCOPE}, headers=unkept)


def _refused(server, headers, project_id, deliverable_id=None):
    """The answer to a request that may not pass, or None."""
    faults = server.faults
    with server.lock:
        if faults.unavailable > 0:
            faults.unavailable -= 1
            wait_s = faults.retry_after_s
            wait = {} if wait_s is None else {"Retry-After": str(wait_s)}
            return JSONResponse({"message": "try again later"}, 503, wait)
        scheme, _, token = headers.get("authorization", "").partition(" ")
        good = scheme.lower() == "bearer" and server.tokens.get(token, 0) > time.monotonic()
        if faults.expired_tokens > 0:
            faults.expired_tokens -= 1
            good, server.tokens = False, {}
    if not good:
        told = 'Bearer error="invalid_token", error_description="missing, unknown or expired"'
        return JSONResponse({"message": "no valid token"}, 401, {"WWW-Authenticate": told})
    there = project_id == server.project_id
    if not there or deliverable_id not in (None, server.deliverable["id"]):
        return JSONResponse({"message": "no such project or deliverable"}, 404)
    return None


def _download(server, headers):
    """The zip, or the piece that Range asks for while If-Range still holds."""
    with server.lock:
        content, faults = server.content, server.faults
        digest = hashlib.sha256(content)
        drop = faults.drop_after_bytes.pop(0) if faults.drop_after_bytes else None
        if faults.corrupt > 0:
            faults.corrupt -= 1
            middle = len(content) // 2
            content = content[:middle] + bytes([content[middle] ^ 0xFF]) + content[middle + 1 :]
        count = server.deliverable["downloadCount"] + 1
        server.deliverable |= {"downloadCount": count, "status": "Downloaded"}
    etag = f'"{digest.hexdigest()[:32]}"'
    told = {"ETag": etag, "Accept-Ranges": "bytes", "Content-Type": "application/zip"}
    told["Repr-Digest"] = f"sha-256=:{base64.b64encode(digest.digest()).decode()}:"
    asked, start, status = re.fullmatch(r"bytes=(\d{1,15})-", headers.get("range", "")), 0, 200
    if asked and headers.get("if-range", etag) == etag:
        start, status = int(asked[1]), 206
        if start >= len(content):
            return Response(None, 416, {"Content-Range": f"bytes */{len(content)}"})
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
