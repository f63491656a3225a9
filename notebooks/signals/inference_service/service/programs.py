"""Programs of others that run beside a study: haproxy in front of servers, Prometheus."""

import contextlib
import socket
import subprocess
import time

from .launch import EMMICHEL

__all__ = ["balanced", "free_port", "running"]

HAPROXY = """defaults
 mode http
 timeout connect 1s
 timeout client 60s
 timeout server 5s
 retries 3
 option redispatch
 retry-on all-retryable-errors
frontend in
 bind {at}
 default_backend servers
backend servers
 balance leastconn
 option httpchk GET {ready}
"""


@contextlib.contextmanager
def balanced(addresses, folder):
    """The address of a haproxy in front of servers; it asks for the model, and tries another.

    A server says that it is ready before its models are, and answers 404 for them until then.
    """
    file, at = folder / "haproxy.cfg", f"127.0.0.1:{free_port()}"
    text = HAPROXY.format(at=at, ready=f"/v2/models/{EMMICHEL.name}/ready")
    watched = "check inter 500ms fall 1 observe layer4 error-limit 1 on-error mark-down"
    lines = [f" server s{i} {one} {watched}" for i, one in enumerate(addresses)]
    file.write_text("\n".join([text.rstrip(), *lines, ""]))
    with running(["haproxy", "-f", str(file), "-db"]):
        time.sleep(2)
        yield at


@contextlib.contextmanager
def running(command):
    """A program that runs meanwhile."""
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.terminate()


def free_port():
    """A port that nobody uses now."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        return held.getsockname()[1]
