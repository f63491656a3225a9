"""The node's side: messages out of the log into the tiers, each once.

The place in the log is kept with the vectors, not by the broker: the offset and the last number
of each trainer go into the same batch. So a node that starts again goes on where its tables
are. A broker that lost its messages starts at offset 0 again; the numbers say then what is old,
what is new, and how many never came (`counts["lost"]`: time for a copy of another node, or for
a new dump). A trainer that starts again is a new one, and counts from 0.
"""

import re
from collections import Counter

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

from .broker import client_options
from .messages import BadMessage, unpack

POLL_S, BATCH = 0.5, 32  # as the original: 500 ms, at most 32 messages before a commit
REWIND = ()


class UpdateReader:
    """`reader = UpdateReader(address, "updates", server, filters=["dlrm[.].*"]); reader.poll()`

    `filters`: patterns of the tables that this node serves; a name must match one of them
    wholly.
    """

    def __init__(self, address, topic, server, filters=(".*",)):
        self.server, self.filters = server, [re.compile(one) for one in filters]
        self.topic, self.counts, self.reasons = topic, Counter(), []
        more = {"group.id": "unused", "enable.auto.commit": False, "fetch.wait.max.ms": 20}
        more |= {"auto.offset.reset": "earliest", "error_cb": self._trouble}
        self.unsure = True  # whether this is the log that the place speaks of
        self.consumer = Consumer(client_options(address, **more))
        self._to_place()

    def _to_place(self):
        place = self.server.persistent.place() or {"offset": 0, "last": {}}
        self.offset, self.last = place["offset"], dict(place["last"])
        self.consumer.assign([TopicPartition(self.topic, 0, self.offset)])

    def poll(self, wait_s=POLL_S):
        """How many messages were applied; 0 where none came, or nobody answers."""
        try:
            messages = self.consumer.consume(BATCH, wait_s)
        except KafkaException:
            messages = []
        parts, taken, before = [], 0, self.counts.copy()
        for message in messages:
            if message.error():  # the broker is away; the client goes on trying
                self._trouble(message.error())
                continue
            part = self._part(message)
            if part is REWIND:
                break
            self.offset, taken = message.offset() + 1, taken + 1
            if part:
                parts.append(part)
        if taken:
            try:
                self.server.apply(parts, {"offset": self.offset, "last": self.last})
            except BaseException:
                self.counts = before
                self._to_place()  # where nothing of this is committed, it comes again
                raise
            self.counts["applied"] += len(parts)
        elif self._high() < self.offset:
            self._rewind()  # another log: this one is shorter than what was read already
        return len(parts)

    def _part(self, message):
        """(table, keys, vectors), None for what this node leaves out, or REWIND."""
        table = (message.key() or b"").decode(errors="replace")
        try:
            (trainer, sequence), *part = unpack(message.value())
        except BadMessage as error:  # without a number
            return self._left_out("bad", f"{table}: {error}")
        last = self.last.get(str(trainer), -1)
        if sequence > last + 1 and self.unsure:
            return self._rewind()  # once: what the beginning lacks, too, is lost
        if sequence <= last:
            return self._left_out("old")
        self.counts["lost"] += sequence - last - 1
        self.last[str(trainer)], self.unsure = sequence, False
        if not any(one.fullmatch(table) for one in self.filters):
            return self._left_out("filtered")
        if table not in self.server.persistent.widths:
            return self._left_out("unknown table", f"{table}: no such table here")
        try:  # what a tier would refuse must not come again for ever
            self.server.checked([(table, *part)])
        except ValueError as error:
            return self._left_out("bad", f"{table}: {error}")
        return table, *part

    def _rewind(self):
        self.counts["rewound"] += 1
        self.offset, self.unsure = 0, False
        self.consumer.assign([TopicPartition(self.topic, 0, OFFSET_BEGINNING)])
        return REWIND

    def _trouble(self, error):
        self.counts["trouble"] += 1
        self.unsure = True

    def _high(self):
        try:
            place = TopicPartition(self.topic, 0)
            return self.consumer.get_watermark_offsets(place, timeout=1)[1]
        except KafkaException as error:  # nobody answers, which says nothing about the log
            self._trouble(error)
            return self.offset

    def _left_out(self, why, reason=None):
        self.counts[why] += 1
        if reason:
            self.reasons.append(reason)

    def close(self):
        """None; leaves the broker."""
        self.consumer.close()
