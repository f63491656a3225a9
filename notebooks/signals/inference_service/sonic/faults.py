"""A network that misbehaves on purpose, between a client and a server.

    with Fault("127.0.0.1:8000", delay_s=2) as fault:   # or cut_after=…, bytes_per_s=…,
    refuse=… Sonic([fault.address], model)

It forwards bytes both ways over real sockets. Its settings may change while it runs.
"""

import contextlib
import socket
import threading
import time

__all__ = ["Fault"]


class Fault:
    """A forwarder to `target`, `address` its own. `delay_s` before the first answer of a
    connection, `cut_after` bytes of a connection's answers, `bytes_per_s` of all connections
    both ways, `refuse`: connections are closed at once."""

    def __init__(self, target, delay_s=0.0, cut_after=None, bytes_per_s=None, refuse=False):
        host, port = target.rsplit(":", 1)
        self.target = host, int(port)
        self.delay_s, self.cut_after, self.refuse = delay_s, cut_after, refuse
        self.bytes_per_s, self.free_at, self.lock = bytes_per_s, 0.0, threading.Lock()
        self.passed_bytes = 0

    def __enter__(self):
        self.door = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.door.getsockname()[1]}"
        self.stopped = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        self.door.close()

    def _accept(self):
        while not self.stopped.is_set():
            try:
                near, _ = self.door.accept()
                far = None if self.refuse else socket.create_connection(self.target, timeout=5)
            except OSError:
                if self.stopped.is_set():
                    return
                near.close()
                continue
            if far is None:
                near.close()
                continue
            for source, sink, answers in ((near, far, False), (far, near, True)):
                arguments = source, sink, answers
                threading.Thread(target=self._forward, args=arguments, daemon=True).start()

    def _forward(self, source, sink, answers):
        passed = 0
        try:
            while data := source.recv(65_536):
                if answers and not passed:
                    time.sleep(self.delay_s)
                if answers and self.cut_after is not None:
                    data = data[: max(0, self.cut_after - passed)]
                self._paid(len(data))
                sink.sendall(data)
                passed += len(data)
                if answers and passed == self.cut_after:
                    break
        except OSError:
            pass
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _paid(self, count):
        """Waits until the link has room for so many bytes more."""
        with self.lock:
            self.passed_bytes += count
            if not self.bytes_per_s:
                return
            self.free_at = max(self.free_at, time.monotonic()) + count / self.bytes_per_s
            wait = self.free_at - time.monotonic()
        time.sleep(max(0, wait))
