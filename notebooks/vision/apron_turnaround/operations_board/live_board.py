"""The operations board's server: cameras post what they saw, browsers are told as it comes.

Told by server-sent events (the HTML standard, 9.2): one response that never ends, which the
browser opens again by itself, naming the last `id` that it had. An id counts the reports of the
*view*: an airline's ids do not move when another airline's aircraft does.

Every view is made from the journal alone, so a server that was killed goes on where it was.
"""

import hmac
import itertools
import json
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from critical_path.prediction import ALERT, LATE

from .journal import Flight, Journal, Refused, board, own, text

MOST_BYTES, MOST_VIEWERS, SILENT_S = 65_536, 64, 30.0
ALL = "*"  # the airport's own view
PAGE = Path(__file__).with_name("live_board.html")


class _Handler(BaseHTTPRequestHandler):
    timeout = 10  # for a peer that stops in the middle of a request, or stops reading

    def do_POST(self):  # noqa: N802, the library's name
        try:
            post = self._body()
            camera = post.get("camera") if isinstance(post, dict) else None
            key = self.server.cameras.get(camera if isinstance(camera, str) else None)
            given = self.headers.get("X-Camera-Key", "")
            if key is None or not hmac.compare_digest(key.encode(), given.encode()):
                return self._say(403, "not one of the cameras")
            with closing(Journal(self.server.path)) as journal:
                gates = [one.gate for one in self.server.flights]
                new = journal.take(post, gates, self.server.clock())
        except Refused as refused:
            return self._say(400, str(refused))
        with self.server.changed:
            self.server.changed.notify_all()
        return self._say(200, text({"new": new}), "application/json")

    def _body(self):
        size = self.headers.get("Content-Length", "")
        known = size.isascii() and size.isdigit() and len(size) < 10
        if self.path != "/seen" or not known or int(size) > MOST_BYTES:
            raise Refused(f"/seen takes at most {MOST_BYTES} bytes of a told length")
        try:
            return json.loads(self.rfile.read(int(size)))
        except (ValueError, RecursionError):
            raise Refused("JSON is wanted") from None

    def do_GET(self):  # noqa: N802
        address = urllib.parse.urlsplit(self.path)
        token = urllib.parse.parse_qs(address.query).get("token", [""])[0]
        airline = self.server.airline(token)
        if airline is None:
            return self._say(403, "no such view")
        if address.path == "/":
            return self._say(200, PAGE.read_text(encoding="utf-8"), "text/html")
        if address.path != "/events":
            return self._say(404, "there is / and /events")
        if not self.server.room.acquire(blocking=False):
            return self._say(503, "too many viewers")
        try:
            with suppress(OSError):
                self._stream(airline)
        finally:
            self.server.room.release()
        return None

    def _stream(self, airline):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(b"retry: 300\n\n")
        flights = [one for one in self.server.flights if airline in (ALL, one.airline)]
        gates = [one.gate for one in flights]
        last = self.headers.get("Last-Event-ID", "")
        had = int(last) if last.isascii() and last.isdigit() and len(last) < 10 else 0
        shown, beat = None, time.monotonic()
        while not self.server.closing:
            with closing(Journal(self.server.path)) as journal:
                reports, clocks = own(flights, journal.reports(gates)), journal.clocks()
            had = had if had <= len(reports) else 0  # an id that this view never gave
            for at, one in enumerate(reports[had:], had + 1):
                about = {"camera": one.camera, "name": one.name, "gate": one.gate}
                self._tell("seen", {**about, "time": round(one.time, 1)}, at)
            had = len(reports)
            now = self.server.state(flights, reports, clocks)
            if now != shown:
                self._tell("board", now)
                shown = now
            elif time.monotonic() - beat > 5:  # so that one who has gone is noticed
                self.wfile.write(b": still here\n\n")
                beat = time.monotonic()
            with self.server.changed:
                self.server.changed.wait(0.5)

    def _tell(self, kind, value, at=None):
        line = f"id: {at}\n" if at is not None else ""
        self.wfile.write(f"{line}event: {kind}\ndata: {text(value)}\n\n".encode())

    def _say(self, status, words, kind="text/plain"):
        body = words.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.send_header("Referrer-Policy", "no-referrer")  # the address holds the token
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):  # an address holds a token
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads, closing = True, False
    allow_reuse_address = True

    def airline(self, token):
        """The view of a token, looked for in equal time whoever asks; None for no view."""
        found = None
        for one, airline in self.views.items():
            if hmac.compare_digest(one.encode(), token.encode("utf-8", "replace")):
                found = airline
        return found

    def state(self, flights, reports, clocks):
        """The board of a view: its flights, and the cameras of its own gates. One that never
        sent anything is silent, too."""
        now, cameras, dead = self.clock(), {}, {one.gate: set() for one in flights}
        for gate, camera in itertools.product(dead, self.cameras):
            shift, came = clocks.get((camera, gate), (0.0, None))
            silent = came is None or now - came > self.silent_s
            about = {"silent": silent, "clock_off": round(-shift) if abs(shift) > 2 else 0}
            about["since"] = round(came, 1) if silent and came is not None else None
            cameras[f"{gate} {camera}"] = about
            dead[gate] |= {camera} if silent else set()
        state = {"flights": board(flights, reports), "cameras": cameras}
        if self.forecast:
            for name, one in state["flights"].items():
                try:
                    one["predicted"], chance = self.forecast(name, one, dead[one["gate"]], now)
                except Exception as error:  # noqa: BLE001, what is known is told all the same
                    one["predicted"], chance = f"not known: {type(error).__name__}", 0.0
                if chance >= ALERT and one["stamps"]["aobt"] is None:
                    what = f"leaves over {LATE:g} min after TOBT, by the prediction"
                    one["alerts"].append({"name": what, "time": None, "cameras": ""})
        return state

    def handle_error(self, request, client_address):  # a caller who hangs up is no fault
        pass


@contextmanager
def serve(
    path: str | Path,
    flights: Sequence[Flight],
    cameras: Mapping[str, str],
    views: Mapping[str, str],
    port: int = 0,
    clock: Callable[[], float] = time.time,
    forecast: Callable | None = None,
    silent_s: float = SILENT_S,
) -> Iterator[str]:
    """The address of a running board, on this machine alone, while the block runs.

    `cameras`: {camera: its key}; `views`: {token: airline, or `ALL`}. `forecast(flight, what is
    known, silent cameras, now)` gives what the board adds as "predicted", and how likely the
    flight is late: from `ALERT` on, that is an alert. A camera that sent nothing for `silent_s`
    seconds is called silent. ValueError for two flights of one name, or at one gate at a time.
    """
    for one, other in itertools.combinations(flights, 2):
        same = one.gate == other.gate and max(one.begin, other.begin) < min(one.end, other.end)
        if same or one.flight == other.flight:
            raise ValueError(
                f"{one.flight} and {other.flight}: one name, or one gate at a time"
            )
    server = _Server(("127.0.0.1", port), _Handler)
    server.path, server.flights, server.cameras, server.views = path, flights, cameras, views
    server.clock, server.forecast, server.silent_s = clock, forecast, silent_s
    server.changed, server.room = threading.Condition(), threading.Semaphore(MOST_VIEWERS)
    worker = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    worker.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.closing = True
        server.shutdown()
        server.server_close()
        worker.join()
