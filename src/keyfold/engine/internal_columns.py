"""Names of keyfold's own columns, which travel beside the user's (in the kernel: InternalColumns.scala)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

PREFIX: Final = "_kf_"
"""How the names of columns begin that users' expressions do not see."""

OP: Final = "_op"
"""The kind of a change: upsert, final or delete."""
TIME: Final = "_kf_time"
"""The event time; null if the given one is not usable."""
GIVEN: Final = "_kf_given"
"""The event time as the row has it."""
RAW: Final = "_kf_raw"
"""The text of a row that does not parse."""
SIDE_OUTPUT: Final = "_kf_side"
"""The side output of a row that is not folded, a struct; null for other rows."""
CONTROL: Final = "_kf_control"
"""Marks a row that only advances event time."""
NOW: Final = "_kf_now"
"""The batch's timestamp, for tables that read the clock."""
REPLAY: Final = "_kf_replay"
"""The watermark that a replayed late row was late by."""
WEIGHT: Final = "_kf_weight"
"""1 for a row, -1 for its retraction."""
ROW_ID: Final = "_kf_id"
"""In a retracting stream: which row of which table a row comes from, and the place of its change."""
PREVIOUS: Final = "_kf_prev"
"""The row before a change."""
BATCH: Final = "_kf_batch"
"""The batch of a change that another table reads."""
MERGED_BATCH: Final = "_kf_merged_batch"
"""The batch of a change in a file that has changes of many batches."""
POSITION: Final = "_kf_position"
"""The position of a change, or of a lookup's row, in its file."""
MESSAGE: Final = "_kf_message"
"""Which message of Kafka a row comes from, a struct of topic, partition and offset."""

ARRIVAL: Final = "_kf_arrival"
"""The order in which the rows of a stream's log arrived."""
MESSAGE_KEY: Final = "_kf_message_key"
"""The key of a change that is sent at once, as it is in the message."""
MESSAGE_VALUE: Final = "_kf_message_value"
"""The row of a change that is sent at once, as it is in the message; null for a delete."""

KERNEL: Final = {
    "Prefix": PREFIX,
    "Op": OP,
    "Time": TIME,
    "Given": GIVEN,
    "Raw": RAW,
    "SideOutput": SIDE_OUTPUT,
    "Control": CONTROL,
    "Now": NOW,
    "Replay": REPLAY,
    "Weight": WEIGHT,
    "RowId": ROW_ID,
    "Prev": PREVIOUS,
    "Batch": BATCH,
    "MergedBatch": MERGED_BATCH,
    "Position": POSITION,
    "Message": MESSAGE,
    "Arrival": ARRIVAL,
    "MessageKey": MESSAGE_KEY,
    "MessageValue": MESSAGE_VALUE,
}
"""The names that Python and the kernel share, by their names in InternalColumns.scala."""

FILE: Final = "_kf_file"
"""The file of a lookup's row."""
BLOCK: Final = "_kf_start"
"""The first byte of the block of a lookup's file that the row is in."""
SEQUENCE: Final = "_kf_seq"
"""The number of a row that a processor emitted."""
_COMPUTED: Final = "_kf_made_"

CHANGE_COLUMNS: Final = (OP, PREVIOUS, SIDE_OUTPUT)
"""The columns of a table's changes that are not in its view."""


def computed_column(number: int) -> str:
    """The name of a value that a join's condition computes from one side."""
    return f"{_COMPUTED}{number}"


def visible(names: Iterable[str]) -> list[str]:
    """The user's columns among these."""
    return [name for name in names if not name.startswith(PREFIX)]


def reserved_names(names: Iterable[str]) -> list[str]:
    """Names that a user may not give to a column, whatever their case."""
    return [name for name in names if name.lower().startswith(PREFIX)]
