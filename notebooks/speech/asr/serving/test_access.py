"""Keys, quotas, pages of other sites, TLS: who is let in, and how far."""

import hashlib
import json
import socket
import subprocess

import pytest
import websockets
from pydantic import ValidationError
from streaming import transcribe

from . import protocol
from .clients import speak
from .launch import scrape
from .protocol import Accounts, Refused
from .server import listening
from .session import SessionLimits
from .test_server import LIMITS, run, serving, sound, until
from .test_session import dialled


def accounts(**quotas):
    keys = {hashlib.sha256(key.encode()).hexdigest(): key for key in ("one", "two")}
    return Accounts.model_validate({h: {"name": key} | quotas for h, key in keys.items()})


def test_nobody_streams_without_a_key(loud_model):
    with serving(loud_model, accounts=accounts()) as (address, _):
        for wrong in ({}, {"key": "three"}):
            assert run(speak(address, sound(0.1), **wrong)).notices[0]["code"] == "no_account"
        assert run(speak(address, sound(0.1), key="one")).done == "end"
        assert scrape(address)["asr_streams_refused_total{reason=no_account}"] == 2


def test_a_stream_belongs_to_its_account(loud_model):
    async def go(address):
        first = await speak(address, sound(1.0), key="one", stop_after_s=0.1)
        return (await speak(address, sound(1.0), key="two", resume=first)).notices[0]["code"]

    with serving(loud_model, accounts=accounts()) as (address, _):
        assert run(go(address)) == "unknown_stream"


def test_an_account_has_so_many_streams_and_gets_them_back(loud_model):
    async def go(address):
        async with dialled(address, key="one"):
            second = await speak(address, sound(0.1), key="one")
            other = await speak(address, sound(0.1), key="two")
        await until(lambda: scrape(address)["asr_streams"] == 0, "the end was not noticed")
        return second.notices[0]["code"], other.done

    with serving(loud_model, SessionLimits(keep_s=0.0), accounts=accounts(streams=1)) as (
        address,
        _,
    ):
        assert run(go(address)) == ("quota", "end")
        assert run(speak(address, sound(0.1), key="one")).done == "end"


def test_sound_beyond_the_days_share_ends_the_stream_and_its_text_is_answered(loud_model):
    with serving(loud_model, LIMITS, accounts=accounts(audio_s=0.5)) as (address, _):
        heard = run(speak(address, sound(1.0), speed=4, key="one"))
        again = run(speak(address, sound(0.1), key="one"))
    assert (
        heard.done == "quota" and heard.text == transcribe(loud_model, [sound(1.0)[:8000]])[0]
    )
    assert again.notices[0]["code"] == "quota"


def test_tomorrow_the_share_is_new(monkeypatch):
    account = accounts(audio_s=1.0).who("one")
    account.spend(1.0)
    with pytest.raises(Refused, match="used up"):
        account.spend(0.1)
    now = protocol.time.time()
    monkeypatch.setattr(protocol.time, "time", lambda: now + 86_400)
    account.spend(0.1)


def test_a_wrong_file_of_accounts_is_refused(tmp_path):
    path = tmp_path / "accounts.json"
    path.write_text(json.dumps({"x": {"name": "bank", "stream": 1}}))
    with pytest.raises(ValidationError, match="stream"):
        Accounts.of(path)


def test_pages_of_other_sites_are_turned_away(loud_model):
    async def go(address, origin):
        async with websockets.connect(f"ws://{address}/v1/stream", origin=origin) as held:
            await held.send('{"type": "start"}')
            return json.loads(await held.recv())["type"]

    with serving(loud_model, origins=("https://bank.example",)) as (address, _):
        assert run(go(address, "https://bank.example")) == "ready"
        with pytest.raises(websockets.InvalidStatus, match="403"):
            run(go(address, "https://thief.example"))


def test_sound_travels_encrypted(loud_model, tmp_path, monkeypatch):
    files = [str(tmp_path / name) for name in ("cert.pem", "key.pem")]
    made = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"
    made += " -subj /CN=test -addext subjectAltName=IP:127.0.0.1 -out"
    command = [*made.split(), files[0], "-keyout", files[1]]
    subprocess.run(command, check=True, capture_output=True)
    with serving(loud_model, tls=files) as (address, _):
        with pytest.raises(Exception, match="certificate"):
            run(speak(f"wss://{address}", sound(0.1)))
        monkeypatch.setenv("SSL_CERT_FILE", files[0])
        heard = run(speak(f"wss://{address}", sound(0.6), speed=4))
    assert heard.text == transcribe(loud_model, [sound(0.6)])[0]


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="Linux alone has it")
def test_a_connection_to_nobody_is_given_up():
    with listening("127.0.0.1", 0) as made:
        assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 20_000
