"""Sinks: where a table's changes go beside its view."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from keyfold.plan.nodes import Connector

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Sink(Protocol):
    """A destination of changes, written at least once.

    A batch that runs again after a crash writes the same changes under the same number; a sink that keeps
    the number of its newest batch can leave them out and so be exactly once.
    """

    def write(self, changes: DataFrame, batch: int) -> None:
        """Writes the changes of one batch: `_op`, the table's columns and `_batch`."""


@dataclass(frozen=True)
class SparkSink:
    """Any format that Spark can append to."""

    connector: Connector

    def write(self, changes: DataFrame, batch: int) -> None:
        connector = self.connector
        writer = changes.write.format(connector.format).mode("append").options(**dict(connector.options))
        writer.save(connector.path) if connector.path else writer.save()


SINKS: Final[dict[str, Callable[[Connector], Sink]]] = {"files": SparkSink, "spark": SparkSink}
"""How a sink is opened, by kind."""


def open_sink(connector: Connector) -> Sink:
    """The sink of a connector."""
    return SINKS[connector.kind](connector)
