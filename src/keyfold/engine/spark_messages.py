"""What the messages of Spark and of Kafka's client say: the patterns of all texts that failures are known by.

Only where there is nothing else to go by. The kernel's own errors have a code (`spark_errors.kernel_error`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

SLOW_PYTHON: Final = re.compile("Python worker failed to connect back")
# Kafka's exceptions that its client calls retriable, by their names in a chain of causes.
BROKERS_AWAY: Final = re.compile(
    r"org\.apache\.kafka\.common\.errors\.(?:Timeout|Disconnect|Network|NotLeaderOrFollower|"
    r"LeaderNotAvailable|BrokerNotAvailable|CoordinatorNotAvailable|KafkaStorage)Exception"
    r"|KAFKA_DATA_LOSS\.COULD_NOT_READ_OFFSET_RANGE.*TimeoutException"
    r"|Failed to get records for .* after polling for"
)
SLOTS_TAKEN: Final = re.compile("CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT")
DISK_FULL: Final = re.compile(r"No space left on device|disk is full|Disk quota exceeded", re.IGNORECASE)
BROKEN_STATE: Final = re.compile(
    r"CANNOT_LOAD_STATE_STORE|STATE_STORE_|_STATE_DIRECTORY|STREAMING_CHECKPOINT_|CHECKPOINT_FILE_CHECKSUM_"
    r"|error occurred during loading state"
)
"""State that can't be loaded, and a checkpoint with a part missing."""
PASSING: Final = re.compile(
    r"UNRELEASED_THREAD_ERROR|Too many open files|Permission denied|Cannot allocate memory"
)
"""Reasons why state can't be loaded that pass by themselves, or with other limits."""
MISSING_TOPIC: Final = re.compile("UnknownTopicOrPartitionException|does not host this topic-partition")

# Of Spark's Kafka source, whose own exceptions have no error class in their text.
_DATA_LOSS: Final = re.compile(
    r"Some data may have been lost because they are not available in Kafka any more;.*?\nReason:\s*([^\n]+)",
    re.DOTALL,
)
# Error classes that only wrap another error.
_WRAPPERS: Final = ("[STREAM_FAILED]", "[FOREACH_BATCH_USER_FUNCTION_ERROR]", "[TASK_WRITE_FAILED]")
_CLASSIFIED: Final = re.compile(r"\[[A-Z][A-Z_.0-9]+\]")
_MISSING_SLOTS: Final = re.compile(rf"\[{SLOTS_TAKEN.pattern}\] ([^\n]+)")
_UNREAD: Final = re.compile(r"\[FAILED_READ_FILE\.(\w+)\] .*? reading file (\S.*?)\.(?:\s|$)")
_TRACEBACK: Final = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)+(\S[^\n]*)")
# To Spark the kernel is a StatefulProcessor.
_PROCESSOR: Final = re.compile(r"\[TRANSFORM_WITH_STATE_USER_FUNCTION_ERROR\].*? Reason: ([^\n]+)")
_SENTENCE: Final = re.compile(r"\[([A-Z][A-Z_.0-9]+)\] ([^\n]+)")
_QUOTED: Final = re.compile(r"== (?:SQL|DataFrame)[^\n]*==\n(.+)\n")


class UnreadFile(NamedTuple):
    """A file that Spark could not read: the end of the error class, and its name."""

    kind: str
    name: str


def plain(text: str) -> str:
    """The first sentence of Spark's message, without error class, SQLSTATE and plan."""
    first = next((line for line in text.strip().splitlines() if line.strip()), "Spark gave no reason")
    return re.sub(r"^(\S+Exception: )?\[[A-Z_.0-9]+\]\s*|\s*SQLSTATE: \w+.*$", "", first)


def innermost_message(causes: Sequence[str]) -> str:
    """The message of the innermost cause that has an error class, or of the innermost cause."""
    classified = [text for text in causes if _CLASSIFIED.match(text) and not text.startswith(_WRAPPERS)]
    return (classified or causes)[-1]


def reason(text: str) -> str:
    """The innermost sentence with one of Spark's error classes, or the first line."""
    inner = [sentence for name, sentence in _SENTENCE.findall(text) if f"[{name}]" not in _WRAPPERS]
    return plain(inner[-1]) if inner else plain(text)


def lost_messages(text: str) -> str | None:
    """Why messages of a topic are no longer there."""
    found = _DATA_LOSS.search(text)
    return None if found is None else plain(found[1])


def missing_slots(text: str) -> str | None:
    """How many task slots a real-time batch lacks."""
    found = _MISSING_SLOTS.search(text)
    return None if found is None else plain(found[1])


def unread_file(text: str) -> UnreadFile | None:
    """The file that a task could not read."""
    found = _UNREAD.search(text)
    return None if found is None else UnreadFile(found[1], found[2])


def python_error(text: str) -> str | None:
    """What a Python function raised in a worker."""
    found = _TRACEBACK.findall(text)
    return str(found[-1]) if found else None


def operator_failure(text: str) -> str | None:
    """Why a stateful operator failed, other than because of a row."""
    found = _PROCESSOR.search(text)
    return None if found is None else found[1].rstrip(".")


def quoted_expression(text: str) -> str | None:
    """The user's expression, if Spark quotes it."""
    found = _QUOTED.search(text)
    return found[1].strip() if found else None
