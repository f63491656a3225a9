"""Files taken from HTTP responses while they pass, by `h11`, which keeps no body.

A rule tests a file's first bytes; in the stream these lie behind the header, so what a file is
must be known before its first byte is looked at. Nothing is kept but an incomplete header.
"""

from collections import Counter

import h11

HEADER_BYTES, MOST_ASKED = 1 << 14, 64
ASKED = h11.Request | h11.Data | h11.EndOfMessage
ANSWERED = h11.Response | h11.InformationalResponse | h11.Data | h11.EndOfMessage


class HttpFiles:
    """`requests(bytes)` and `responses(bytes)`; the second yields `("data", bytes)` and
    `("end", b"")`, one after the other as files begin and end."""

    def __init__(self):
        self.counts = Counter()
        self.client = h11.Connection(h11.SERVER, max_incomplete_event_size=HEADER_BYTES)
        self.server = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEADER_BYTES)
        self.asked: list[tuple[bytes, list[bytes]]] = []  # method, values of "Connection"
        self.unasked = 0  # bytes of a server that no request has asked for yet
        self.open = self.broken = False

    def requests(self, data: bytes) -> None:
        """Bytes from the client: which methods are asked decides which answers have a body."""
        if self.broken:
            return
        try:
            self.client.receive_data(data)
            while isinstance(event := self.client.next_event(), ASKED):
                if isinstance(event, h11.Request):
                    words = [value for name, value in event.headers if name == b"connection"]
                    self.asked.append((event.method, words))
                    if len(self.asked) > MOST_ASKED:
                        raise h11.RemoteProtocolError("too many requests without an answer")
                elif isinstance(event, h11.EndOfMessage):
                    self._next_request()
        except h11.ProtocolError:
            self.counts["requests that are no HTTP"] += 1
            self._give_up()

    def _give_up(self) -> None:
        """Read no more, and keep nothing."""
        self.broken, self.asked = True, []
        self.client = self.server = h11.Connection(h11.CLIENT)

    def _next_request(self) -> None:
        """h11 wants each request answered before the next; the true answer passes elsewhere."""
        close = self.client.their_state is h11.MUST_CLOSE
        self.client.send(h11.Response(status_code=204, headers=[]))
        self.client.send(h11.EndOfMessage())
        if not close and {self.client.our_state, self.client.their_state} == {h11.DONE}:
            self.client.start_next_cycle()

    def responses(self, data: bytes) -> list[tuple[str, bytes]]:
        made, before = [], self.broken
        if self.broken:
            self.counts["bytes not inspected"] += len(data)
            return made
        try:
            if data:  # to h11, no bytes would mean that the server has closed
                self.server.receive_data(data)
                self.unasked += len(data)
            while self._ready() and self._take(self.server.next_event(), made):
                self.unasked = 0
            if self.unasked > HEADER_BYTES:
                raise h11.RemoteProtocolError("no request, or a header without end")
        except h11.ProtocolError:
            self._give_up()
        if self.broken and not before:
            self.counts["responses that are no HTTP"] += 1
            if self.open:  # what came of the file is judged as far as it came
                made.append(("end", b""))
                self.open = False
        return made

    def _ready(self) -> bool:
        """Whether the server's side may go on; an answer needs its request."""
        if self.server.our_state is h11.DONE and self.server.their_state is h11.DONE:
            self.server.start_next_cycle()
        if self.server.our_state is h11.IDLE:
            if not self.asked:
                return False
            method, words = self.asked.pop(0)
            # only these bear on the answer's end; h11 wants a host, which HTTP/1.0 need not say
            kept = [("host", "-"), *((b"connection", word) for word in words)]
            self.server.send(h11.Request(method=method, target="/", headers=kept))
            self.server.send(h11.EndOfMessage())
        return True

    def _take(self, event, made: list) -> bool:
        """Note one event; false where more bytes are needed."""
        if isinstance(event, h11.Response):
            coding = dict(event.headers).get(b"content-encoding", b"identity")
            self.counts["files in a coding, not opened"] += coding != b"identity"
        elif isinstance(event, h11.Data):
            self.open = True
            made.append(("data", bytes(event.data)))
        elif isinstance(event, h11.EndOfMessage):
            made += [("end", b"")] if self.open else []
            self.open = False
        return isinstance(event, ANSWERED)

    def state_bytes(self) -> int:
        """What waits: an incomplete header each way, and requests without an answer."""
        asked = sum(len(method) + sum(map(len, words)) for method, words in self.asked)
        return asked + sum(len(c.trailing_data[0]) for c in (self.client, self.server))

    def waits(self) -> bool:
        """Whether bytes of the server lie here whose request has not been seen."""
        return self.server.our_state is h11.IDLE and bool(self.server.trailing_data[0])

    def close(self) -> list[tuple[str, bytes]]:
        """The server has closed: a body without a length ends here, a shorter one than said
        too."""
        made = [("end", b"")] if self.open else []
        if not self.broken:
            self.counts["bytes not inspected"] += len(self.server.trailing_data[0])
        self.open, self.broken = False, True
        return made
