"""A network that misbehaves on purpose, between a client and a server.

with Fault("127.0.0.1:8000", delay_s=2) as fault:
    Sonic([fault.address], model)
"""

import contextlib
import socket
import threading
import time


class Fault:
    """A forwarder of bytes to `target`, over real sockets, `address` its own. `delay_s` before
    the first answer of a connection, `cut_after` bytes of a connection's answers, `bytes_per_s`
    of all connections both ways."""

    def __init__(self, target, delay_s=0.0, cut_after=None, bytes_per_s=None):
        host, port = target.rsplit(":", 1)
        self.target, self.delay_s, self.cut_after = (host, int(port)), delay_s, cut_after
        self.bytes_per_s, self.free_at, self.lock = bytes_per_s, 0.0, threading.Lock()

    def __enter__(self):
        self.door = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.door.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        _shut(self.door)  # wakes the thread that accepts

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.door.accept()
                try:
                    far = socket.create_connection(self.target, timeout=5)
                except OSError:
                    near.close()
                    continue
                far.settimeout(None)
                for way in ((near, far, False), (far, near, True)):
                    threading.Thread(target=self._forward, args=way, daemon=True).start()

    def _forward(self, source, sink, answers):
        passed, most = 0, min(65_536, 1 + int((self.bytes_per_s or 1e9) / 20))  # 50 ms
        with contextlib.suppress(OSError):
            while data := source.recv(most):
                if answers and not passed:
                    time.sleep(self.delay_s)
                if answers and self.cut_after is not None:
                    data = data[: self.cut_after - passed]
                self._wait_for_the_link(len(data))
                sink.sendall(data)
                passed += len(data)
                if answers and passed == self.cut_after:
                    break
        _shut(source)
        _shut(sink)

    def _wait_for_the_link(self, count):
        if self.bytes_per_s:
            with self.lock:
                free_at = max(self.free_at, time.monotonic()) + count / self.bytes_per_s
                self.free_at = free_at
            time.sleep(max(0, free_at - time.monotonic()))


def _shut(one):
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
