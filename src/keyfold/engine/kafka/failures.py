"""Errors of Kafka's client for Python: which are worth another try, and what the others mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from keyfold.errors import RunError
from keyfold.masking import mask


class Retry(Exception):
    """The brokers can't be reached, or asked for patience: try again."""


_AUTHENTICATION: Final = (
    "_AUTHENTICATION",
    "SASL_AUTHENTICATION_FAILED",
    "UNSUPPORTED_SASL_MECHANISM",
    "_SSL",
)
_FENCED: Final = ("_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH")
_TOO_LARGE: Final = ("MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE")
_MISSING: Final = ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION")
_FORBIDDEN: Final = (
    "TOPIC_AUTHORIZATION_FAILED",
    "GROUP_AUTHORIZATION_FAILED",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    "CLUSTER_AUTHORIZATION_FAILED",
)


@contextmanager
def explain_errors(
    topic: str, noted: Callable[[], Any] = lambda: None, *, reads: str | None = None
) -> Iterator[None]:
    """Raises `Retry`, or the client's error in words; `noted` is what the client last reported by itself.

    `reads` are the servers of a reader, which does not try again.
    """
    from confluent_kafka import KafkaException

    try:
        yield
    except KafkaException as raised:
        error = raised.args[0]
        background = noted()
        if background is not None and refused_login(background):
            error = background
        found = _meaning(error, topic, "write to" if reads is None else "read")
        if found is None and reads is None:
            raise Retry(error.str()) from None
        raise found or unreachable(topic, error.str(), f"is a Kafka broker at {reads}?") from None


def refused_login(error: Any) -> bool:
    """Whether an error says that user, password or certificate were not accepted."""
    return error.name() in _AUTHENTICATION


def _meaning(error: Any, topic: str, action: str) -> RunError | None:
    """What an error means that another try will not get over; None if one may."""
    name = error.name()
    reason = mask(error.str())
    if name in _FENCED:
        return RunError(
            f"another producer has taken over topic {topic}: this one was fenced",
            given=reason,
            hint="is the app running elsewhere on the same home? stop one of them, then start again; "
            "nothing is lost or written twice",
        )
    if name in _TOO_LARGE:
        return RunError(
            f"a change is larger than topic {topic} accepts",
            given=reason,
            hint='raise "kafka.message.max.bytes" in options= of kf.kafka, max.message.bytes of the topic',
        )
    if name in _MISSING:
        hint = "create it, or correct its name; `keyfold dev kafka` creates topics with --topic"
        return RunError(f"there is no topic {topic}", given=reason, hint=hint)
    if refused_login(error):
        hint = "check user name, password and certificates: docs/how-to/kafka-secure.md"
        return RunError(f"the brokers of topic {topic} refused the login", given=reason, hint=hint)
    if name in _FORBIDDEN:
        hint = "allow the user to read the topic"
        if action != "read":
            hint = "allow the user to write to the topic, and to use its transactional id and its group"
        return RunError(f"the user is not allowed to {action} topic {topic}", given=reason, hint=hint)
    if name == "_INVALID_ARG":
        hint = "correct options="
        if action != "read":
            hint = "settings of Kafka's client are in options= of kf.kafka and in KEYFOLD_KAFKA"
        problem = f"Kafka's client does not accept its settings, to {action} topic {topic}"
        return RunError(problem, given=reason, hint=hint)
    if (
        "COORDINATOR" in name
        or error.retriable()
        or error.txn_requires_abort()
        or name in ("_TRANSPORT", "_ALL_BROKERS_DOWN")
    ):
        return None
    if name.startswith(("_TIMED_OUT", "_MSG_TIMED_OUT", "_PURGE", "_STATE", "_RESOLVE")):
        return None
    return RunError(f"keyfold could not {action} topic {topic}", given=f"{name}: {reason}")


def unreachable(
    topic: str,
    reason: str,
    hint: str = "check the servers of kf.kafka; `wait=` says how long a start waits for them",
) -> RunError:
    """The error of brokers that did not answer in time."""
    return RunError(f"the brokers of topic {topic} do not answer", given=mask(reason), hint=hint)
