"""Many clients that speak in real time, and what each of them waited.

Article: "Solving Automatic Speech Recognition Deployment Challenges" (NVIDIA Technical Blog),
whose clients send chunk i at its real time and take the time until its answer. Packet i of a
stream is due at t0 + i P, whether answers came or not (an open loop: a client that waits for
answers would stop asking just when the server is slow, and hide the queue). For an answer that
needed the sound up to h ms, received at r:

    response = r - (t0 + time at which the packet with h was due)
    felt     = chunk + (h - end of the chunk) + response    worst case: the chunk's first sound

The bracket is the right context, or what was left of it at the end of the stream.

The due time counts, not the time of sending, so that a late generator flatters nobody; how late
it was itself is reported beside.

    python asr_load.py 127.0.0.1:8000 --streams 16 --seconds 10    # room noise as sound
"""

import argparse
import asyncio
import contextlib
import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
import websockets

__all__ = ["Heard", "Server", "load", "percentiles", "scrape", "speak"]
__all__ += ["worker_pids"]

RATE_HZ, GOLDEN = 16_000, 0.618034


@dataclass
class Heard:
    """What one client got: texts, and for each answer the times in ms."""

    finals: list = field(default_factory=list)
    responses_ms: list = field(default_factory=list)
    felt_ms: list = field(default_factory=list)
    arrivals_s: list = field(default_factory=list)  # since t0, of each answer
    queue_ms: list = field(default_factory=list)
    compute_ms: list = field(default_factory=list)
    batches: list = field(default_factory=list)
    late_sends_ms: list = field(default_factory=list)  # the generator's own lateness
    notices: list = field(default_factory=list)  # throttled, late, error
    stream: str = ""
    samples: int = 0
    done: str = ""  # why the server ended the stream; "" if it did not

    @property
    def text(self):
        return " ".join(" ".join(self.finals).split())


class Server:
    """A server process: `with Server(max_batch=1) as server: ... server.address`.

    Options become flags of `asr_server.py`. Waits until it is ready; RuntimeError with its last
    words if it isn't. `terminate()` sends SIGTERM and returns the exit code after the drain.
    """

    def __init__(self, **options):
        flags = [f"--{key.replace('_', '-')}={value}" for key, value in options.items()]
        script = Path(__file__).resolve().with_name("asr_server.py")
        self.command, self.process, self.address = (
            [sys.executable, str(script), *flags],
            None,
            "",
        )

    def start(self):
        """The server, its process begun but perhaps not ready."""
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(self.command, stdout=pipe, stderr=pipe, text=True)
        return self

    def wait_ready(self):
        """The server, ready: it said on which port. Asked again, it answers at once."""
        if self.address:
            return self
        line = self.process.stdout.readline()  # ends when the process does
        if not line:
            _, words = self.process.communicate(timeout=10)
            raise RuntimeError(f"the server did not start: {words.strip()[-600:]}")
        self.address = f"127.0.0.1:{json.loads(line)['port']}"
        return self

    def __enter__(self):
        (self if self.process else self.start()).wait_ready()
        return self

    def __exit__(self, *_):
        with contextlib.suppress(subprocess.TimeoutExpired):
            if self.process.poll() is None:
                self.terminate()
        self.process.kill()
        self.process.communicate()

    def terminate(self, timeout=20):
        """The exit code, after SIGTERM and the drain."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout)

    def get(self, path):
        """(status, text) of a GET request."""
        try:
            with urllib.request.urlopen(f"http://{self.address}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


def scrape(where):
    """{series: value} of the metrics of a Server or an address, read by Prometheus's parser;
    labels follow the name as in `asr_request_failure_total{reason=deadline}`."""
    from prometheus_client.parser import text_string_to_metric_families

    address, found = getattr(where, "address", where), {}
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f"{key}={value}" for key, value in sample.labels.items())
            found[sample.name + (f"{{{labels}}}" if labels else "")] = sample.value
    return found


def worker_pids(server):
    """The process ids of a server's workers, the one that answers first (Linux)."""
    pid = server.process.pid
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return sorted({int(word) for path in tasks for word in path.read_text().split()})


async def speak(
    address, signal_N, packet_ms=20, speed=1.0, resume=None, start_at=None, stop_after_s=None
):
    """What one client Heard, who says signal_N (N,) in real time, `speed` times as fast.

    `start_at`: time.perf_counter() of the first packet. `resume`: the stream to go on with,
    from the sample that the server names. `stop_after_s`: then the connection breaks without
    an end.
    """
    heard, packet = Heard(), RATE_HZ * packet_ms // 1000
    sound = (signal_N.clamp(-1, 32767 / 32768) * 32768).to(torch.int16).numpy().tobytes()
    url = f"ws://{address}/v1/stream"
    await asyncio.sleep((start_at or 0) - 0.15 - time.perf_counter())  # dials, then speaks
    async with websockets.connect(url, ping_interval=None, max_queue=256) as socket:
        await socket.send(json.dumps({"type": "start", "resume": resume}))
        hello = json.loads(await socket.recv())
        if hello["type"] != "ready":
            heard.notices.append(hello)
            return heard
        heard.stream, first = hello["stream"], hello["samples"]
        began = (start_at or time.perf_counter()) - first / RATE_HZ / speed
        clock = began, packet_ms, speed
        reader = asyncio.create_task(_listen(socket, heard, hello, clock))
        until = first + RATE_HZ * stop_after_s if stop_after_s else len(signal_N)
        with contextlib.suppress(websockets.ConnectionClosed):
            for at in range(first, int(min(until, len(signal_N))), packet):
                piece = sound[2 * at : 2 * min(at + packet, len(signal_N))]
                await _send_due(socket, piece, heard, began + (at + packet) / RATE_HZ / speed)
                heard.samples = at + len(piece) // 2
            if stop_after_s is None:
                await socket.send(json.dumps({"type": "end"}))
        if stop_after_s is not None:
            socket.transport.abort()  # no farewell: the cable is cut
        await asyncio.gather(reader, return_exceptions=True)
    return heard


async def _send_due(socket, piece, heard, due):
    """Sends a packet when the last of it has been spoken, and notes how late."""
    wait = due - time.perf_counter()
    if wait > 0:
        await asyncio.sleep(wait)
    heard.late_sends_ms.append(max(0.0, (time.perf_counter() - due) * 1e3))
    await socket.send(piece)


async def _listen(socket, heard, hello, clock):
    """Reads answers until the server closes."""
    began, packet_ms, speed = clock
    async for message in socket:
        now, told = time.perf_counter(), json.loads(message)
        if told["type"] == "done":
            heard.done = told["reason"]
        elif told["type"] in ("throttled", "late", "error"):
            heard.notices.append(told)
        else:
            if told["type"] == "final":
                heard.finals.append(told["text"])
            if "queue_ms" in told and told["type"] == "partial":
                packets = -(-told["heard_ms"] // packet_ms)
                due = began + packets * packet_ms / 1e3 / speed
                response_ms = (now - due) * 1e3
                heard.arrivals_s.append(now - began)
                heard.responses_ms.append(response_ms)
                waited_ms = told["heard_ms"] - told["to_ms"] + hello["chunk_ms"]
                heard.felt_ms.append(waited_ms + response_ms)
                heard.queue_ms.append(told["queue_ms"])
                heard.compute_ms.append(told["compute_ms"])
                heard.batches.append(told["batch"])


async def load(address, signals, packet_ms=20, spread_s=1.0):
    """What each client Heard, all speaking at once: `await load(server.address, signals)`.

    signals: a list of (N,) tensors, one a client. Starts are spread over `spread_s` by steps of
    the golden ratio, since real callers do not speak in step, and chunks should not either.
    """
    start = time.perf_counter() + 0.2 + 0.004 * len(signals)
    return await asyncio.gather(
        *(
            speak(address, s, packet_ms, start_at=start + spread_s * (n * GOLDEN % 1))
            for n, s in enumerate(signals)
        )
    )


def percentiles(all_heard, what="responses_ms", points=(50, 95, 99)):
    """Percentiles of a list of every client's, pooled: a tuple of floats, NaN without any."""
    values = np.concatenate([np.asarray(getattr(heard, what), float) for heard in all_heard])
    if not len(values):
        return (np.nan,) * len(points)
    return tuple(np.percentile(values, points).tolist())


def main(argv=None):
    """Prints what noise of so many clients waited; for a look at a server of your own."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("address")
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=10)
    args = parser.parse_args(argv)
    signals = [0.01 * torch.randn(int(args.seconds * RATE_HZ)) for _ in range(args.streams)]
    heard = asyncio.run(load(args.address, signals))
    for name in ("responses_ms", "felt_ms", "queue_ms", "compute_ms", "late_sends_ms"):
        p50, p95, p99 = percentiles(heard, name)
        print(f"{name}: p50 {p50:.1f}, p95 {p95:.1f}, p99 {p99:.1f}")


if __name__ == "__main__":
    main()
