"""Clients that misbehave, on purpose, and a worker that is killed or stopped under them.

What a monitor is for shows when something breaks, so these break at once, beside good ones:

    stops      falls silent in the middle of a word and never hangs up
    garbage    sends half a sample
    hasty      sends ten times as fast as speech
    returns    loses its connection in the middle and dials again; or its network dies unheard,
               and it dials again while its old connection seems open
    worker     is killed under load, or stopped (SIGSTOP): then it hangs

Nothing else may be lost: `Verdict.text` is what a client heard in the end.
"""

import asyncio
import contextlib
import json
import os
import signal
from dataclasses import dataclass

import websockets

from .clients import load, speak
from .launch import worker_pids

__all__ = ["Verdict", "break_everything", "end_worker", "garbage", "hasty", "returns", "stops"]


@dataclass(frozen=True)
class Verdict:
    """What one client met: its kind, what the server said to it, and the text it heard."""

    kind: str
    told: str
    text: str


async def stops(address, signal_N, after_s):
    """The Verdict on a client that speaks for `after_s` seconds and then falls silent."""
    heard = await speak(address, signal_N, stop_after_s=after_s, then="silent")
    return Verdict("stops mid-word", f"stream ended: {heard.done}", heard.text)


async def garbage(address):
    """The Verdict on a client that sends half a sample."""
    async with websockets.connect(f"ws://{address}/v1/stream", ping_interval=None) as socket:
        await socket.send(json.dumps({"type": "start"}))
        await socket.send(b"\x01\x02\x03")
        told = {}
        with contextlib.suppress(websockets.ConnectionClosed):
            while told.get("type") != "error":
                told = json.loads(await socket.recv())
    return Verdict("sends garbage", f"{told.get('code')}, closed {socket.close_code}", "")


async def hasty(address, signal_N, speed=10.0):
    """The Verdict on a client that sends `speed` times as fast as speech."""
    heard = await speak(address, signal_N, speed=speed)
    told = ", ".join(notice["type"] for notice in heard.notices) or "nothing"
    return Verdict(f"sends {speed:g}× too fast", f"{told}, then {heard.done}", heard.text)


async def returns(address, signal_N, after_s, then="cut", away_s=0.3):
    """The Verdict on a client whose connection breaks, and who resumes: what its kernel says to
    the server (`cut`), or its network dies unheard and the old connection stays open (`deaf`).
    """
    first = await speak(address, signal_N, stop_after_s=after_s, then=then)
    await asyncio.sleep(away_s)
    second = await speak(address, signal_N, resume=first)
    first.socket.transport.abort()
    same = "resumed" if second.stream == first.stream else f"refused: {second.notices}"
    text = " ".join(" ".join([*first.finals, *second.finals]).split())
    kind = "its network vanishes" if then == "deaf" else "loses its connection"
    return Verdict(kind, f"{same}, then {second.done}", text)


async def end_worker(server, after_s, by=signal.SIGKILL):
    """The process id of the worker that answered, killed without warning, or stopped."""
    await asyncio.sleep(after_s)
    pid = worker_pids(server)[0]
    os.kill(pid, by)
    return pid


async def break_everything(server, good, odd, at_s=1.5):
    """([Heard of the good clients], [Verdicts], pid killed): all at once, on one server.

    `good`: signals of clients that behave; `odd`: four signals (N,) for the client that stops,
    the hasty one and the two that come back. The worker dies after `at_s` seconds.
    """
    address = server.address
    clients = stops(address, odd[0], at_s), garbage(address), hasty(address, odd[1])
    clients += returns(address, odd[2], at_s), returns(address, odd[3], at_s, "deaf")
    everybody = load(address, good), *clients, end_worker(server, at_s)
    heard, *verdicts, pid = await asyncio.gather(*everybody)
    return heard, verdicts, pid
