"""Clients that misbehave, on purpose, and a worker that is killed or stopped under them.

Article: "Solving Automatic Speech Recognition Deployment Challenges" (NVIDIA Technical Blog),
whose checklist ends with monitoring. What a monitor is for shows when something breaks, so
these break at once, beside clients that behave:

    stops      falls silent in the middle of a word and never hangs up
    garbage    sends half a sample
    hasty      sends ten times as fast as speech
    returns    loses its connection in the middle and dials again
    vanishes   its network dies unheard; it dials again while its old connection seems open
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

from .clients import Heard, load, speak
from .launch import worker_pids

__all__ = [
    "Cable",
    "Verdict",
    "break_everything",
    "end_worker",
    "garbage",
    "hasty",
    "returns",
    "stops",
    "vanishes",
]


@dataclass(frozen=True)
class Verdict:
    """What one client met: its kind, what the server said to it, and the text it heard."""

    kind: str
    told: str
    text: str


class Cable:
    """A network between client and server that can be cut: `async with Cable(address) as cable:
    cable.address`.

    After `cut()` nothing passes any more, in either direction, and nobody is told: both ends
    stay open.
    """

    def __init__(self, address):
        (self.host, self.port), self.whole, self.writers = address.rsplit(":", 1), True, []

    async def __aenter__(self):
        self.server = await asyncio.start_server(self._join, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self.server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_):
        self.server.close()
        for writer in self.writers:
            writer.transport.abort()

    def cut(self):
        """None; from now on all is lost."""
        self.whole = False

    async def _join(self, near_reader, near_writer):
        far_reader, far_writer = await asyncio.open_connection(self.host, self.port)
        self.writers += [near_writer, far_writer]
        with contextlib.suppress(OSError):
            both = self._carry(near_reader, far_writer), self._carry(far_reader, near_writer)
            await asyncio.gather(*both)

    async def _carry(self, reader, writer):
        while data := await reader.read(65_536):
            if self.whole:
                writer.write(data)
                await writer.drain()
        if self.whole:
            writer.close()


async def stops(address, signal_N, after_s):
    """The Verdict on a client that speaks for `after_s` seconds and then falls silent."""
    heard = await speak(address, signal_N, stop_after_s=after_s, silent=True)
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


async def returns(address, signal_N, after_s, away_s=0.3):
    """The Verdict on a client whose connection breaks, and who resumes."""
    first = await speak(address, signal_N, stop_after_s=after_s)
    await asyncio.sleep(away_s)
    return _resumed("loses its connection", first, await speak(address, signal_N, resume=first))


async def vanishes(address, signal_N, after_s, away_s=0.3):
    """The Verdict on a client whose network dies unheard, and who resumes over another."""
    async with Cable(address) as cable:
        first = Heard()
        speaking = asyncio.create_task(speak(cable.address, signal_N, heard=first))
        await asyncio.sleep(after_s)
        cable.cut()
        await asyncio.sleep(away_s)
        second = await speak(address, signal_N, resume=first)
        speaking.cancel()
        await asyncio.gather(speaking, return_exceptions=True)
    return _resumed("its network vanishes", first, second)


def _resumed(kind, first, second):
    same = "resumed" if second.stream == first.stream else f"refused: {second.notices}"
    text = " ".join(" ".join([*first.finals, *second.finals]).split())
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
    clients += returns(address, odd[2], at_s), vanishes(address, odd[3], at_s)
    heard, *verdicts, pid = await asyncio.gather(
        load(address, good), *clients, end_worker(server, at_s)
    )
    return heard, verdicts, pid
