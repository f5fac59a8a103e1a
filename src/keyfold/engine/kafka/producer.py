"""Writes batches to a topic, each in one transaction with its position, or without transactions."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, Protocol

from keyfold.engine.kafka import positions
from keyfold.engine.kafka.failures import Retry, explain_errors, refused_login, unreachable
from keyfold.engine.kafka.topics import client_missing

Headers = list[tuple[str, str | bytes | None]]
Record = tuple[bytes | None, bytes | None, Headers]
"""Key, value and headers of a message."""

_STEP_SECONDS: Final = 5.0
_CALL_SECONDS: Final = 30.0
_PAUSE_SECONDS: Final = 0.2
_POLL_EVERY: Final = 1_000
_WANTED: Final = {
    "enable.idempotence": True,
    "compression.type": "lz4",
    "linger.ms": 20,
    "queue.buffering.max.messages": 500_000,
    # As Java's clients do it, so that topics with the same keys are partitioned alike.
    "partitioner": "murmur2_random",
    "delivery.report.only.error": True,
}
_TRANSACTION_MS: Final = 300_000


def _quiet() -> logging.Logger:
    """The client would print some lines on stderr, whatever its log level; what matters is raised."""
    found = logging.getLogger("keyfold.kafka.client")
    found.disabled = True
    return found


class BatchProducer(Protocol):
    """Writes batches."""

    def ready(self, seconds: float) -> int | None:
        """Waits for the brokers; returns the position that they know."""

    def write(self, batch: int, records: Callable[[], Iterable[Record]]) -> None:
        """Writes a batch; returns when it is committed. `records` may be asked for again."""

    def close(self) -> None:
        """Ends the client."""


class Producer:
    """What both kinds share: the client, its errors, and retries until a broker is back."""

    def __init__(
        self, topic: str, client: Mapping[str, Any], abandoned: Callable[[], bool], more: Mapping[str, Any]
    ) -> None:
        self.topic, self.abandoned = topic, abandoned
        self._refused: Any = None
        self._error: Any = None
        self._wanted = {**_WANTED, "error_cb": self._note, "on_delivery": self._on_delivery, **more, **client}
        self._open()

    def _open(self) -> None:
        try:
            import confluent_kafka
        except ImportError:
            raise client_missing() from None
        with explain_errors(self.topic):
            self.client = confluent_kafka.Producer(self._wanted, logger=_quiet())

    def ready(self, seconds: float) -> int | None:
        """Waits for the brokers; returns the position that they know.

        Raises if they don't have the topic, refuse the login, or don't answer in time.
        """
        deadline = time.monotonic() + seconds
        step = min(_STEP_SECONDS, max(seconds, 1.0))
        while True:
            try:
                with explain_errors(self.topic, self._background):
                    self._require_topic(step)
                    self.begin()
                    return self.position()
            except Retry as reason:
                if time.monotonic() > deadline:
                    raise unreachable(self.topic, self._reason() if self._error else str(reason)) from None
            time.sleep(_PAUSE_SECONDS)

    def begin(self) -> None:
        """Takes over from earlier producers."""

    def position(self) -> int | None:
        """The newest batch that the cluster knows to be in the topic."""
        return None

    def _require_topic(self, seconds: float) -> None:
        from confluent_kafka import KafkaException

        error = self.client.list_topics(self.topic, timeout=seconds).topics[self.topic].error
        if error is not None:
            raise KafkaException(error)

    def send(self, records: Iterable[Record]) -> None:
        """Queues messages, and waits while the queue is full."""
        produce, poll, topic = self.client.produce, self.client.poll, self.topic
        self._refused = None
        for number, (key, value, headers) in enumerate(records):
            while True:
                try:
                    produce(topic, value, key, headers=headers)
                    break
                except BufferError:
                    poll(0.2)
                    self._check(waiting=True)
            if number % _POLL_EVERY == 0:
                poll(0)
                self._check()

    def flush(self) -> None:
        """Waits until all queued messages are delivered."""
        while self.client.flush(_STEP_SECONDS):
            self._check(waiting=True)
        self._check()

    def close(self) -> None:
        """Gives up what is queued."""
        with suppress(Exception):
            self.client.purge()
            self.client.flush(1.0)

    def _check(self, *, waiting: bool = False) -> None:
        from confluent_kafka import KafkaException

        if self._refused is not None:
            raise KafkaException(self._refused)
        if waiting and self.abandoned():
            raise Retry(self._reason())

    def _reason(self) -> str:
        return "no answer" if self._error is None else str(self._error.str())

    def _background(self) -> Any:
        """What the client has reported by itself, which it does when it is polled."""
        self.client.poll(0)
        return self._error

    def _note(self, error: Any) -> None:
        # That all brokers are down follows a login that was refused, and says less.
        if self._error is None or not refused_login(self._error):
            self._error = error

    def _on_delivery(self, error: Any, message: Any) -> None:
        if error is not None and self._refused is None:
            self._refused = error


class AtLeastOnce(Producer):
    """Without transactions: a batch that was interrupted is written again."""

    def __init__(self, topic: str, client: Mapping[str, Any], abandoned: Callable[[], bool]) -> None:
        super().__init__(topic, client, abandoned, {})

    def write(self, batch: int, records: Callable[[], Iterable[Record]]) -> None:
        with explain_errors(self.topic):
            self.send(records())
            self.flush()


class ExactlyOnce(Producer):
    """Each batch is a transaction, which also writes the batch's number to a topic of positions.

    After a failure the client is replaced by a new one, as after a crash: it aborts, or completes, the
    transaction that was open, and then the position says whether the batch is in the topic.
    """

    def __init__(
        self, topic: str, client: Mapping[str, Any], abandoned: Callable[[], bool], identity: str
    ) -> None:
        more = {"transactional.id": identity, "transaction.timeout.ms": _TRANSACTION_MS}
        super().__init__(topic, client, abandoned, more)
        self._identity, self._settings = identity, dict(client)
        self._failed = False

    def begin(self) -> None:
        """Takes over from an earlier producer of this identity, whose open transaction ends."""
        positions.require(self._settings)
        self.client.init_transactions(_CALL_SECONDS)

    def position(self) -> int | None:
        return positions.read(self._settings, self._identity)

    def write(self, batch: int, records: Callable[[], Iterable[Record]]) -> None:
        with explain_errors(self.topic, self._background):
            if self._failed and self._renew() >= batch:
                return
            self._failed = True
            self.client.begin_transaction()
            self.send(records())
            self.client.produce(positions.TOPIC, str(batch).encode(), self._identity.encode(), partition=0)
            self.client.commit_transaction(_CALL_SECONDS)
            self._failed = False

    def _renew(self) -> int:
        """Replaces the client after a failure; returns the position that the cluster knows, or -1."""
        self.close()
        self._error = None
        self._open()
        self.begin()
        known = self.position()
        return -1 if known is None else known
