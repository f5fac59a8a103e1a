"""Sends messages without transactions, as a load generator does."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Final

from keyfold.engine.kafka.topics import client_missing
from keyfold.errors import RunError

_SECONDS: Final = 30.0


class Sender:
    """Sends messages, and at the end waits until all are delivered."""

    def __init__(self, servers: str) -> None:
        try:
            from confluent_kafka import Producer
        except ImportError:
            raise client_missing() from None
        self._servers, self._failed = servers, ""
        self._producer = Producer(
            {
                "bootstrap.servers": servers,
                "linger.ms": 20,
                "compression.type": "lz4",
                "enable.idempotence": True,
                "error_cb": lambda error: None,
                "log_level": 0,
            }
        )

    def __enter__(self) -> Sender:
        return self

    def send(self, topic: str, key: bytes | None, value: bytes | None) -> None:
        """Queues one message; waits while the queue is full."""
        while True:
            try:
                self._producer.produce(topic, value, key, on_delivery=self._on_delivery)
                self._producer.poll(0)
                break
            except BufferError:
                self._producer.poll(0.5)
            self._check()
        self._check()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        left = self._producer.flush(_SECONDS)
        if kind is None:
            self._check()
            if left:
                raise self._error(f"{left} messages were not delivered within {_SECONDS:.0f} s")

    def _on_delivery(self, error: Any, message: object) -> None:
        if error is not None and not self._failed:
            self._failed = error.str()

    def _check(self) -> None:
        if self._failed:
            raise self._error(self._failed)

    def _error(self, reason: str) -> RunError:
        return RunError(
            "messages could not be sent", given=reason, hint=f"is a Kafka broker at {self._servers}?"
        )
