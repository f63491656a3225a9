"""The door that text messages come in by: a web server that answers signed forms, and the
gateway that sends them.

A gateway posts each message as a form and reads the reply from the response, as XML of Twilio's
markup (https://www.twilio.com/docs/messaging/twiml). What fails is posted again, so a message
may come twice; `webhook.Answered` keeps its reply. What the answer writes goes through the same
table in the same transaction: a ticket and its reply are kept together or not at all.
"""

import re
import socket
import sqlite3
import threading
import urllib.error
import urllib.parse
import urllib.request
import xml.etree.ElementTree as xml
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

from .signature import Answered, genuine, sign, signed_text

MOST_BYTES, MOST_FIELDS = 65_536, 100  # of a form; a text and its envelope need far less
FORM = "application/x-www-form-urlencoded"
# Signed is one long text, so a copied form still fits its signature when a value takes in the
# name and value that follow it: MessageSid=SM1, NumMedia=0 as MessageSid=SM1NumMedia0, an
# identifier that nobody has answered. What decides is taken in its own shape alone. And a text
# may spell out fields, From and MessageSid among them, in front of the true ones: so the signed
# text names one identifier only, and the address is the door's own.
PATH, NAMED = "/sms", re.compile("MessageSid((?:SM|MM)[0-9a-fA-F]{32})")
SHAPES = {"MessageSid": "(SM|MM)[0-9a-fA-F]{32}", "From": r"\+?[0-9]{3,15}", "Body": "(?s:.*)"}
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # past any proxy
Answer = Callable[[sqlite3.Connection, str, str], str]


class Posted(NamedTuple):
    """What came back: the status, and the texts to be sent to the resident."""

    status: int
    texts: list[str]


class _Refused(Exception):
    def __init__(self, status: int, why: str):
        super().__init__(why)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    def setup(self):
        super().setup()  # who sends nothing, or byte by byte, holds no thread for longer
        self.watch = threading.Timer(self.server.patience_s, self._end)
        self.watch.daemon = True
        self.watch.start()

    def _end(self):
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RD)

    def finish(self):
        self.watch.cancel()
        super().finish()

    def do_POST(self):  # noqa: N802, the library's name
        server = self.server
        try:
            if self.path != PATH:
                raise _Refused(404, "messages are taken at another address")
            form = self._form()
            flat = {name: v[0] if len(v) == 1 else v for name, v in form.items()}
            given = self.headers.get("X-Twilio-Signature", "")
            if not genuine(server.token, server.url + self.path, flat, given):
                raise _Refused(403, "the signature is not the gateway's")
            _shaped(flat)
            with closing(Answered(server.path)) as box:
                reply = box.once(
                    flat["MessageSid"],
                    lambda: server.answer(box.table, flat["From"], flat["Body"]),
                )
        except _Refused as refused:
            self._say(refused.status, str(refused), "text/plain")
            self._drain()
        except Exception:  # its cause is not the sender's business; it will post again
            self._say(500, "not answered; post it again", "text/plain")
        else:
            self._say(200, markup(reply), "text/xml")

    def _form(self) -> dict[str, list[str]]:
        size = self.headers.get("Content-Length", "")
        if not size.isascii() or not size.isdigit():
            raise _Refused(411, "Content-Length is wanted, in bytes")
        if len(size) > 9 or int(size) > MOST_BYTES:
            raise _Refused(413, f"{size[:9]} bytes or more; at most {MOST_BYTES} are read")
        if self.headers.get_content_type() != FORM:
            raise _Refused(415, f"{FORM} is wanted")
        body = self.rfile.read(int(size))
        if len(body) < int(size):
            raise _Refused(408, "the form ends early")
        try:
            return urllib.parse.parse_qs(
                body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS
            )
        except ValueError:
            raise _Refused(400, f"UTF-8 and at most {MOST_FIELDS} fields are read") from None

    def _say(self, status: int, text: str, kind: str) -> None:
        body = text.encode("utf-8", "replace")
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def _drain(self):  # a body left unread would break the pipe before the refusal is read
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            while self.rfile.read1(MOST_BYTES):
                pass

    def log_message(self, *arguments):  # numbers and messages are nobody's but the resident's
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):  # a caller who hangs up is no fault
        pass


@contextmanager
def door(token: str, path: str | Path, answer: Answer, patience_s: float = 5) -> Iterator[str]:
    """The address of a running server, on this machine alone, while the block runs.
    `answer(table, sender, text)` gives the reply, "" for none; `table` is the one at `path`.
    """
    server = _Server(("127.0.0.1", 0), _Handler)
    server.token, server.path, server.answer = token, path, answer
    server.patience_s, server.url = patience_s, f"http://127.0.0.1:{server.server_port}"
    worker = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    worker.start()
    try:
        yield server.url + PATH
    finally:
        server.shutdown()
        server.server_close()
        worker.join()


def _shaped(form):
    for name, shape in SHAPES.items():
        given = form.get(name)
        if not isinstance(given, str) or not re.fullmatch(shape, given):
            raise _Refused(400, f"{name} is wanted once, of the shape {shape}")
    if {*NAMED.findall(signed_text("", form))} != {form["MessageSid"]}:
        raise _Refused(400, "another MessageSid is spelt out in the form")


def markup(reply: str) -> str:
    """The reply as the gateway reads it: one message, or none for an empty reply. What XML
    cannot hold is left out.
    """
    root = xml.Element("Response")
    if reply:
        held = (
            c
            for c in reply
            if c in "\t\n\r" or "\ud7ff" >= c >= " " or "\ue000" <= c not in "\ufffe\uffff"
        )
        xml.SubElement(root, "Message").text = "".join(held)
    return xml.tostring(root, encoding="unicode", xml_declaration=False)


def post(
    url: str, token: str, parameters: Mapping[str, str], signature: str | None = None
) -> Posted:
    """What a gateway gets back that posts a message there, signed with its token; with
    `signature` given it claims that one instead.
    """
    signed = sign(token, url, parameters) if signature is None else signature
    request = urllib.request.Request(
        url,
        urllib.parse.urlencode(parameters).encode(),
        {"Content-Type": FORM, "X-Twilio-Signature": signed},
    )
    try:
        with DIRECT.open(request, timeout=10) as response:
            told = xml.fromstring(response.read())
            return Posted(response.status, [one.text or "" for one in told.iter("Message")])
    except urllib.error.HTTPError as error:
        with error:
            return Posted(error.code, [])
