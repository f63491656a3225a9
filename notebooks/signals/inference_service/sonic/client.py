"""SONIC: inference of an event on somebody else's machine, as if it were a function here.

Services for Optimized Network Inference on Coprocessors. The patches of an event are cut into
blocks (256 in ProtoDUNE-SP, the last one smaller); several are in flight at once; the answers
are put together in the blocks' order. `acquire` starts it and returns at once, so that an
experiment's framework can work on other events meanwhile.

What may go wrong, and what the client then does:

    no connection, timeout, 5xx, cut or wrong answer    the next server, after a short wait
    4xx: the request is wrong                           Refused, at once: it stays wrong
    no server within tries and deadline                 `fallback`, or Unanswered without one

A block may be computed twice when an answer gets lost, and is kept once: inference has no
memory.

Legend: N patches of an event, S their side (48).
"""

import contextlib
import http.client
import itertools
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from .kserve import HEADER, BadMessage, pack, unpack

__all__ = ["Model", "Refused", "Report", "Sonic", "Unanswered"]


class Refused(ValueError):
    """The server says that the request is wrong; asking again would not help."""


class Unanswered(RuntimeError):
    """No server answered a block within its tries and its deadline."""


@dataclass(frozen=True)
class Model:
    """What is asked for: the model's `name`, the name and row shape of its `input`, and its
    `outputs` as {name: shape of a row}."""

    name: str
    input: str
    row: tuple
    outputs: dict


@dataclass
class Report:
    """What an inference took: tries beyond the first, blocks computed here, bytes both ways,
    blocks by the server that answered, the reasons of failed tries, and the seconds."""

    blocks: int = 0
    retries: int = 0
    fallbacks: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0
    seconds: float = 0.0
    servers: dict = field(default_factory=dict)
    failures: list = field(default_factory=list)
    lock: object = field(default_factory=threading.Lock, repr=False)


class Sonic:
    """`with Sonic(["127.0.0.1:8000"], model) as sonic: first, second = sonic(patches)`.

    `deadline_s` holds for a block with all its tries; where there are several servers, each try
    gets an equal part of what is left, so that one that hangs costs no event. `wait_s` is the
    pause before the second try, doubled for each further one. `fallback` is a function of a
    block that returns its outputs in order. `report` is that of the last inference. Raises
    ValueError for options out of range and for rows of another shape or dtype.
    """

    def __init__(
        self,
        addresses,
        model,
        batch=256,
        in_flight=2,
        deadline_s=10.0,
        tries=3,
        wait_s=0.05,
        fallback=None,
    ):
        if not addresses or min(batch, in_flight, tries) < 1 or deadline_s <= 0 or wait_s < 0:
            came = f"{addresses=}, {batch=}, {in_flight=}, {tries=}, {deadline_s=}, {wait_s=}"
            raise ValueError(f"{came}: one address or more, counts from 1, seconds above 0")
        self.addresses, self.model, self.batch = list(addresses), model, batch
        self.deadline_s, self.tries, self.wait_s = deadline_s, tries, wait_s
        self.fallback, self.turn, self.report = fallback, itertools.count(), Report()
        self.pool, self.local = ThreadPoolExecutor(in_flight), threading.local()
        self.open = set()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.pool.shutdown(cancel_futures=True)
        for connection in self.open:
            connection.close()

    def __call__(self, patches):
        """The outputs for patches (N, S, S), in the model's order, each (N, …) float32."""
        return self.acquire(patches).result()

    def acquire(self, patches):
        """A Pending at once; its `result()` waits, and raises what went wrong."""
        values, row = np.asarray(patches), self.model.row
        if values.dtype != np.float32 or values.shape[1:] != row:
            came = f"{values.dtype} of shape {values.shape}"
            raise ValueError(f"{came} came; float32 is needed, (N, {str(row)[1:]}")
        blocks = [values[i : i + self.batch] for i in range(0, len(values), self.batch)]
        report = Report(len(blocks))
        return Pending(self, [self.pool.submit(self._block, b, report) for b in blocks], report)

    def _block(self, block, report):
        """The outputs of one block: from a server, or from the fallback."""
        until, reason = time.monotonic() + self.deadline_s, "nothing was tried"
        binary = {"binary_data_output": True}
        body, header = pack({self.model.input: block}, "inputs", parameters=binary)
        first = next(self.turn)  # each further try goes to the next server
        for number in range(self.tries):
            if number:
                wait_s = min(self.wait_s * 2 ** (number - 1), until - time.monotonic())
                time.sleep(max(0, wait_s))
            left_s = until - time.monotonic()
            if left_s <= 0:
                break
            if len(self.addresses) > 1:
                left_s /= self.tries - number
            address = self.addresses[(first + number) % len(self.addresses)]
            with report.lock:
                report.retries += number > 0
                report.sent_bytes += len(body)
            try:
                return self._tried(address, len(block), body, header, left_s, report)
            except (OSError, http.client.HTTPException, BadMessage) as error:
                reason = f"{address}: {type(error).__name__} {error}"
                report.failures.append(reason)
        if self.fallback is None:
            limits = f"{self.tries} tries and {self.deadline_s:g} s"
            words = f"a block of {len(block)} has no answer within {limits}; last: {reason}"
            raise Unanswered(words)
        with report.lock:
            report.fallbacks += 1
        return [np.asarray(x, np.float32) for x in self.fallback(block)]

    def _tried(self, address, rows, body, header, seconds, report):
        """The outputs of one try; what it raises says whether another one makes sense."""
        status, answer, length = self._post(address, body, header, seconds)
        with report.lock:
            report.received_bytes += len(answer)
        if status != 200:
            words = f"{address} answers {status}: {_words(answer)}"
            raise Refused(words) if 400 <= status < 500 else BadMessage(words)
        outputs, _ = unpack(answer, length, "outputs")
        found = [_checked(n, outputs, (rows, *s)) for n, s in self.model.outputs.items()]
        with report.lock:
            report.servers[address] = report.servers.get(address, 0) + 1
        return found

    def _post(self, address, body, header, seconds):
        """(status, body, its header's length) over this thread's connection; a new one after
        any failure. A socket's time-out restarts with each byte, so a clock ends it."""
        kept = self.local.__dict__
        host, port = address.rsplit(":", 1)
        connection = kept.pop(address, None) or http.client.HTTPConnection(host, int(port))
        self.open.add(connection)
        connection.timeout = seconds
        late = threading.Timer(seconds, _hang_up, [connection])
        late.daemon = True
        late.start()
        try:
            if connection.sock:
                connection.sock.settimeout(seconds)
            kind = {"Content-Type": "application/octet-stream", HEADER: str(header)}
            connection.request("POST", f"/v2/models/{self.model.name}/infer", body, kind)
            answer = connection.getresponse()
            found = answer.status, answer.read(), answer.headers.get(HEADER)
        except (OSError, http.client.HTTPException, AttributeError, ValueError) as error:
            connection.close()
            self.open.discard(connection)
            raise ConnectionError(f"{type(error).__name__} {error}") from error
        finally:
            late.cancel()
        kept[address] = connection
        return found


class Pending:
    """An inference under way; `result()` waits for it."""

    def __init__(self, sonic, futures, report):
        self.sonic, self.futures, self.report = sonic, futures, report
        self.began = time.monotonic()

    def result(self):
        """The outputs of all blocks in order, as a tuple."""
        try:
            parts = [future.result() for future in self.futures]
        finally:
            for future in self.futures:
                future.cancel()
            self.report.seconds = time.monotonic() - self.began
            self.sonic.report = self.report
        shapes = self.sonic.model.outputs.values()
        empty = [[np.zeros((0, *shape), np.float32) for shape in shapes]]
        return tuple(np.concatenate(one) for one in zip(*(parts or empty), strict=True))


def _checked(name, outputs, shape):
    """An output as it has to be: there, float32, of the right shape, finite."""
    values = outputs.get(name)
    if values is None or values.dtype != np.float32 or values.shape != shape:
        came = None if values is None else f"{values.dtype} {values.shape}"
        raise BadMessage(f"{name}: {came} came, float32 {shape} is needed")
    if not np.isfinite(values).all():
        raise BadMessage(f"{name}: some values are not finite")
    return values


def _hang_up(connection):
    with contextlib.suppress(OSError, AttributeError):  # it may have ended meanwhile
        connection.sock.shutdown(2)


def _words(answer):
    try:
        return str(json.loads(answer)["error"])[:300]
    except (ValueError, KeyError, TypeError):
        return repr(bytes(answer[:100]))
