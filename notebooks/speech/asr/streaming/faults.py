"""Clients that misbehave, on purpose, and a worker that is killed under them.

Article: "Solving Automatic Speech Recognition Deployment Challenges" (NVIDIA Technical Blog),
whose checklist ends with monitoring. What a monitor is for shows when something breaks, so five
things break at once here, beside clients that behave:

    stops      falls silent in the middle of a word and never hangs up
    garbage    sends half a sample
    hasty      sends ten times as fast as speech
    returns    loses its connection in the middle and dials again
    worker     is killed under load

Nothing else may be lost: `Verdict.text` is what a client heard in the end.
"""

import asyncio
import contextlib
import json
import os
import signal
from dataclasses import dataclass

import torch
import websockets

from .clients import Heard, load, speak
from .launch import worker_pids

__all__ = ["Verdict", "break_everything", "garbage", "hasty", "kill_worker", "returns", "stops"]


@dataclass(frozen=True)
class Verdict:
    """What one client met: its kind, what the server said to it, and the text it heard."""

    kind: str
    told: str
    text: str


async def stops(address, signal_N, after_s):
    """The Verdict on a client that speaks for `after_s` seconds and then falls silent."""
    heard = Heard()
    sound_N = signal_N[: int(after_s * 16_000)]
    async with websockets.connect(f"ws://{address}/v1/stream", ping_interval=None) as socket:
        await socket.send(json.dumps({"type": "start"}))
        for piece_N in sound_N.split(320):
            await socket.send((piece_N * 32767).to(torch.int16).numpy().tobytes())
            await asyncio.sleep(0.02)
        async for message in socket:
            told = json.loads(message)
            if told["type"] == "final":
                heard.finals.append(told["text"])
            heard.done = told.get("reason", heard.done)
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
    second = await speak(address, signal_N, resume=first.stream)
    same = "resumed" if second.stream == first.stream else f"refused: {second.notices}"
    text = " ".join(" ".join([*first.finals, *second.finals]).split())
    return Verdict("loses its connection", f"{same}, then {second.done}", text)


async def kill_worker(server, after_s):
    """The process id of the worker that answered, killed without warning."""
    await asyncio.sleep(after_s)
    pid = worker_pids(server)[0]
    os.kill(pid, signal.SIGKILL)
    return pid


async def break_everything(server, good, odd, at_s=1.5):
    """([Heard of the good clients], [Verdicts], pid killed): all at once, on one server.

    `good`: signals of clients that behave; `odd`: three signals (N,) for the client that stops,
    the hasty one and the one that returns. The worker dies after `at_s` seconds.
    """
    address = server.address
    clients = stops(address, odd[0], at_s), garbage(address), hasty(address, odd[1])
    tasks = *clients, returns(address, odd[2], at_s), kill_worker(server, at_s)
    heard, *verdicts, pid = await asyncio.gather(load(address, good), *tasks)
    return heard, verdicts, pid
