"""Why rows were rejected or late, in words for readers: reasons as they are may quote any value of a row."""

from __future__ import annotations

import re
from typing import Final

UNSAID: Final = "for operators: keyfold status shows it"

# What a reason begins with, and what is said instead: never a part of the reason itself, which may be one
# that the app's author, Spark or a library has made from a row.
_KINDS: Final = tuple(
    (re.compile(begin), said)
    for begin, said in (
        ("does not parse", "does not parse"),
        ("the header of ", "the header of the file is not that of the schema"),
        ("bytes that are invalid in the file's encoding", "bytes that are invalid in the file's encoding"),
        (r"key .* is null$", "a key is null"),
        (r"key .* is not valid UTF-8$", "a key is not valid UTF-8"),
        ("event time is null", "the event time is null"),
        ("event time .*, where the initial rows of the table end$", "older than the end of the initial rows"),
        ("event time ", "the event time is not usable"),
        ("the session gap is null", "the session gap is null, or not an interval"),
        ("the gap of the session is less than", "the gap of the session is less than a millisecond"),
        ("the message is not valid UTF-8", "the message is not valid UTF-8"),
        ("the message's key ", "the message's key can't be read"),
        ("the message's schema is ", "the message's schema is of another kind"),
        ("the Avro schema is not a record", "the Avro schema is not a record"),
        ("schema [0-9]+ is unknown to the registry", "the message's schema is unknown to the registry"),
        ("a tombstone without a key", "a tombstone without a key: nothing to delete"),
        ("a tombstone: ", "a tombstone: the message has no value"),
        (r"\[DIVIDE_BY_ZERO\]", "an expression divides by zero"),
        (r"\[(CAST_INVALID_INPUT|CAST_OVERFLOW)\]", "an expression can't convert a value"),
        (r"\[(ARITHMETIC_OVERFLOW|NUMERIC_VALUE_OUT_OF_RANGE)", "a number is too large"),
        (r"\[[A-Z_.]+\] ", "an expression fails"),
        ("older than the rows that its key still has in state", "older than the rows of its key in state"),
        (
            "behind the watermark of a step before the table",
            "behind the watermark of a step before the table",
        ),
        ("its window is closed", "its window is closed"),
        ("[0-9]+ of its windows are closed", "some of its windows are closed"),
    )
)


def said(reason: str | None) -> str:
    """The kind of a reason in fixed words; one that is not known says nothing."""
    found = reason or ""
    return next((words for begin, words in _KINDS if begin.match(found)), UNSAID if found else "")
