"""The trainer's side: numbered messages into the log, from a process of its own.

The process rewrites all rows of a table, version after version, as a stand-in for training:
every component of a vector is key + version × `STEP`, so that a reader can tell a wrong or torn
one.
"""

import json
import secrets
import subprocess
import time
from pathlib import Path

import numpy as np
from confluent_kafka import KafkaException, Producer
from storage_tiers import child

from .broker import client_options
from .messages import pack

STEP = 2.0**20  # keys below it stay exact in float32 up to version 15


class Trainer:
    """`trainer = Trainer(broker.address, "updates"); trainer.send("dlrm.ads", keys, vectors)`

    Each start is a trainer of its own: `identity` is drawn, and messages count from 0.
    """

    def __init__(self, address, topic, identity=None):
        self.identity = secrets.randbits(63) if identity is None else identity
        more = {"message.timeout.ms": 8000, "linger.ms": 2, "acks": 1}
        self.producer = Producer(client_options(address, **more))
        self.topic, self.sequence, self.failed = topic, 0, 0

    def send(self, table, keys, vectors):
        """None; one message into the log, soon."""
        self._produce(table, pack((self.identity, self.sequence), keys, vectors))
        self.sequence += 1

    def garbage(self, table):
        """None; what is no message, and has no number, into the log."""
        self._produce(table, b"no message at all")

    def _produce(self, table, message):
        self.producer.produce(self.topic, message, key=table, on_delivery=self._delivered)
        self.producer.poll(0)

    def flush(self, wait_s=10):
        """How many messages are not in the log: still waiting, or given up."""
        try:
            return self.producer.flush(wait_s) + self.failed
        except KafkaException:
            return len(self.producer) + self.failed

    def _delivered(self, error, message):
        self.failed += error is not None


def versioned(keys, version, width):
    """Vectors (K, W), float32, that tell their key and version."""
    return np.repeat((np.asarray(keys) + STEP * version)[:, None], width, 1).astype(np.float32)


def start_trainer(**told):
    """The child process, which ends when it has sent all; the caller waits, or kills it."""
    here = Path(__file__).parent.parent
    return child.python(__name__, here, told, stdout=subprocess.PIPE, text=True)


def main(told):
    """Sends the versions, prints how many messages it sent and how many were lost."""
    trainer = Trainer(told["address"], told["topic"], told.get("identity"))
    parts = np.array_split(np.arange(told["rows"]), told.get("parts", 4))
    for version in range(1, 1 + told["versions"]):
        for keys in parts:
            trainer.send(told["table"], keys, versioned(keys, version, told["width"]))
            time.sleep(told.get("pause_s", 0))
    print(json.dumps({"sent": trainer.sequence, "lost": trainer.flush()}))
