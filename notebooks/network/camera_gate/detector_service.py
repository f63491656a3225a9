"""The detector behind a socket: frames that a gate lets through go there by gRPC.

One method, `/camera.Detector/Score`: a frame as rows, columns (two bytes each) and grey bytes;
the answer is a score, a double. gRPC carries any bytes, so no compiler of messages is needed;
what a schema would hold is checked by hand. A call has a deadline. What is not answered in time
is counted, never taken for 'no plate': a frame that nobody looked at is no answer. Nor is a
detector that fails, or one that answers with something else than a number.
"""

import math
import struct
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import torch

METHOD, HEAD, SCORE = "/camera.Detector/Score", struct.Struct("!HH"), struct.Struct("!d")
MOST_PIXELS, WAITING = 1 << 22, 8  # of a frame; calls that wait or run, more are refused
CHANNEL = [  # a detector that was gone for an hour is asked again within a second
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.enable_http_proxy", 0),  # frames go to the address that was named, and nowhere else
    ("grpc.use_local_subchannel_pool", 1),  # and what one client waited for is not another's
]


def pack(frame: np.ndarray) -> bytes:
    """A frame (H, W) of bytes as a message.

    >>> pack(np.zeros((2, 3), np.uint8))
    b'\\x00\\x02\\x00\\x03\\x00\\x00\\x00\\x00\\x00\\x00'
    """
    fits = frame.ndim == 2 and frame.dtype == np.uint8 and max(frame.shape) < 1 << 16
    if not fits or not 0 < frame.size <= MOST_PIXELS:
        told = f"rows and columns of bytes, 1 to {MOST_PIXELS:,}, are allowed"
        raise ValueError(f"a frame is {frame.dtype} {frame.shape}; {told}")
    return HEAD.pack(*frame.shape) + frame.tobytes()


def unpack(message: bytes) -> np.ndarray:
    """The frame of a message; `ValueError` where sizes and bytes do not agree."""
    if len(message) < HEAD.size:
        raise ValueError(f"{len(message)} bytes; a head of {HEAD.size} is missing")
    rows, columns = HEAD.unpack_from(message)
    if not 0 < rows * columns <= MOST_PIXELS or len(message) != HEAD.size + rows * columns:
        raise ValueError(f"{rows} × {columns} pixels in {len(message) - HEAD.size} bytes")
    return np.frombuffer(message, np.uint8, offset=HEAD.size).reshape(rows, columns)


class Server:
    """A detector on a port of its own, until `with` ends: `with Server(detect) as address:`.

    `detect` takes frames (N, H, W) and returns scores (N,). One call runs at a time. One that
    waits and whose caller gave up is dropped by gRPC before it costs work. `counts` says how
    many frames were scored, were refused, or failed in the detector.
    """

    def __init__(self, detect, port: int = 0):
        self.detect, self.counts = detect, Counter()
        options = [
            ("grpc.so_reuseport", 0),
            ("grpc.max_receive_message_length", MOST_PIXELS + 64),
        ]
        self.server = grpc.server(
            ThreadPoolExecutor(1), options=options, maximum_concurrent_rpcs=WAITING
        )
        handler = grpc.unary_unary_rpc_method_handler(self._score)
        service, name = METHOD[1:].split("/")
        self.server.add_generic_rpc_handlers(
            [grpc.method_handlers_generic_handler(service, {name: handler})]
        )
        self.port = self.server.add_insecure_port(f"127.0.0.1:{port}")

    def _score(self, message: bytes, context) -> bytes:
        try:
            frame = unpack(message)
        except ValueError as error:
            self.counts["refused"] += 1
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        try:
            score = float(self.detect(torch.from_numpy(frame.copy())[None])[0])
            if not math.isfinite(score):
                raise ValueError(f"the score is {score}")
        except Exception as error:  # a network may raise anything: one frame is lost, and told
            self.counts["failed"] += 1
            context.abort(grpc.StatusCode.INTERNAL, f"{type(error).__name__}: {error}")
        self.counts["scored"] += 1
        return SCORE.pack(score)

    def __enter__(self) -> str:
        self.server.start()
        return f"127.0.0.1:{self.port}"

    def __exit__(self, *_) -> None:
        self.server.stop(grace=None).wait()


class Client:
    """A connection to a detector; `score(frame)` is None where no answer came in time.

    `counts` says what became of all calls: answered, garbled where the answer is no number, or
    by the name of gRPC's status. A server that refuses a frame has other limits than `pack`:
    asking again is no use, so that is a `ValueError`.
    """

    def __init__(self, address: str, seconds: float = 1.0):
        self.channel, self.seconds, self.counts = (
            grpc.insecure_channel(address, CHANNEL),
            seconds,
            Counter(),
        )
        self.call = self.channel.unary_unary(METHOD)

    def score(self, frame: np.ndarray) -> float | None:
        try:
            answer = self.call(pack(frame), timeout=self.seconds)
        except grpc.RpcError as error:
            self.counts[error.code().name.lower().replace("_", " ")] += 1
            if error.code() == grpc.StatusCode.INVALID_ARGUMENT:
                raise ValueError(error.details()) from None
            return None
        score = SCORE.unpack(answer)[0] if len(answer) == SCORE.size else math.nan
        self.counts["answered" if math.isfinite(score) else "garbled"] += 1
        return score if math.isfinite(score) else None

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_) -> None:
        self.channel.close()


def watch(frames, passed, client: Client, tries: int = 2, pause_s: float = 0.05) -> list:
    """A score for each frame: None for those that the gate drops, `nan` for those that were
    sent so often without an answer."""
    made = []
    for frame, wanted in zip(frames, passed, strict=True):
        score = None
        for attempt in range(tries if wanted else 0):
            time.sleep(pause_s * bool(attempt))
            score = client.score(frame)
            if score is not None:
                break
        made.append(float("nan") if wanted and score is None else score)
    return made
