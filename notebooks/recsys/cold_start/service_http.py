"""The service on a socket, with the paths, shapes and errors that Amazon's client expects.

The control plane is one path whose verb stands in the header X-Amz-Target; events and answers
have paths of their own. A request's signature is not looked at: this server is for one machine,
and binds to it alone.
"""

import contextlib
import json
import socket
import threading
import time

import uvicorn
from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse
from service_requests import ServiceError, need

MOST_BYTES = 2_000_000  # of a request


def application(service):
    """The FastAPI app of one Service."""
    app = FastAPI(openapi_url=None)
    calls = {
        "events": service.put_events,
        "items": service.put_items,
        "recommendations": service.recommend,
        "personalize-ranking": lambda request: service.recommend(request, ranking=True),
    }

    @app.exception_handler(ServiceError)
    @app.exception_handler(ValueError)
    async def told(_, error):
        code = getattr(error, "code", "InvalidInputException")
        status = 404 if code == "ResourceNotFoundException" else 400
        body = {"__type": code, "message": str(error)}
        return JSONResponse(body, status, {"x-amzn-ErrorType": code})

    @app.get("/health")
    async def health():
        return {"status": "ok", "dropped": dict(service.dropped)}

    @app.post("/{path:path}")
    async def post(path: str, request: Request):
        sent = await _body(request)
        verb = request.headers.get("x-amz-target", "").removeprefix("AmazonPersonalize.")
        if path and path not in calls:
            raise ServiceError("UnknownOperationException", f"/{path} is not built here")
        args = (calls[path], sent) if path else (service.call, verb, sent)
        return JSONResponse(await run_in_threadpool(*args))

    return app


async def _body(request):
    """The request's JSON. Raises ValueError where it is too long, or no JSON object."""
    raw = bytearray()
    async for piece in request.stream():
        raw += piece
        need(len(raw) <= MOST_BYTES, f"a request may have {MOST_BYTES} bytes at most")
    try:
        found = json.loads(bytes(raw))
    except RecursionError as error:
        raise ValueError("the request is nested too deep") from error
    need(isinstance(found, dict), "a request is a JSON object")
    return found


@contextlib.contextmanager
def serving(service, seconds=10.0):
    """The address of the service; server, threads and a running trainer end with the block."""
    listener = socket.create_server(("127.0.0.1", 0))
    limits = {"timeout_keep_alive": 5, "timeout_graceful_shutdown": 2, "limit_concurrency": 64}
    server = uvicorn.Server(uvicorn.Config(application(service), log_level="error", **limits))
    task = {"target": server.run, "kwargs": {"sockets": [listener]}, "daemon": True}
    thread = threading.Thread(**task)
    thread.start()
    try:
        until = time.monotonic() + seconds
        while not server.started:
            need(thread.is_alive(), "the server ended before it started")
            need(time.monotonic() < until, f"the server did not start within {seconds:g} s")
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(seconds)
        listener.close()
        service.close()
