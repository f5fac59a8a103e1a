"""The metrics of apps, tables, streams and lookups: name, help, and the figure of the status that each shows.

A name ends in its base unit, and that of a counter in `_total`. Labels are names of apps, of what they
declare, or words of a fixed list: nothing that grows with keys or runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Generic, TypeVar, get_args

from keyfold.read.metrics import LookupStatus, StreamStatus, TableStatus
from keyfold.read.status import AppStatus, State, age

T = TypeVar("T")
Value = float | None | Mapping[str, float | None]
"""A figure, None if it is not known; with a label of its own, figures by the values of the label."""


@dataclass(frozen=True)
class Metric(Generic[T]):
    """A metric of an app, a table, a stream or a lookup."""

    name: str
    help: str
    value: Callable[[T], Value]
    label: str | None = None
    """A label beside those that say of what it is."""

    @property
    def kind(self) -> str:
        """What Prometheus calls its type."""
        return "counter" if self.name.endswith("_total") else "gauge"

    def samples(self, of: T) -> list[tuple[tuple[str, ...], float]]:
        """The known figures, each with the value of the label of its own."""
        found = self.value(of)
        by_label = (
            {(name,): value for name, value in found.items()} if isinstance(found, Mapping) else {(): found}
        )
        return [(label, float(value)) for label, value in by_label.items() if value is not None]


def _moment(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()


def _since(at: datetime | None) -> float | None:
    return None if at is None else age(at)


_PHASES: Final = (
    "offsets (finds what there is to read), plan (by Spark), fold (reads, folds and publishes in the log), "
    "commit (of Spark's checkpoint), other"
)
APP: Final[tuple[Metric[AppStatus], ...]] = (
    Metric(
        "keyfold_app_state",
        "The state of the app: 1 for the one that it is in, 0 for all others.",
        lambda app: {state: app.state == state for state in get_args(State)},
        "state",
    ),
    Metric(
        "keyfold_app_status_timestamp_seconds",
        "When the app wrote its status last: every second while it runs.",
        lambda app: _moment(app.seen),
    ),
    Metric(
        "keyfold_app_start_timestamp_seconds", "When the app started last.", lambda app: _moment(app.started)
    ),
    Metric(
        "keyfold_app_failures",
        "Failures that have stopped queries of the last run.",
        lambda app: len(app.failures),
    ),
)


def _of_query(what: str) -> tuple[Metric[TableStatus | StreamStatus], ...]:
    """The metrics that the queries of tables and of streams have."""
    of = f"keyfold_{what}"
    return (
        Metric(f"{of}_running", f"Whether the query of the {what} runs: 1 or 0.", lambda one: one.running),
        Metric(
            f"{of}_batches_total",
            f"Batches of the {what}, by the number of the last one that was published.",
            lambda one: 0 if one.batch is None else one.batch + 1,
        ),
        Metric(
            f"{of}_batch_seconds_total",
            "How long batches took, in all runs. Divide its rate by that of the batches.",
            lambda one: None if one.all_runs is None else one.all_runs.seconds,
        ),
        Metric(
            f"{of}_phase_seconds_total",
            f"The same by part of a batch: {_PHASES}.",
            lambda one: None if one.all_runs is None else one.all_runs.phases,
            "phase",
        ),
        Metric(
            f"{of}_last_batch_duration_seconds",
            "How long the last batch with rows took.",
            lambda one: None if one.batch_ms is None else one.batch_ms / 1000,
        ),
        Metric(
            f"{of}_source_rows_total",
            f"Rows that the {what} has read, in all runs.",
            lambda one: None if one.all_runs is None else one.all_runs.rows,
        ),
        Metric(
            f"{of}_rows_per_second",
            "Rows read per second, over ten seconds; 0 if stopped.",
            lambda one: one.rows_per_second if one.running else 0,
        ),
        Metric(
            f"{of}_lag_rows",
            f"Messages that the {what} has not read yet. Only if it reads topics of Kafka.",
            lambda one: one.messages_left,
        ),
        Metric(
            f"{of}_partition_lag_rows",
            "The same by partition of a topic, of partitions that have some.",
            lambda one: one.messages_left_by_partition,
            "partition",
        ),
        Metric(
            f"{of}_lag_files",
            f"Files, and batches of logs, that the {what} has not begun to read.",
            lambda one: one.files_left,
        ),
        Metric(
            f"{of}_rejecting",
            "Whether a batch of the last run had nearly all of its rows rejected for one reason: 1 or 0.",
            lambda one: one.rejecting is not None,
        ),
    )


TABLE: Final[tuple[Metric[Any], ...]] = (
    *_of_query("table"),
    Metric(
        "keyfold_table_last_commit_timestamp_seconds",
        "When the last batch that the view shows was committed.",
        lambda one: _moment(one.at),
    ),
    Metric(
        "keyfold_table_view_age_seconds",
        "Time since that batch was committed. It grows while no rows arrive.",
        lambda one: _since(one.at),
    ),
    Metric(
        "keyfold_table_latency_seconds",
        "End-to-end latency: from the event time of the newest row of the last batch until its commit. "
        "Only of tables that have a watermark.",
        lambda one: one.latency_seconds,
    ),
    Metric("keyfold_table_keys", "Rows of the view: keys, or keys and windows.", lambda one: one.keys),
    Metric(
        "keyfold_table_state_bytes",
        "The size of the table's state in RocksDB, on disk and in memory.",
        lambda one: one.state_bytes,
    ),
    Metric(
        "keyfold_table_watermark_timestamp_seconds",
        "The event time up to which windows are closed, as of the last batch.",
        lambda one: _moment(one.watermark),
    ),
    Metric(
        "keyfold_table_lag_seconds",
        "Time since the watermark. It is at least the `late` of the stream, and grows while no rows arrive.",
        lambda one: _since(one.watermark),
    ),
    Metric(
        "keyfold_table_watermark_held_since_timestamp_seconds",
        "Since when one partition of a topic holds the watermark back.",
        lambda one: _moment(one.watermark_held_by.since if one.watermark_held_by else None),
    ),
    Metric(
        "keyfold_table_side_output_rows_total",
        "Rows that were not folded, or not into all windows, by kind: late, rejected, duplicate.",
        lambda one: {"late": one.late, "rejected": one.rejected, "duplicate": one.duplicates},
        "kind",
    ),
    Metric(
        "keyfold_table_dropped_partials_total",
        "Partial matches that the limit of a pattern has dropped.",
        lambda one: one.dropped_partials,
    ),
)
STREAM: Final[tuple[Metric[Any], ...]] = (
    *_of_query("stream"),
    Metric(
        "keyfold_stream_recorded_rows_total", "Rows that were written to the log.", lambda one: one.recorded
    ),
    Metric(
        "keyfold_stream_side_output_rows_total",
        "Rows that were not written to the log, by kind: rejected.",
        lambda one: {"rejected": one.rejected},
        "kind",
    ),
)
LOOKUP: Final[tuple[Metric[LookupStatus], ...]] = (
    Metric("keyfold_lookup_rows", "Rows of the lookup.", lambda one: one.rows),
    Metric(
        "keyfold_lookup_loaded_timestamp_seconds",
        "When the lookup was loaded last.",
        lambda one: _moment(one.loaded),
    ),
    Metric(
        "keyfold_lookup_failing",
        "Whether the last reload has failed, so that an older version is in use: 1 or 0.",
        lambda one: one.error is not None,
    ),
)
READABLE: Final[Metric[Any]] = Metric(
    "keyfold_app_readable",
    "Whether the status of the app could be read: 1 or 0. If not, the app has no other metrics.",
    float,
)
SECTIONS: Final[Mapping[str, tuple[tuple[str, ...], tuple[Metric[Any], ...]]]] = {
    "Apps": (("app",), (READABLE, *APP)),
    "Tables": (("app", "table"), TABLE),
    "Streams with a log": (("app", "stream"), STREAM),
    "Lookups": (("app", "lookup"), LOOKUP),
}
"""All of them, with the labels that say of what a metric is."""
