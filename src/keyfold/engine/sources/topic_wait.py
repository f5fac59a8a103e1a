"""Waits at a start until the brokers and topics that an app reads can be reached."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from keyfold.engine.sources import kafka
from keyfold.engine.sources.kafka import TopicOffsets
from keyfold.engine.spark_errors import causes
from keyfold.errors import RunError
from keyfold.masking import mask
from keyfold.plan import durations
from keyfold.plan.call_site import location
from keyfold.plan.nodes import AppSpec, Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG: Final = logging.getLogger("keyfold")
# An attempt ends soon, so that the deadline is kept and a first failure is told.
_ATTEMPT: Final = {
    "kafka.request.timeout.ms": "5000",
    "kafka.default.api.timeout.ms": "5000",
    "fetchOffset.numRetries": "1",
}
_PAUSE_SECONDS: Final = 0.5
_LOGIN: Final = "check user name, password and certificates: docs/how-to/kafka-secure.md"
_CLIENT: Final = "the options of kf.kafka that begin with `kafka.` are those of Kafka's client"
# What no waiting mends, what it means, and what to do.
_FATAL: Final = {
    "SaslAuthenticationException": ("the brokers refuse the credentials", _LOGIN),
    "SslAuthenticationException": ("the TLS handshake with the brokers failed", _LOGIN),
    "AuthorizationException": (
        "the brokers do not let this user read the topic",
        "allow the user to read and describe the topic",
    ),
    "ConfigException": ("Kafka's client does not accept its settings", _CLIENT),
    "InvalidTopicException": ("the brokers do not accept the name of the topic", "correct topic="),
    "PatternSyntaxException": (
        "pattern is not a valid regular expression",
        'correct pattern=, which is a regular expression of Java: pattern="orders-.*"',
    ),
    "JaasException": ("Kafka's client does not accept sasl.jaas.config", _CLIENT),
}


def wait_for_topics(
    spark: SparkSession, spec: AppSpec, replaced: Collection[str] = ()
) -> dict[str, TopicOffsets]:
    """The offsets of the topics that each stream reads, once they are there; else an error."""
    streams = [s for s in spec.streams if s.connector.kafka is not None and s.name not in replaced]
    return {stream.name: _wait(spark, spec.name, stream) for stream in streams}


def _wait(spark: SparkSession, app: str, stream: Source) -> TopicOffsets:
    topics = stream.connector.kafka
    assert topics is not None
    deadline, told = time.monotonic() + topics.answer_wait_ms / 1000, False
    while True:
        try:
            found = kafka.offsets(spark, stream.connector, _ATTEMPT)
            if found.last:
                return found
            if time.monotonic() > deadline:
                raise _no_topic(app, stream, "no topic matches the pattern")
        except RunError:
            raise
        except Exception as error:
            why = causes(error)
            if not why:
                raise
            fatal = next((found for name, found in _FATAL.items() if name in why), None)
            if fatal is not None or time.monotonic() > deadline:
                raise _unreachable(app, stream, why, fatal) from None
        if not told:
            told = True
            _LOG.warning("%s.%s: waiting for Kafka at %s", app, stream.name, mask(topics.servers))
        time.sleep(_PAUSE_SECONDS)


def _unreachable(app: str, stream: Source, why: str, fatal: tuple[str, str] | None) -> RunError:
    topics = stream.connector.kafka
    assert topics is not None
    servers, waited = mask(topics.servers), durations.text(topics.answer_wait_ms)
    last = mask(why.splitlines()[-1])
    where = location(f"{app}.{stream.name}", stream.site)
    if fatal is not None:
        meaning, hint = fatal
        problem = f"stream {stream.name} can't be read: {meaning}"
        return RunError(problem, where=where, app=app, given=f"{servers}: {last}", hint=hint)
    if "UnknownTopicOrPartition" in why:
        return _no_topic(app, stream, last)
    return RunError(
        f"the brokers of stream {stream.name} could not be reached within {waited}",
        where=where,
        app=app,
        given=f"{servers}: {last}",
        hint="start the brokers, correct the servers or kafka.security.protocol, or let a start wait longer: "
        "wait='10 minutes'",
    )


def _no_topic(app: str, stream: Source, given: str) -> RunError:
    topics = stream.connector.kafka
    assert topics is not None
    servers, waited = mask(topics.servers), durations.text(topics.answer_wait_ms)
    argument = "topic=" if topics.pattern is None else "pattern="
    return RunError(
        f"there is no topic {topics.subject} at {servers}, and none appeared within {waited}",
        where=location(f"{app}.{stream.name}", stream.site),
        app=app,
        given=given,
        hint=f"create the topic, correct {argument}, or let a start wait longer: wait='10 minutes'",
    )
