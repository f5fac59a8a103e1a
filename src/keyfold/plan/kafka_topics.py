"""Topics of Kafka in a plan: which messages a source reads, or where a sink writes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

OnDataLoss: TypeAlias = Literal["fail", "warn"]
Tombstones: TypeAlias = Literal["reject", "delete"]
Delivery: TypeAlias = Literal["exactly_once", "at_least_once"]


@dataclass(frozen=True)
class KafkaTopics:
    """Which messages a Kafka source reads, or where a Kafka sink writes them."""

    servers: str
    """In the form of Kafka's clients: "host:port,host:port"."""
    topics: tuple[str, ...] = ()
    """None if `pattern` is set."""
    pattern: str | None = None
    start: str = "earliest"
    """"earliest", "latest", a time in ISO 8601, or offsets by topic and partition as JSON."""
    registry: str | None = None
    key_format: str | None = None
    key_schema: str | None = None
    """The columns of a key, as DDL, or the type of a key that is one value; of a source."""
    descriptor: str | None = None
    """The file of Protobuf's descriptor set."""
    message: str | None = None
    """The full name of the Protobuf message."""
    metadata: tuple[str, ...] = ()
    """Parts of a message, beside its value, that become columns: "key", "timestamp" and others."""
    tombstones: Tombstones = "reject"
    """What a message without a value does."""
    on_data_loss: OnDataLoss = "fail"
    delivery: Delivery = "exactly_once"
    """Of a sink."""
    wait_ms: int | None = None
    """How long a start waits for the brokers and the topics, if declared."""

    unlimited: bool = False
    """Whether a batch reads everything that arrives while it runs."""

    @property
    def connection_wait_ms(self) -> int:
        """How long a start waits until brokers answer a first request."""
        return 3_000 if self.wait_ms is None else self.wait_ms

    @property
    def answer_wait_ms(self) -> int:
        """How long it then waits until they have the topics."""
        return 60_000 if self.wait_ms is None else self.wait_ms

    @property
    def subject(self) -> str:
        """The topics or the pattern, as shown."""
        return self.pattern if self.pattern is not None else ",".join(self.topics)
