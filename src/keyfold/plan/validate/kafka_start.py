"""Checks of `start=` of `kf.kafka`: a word, a time, or offsets by topic and partition."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any, Final, NoReturn, cast

from keyfold.errors import BadOption, did_you_mean

_WORDS: Final = {"earliest": -2, "latest": -1}
_OFFSETS: Final = (
    'start={"orders": {0: 1200, 1: "latest"}}; partitions that are not named start at the earliest'
)
_STARTS: Final = f'"earliest", "latest", a time such as "2026-05-01T00:00:00Z", or offsets: {_OFFSETS}'


def checked_start(start: object, topics: tuple[str, ...], where: object) -> str:
    """`start=` as a plan has it: a word, a time in ISO 8601, or offsets as JSON."""
    if isinstance(start, datetime):
        # A naive time is UTC, as everywhere in keyfold.
        return (start if start.tzinfo else start.replace(tzinfo=UTC)).astimezone(UTC).isoformat()
    if isinstance(start, Mapping):
        return json.dumps(_offsets(start, topics, where), sort_keys=True)
    if isinstance(start, str) and start in _WORDS:
        return start
    if isinstance(start, str | date):
        try:
            return checked_start(datetime.fromisoformat(str(start)), topics, where)
        except ValueError:
            pass
    hint = did_you_mean(start, _WORDS, _STARTS) if isinstance(start, str) else _STARTS
    problem = "start is not a position to begin reading at"
    raise BadOption(problem, where=where, given=repr(start), hint=hint)


def _offsets(start: Mapping[Any, Any], topics: tuple[str, ...], where: object) -> dict[str, dict[str, int]]:
    """Offsets by topic and partition; for a single topic they may be given by partition alone."""
    nested = start
    if start and not any(isinstance(value, Mapping) for value in start.values()):
        if len(topics) != 1:
            _refuse("start must be offsets by topic and partition", repr(start), where)
        nested = {topics[0]: start}
    found: dict[str, dict[str, int]] = {}
    for topic, partitions in nested.items():
        if not isinstance(partitions, Mapping):
            _refuse("start must be offsets by topic and partition", repr(start), where)
        if topics and topic not in topics:
            problem = f"start has offsets of topic {topic!r}, which is not read"
            _refuse(problem, f"topic={', '.join(topics)}", where, did_you_mean(str(topic), topics))
        found[topic] = {str(p): _offset(p, offset, where) for p, offset in partitions.items()}
    if not found:
        _refuse("start must be offsets by topic and partition", repr(start), where)
    return found


def _offset(partition: object, offset: object, where: object) -> int:
    given = f"{partition!r}: {offset!r}"
    if not _is_number(partition):
        _refuse("a partition in start must be a whole number from 0", given, where)
    value = _WORDS.get(offset, offset) if isinstance(offset, str) else offset
    if not _is_number(value) and offset not in _WORDS:
        hint = did_you_mean(offset, _WORDS) if isinstance(offset, str) else None
        _refuse("an offset in start must be a whole number from 0, or a word", given, where, hint)
    return cast(int, value)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _refuse(problem: str, given: str, where: object, hint: str | None = None) -> NoReturn:
    raise BadOption(problem, where=where, given=given, hint=hint or _OFFSETS)
