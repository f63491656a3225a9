"""The service on a socket, with the paths, shapes and errors that Amazon's client library expects.

The control plane is one path whose verb stands in the header X-Amz-Target; events and answers have paths of their own. A request's
signature is not looked at: this server is for one machine, and binds to it alone.
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
from recommender_service import ServiceError, invalid

MOST_BYTES = 2_000_000  # of a request
STATUS = {"ResourceNotFoundException": 404}


def application(service):
    """The FastAPI app of one Service."""
    app = FastAPI(openapi_url=None)
    calls = {
        "/events": service.put_events,
        "/items": service.put_items,
        "/recommendations": service.recommend,
        "/personalize-ranking": lambda request: service.recommend(request, ranking=True),
    }

    @app.exception_handler(ServiceError)
    async def told(_, error):
        body = {"__type": error.code, "message": error.message}
        return JSONResponse(body, STATUS.get(error.code, 400), {"x-amzn-ErrorType": error.code})

    @app.get("/health")
    async def health():
        return {"status": "ok", "dropped": dict(service.dropped)}

    @app.post("/{path:path}")
    async def post(path: str, request: Request):
        sent, verb = (
            await _body(request),
            request.headers.get("x-amz-target", "").removeprefix("AmazonPersonalize."),
        )
        if not path:
            return JSONResponse(await run_in_threadpool(service.call, verb, sent))
        if f"/{path}" not in calls:
            raise ServiceError(
                "UnknownOperationException",
                f"/{path} is no path of this service; there are / and {sorted(calls)}",
            )
        return JSONResponse(await run_in_threadpool(calls[f"/{path}"], sent))

    return app


async def _body(request):
    """The request's JSON. Raises ServiceError where it is too long, or no JSON object."""
    raw = bytearray()
    async for piece in request.stream():
        raw += piece
        if len(raw) > MOST_BYTES:
            raise invalid(f"a request may have {MOST_BYTES} bytes at most")
    try:
        found = json.loads(bytes(raw))
    except (ValueError, RecursionError) as error:
        raise invalid(f"the request is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise invalid("a request is a JSON object")
    return found


@contextlib.contextmanager
def serving(service, seconds=10.0):
    """The address of the service while the block runs; server, threads and a running trainer end with it."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        application(service),
        log_level="error",
        timeout_keep_alive=5,
        timeout_graceful_shutdown=2,
        limit_concurrency=64,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        until = time.monotonic() + seconds
        while not server.started:
            if time.monotonic() > until or not thread.is_alive():
                raise RuntimeError(f"the server did not start within {seconds:g} s")
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(seconds)
        listener.close()
        service.close()
