"""Checks of which servers and topics `kf.kafka` names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from keyfold.errors import BadOption
from keyfold.masking import mask

_SERVER: Final = re.compile(r"[^\s:/]+|\[[0-9A-Fa-f:.%]+\]")
_HIGHEST_PORT: Final = 65_535
# As Kafka's brokers check them.
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


def checked_servers(servers: object, where: object) -> str:
    """The servers as Kafka's clients take them: "host:port,host:port"."""
    hint = 'kf.kafka("localhost:9092", topic="orders"), several as "a:9092,b:9092"'
    listed = servers.split(",") if isinstance(servers, str) else servers
    found = list(listed) if isinstance(listed, Iterable) else []
    if not found or not all(isinstance(one, str) for one in found):
        problem = "the servers of kf.kafka must be a string"
        raise BadOption(problem, where=where, given=repr(servers), hint=hint)
    stripped = [one.strip() for one in found]
    for one in stripped:
        host, _, port = one.rpartition(":")
        if not _SERVER.fullmatch(host) or not port.isdecimal() or not 0 < int(port) <= _HIGHEST_PORT:
            problem = "a server of kf.kafka is a host and a port"
            raise BadOption(problem, where=where, given=mask(repr(one)), hint=hint)
    return ",".join(stripped)


def checked_topics(topic: object, pattern: object, where: object) -> tuple[str, ...]:
    """The topics; none with a pattern."""
    hint = 'topic="orders", topic=["orders", "returns"] or pattern="orders-.*"'
    if (topic is None) == (pattern is None):
        problem = "kf.kafka takes either topic= or pattern="
        given = "neither" if topic is None else "both"
        raise BadOption(problem, where=where, given=given, hint=hint)
    if topic is None:
        if not isinstance(pattern, str) or not pattern.strip():
            problem = "pattern must be a regular expression of topics"
            raise BadOption(problem, where=where, given=repr(pattern), hint=hint)
        return ()
    found = [topic] if isinstance(topic, str) else list(topic) if isinstance(topic, Iterable) else []
    for one in found or [topic]:
        checked_name(one, where, hint)
    twice = next((one for one in found if found.count(one) > 1), None)
    if twice is not None:
        problem = f"topic {twice!r} is given twice"
        raise BadOption(problem, where=where, given=repr(found), hint="name it once")
    return tuple(found)


def checked_name(topic: object, where: object = None, hint: str = 'topic="orders"') -> str:
    """The name of a topic, if Kafka accepts it."""
    if isinstance(topic, str) and _TOPIC.fullmatch(topic) and topic not in (".", ".."):
        return topic
    problem = "topic must be the name of a topic"
    if isinstance(topic, str) and topic:
        problem += ", at most 249 letters, digits, dots, underscores and hyphens"
        if "," in topic:
            hint = f"topic={[one.strip() for one in topic.split(',')]!r}"
        elif "*" in topic:
            pattern = re.sub(r"\.?\*", ".*", topic)
            hint = f'pattern="{pattern}" for all topics with such names'
    raise BadOption(problem, where=where, given=repr(topic), hint=hint)
