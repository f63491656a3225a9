"""Servers in processes of their own: started, awaited, watched, ended. Each prints one line of
JSON with its ports when it is ready, and drains on SIGTERM."""

import contextlib
import json
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request

import psutil
from prometheus_client.parser import text_string_to_metric_families
from streaming import environment

START_S = 120  # for slow machines; whoever dies is noticed at once


class Server:
    """A server process: `with Server(max_batch=1) as server: ... server.address`. Options
    become flags of the command line, behind `flags` as they are. `start()` returns at once,
    `wait_ready()` when it answers, or RuntimeError. `ports` is what it printed."""

    def __init__(self, module="serving.server", *flags, **options):
        more = [f"--{key.replace('_', '-')}={value}" for key, value in options.items()]
        self.command = [sys.executable, "-m", module, *flags, *more]
        self.process, self.ports = None, {}

    def start(self):
        """The server, its process begun but perhaps not ready."""
        joined = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        self.process = subprocess.Popen(self.command, env=environment(), **joined)
        return self

    def wait_ready(self):
        """The server, ready. Asked again, it answers at once."""
        if self.ports:
            return self
        clock, told = threading.Timer(START_S, self.process.kill), []
        clock.start()
        for line in self.process.stdout:  # ends when the process does
            told.append(line)
            with contextlib.suppress(ValueError, TypeError, AttributeError):
                self.ports = {name: int(port) for name, port in json.loads(line).items()}
                break
        clock.cancel()
        if not self.ports:
            raise RuntimeError(f"the server did not start: {''.join(told).strip()[-800:]}")
        threading.Thread(target=self.process.stdout.read, daemon=True).start()  # its log
        return self

    @property
    def address(self):
        """host:port of what clients talk to; other ports stand in `ports`."""
        return f"127.0.0.1:{self.ports['port']}"

    def __enter__(self):
        (self if self.process else self.start()).wait_ready()
        return self

    def __exit__(self, *_):
        with contextlib.suppress(subprocess.TimeoutExpired):
            if self.process.poll() is None:
                self.terminate()
        self.process.kill()
        self.process.wait()

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


def scrape(address):
    """{series: value} of the metrics at an address, by Prometheus's own parser; labels follow
    the name, as in `asr_request_failure_total{reason=deadline}`."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        text, found = answer.read().decode(), {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f"{key}={value}" for key, value in sample.labels.items())
            found[sample.name + (f"{{{labels}}}" if labels else "")] = sample.value
    return found


def worker_pids(server):
    """The process ids of a server's workers, the one that answers first."""
    return sorted(child.pid for child in psutil.Process(server.process.pid).children())
