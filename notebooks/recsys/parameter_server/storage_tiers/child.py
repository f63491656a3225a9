"""Child processes that do not outlive this one, however it ends; Redis among them."""

import contextlib
import ctypes
import json
import shutil
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


def python(module, folder, told, **how):
    """`start` of `main(told)` in a module that Python finds from the folder."""
    code = f"import json, sys; from {module} import main; main(json.loads(sys.argv[1]))"
    return start([sys.executable, "-c", code, json.dumps(told)], cwd=folder, **how)


class Server:
    """A server on a free port of this machine: `with SomeServer() as server: server.address`.

    `kill()` and `start()` in between. A subclass has the `command`, `answers()` (an OSError is
    a no), `there()`, whether this machine has the program, and `absent`, what to say if not.
    """

    def __init__(self, wait_s):
        self.wait_s, self.process = wait_s, None
        with socket.create_server(("127.0.0.1", 0)) as held:
            self.port = held.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"

    def start(self):
        """The server itself, once it answers; RuntimeError where it does not."""
        if not self.there():
            raise RuntimeError(self.absent)
        command, quiet = self.command(), subprocess.DEVNULL
        self.process = start(command, stdout=quiet, stderr=quiet, cwd="/")
        ends = time.monotonic() + self.wait_s
        while time.monotonic() < ends and self.process.poll() is None:
            with contextlib.suppress(OSError):
                if self.answers():
                    return self
            time.sleep(0.02)
        self.kill()
        raise RuntimeError(f"{command} did not answer at {self.address} in {self.wait_s} s")

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


class RedisServer(Server):
    """`with RedisServer() as server: server.address`. It keeps nothing on disk."""

    absent = "redis-server is not installed (Debian: apt install redis-server)"

    def __init__(self, *options, wait_s=10):
        super().__init__(wait_s)
        self.options = options

    @staticmethod
    def there():
        """Whether this machine has Redis."""
        return shutil.which("redis-server") is not None

    def command(self):
        """What starts it."""
        told = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", *self.options]
        return ["redis-server", *told, "--appendonly", "no"]

    def answers(self):
        """Whether it answers."""
        with socket.create_connection(("127.0.0.1", self.port), 0.2) as line:
            line.settimeout(0.5)
            line.sendall(b"PING\r\n")
            return line.recv(5) == b"+PONG"
