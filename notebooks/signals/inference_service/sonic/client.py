"""SONIC: inference of an event on somebody else's machine, as if it were a function here.

Services for Optimized Network Inference on Coprocessors. The patches of an event are cut into
blocks (256 in ProtoDUNE-SP, the last one smaller); several are in flight at once. `acquire`
returns at once, so that an experiment's framework can work on other events meanwhile.

What may go wrong, and what the client then does:

    no connection, timeout, 5xx, cut or wrong answer    the next server, after a short wait
    404, 408, 425, 429: not now, or not here            the same; Refused if all say so
    another 4xx: the request is wrong                   Refused, at once: it stays wrong
    no server within tries and deadline                 `fallback`, or Unanswered without one

A server that failed rests for a second where there is another. Inference has no memory: a block
may be computed twice when an answer gets lost, and is kept once. No server is told that nobody
waits any more.
"""

import contextlib
import http.client
import itertools
import json
import random
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock, Timer

import numpy as np

from .kserve import HEADER, BadMessage, pack, unpack

LATER, REST_S = (404, 408, 425, 429), 1.0


class Refused(ValueError):
    """The server says that the request is wrong; asking again would not help."""


class Unanswered(RuntimeError):
    """No server answered a block within its tries and the event's deadline."""


class NotNow(BadMessage):
    """The server says: not now, or not here."""


@dataclass(frozen=True)
class Model:
    """What is asked for: a model's `name`, the name and row shape of its `input`, `outputs` as
    {name: shape of a row}, and which are `probabilities`, of sum 1 in each row of several."""

    name: str
    input: str
    row: tuple
    outputs: dict
    probabilities: tuple = ()

    def __post_init__(self):
        object.__setattr__(self, "row", tuple(self.row))
        shapes = {name: tuple(shape) for name, shape in self.outputs.items()}
        object.__setattr__(self, "outputs", shapes)

    def checked(self, outputs, rows):
        """The outputs in order, each as it has to be; raises BadMessage, also for nothing but
        zeros: a server that lost its data sends them."""
        for name, shape in self.outputs.items():
            values, shape = outputs.get(name), (rows, *shape)
            if values is None or values.dtype != np.float32 or values.shape != shape:
                came = None if values is None else f"{values.dtype} {values.shape}"
                raise BadMessage(f"{name}: {came} came, float32 {shape} is needed")
            if not np.isfinite(values).all() or (values.size and not values.any()):
                raise BadMessage(f"{name}: some values are not finite, or all are zero")
            if name in self.probabilities and rows:
                sums = values.sum(1) if shape[1] > 1 else np.ones(rows)
                if values.min() < 0 or values.max() > 1 or np.abs(sums - 1).max() > 1e-3:
                    raise BadMessage(f"{name}: no probabilities; rows sum to {sums[:3]}")
        return [outputs[name] for name in self.outputs]


class Sonic:
    """`with Sonic(["127.0.0.1:8000"], model) as sonic: first, second = sonic(patches)`.

    `deadline_s` holds for an event with all its blocks and tries; where there are several
    servers, each try gets an equal part of what is left, so that one that hangs costs no event.
    `wait_s` is the longest pause before the second try, doubled for each further one; half of
    it is drawn, so that clients do not come back in step. `fallback` computes a block's outputs
    in order. Without `binary` all goes as JSON numbers. `report` is the last Pending.
    Raises ValueError for options out of range and for rows of another shape or dtype."""

    def __init__(self, addresses, model, batch=256, in_flight=2, deadline_s=60.0, **options):
        more = {"tries": 3, "wait_s": 0.05, "fallback": None, "binary": True}
        if unknown := options.keys() - more:
            raise ValueError(f"options {sorted(unknown)} are unknown; allowed are {list(more)}")
        vars(self).update(more | options)
        least = min(len(addresses), batch, in_flight, self.tries)
        if least < 1 or not deadline_s > 0 <= self.wait_s:
            came = f"{addresses=}, {batch=}, {in_flight=}, {deadline_s=}, {options}"
            raise ValueError(f"{came}: one address or more, counts from 1, seconds above 0")
        self.addresses, self.model, self.batch = list(addresses), model, batch
        self.deadline_s, self.turn, self.report = deadline_s, itertools.count(), None
        self.pool, self.rests = ThreadPoolExecutor(in_flight), {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.pool.shutdown(cancel_futures=True)

    def __call__(self, patches):
        """The outputs for patches (N, …), in the model's order, each (N, …) float32."""
        return self.acquire(patches).result()

    def acquire(self, patches):
        """A Pending at once; its `result()` waits, and raises what went wrong."""
        values, row = np.asarray(patches), self.model.row
        if values.dtype != np.float32 or values.shape[1:] != row:
            came = f"{values.dtype} of shape {values.shape}"
            raise ValueError(f"{came} came; float32 is needed, (N, {str(row)[1:]}")
        blocks = [values[i : i + self.batch] for i in range(0, len(values), self.batch)]
        return Pending(self, blocks)

    def _block(self, block, report, until):
        """The outputs of one block: from a server, or from the fallback."""
        mark, reason, refused = next(self.turn), "nothing was tried in time", 0
        for number in range(self.tries):
            if number:
                wait_s = self.wait_s * 2 ** (number - 1) * random.uniform(0.5, 1)
                time.sleep(max(0, min(wait_s, until - time.monotonic())))
            left_s = until - time.monotonic()
            if left_s <= 0:
                break
            if len(self.addresses) > 1:
                left_s /= self.tries - number
            address = self._chosen(mark + number)
            report.add(retries=number > 0)
            try:
                return self._asked(address, block, f"block {mark}", left_s, report)
            except (OSError, http.client.HTTPException, BadMessage) as error:
                reason = f"{address}: {type(error).__name__} {error}"
                refused += isinstance(error, NotNow)
                report.add(failures=[reason])
                self.rests[address] = time.monotonic() + REST_S
        if self.fallback is None:
            if refused == self.tries:
                raise Refused(reason)
            limits = f"{self.tries} tries and {self.deadline_s:g} s"
            raise Unanswered(f"no answer to {len(block)} rows within {limits}; last: {reason}")
        report.add(fallbacks=1)
        return [np.asarray(x, np.float32) for x in self.fallback(block)]

    def _asked(self, address, block, name, seconds, report):
        """The outputs of one try, checked: of this block, and such as the model gives."""
        more = {"id": name, "parameters": {"binary_data_output": self.binary}}
        body, header = pack({self.model.input: block}, "inputs", self.binary, **more)
        report.add(sent_bytes=len(body))
        status, answer, length = self._post(address, body, header, seconds)
        report.add(received_bytes=len(answer))
        if status in LATER or status >= 500:
            kind = NotNow if status in LATER else BadMessage
            raise kind(f"status {status}: {_words(answer)}")
        if status != 200:
            raise Refused(f"{address} answers {status}: {_words(answer)}")
        outputs, told = unpack(answer, length, "outputs")
        if told.get("id") != name:
            raise BadMessage(f"the answer to {told.get('id')!r} came, not {name}")
        return self.model.checked(outputs, len(block))

    def _chosen(self, number):
        """The address whose turn it is, of those that do not rest unless all do."""
        now, count = time.monotonic(), len(self.addresses)
        order = [self.addresses[(number + i) % count] for i in range(count)]
        return next((one for one in order if self.rests.get(one, 0) <= now), order[0])

    def _post(self, address, body, header, seconds):
        """(status, body, its header's length), over a connection of its own, since a kept one
        may have been closed. A socket's time-out restarts with each byte: a clock ends it."""
        host, port = address.rsplit(":", 1)
        until = time.monotonic() + seconds
        connection = http.client.HTTPConnection(host, int(port), timeout=seconds)
        connection.connect()
        late = Timer(until - time.monotonic(), _hang_up, [connection.sock])
        late.daemon = True
        late.start()
        kind = {"Content-Type": "application/octet-stream", HEADER: str(header)}
        kind = kind if self.binary else {"Content-Type": "application/json"}
        try:
            connection.request("POST", f"/v2/models/{self.model.name}/infer", body, kind)
            answer = connection.getresponse()
            return answer.status, answer.read(), answer.headers.get(HEADER)
        finally:
            late.cancel()
            connection.close()


class Pending:
    """An inference under way; `result()` waits for it. It counts tries beyond the first, blocks
    computed here and bytes both ways, and keeps why tries failed."""

    def __init__(self, sonic, blocks):
        self.sonic, self.blocks, self.failures, self.lock = sonic, len(blocks), [], Lock()
        self.retries = self.fallbacks = self.sent_bytes = self.received_bytes = 0
        until = time.monotonic() + sonic.deadline_s
        self.futures = [sonic.pool.submit(sonic._block, b, self, until) for b in blocks]

    def add(self, **more):
        """None; counts, from any thread."""
        with self.lock:
            for name, value in more.items():
                setattr(self, name, getattr(self, name) + value)

    def result(self):
        """The outputs of all blocks in order, as a tuple."""
        self.sonic.report = self
        try:
            parts = [future.result() for future in self.futures]
        finally:
            for future in self.futures:
                future.cancel()
        shapes = self.sonic.model.outputs.values()
        empty = [[np.zeros((0, *shape), np.float32) for shape in shapes]]
        return tuple(np.concatenate(one) for one in zip(*(parts or empty), strict=True))


def _hang_up(sock):
    with contextlib.suppress(OSError):  # it may have ended meanwhile
        sock.shutdown(2)


def _words(answer):
    try:
        return str(json.loads(answer)["error"])[:300]
    except (ValueError, KeyError, TypeError):
        return repr(bytes(answer[:100]))
