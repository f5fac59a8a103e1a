"""Checks of `history`: how long a table's changes stay in its log, or the topic that keeps them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from keyfold.errors import BadOption
from keyfold.plan.nodes import Connector
from keyfold.plan.validate import kafka
from keyfold.plan.validate.table_options import length


def history_options(history: str | timedelta | Connector | None, where: object) -> dict[str, Any]:
    """The fields of a table: a time, or a topic."""
    if not isinstance(history, Connector):
        return {"history_ms": length(history, "history", where)}
    if history.kafka is None:
        problem = "history must be a duration or a Kafka topic"
        hint = 'history="30 days", or history=kf.kafka("host:9092", topic="totals")'
        raise BadOption(problem, where=where, given=f"kf.{history.kind}(...)", hint=hint)
    kafka.check_sink(history, history.kafka, where)
    return {"history_topic": history}
