"""`redis-server` as a child process on a free port; started, killed, started again."""

import shutil
import socket
import subprocess
import time

from . import child


class RedisServer:
    """`with RedisServer() as server: server.address`; `kill()` and `start()` in between.

    It keeps nothing on disk, so it comes back empty. Raises RuntimeError where Redis is not
    installed (`RedisServer.there()` says so before) or does not answer within `wait_s`.
    """

    def __init__(self, *options, wait_s=10):
        self.options, self.wait_s, self.process = options, wait_s, None
        with socket.create_server(("127.0.0.1", 0)) as held:
            self.port = held.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"

    @staticmethod
    def there():
        """Whether this machine has Redis."""
        return shutil.which("redis-server") is not None

    def start(self):
        """The server itself, once it answers."""
        if not self.there():
            raise RuntimeError(
                "redis-server is not installed (Debian: apt install redis-server)"
            )
        told = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", *self.options]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": "/"}
        self.process = child.start(["redis-server", *told, "--appendonly", "no"], **quiet)
        ends = time.monotonic() + self.wait_s
        while time.monotonic() < ends and self.process.poll() is None:
            try:
                with socket.create_connection(("127.0.0.1", self.port), 0.2) as line:
                    line.settimeout(0.5)
                    line.sendall(b"PING\r\n")
                    if line.recv(5) == b"+PONG":
                        return self
            except OSError:
                time.sleep(0.02)
        self.kill()
        raise RuntimeError(
            f"redis-server did not answer on port {self.port} in {self.wait_s} s"
        )

    def kill(self):
        """None; ends it at once, as a power cut would."""
        if self.process:
            self.process.kill()
            self.process.wait()
        self.process = None

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.kill()
