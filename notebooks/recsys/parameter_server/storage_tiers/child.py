"""Child processes that do not outlive this one, however it ends; servers among them."""

import contextlib
import ctypes
import signal
import socket
import subprocess
import sys
import time

DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG of Linux's prctl


def start(command, **how):
    """A `Popen` whose child is killed when this process ends: `start(command, **how)`.

    On Linux alone; elsewhere it is left to `kill`.
    """
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None

    def bind():  # in the child, before its program
        libc.prctl(DIE_WITH_PARENT, signal.SIGKILL)

    return subprocess.Popen(command, preexec_fn=bind if libc else None, **how)


class Server:
    """A server on a free port of this machine: `with SomeServer() as server: server.address`.

    A subclass has `start`, which calls `run`. `kill()` and `start()` in between.
    """

    def __init__(self, wait_s):
        self.wait_s, self.process = wait_s, None
        with socket.create_server(("127.0.0.1", 0)) as held:
            self.port = held.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"

    def run(self, command, answers, **how):
        """The server itself once `answers()` is true; RuntimeError where it is not in `wait_s`.

        `answers` is asked again until then; an OSError is a no.
        """
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": "/"}
        self.process = start(command, **quiet, **how)
        ends = time.monotonic() + self.wait_s
        while time.monotonic() < ends and self.process.poll() is None:
            with contextlib.suppress(OSError):
                if answers():
                    return self
            time.sleep(0.02)
        self.kill()
        raise RuntimeError(f"{command[0]} did not answer at {self.address} in {self.wait_s} s")

    def kill(self):
        """None; ends it at once, as a power cut would; what it held in memory goes with it."""
        if self.process:
            self.process.kill()
            self.process.wait()
        self.process = None

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.kill()
