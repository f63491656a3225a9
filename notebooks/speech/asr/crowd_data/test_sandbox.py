"""The sandbox, asked over a real socket by plain requests, as a stranger would."""

import base64
import hashlib
import http.client
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest
import requests

from . import sandbox
from .sandbox import CrowdServer

PACKED = bytes(range(256)) * 1000


@pytest.fixture(scope="module")
def running():
    with CrowdServer(PACKED) as running:
        yield running


@pytest.fixture
def server(running):
    """The one that runs, as new: another account, no token, no fault, nothing logged."""
    running.__init__(PACKED)
    return running


def token_form(server, **changed):
    form = {"client_id": server.client_id, "client_secret": server.client_secret}
    return form | {"grant_type": "client_credentials", "scope": "PublicAPIv2"} | changed


def bearer(server):
    answer = requests.post(f"{server.url}/connect/token", data=token_form(server), timeout=5)
    return {"Authorization": f"Bearer {answer.json()['access_token']}"}


def listed_at(server):
    return f"{server.url}/projects/{server.project_id}/deliverables"


def download(server, **headers):
    url = f"{listed_at(server)}/{server.deliverable['id']}/download"
    return requests.get(url, headers=bearer(server) | headers, timeout=5)


def test_the_requests_of_the_article_work(server):
    files, headers = [], {}  # as the article passes them
    url = f"{server.url}/connect/token"
    answer = requests.request(
        "POST", url, headers=headers, data=token_form(server), files=files, timeout=5
    )
    assert answer.status_code == 200
    headers = {"Authorization": "Bearer " + answer.json()["access_token"]}
    listed = requests.get(listed_at(server), headers=headers, timeout=5).json()
    assert list(listed[0]) == [
        "projectId",
        "id",
        "type",
        "fileName",
        "createdTimestamp",
        "isPartial",
        "downloadCount",
        "status",
    ]
    packed = requests.get(
        f"{listed_at(server)}/{listed[0]['id']}/download", headers=headers, timeout=5
    )
    assert packed.content == PACKED and packed.headers["content-type"] == "application/zip"
    now = requests.get(listed_at(server), headers=headers, timeout=5).json()[0]
    assert now["downloadCount"] == 1 and now["status"] == "Downloaded"


def test_a_token_answer_follows_rfc_6749(server):
    answer = requests.post(f"{server.url}/connect/token", data=token_form(server), timeout=5)
    told = answer.json()
    assert told["token_type"] == "Bearer" and told["scope"] == "PublicAPIv2"
    assert told["expires_in"] == 3600 and answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("changed", "status", "error"),
    [
        ({"client_secret": "wrong"}, 401, "invalid_client"),
        ({"client_secret": None}, 401, "invalid_client"),
        ({"client_secret": ""}, 401, "invalid_client"),
        ({"client_secret": "é" * 40}, 401, "invalid_client"),
        ({"client_id": "somebody"}, 401, "invalid_client"),
        ({"grant_type": "password"}, 400, "unsupported_grant_type"),
        ({"scope": "Everything"}, 400, "invalid_scope"),
        ({"scope": ""}, 400, "invalid_scope"),
    ],
)
def test_refuses_a_wrong_token_request(server, changed, status, error):
    form = token_form(server, **changed)
    answer = requests.post(f"{server.url}/connect/token", data=form, timeout=5)
    assert (answer.status_code, answer.json()["error"]) == (status, error)
    assert server.client_secret not in answer.text


@pytest.mark.parametrize("header", [None, "Bearer ", "Bearer nonsense", "Basic {}", "{}"])
def test_refuses_a_request_without_a_token(server, header):
    token = bearer(server)["Authorization"].split()[1]
    headers = {} if header is None else {"Authorization": header.format(token)}
    answer = requests.get(listed_at(server), headers=headers, timeout=5)
    assert answer.status_code == 401 and "invalid_token" in answer.headers["www-authenticate"]


def test_a_token_ends(monkeypatch):
    with CrowdServer(PACKED, token_lifetime_s=50) as server:
        headers = bearer(server)
        assert requests.get(listed_at(server), headers=headers, timeout=5).status_code == 200
        now = sandbox.time.monotonic()
        clock = type("clock", (), {"monotonic": staticmethod(lambda: now + 51)})
        monkeypatch.setattr(sandbox, "time", clock)
        assert requests.get(listed_at(server), headers=headers, timeout=5).status_code == 401


def test_another_project_or_deliverable_is_not_there(server):
    headers = bearer(server)
    for url in (
        f"{server.url}/projects/other/deliverables",
        f"{listed_at(server)}/other/download",
        f"{server.url}/projects/other/deliverables/{server.deliverable['id']}/download",
    ):
        assert requests.get(url, headers=headers, timeout=5).status_code == 404


def test_states_the_hash_and_the_length(server):
    answer = download(server)
    digest = base64.b64encode(hashlib.sha256(PACKED).digest()).decode()
    assert answer.headers["repr-digest"] == f"sha-256=:{digest}:"
    assert answer.headers["content-length"] == str(len(PACKED))


@pytest.mark.parametrize("start", [0, 1, 99_999, len(PACKED) - 1])
def test_gives_the_piece_that_is_asked_for(server, start):
    etag = download(server).headers["etag"]
    answer = download(server, **{"Range": f"bytes={start}-", "If-Range": etag})
    assert answer.status_code == 206 and answer.content == PACKED[start:]
    last = len(PACKED) - 1
    assert answer.headers["content-range"] == f"bytes {start}-{last}/{len(PACKED)}"


def test_gives_the_whole_when_the_file_has_changed(server):
    etag = download(server).headers["etag"]
    server.content = PACKED[::-1]
    answer = download(server, **{"Range": "bytes=5-", "If-Range": etag})
    assert answer.status_code == 200 and answer.content == PACKED[::-1]


def test_a_range_behind_the_end_cannot_be_had(server):
    answer = download(server, Range=f"bytes={len(PACKED)}-")
    assert answer.status_code == 416
    assert answer.headers["content-range"] == f"bytes */{len(PACKED)}"


@pytest.mark.parametrize("asked", ["bytes=-5", "bytes=1-2,4-5", "lines=1-", "bytes=x-"])
def test_other_ranges_give_the_whole(server, asked):
    answer = download(server, Range=asked)
    assert answer.status_code == 200 and answer.content == PACKED


def test_a_dropped_download_is_shorter_than_stated(server):
    server.faults.drop_after_bytes = [70_000]
    parts, headers = urlsplit(server.url), bearer(server)
    wire = http.client.HTTPConnection(parts.hostname, parts.port, timeout=5)
    wire.request(
        "GET",
        f"/projects/{server.project_id}/deliverables/{server.deliverable['id']}/download",
        headers=headers,
    )
    answer = wire.getresponse()
    with pytest.raises(http.client.IncompleteRead) as caught:
        answer.read()
    wire.close()
    assert len(caught.value.partial) == 70_000 and download(server).content == PACKED


def test_faults_happen_as_often_as_asked(server):
    server.faults.unavailable, server.faults.retry_after_s = 2, 7
    headers = bearer(server)
    answers = [requests.get(listed_at(server), headers=headers, timeout=5) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [503, 503, 200]
    assert answers[0].headers["retry-after"] == "7"


def test_a_corrupt_download_has_the_stated_length_and_another_hash(server):
    server.faults.corrupt = 1
    wrong, right = download(server), download(server)
    assert len(wrong.content) == len(PACKED) and wrong.content != PACKED == right.content
    assert wrong.headers["repr-digest"] == right.headers["repr-digest"]


def test_an_expired_token_is_gone(server):
    headers = bearer(server)
    server.faults.expired_tokens = 1
    again = [requests.get(listed_at(server), headers=headers, timeout=5) for _ in range(2)]
    assert [answer.status_code for answer in again] == [401, 401]
    assert requests.get(listed_at(server), headers=bearer(server), timeout=5).status_code == 200


def test_serves_many_at_once(server):
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda _: download(server).content, range(24)))
    assert answers == [PACKED] * 24 and server.deliverable["downloadCount"] == 24


def test_logs_what_it_answered(server):
    download(server)
    assert [(method, status) for method, _, status in server.log] == [
        ("POST", 200),
        ("GET", 200),
    ]
    assert server.log[0][1] == "/connect/token" and server.client_secret not in str(server.log)


def test_listens_on_loopback_alone_and_ends_with_its_block():
    before = threading.active_count()
    with CrowdServer(PACKED) as server:
        parts = urlsplit(server.url)
        assert parts.hostname == "127.0.0.1" and parts.port > 1024
    assert threading.active_count() == before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((parts.hostname, parts.port), 2)


def test_ends_while_a_client_holds_on():
    with CrowdServer(PACKED * 100) as server:
        session = requests.Session()
        url = f"{listed_at(server)}/{server.deliverable['id']}/download"
        held = session.get(url, headers=bearer(server), stream=True, timeout=5)
        held.raw.read(10)
    held.close()
    session.close()
    assert not server._thread.is_alive()
