"""The client against the sandbox over real sockets, and against servers that are worse."""

import contextlib
import http.server
import json
import threading
import time
from types import SimpleNamespace

import pytest
import urllib3

from . import client as crowd_client
from .client import AccessError, CrowdClient, CrowdError, DamagedError, PassingError
from .sandbox import CrowdServer

PACKED = bytes(range(256)) * 2000
CHUNK = 2**16  # what the sandbox sends at a time


@pytest.fixture(scope="module")
def running():
    with CrowdServer(PACKED) as running:
        yield running


@pytest.fixture
def server(running):
    """The one that runs, as new: another account, no token, no fault, nothing logged."""
    running.__init__(PACKED)
    return running


@contextlib.contextmanager
def client_of(server, **changed):
    account = {"client_id": server.client_id, "client_secret": server.client_secret} | changed
    with CrowdClient(server.url, server.url, **{"backoff_s": 0.001} | account) as client:
        yield client


def get(client, server, path):
    return client.download(server.project_id, server.deliverable["id"], path)


def asked(server):
    """What was asked for, in a word each, with the status of the answer."""
    return [f"{path.rsplit('/', 1)[1]} {status}" for _, path, status in server.log]


class Scripted(http.server.BaseHTTPRequestHandler):
    """A server that answers downloads by `script`, a list of functions of the handler."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.say(200, json.dumps({"access_token": "t", "expires_in": 60}).encode())

    def do_GET(self):
        self.server.seen.append(dict(self.headers))
        self.server.script.pop(0)(self)

    def say(self, status, body, **headers):
        self.send_response(status)
        for name, value in ({"Content_Length": str(len(body))} | headers).items():
            if value is not None:
                self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def scripted(*script, **more):
    """(client, server) of a Scripted server."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Scripted) as server:
        server.script, server.seen = list(script), []
        threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        with CrowdClient(url, url, "me", "secret", **{"backoff_s": 0.001} | more) as client:
            yield client, server
        server.shutdown()


def say(status, body=b"", **headers):
    return lambda handler: handler.say(status, body, **headers)


def test_gets_a_deliverable_with_one_token(server, tmp_path):
    with client_of(server) as client:
        found = client.deliverables(server.project_id)
        path = client.download(server.project_id, found[0]["id"], tmp_path / "new" / "d.zip")
    assert path.read_bytes() == PACKED and [p.name for p in path.parent.iterdir()] == ["d.zip"]
    assert asked(server) == ["token 200", "deliverables 200", "download 200"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"client_secret": "wrong"}, "401 Unauthorized: invalid_client: client_id or"),
        ({"client_id": "nobody"}, "401 Unauthorized: invalid_client"),
        ({"scope": "Everything"}, "400 Bad Request: invalid_scope: the scope of this API"),
    ],
)
def test_wrong_credentials_are_told_at_once(server, changed, said):
    with (
        client_of(server, **changed) as client,
        pytest.raises(AccessError, match=said) as caught,
    ):
        client.deliverables(server.project_id)
    assert asked(server) == [f"token {said[:3]}"]
    assert server.client_secret not in str(caught.value)


def test_a_refused_token_is_renewed_once(server, tmp_path):
    with client_of(server) as client:
        client.deliverables(server.project_id)
        server.faults.expired_tokens = 1
        get(client, server, tmp_path / "d.zip")
    assert asked(server)[2:] == ["download 401", "token 200", "download 200"]


def test_a_token_that_is_always_refused_is_told(server):
    server.faults.expired_tokens = 9
    with client_of(server) as client, pytest.raises(AccessError, match="the token was new"):
        client.deliverables(server.project_id)
    assert asked(server) == ["token 200", "deliverables 401"] * 2


def test_a_token_is_renewed_before_its_end(monkeypatch):
    with CrowdServer(PACKED, token_lifetime_s=100) as server, client_of(server) as client:
        seconds = [0]
        clock = type("clock", (), {"monotonic": staticmethod(lambda: 1000.0 + seconds[0])})
        monkeypatch.setattr(crowd_client, "time", clock)
        for seconds[0] in (0, 60, 80, 85):
            client.deliverables(server.project_id)
    assert [what.split()[0] for what in asked(server)].count("token") == 2
    assert asked(server)[3] == "token 200"  # at 80 s, which is 20 before the end


def test_a_broken_download_goes_on_from_where_it_broke(server, tmp_path):
    server.faults.drop_after_bytes += [CHUNK, 2 * CHUNK]
    with client_of(server) as client:
        path = get(client, server, tmp_path / "d.zip")
    assert path.read_bytes() == PACKED and client.retries == 2
    assert asked(server)[1:] == ["download 200", "download 206", "download 206"]


def cut(body, **headers):
    """An answer of nine bytes that breaks off after these."""
    return say(200, body, Content_Length="9", Connection="close", **headers)


def test_a_file_that_changed_is_begun_anew(tmp_path):
    with scripted(cut(b"abcd", ETag='"1"'), say(200, b"another")) as (client, server):
        assert client.download("p", "d", tmp_path / "d.zip").read_bytes() == b"another"
    assert server.seen[1]["Range"] == "bytes=3-" and server.seen[1]["If-Range"] == '"1"'


def test_what_an_earlier_run_left_is_not_gone_on_from(server, tmp_path):
    (tmp_path / ".d.zip.part").write_bytes(b"rubbish" * 99)
    with client_of(server) as client:
        assert get(client, server, tmp_path / "d.zip").read_bytes() == PACKED
    assert asked(server)[1:] == ["download 200"]


def test_a_corrupt_download_is_refused_and_nothing_kept(server, tmp_path):
    server.faults.corrupt = 1
    with client_of(server) as client, pytest.raises(DamagedError, match="SHA-256 .* stated"):
        get(client, server, tmp_path / "d.zip")
    assert not list(tmp_path.glob("*.zip")) and not list(tmp_path.glob(".*.part"))


@pytest.fixture
def waits(monkeypatch):
    """The seconds for which urllib3 would have slept between tries; other threads sleep on."""
    found = []
    clock = SimpleNamespace(**vars(time) | {"sleep": found.append})
    monkeypatch.setattr(urllib3.util.retry, "time", clock)
    return found


def test_waits_longer_after_each_failure_with_jitter(server, waits):
    server.faults.unavailable = 4
    with client_of(server, backoff_s=0.5) as client:
        client.deliverables(server.project_id)
    assert client.retries == 4 and len(waits) == 3  # the first time it asks again at once
    assert all(low <= s < low + 0.5 for s, low in zip(waits, (1, 2, 4), strict=True))


def test_waits_as_long_as_the_server_asks(server, waits):
    server.faults.unavailable, server.faults.retry_after_s = 2, 7
    with client_of(server) as client:
        client.deliverables(server.project_id)
    assert waits == [7, 7]


def test_gives_up_after_its_tries_and_says_why(server):
    server.faults.unavailable = 99
    with (
        client_of(server, tries=3) as client,
        pytest.raises(PassingError, match="3 tries failed.*503"),
    ):
        client.deliverables(server.project_id)
    assert asked(server)[1:] == ["deliverables 503"] * 3


def test_no_server_makes_it_wait_for_an_hour(server, waits):
    server.faults.unavailable, server.faults.retry_after_s = 1, 3600
    with client_of(server) as client:
        client.deliverables(server.project_id)
    assert waits == [60]


def test_progress_makes_the_tries_new(server, tmp_path):
    server.faults.drop_after_bytes += [CHUNK] * 6
    with client_of(server, tries=2) as client:
        assert get(client, server, tmp_path / "d.zip").read_bytes() == PACKED
    assert client.retries == 6


@pytest.mark.parametrize("name", ["other", "../../connect", "a?b=c#d", "é%00"])
def test_what_is_not_there_is_told_at_once(server, tmp_path, name):
    with client_of(server) as client, pytest.raises(CrowdError, match="404 Not Found"):
        client.download(server.project_id, name, tmp_path / "d.zip")
    assert len(server.log) <= 2 and not client.retries
    assert not list(tmp_path.iterdir())


def test_no_server_is_told_after_the_tries():
    with CrowdServer(PACKED) as server:
        pass
    with (
        client_of(server, tries=2) as client,
        pytest.raises(PassingError, match="2 tries failed"),
    ):
        client.deliverables(server.project_id)


def test_more_than_allowed_is_refused_before_it_is_written(server, tmp_path):
    with (
        client_of(server, max_bytes=len(PACKED) - 1) as client,
        pytest.raises(CrowdError, match="max_bytes"),
    ):
        get(client, server, tmp_path / "d.zip")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "url",
    ["http://example.org", "ftp://127.0.0.1", "", "127.0.0.1:80", "https://a:b@example.org"]
    + [
        "https://example.org/?a=1",
        "http://127.0.0.1.example.org",
        "http://[::1",
        "file:///etc",
    ],
)
def test_refuses_addresses_where_a_secret_must_not_go(url):
    with pytest.raises(ValueError, match="address"):
        CrowdClient(url, "https://example.org", "me", "secret")
    with pytest.raises(ValueError, match="address"):
        CrowdClient("https://example.org", url, "me", "secret")


def test_the_secret_is_in_no_text_of_the_client():
    assert "s3cret" not in repr(CrowdClient("https://a.org", "https://a.org", "me", "s3cret"))


def test_a_netrc_and_a_proxy_do_not_come_between(server, tmp_path, monkeypatch):
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login a password b\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with client_of(server) as client:
        assert client.deliverables(server.project_id)


def test_a_redirection_is_not_followed():
    with scripted(say(302, Location="http://127.0.0.1:9/")) as (client, server):
        with pytest.raises(CrowdError, match="302 Found"):
            client.deliverables("p")
        assert len(server.seen) == 1


@pytest.mark.parametrize(
    "body", [b"{}", b"[1]", b'[{"id": 7}]', b"no json", b"[" * 10**5, b"\xff", b"null", b""]
)
def test_refuses_a_list_that_is_none(body):
    with scripted(say(200, body)) as (client, _), pytest.raises(CrowdError):
        client.deliverables("p")


def test_a_download_without_length_or_hash_is_taken_as_it_comes(tmp_path):
    plain = say(200, b"all of it", Content_Length=None, Connection="close")
    with scripted(plain) as (client, _):
        assert client.download("p", "d", tmp_path / "d.zip").read_bytes() == b"all of it"


def test_a_download_without_length_is_bounded(tmp_path):
    endless = say(200, b"x" * 10**6, Content_Length=None, Connection="close")
    with scripted(endless, max_bytes=10**5) as (client, _):
        with pytest.raises(CrowdError, match="more than 100,000 bytes"):
            client.download("p", "d", tmp_path / "d.zip")
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("etag", [None, 'W/"weak"', "bare"])
def test_a_piece_of_unknown_origin_is_begun_anew(tmp_path, etag):
    with scripted(cut(b"abcd", ETag=etag), say(200, b"abcdefghi")) as (client, server):
        assert client.download("p", "d", tmp_path / "d.zip").read_bytes() == b"abcdefghi"
    assert not {"Range", "If-Range"} & set(server.seen[1])


def test_a_piece_shorter_than_asked_for_is_gone_on_from(tmp_path):
    more = say(206, b"def", Content_Range="bytes 3-5/9", ETag='"1"')
    rest = say(206, b"fghi", Content_Range="bytes 5-8/9", ETag='"1"')
    with scripted(cut(b"abcd", ETag='"1"'), more, rest) as (client, _):
        assert client.download("p", "d", tmp_path / "d.zip").read_bytes() == b"abcdefghi"


@pytest.mark.parametrize("told", ["bytes 3-8/9", "bytes 0-8/9", "nonsense", None, "bytes */9"])
def test_another_piece_than_asked_for_is_not_joined(tmp_path, told):
    right = told == "bytes 3-8/9"
    piece = say(206, b"defghi" if right else b"XXXXXX", Content_Range=told, ETag='"1"')
    first, whole = cut(b"abcd", ETag='"1"'), say(200, b"abcdefghi")
    with scripted(first, piece, whole) as (client, server):
        assert client.download("p", "d", tmp_path / "d.zip").read_bytes() == b"abcdefghi"
    assert server.seen[1]["Range"] == "bytes=3-" and server.seen[1]["If-Range"] == '"1"'
    assert len(server.seen) == (2 if right else 3)


@pytest.mark.parametrize("option", ["retry_count", "timeout"])
def test_an_option_that_is_none_is_refused(option):
    with pytest.raises(TypeError, match="allowed are"):
        CrowdClient("https://a.org", "https://a.org", "me", "s3cret", **{option: 1})


def test_a_server_that_says_nothing_is_timed_out():
    done = threading.Event()
    with scripted(lambda _: done.wait(5), timeout_s=0.1, tries=1) as (client, _):
        with pytest.raises(PassingError, match="read timeout=0.1"):
            client.deliverables("p")
        done.set()
