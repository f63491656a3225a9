"""`fetch` against a real HTTP server that misbehaves."""

import hashlib
import http.server
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from helpers import data

BODY = bytes(range(256)) * 1200  # 307,200 bytes: several reads
SMALL = b"small"


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers `/<behaviour>/<file>` by the behaviour's name; keeps (path, Range) of every request."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        server, (_, how, name) = self.server, self.path.split("/", 2)
        asked = self.headers.get("Range")
        server.requests.append((self.path, asked))
        count = sum(path == self.path for path, _ in server.requests)
        body, start = server.files.get(name.rsplit("/", 1)[-1], BODY), 0
        if how in ("notfound", "down") or how == "recovers" and count < 3:
            self.send_error(404 if how == "notfound" else 500)
            return
        if how == "busy" and count == 1 and len(server.requests) <= 3 or how == "never":
            self.send_response(429)
            self.send_header("Retry-After", "1" if how == "busy" else "86400")
            self.send_header("Content-Length", "0")
            self.end_headers()
            server.refused.append(time.monotonic())
            return
        server.served.append(time.monotonic())
        if how == "crowd":
            with server.lock:
                server.here += 1
                server.most = max(server.most, server.here)
            time.sleep(0.05)
            with server.lock:
                server.here -= 1
        if how == "redirect-file":
            self.send_response(302)
            self.send_header("Location", f"ftp://127.0.0.1:{server.server_port}/x")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if how == "wrong" or how == "changed" and not asked:
            body = body[:-1] + b"!" if how == "wrong" else body
        if how == "changed" and asked:
            body = b"?" * len(body)
        if asked and how not in ("ignores-range", "short"):
            start = 0 if how == "wrong-piece" else int(asked.removeprefix("bytes=").rstrip("-"))
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        else:
            self.send_response(200)
        piece = body[start:]
        length = {
            "lies-more": len(piece) * 9,
            "lies-less": len(piece) // (2 if count == 1 else 1),
            "endless": None,
        }.get(how, len(piece))
        if length is not None:
            self.send_header("Content-Length", str(length))
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        if how == "short" or how in ("dies", "dies-once", "ignores-range") and (how == "dies" or count == 1):
            self.wfile.write(piece[: max(1, len(piece) // 2)])
        elif how == "drip":
            for i in range(400):
                self.wfile.write(piece[i : i + 1])
                self.wfile.flush()
                time.sleep(0.02)
        elif how == "stalls":
            self.wfile.write(piece[:1000])
            self.wfile.flush()
            server.closing.wait(10)
        elif how == "endless":
            while not server.closing.is_set():
                server.sent += self.wfile.write(piece)
        else:
            self.wfile.write(piece)

    def log_message(self, *arguments):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request, client_address):
        pass  # a client that hangs up is what some tests are about


@pytest.fixture
def server():
    server = Server(("127.0.0.1", 0), Handler)
    server.requests, server.files, server.sent, server.closing = [], {"small.bin": SMALL}, 0, threading.Event()
    server.refused, server.served, server.lock, server.here, server.most = [], [], threading.Lock(), 0, 0
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    server.url = f"http://127.0.0.1:{server.server_port}"
    yield server
    server.closing.set()
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    for name in ("REBUILT_DATA_MIRROR", "REBUILT_OFFLINE", "http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(data, "BACKOFF_S", 0.01)
    monkeypatch.setattr(data, "STALL_S", 0.5)


def row(url, name="big.bin", body=BODY, **changes):
    fields = {"dataset": "demo", "file": name, "url": url, "sha256": hashlib.sha256(body).hexdigest()}
    fields |= {"bytes": str(len(body)), "licence": "CC0", "citation": "none", "used_for": "tests"} | changes
    return "\t".join(fields.values())


@pytest.fixture
def fetch(tmp_path, server):
    """fetch(behaviour) or fetch(rows=[…]): the folder after a fetch from the server."""

    def fetch(how="ok", rows=None, **options):
        registry = tmp_path / "registry.tsv"
        rows = rows or [row(f"{server.url}/{how}/big.bin")]
        registry.write_text("\n".join(["\t".join(data.COLUMNS), *rows]) + "\n")
        return data.fetch("demo", folder=tmp_path / "demo", registry=registry, **options)

    fetch.folder, fetch.registry = tmp_path / "demo", tmp_path / "registry.tsv"
    return fetch


def names(folder):
    return sorted(path.name for path in folder.iterdir() if path.name != ".lock")


def test_a_file_arrives_whole_and_alone(fetch):
    assert (fetch() / "big.bin").read_bytes() == BODY
    assert names(fetch.folder) == ["big.bin"]


@pytest.mark.parametrize("how", ["recovers", "dies-once", "ignores-range", "lies-more", "endless"])
def test_a_server_that_can_be_coped_with(fetch, how):
    assert (fetch(how) / "big.bin").read_bytes() == BODY


def test_a_body_is_cut_off_at_the_registered_size(fetch, server):
    fetch("endless")
    server.closing.set()
    assert server.sent < 100 * len(BODY)


@pytest.mark.parametrize(
    ("how", "says", "requests"),
    [
        ("notfound", "HTTP 404", 1),
        ("down", "4 tries failed, at last with: HTTP 500", 4),
        ("short", "the connection ended after 153,600 of 307,200 bytes", 4),
        ("wrong", "wrong SHA-256", 1),
        ("stalls", "4 tries failed, at last with: .*timed out", 4),
        ("redirect-file", "unknown url type: ftp", 4),
    ],
)
def test_a_file_that_cannot_be_had_says_why(fetch, server, how, says, requests):
    with pytest.raises(data.DataError, match=says) as caught:
        fetch(how)
    assert len(server.requests) == requests
    assert not (fetch.folder / "big.bin").exists()
    for part in ("demo/big.bin", f"{server.url}/{how}/big.bin", "REBUILT_DATA_MIRROR"):
        assert part in str(caught.value)


def test_a_length_that_is_too_small_is_completed_piece_by_piece(fetch, server):
    assert (fetch("lies-less") / "big.bin").read_bytes() == BODY
    assert server.requests[1][1] == "bytes=153600-"


def test_nothing_of_a_wrong_file_is_kept(fetch):
    with pytest.raises(data.DataError, match="refused"):
        fetch("wrong")
    assert names(fetch.folder) == []


def test_a_dripping_server_meets_the_total_bound(fetch, monkeypatch):
    monkeypatch.setattr(data, "GRACE_S", 0.3)
    monkeypatch.setattr(data, "SLOWEST", 1e9)
    began = time.monotonic()
    with pytest.raises(data.DataError, match="too slow, given up after"):
        fetch("drip")
    assert time.monotonic() - began < 3


def test_a_part_is_resumed_from_its_end(fetch, server):
    fetch.folder.mkdir()
    (fetch.folder / ".big.bin.part").write_bytes(BODY[:100_000])
    assert (fetch() / "big.bin").read_bytes() == BODY
    assert server.requests == [("/ok/big.bin", "bytes=100000-")]


def test_a_broken_connection_is_resumed(fetch, server):
    fetch("dies-once")
    assert [asked for _, asked in server.requests] == [None, "bytes=153600-"]


@pytest.mark.parametrize("part", [b"?" * 1000, b"?" * len(BODY), BODY + b"more"])
def test_a_part_of_another_file_is_thrown_away(fetch, part):
    fetch.folder.mkdir()
    (fetch.folder / ".big.bin.part").write_bytes(part)
    assert (fetch() / "big.bin").read_bytes() == BODY


@pytest.mark.parametrize("how", ["changed", "wrong-piece"])
def test_a_file_that_changed_between_two_pieces_is_fetched_again(fetch, server, how):
    fetch.folder.mkdir()
    (fetch.folder / ".big.bin.part").write_bytes(BODY[:1000])
    assert (fetch(how) / "big.bin").read_bytes() == BODY
    assert [asked for _, asked in server.requests] == ["bytes=1000-", None]


def test_what_is_there_is_not_fetched_again(fetch, server):
    fetch()
    fetch()
    assert len(server.requests) == 1


def test_a_file_that_was_damaged_is_replaced(fetch, server):
    (fetch() / "big.bin").write_bytes(b"?" * len(BODY))
    os.utime(fetch.folder / "big.bin", (1, 1))
    assert (fetch() / "big.bin").read_bytes() == BODY
    assert len(server.requests) == 2


def test_many_small_files_come_in_parallel_with_one_bar(fetch, server, capsys):
    bodies = {f"deep/f{i}.bin": b"%d" % i for i in range(40)}
    server.files |= {name.rsplit("/")[-1]: body for name, body in bodies.items()}
    folder = fetch(rows=[row(f"{server.url}/ok/{name}", name, body) for name, body in bodies.items()])
    assert {name: (folder / name).read_bytes() for name in bodies} == bodies
    assert "demo:" in capsys.readouterr().err


def many(server, how, count):
    """Rows of small files that the server has."""
    bodies = {f"f{i}.bin": b"%d" % i for i in range(count)}
    server.files |= bodies
    return [row(f"{server.url}/{how}/{name}", name, body) for name, body in bodies.items()]


def test_a_server_that_asks_for_a_pause_is_left_alone_by_all_until_it_is_over(fetch, server, capsys):
    folder = fetch(rows=many(server, "busy", 12))
    assert all((folder / f"f{i}.bin").read_bytes() == b"%d" % i for i in range(12))
    first, last = server.refused[0], server.refused[-1]
    assert 1 <= len(server.refused) <= 3 and len(server.requests) == 12 + len(server.refused)
    assert [at for at in server.served if last + 0.3 < at < first + 0.95] == []
    assert "asks for a pause of 1 s" in capsys.readouterr().err


def test_a_pause_of_a_day_is_told_and_not_waited_for(fetch, server):
    with pytest.raises(data.DataError, match="HTTP 429 .*asked to come back in 86400 s; what came is kept"):
        fetch("never")
    assert len(server.requests) == 1


def test_a_thousand_files_take_few_connections(fetch, server):
    fetch(rows=many(server, "crowd", 20))
    assert 2 <= server.most <= 4


@pytest.mark.parametrize(("files", "want"), [(["a.txt"], ["a.txt"]), ("*.txt", ["a.txt", "b.txt"]), ([], [])])
def test_files_are_picked_by_name_or_pattern(fetch, server, files, want):
    server.files = dict.fromkeys(("a.txt", "b.txt", "c.bin"), SMALL)
    folder = fetch(rows=[row(f"{server.url}/ok/{n}", n, SMALL) for n in server.files], files=files)
    assert names(folder) == want


def test_an_empty_file_is_a_file(fetch, server):
    server.files["none"] = b""
    assert (fetch(rows=[row(f"{server.url}/ok/none", "none", b"")]) / "none").read_bytes() == b""


# Mirrors and no network


def test_a_mirror_folder_is_asked_first(fetch, server, tmp_path, monkeypatch):
    (tmp_path / "mirror" / "demo").mkdir(parents=True)
    (tmp_path / "mirror" / "demo" / "big.bin").write_bytes(BODY)
    monkeypatch.setenv("REBUILT_DATA_MIRROR", str(tmp_path / "mirror"))
    monkeypatch.setenv("REBUILT_OFFLINE", "1")
    assert (fetch() / "big.bin").read_bytes() == BODY
    assert server.requests == []


def test_a_mirror_address_is_asked_first(fetch, server, monkeypatch):
    monkeypatch.setenv("REBUILT_DATA_MIRROR", f"{server.url}/mirror/")
    assert (fetch("notfound") / "big.bin").read_bytes() == BODY
    assert server.requests == [("/mirror/demo/big.bin", None)]


@pytest.mark.parametrize("content", [b"?" * len(BODY), b"short", None])
def test_a_mirror_with_the_wrong_file_is_refused_and_the_address_asked(fetch, server, tmp_path, monkeypatch, content):
    (tmp_path / "demo-mirror" / "demo").mkdir(parents=True)
    if content:
        (tmp_path / "demo-mirror" / "demo" / "big.bin").write_bytes(content)
    monkeypatch.setenv("REBUILT_DATA_MIRROR", str(tmp_path / "demo-mirror"))
    assert (fetch() / "big.bin").read_bytes() == BODY
    monkeypatch.setenv("REBUILT_OFFLINE", "1")
    (fetch.folder / "big.bin").unlink()
    says = "wrong SHA-256" if content and len(content) == len(BODY) else "no file of 307,200 bytes there"
    with pytest.raises(data.DataError, match=says):
        fetch()
    assert names(fetch.folder) == []


def test_offline_says_which_file_from_where_and_what_to_set(fetch, server, monkeypatch):
    monkeypatch.setenv("REBUILT_OFFLINE", "1")
    with pytest.raises(data.DataError) as caught:
        fetch()
    for part in ("demo/big.bin", f"{server.url}/ok/big.bin", "REBUILT_OFFLINE", "REBUILT_DATA_MIRROR", "Put it at"):
        assert part in str(caught.value)
    assert server.requests == []


def test_no_server_says_which_file_from_where_and_what_to_set(fetch):
    with pytest.raises(data.DataError, match="(?s)demo/big.bin.*http://127.0.0.1:9/x.*REBUILT_DATA_MIRROR"):
        fetch(rows=[row("http://127.0.0.1:9/x")])


# Several processes, interruptions

CODE = "import sys; from helpers import data; data.fetch('demo', folder=sys.argv[1], registry=sys.argv[2])"


def process(fetch, **options):
    arguments = [sys.executable, "-c", CODE, fetch.folder, fetch.registry]
    root = Path(__file__).parents[1]
    # a script's job in the background inherits the interrupt as ignored
    options |= {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
    return subprocess.Popen(arguments, cwd=root, stderr=subprocess.PIPE, text=True, **options)


def test_two_processes_at_once_both_end_with_the_right_files(fetch, server):
    bodies = {f"f{i}.bin": os.urandom(200_000) for i in range(6)}
    server.files |= bodies
    rows = [row(f"{server.url}/ok/{name}", name, body) for name, body in bodies.items()]
    fetch.registry.write_text("\n".join(["\t".join(data.COLUMNS), *rows]) + "\n")
    racers = [process(fetch) for _ in range(2)]
    for racer in racers:
        assert racer.communicate(timeout=30) and racer.returncode == 0
    assert {name: (fetch.folder / name).read_bytes() for name in bodies} == bodies
    assert names(fetch.folder) == sorted(bodies)
    assert len(server.requests) == len(bodies), "the second process should find the first one's files"


def test_an_interrupted_fetch_leaves_a_part_to_resume_from(fetch, server):
    fetch.registry.write_text("\n".join(["\t".join(data.COLUMNS), row(f"{server.url}/stalls/big.bin")]) + "\n")
    running = process(fetch)
    part = fetch.folder / ".big.bin.part"
    while not part.exists():
        time.sleep(0.02)
    time.sleep(0.2)
    running.send_signal(signal.SIGINT)
    time.sleep(0.1)
    server.closing.set()
    assert "KeyboardInterrupt" in running.communicate(timeout=20)[1]
    assert part.read_bytes() == BODY[:1000]
    assert (fetch() / "big.bin").read_bytes() == BODY
    assert server.requests[-1] == ("/ok/big.bin", "bytes=1000-")


def test_without_locks_a_fetch_still_works(fetch, monkeypatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)
    assert (fetch() / "big.bin").read_bytes() == BODY


# Hostile registries


@pytest.mark.parametrize(
    "changes",
    [
        {"url": "ftp://host/x"},
        {"url": "file:///etc/passwd"},
        {"sha256": "abc"},
        {"sha256": "g" * 64},
        {"bytes": "-1"},
        {"bytes": "many"},
        {"bytes": ""},
        {"file": ""},
        {"file": ".lock"},
        {"file": "../x"},
        {"used_for": "more\tcolumns"},
        {"file": "/etc/passwd"},
        {"file": "a/../../x"},
        {"file": "a//x"},
        {"file": "C:x"},
        {"file": "a\\..\\x"},
    ],
)
def test_a_registry_row_out_of_form_is_refused(fetch, server, changes):
    with pytest.raises(ValueError, match="refused"):
        fetch(rows=[row(**{"url": f"{server.url}/ok/big.bin"} | changes)])
    assert server.requests == []


def test_a_registry_row_that_is_short_or_double_is_refused(fetch):
    with pytest.raises(ValueError, match="refused"):
        fetch(rows=["demo\tbig.bin\thttp://x/y"])
    with pytest.raises(ValueError, match="refused"):
        fetch(rows=[row("http://x/y"), row("http://x/z")])


def test_a_registry_with_other_columns_is_refused(fetch):
    fetch.registry.write_text("dataset\tfile\n")
    with pytest.raises(ValueError, match="columns"):
        data.fetch("demo", folder=fetch.folder, registry=fetch.registry)


def test_unknown_data_sets_and_files_are_named_with_what_there_is(fetch):
    with pytest.raises(ValueError, match=r"no file 'x' in demo; it has big.bin"):
        fetch(files=["x"])
    with pytest.raises(ValueError, match=r"no data set 'other'.*\['demo'\]"):
        data.fetch("other", folder=fetch.folder, registry=fetch.registry)
    with pytest.raises(ValueError, match="no registry"):
        data.fetch("demo", folder=fetch.folder, registry=fetch.folder / "none.tsv")


@pytest.mark.parametrize("link", ["deep", "deep/big.bin"])
def test_a_symlink_on_the_way_is_refused(fetch, server, tmp_path, link):
    (tmp_path / "outside").mkdir()
    path = fetch.folder / link
    path.parent.mkdir(parents=True)
    path.symlink_to(tmp_path / "outside")
    with pytest.raises(ValueError, match="symbolic link"):
        fetch(rows=[row(f"{server.url}/ok/big.bin", "deep/big.bin")])
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_part_that_is_a_symlink_is_not_written_through(fetch, tmp_path):
    fetch.folder.mkdir()
    (tmp_path / "victim").write_bytes(b"precious")
    (fetch.folder / ".big.bin.part").symlink_to(tmp_path / "victim")
    assert (fetch() / "big.bin").read_bytes() == BODY
    assert (tmp_path / "victim").read_bytes() == b"precious"


def test_the_committed_registry_is_in_form():
    registry = Path(__file__).parents[1] / "data" / "registry.tsv"
    for dataset in {line.split("\t")[0] for line in registry.read_text().splitlines()[1:]}:
        assert data._registered(dataset, None, registry)
