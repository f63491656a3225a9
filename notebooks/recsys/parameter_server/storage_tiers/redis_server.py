"""`redis-server` as a child process on a free port; started, killed, started again."""

import shutil
import socket

from . import child


class RedisServer(child.Server):
    """`with RedisServer() as server: server.address`; `kill()` and `start()` in between.

    It keeps nothing on disk, so it comes back empty. Raises RuntimeError where Redis is not
    installed (`RedisServer.there()` says so before) or does not answer within `wait_s`.
    """

    def __init__(self, *options, wait_s=10):
        super().__init__(wait_s)
        self.options = options

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
        return self.run(["redis-server", *told, "--appendonly", "no"], self._answers)

    def _answers(self):
        with socket.create_connection(("127.0.0.1", self.port), 0.2) as line:
            line.settimeout(0.5)
            line.sendall(b"PING\r\n")
            return line.recv(5) == b"+PONG"
