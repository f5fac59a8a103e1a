"""Explains why a query failed, without Java's stack trace."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from keyfold.engine.recovery import damage, lost_messages
from keyfold.engine.spark_errors import messages, plain
from keyfold.engine.storage.layout import AppHome, TableHome
from keyfold.errors import KeyfoldError, LeaseLost, QueryFailed, RunError
from keyfold.masking import masked
from keyfold.views.stores import damage_advice

_DISK_FULL: Final = re.compile(r"No space left on device|disk is full|Disk quota exceeded", re.IGNORECASE)
# Raised by Spark's Kafka source, whose own exceptions have no error class in their text.
_DATA_LOSS: Final = re.compile(
    r"Some data may have been lost because they are not available in Kafka any more;.*?\nReason:\s*([^\n]+)",
    re.DOTALL,
)
# Error classes that only wrap another error.
_WRAPPERS: Final = ("[STREAM_FAILED]", "[FOREACH_BATCH_USER_FUNCTION_ERROR]", "[TASK_WRITE_FAILED]")


@dataclass(frozen=True)
class _Failure:
    """A failed query, with the known facts about its error."""

    app: str
    table: str
    batch: int | None
    error: Any
    home: AppHome
    stream: bool = False
    """Whether it is the query of a stream that has a log."""

    @property
    def own_home(self) -> TableHome:
        """The home of the table, or of the stream."""
        return self.home.stream_home(self.table) if self.stream else self.home.table(self.table)

    @property
    def text(self) -> str:
        """The message of the innermost cause that has an error class, or of the innermost cause."""
        causes = messages(self.error)
        classified = [
            text
            for text in causes
            if re.match(r"\[[A-Z][A-Z_.0-9]+\]", text) and not text.startswith(_WRAPPERS)
        ]
        return (classified or causes)[-1]

    def explained(self, what: str, given: object = None, hint: str | None = None) -> QueryFailed:
        return QueryFailed(what, app=self.app, table=self.table, batch=self.batch, given=given, hint=hint)


def failed(
    app: str,
    table: str,
    batch: int | None,
    error: Any,
    home: AppHome,
    *,
    stream: bool = False,
    follower: str = "query",
) -> RunError:
    """The reason why a query, or a follower of its log, stopped: the first explanation that fits."""
    if isinstance(error, LeaseLost):
        # It is complete, and concerns the whole app.
        return LeaseLost(error.what, app=app, table=table, batch=batch, given=error.given, hint=error.hint)
    if isinstance(error, RunError) and error.hint is not None:
        # The error of a sink, which includes its own advice.
        return QueryFailed(error.what, app=app, table=table, batch=batch, given=error.given, hint=error.hint)
    failure = _Failure(app, table, batch, error, home, stream)
    for explain in (
        _bad_row,
        _kafka,
        _slots,
        _disk_full,
        _damaged_views,
        _upstream_log,
        _damaged_state,
        _input_file,
    ):
        if (found := explain(failure)) is not None:
            return found
    return failure.explained(
        f"the {follower} of {'stream' if stream else 'table'} {table} stopped: {_cause(error, failure.text)}",
        given=_fragment(failure.text),
        hint="remove the cause and start again: the batch is retried, and nothing is lost or counted twice. "
        f"Spark's log is {failure.home.local.parent / 'spark.log'}",
    )


@contextmanager
def of_table(app: str, table: str, home: TableHome) -> Iterator[None]:
    """Turns a Spark error during the start of a table into a `QueryFailed`."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise failed(app, table, home.begun(), error, home.app) from None


def _bad_row(failure: _Failure) -> QueryFailed | None:
    bad = re.search(r"\[KEYFOLD_REJECTED_ROW\] (.*?); row: (.*)", failure.text)
    if bad is None:
        return None
    return failure.explained(
        f"a row can't be processed, and on_error is 'fail': {bad[1]}",
        given=bad[2],
        hint="correct the row, or declare on_error='reject' to send such rows to the rejected rows",
    )


def _kafka(failure: _Failure) -> QueryFailed | None:
    """Missing messages, or a Schema Registry that does not answer."""
    text = f"{failure.text}\n{failure.error}"
    lost = _DATA_LOSS.search(text)
    if lost is not None:
        given = plain(lost[1])
        return lost_messages.failure(failure.app, failure.table, failure.batch, None, given)
    if "UnknownTopicOrPartitionException" in text or "does not host this topic-partition" in text:
        return failure.explained(
            f"a topic that {failure.app}.{failure.table} reads is no longer there",
            given=plain(failure.text),
            hint="was it deleted? If it is made again, `keyfold reset "
            f"{failure.app}.{failure.table}` starts from its first message",
        )
    registry = re.search(r"\[KEYFOLD_REGISTRY\] ([^\n]+)", text)
    if registry is not None:
        return failure.explained(
            masked(registry[1]),
            hint="start the registry, or correct registry= of kf.avro, and start the app again: the batch is "
            "retried",
        )
    return None


def _slots(failure: _Failure) -> QueryFailed | None:
    """A real-time batch that repeatedly found fewer task slots than it needs."""
    text = f"{failure.text}\n{failure.error}"
    found = re.search(r"\[CONCURRENT_SCHEDULER_INSUFFICIENT_SLOT\] ([^\n]+)", text)
    if found is None:
        return None
    return failure.explained(
        "the task slots that this table needs at the same time are not there",
        given=plain(found[1]),
        hint="end the other jobs of this Spark session; if the topic has more partitions now, the next start "
        "of the app says how many slots are needed",
    )


def _disk_full(failure: _Failure) -> QueryFailed | None:
    if not (_DISK_FULL.search(failure.text) or _DISK_FULL.search(str(failure.error))):
        return None
    return failure.explained(
        f"no space left on the disk of {_disks(failure.home)}",
        hint="free some space and start again: the batch is retried, and nothing is lost or counted twice",
    )


def _disks(home: AppHome) -> str:
    """The directories that the app writes: its home and, if they are elsewhere, its local files."""
    table_home, local = home.shown, str(home.local)
    return table_home if local == table_home else f"{table_home}, or of {local}"


def _damaged_views(failure: _Failure) -> QueryFailed | None:
    advice = damage_advice(failure.text)
    if advice is None:
        return None
    return failure.explained(
        f"the views of {failure.app} are damaged: {plain(failure.text)}",
        given=failure.home.views,
        hint=advice,
    )


def _upstream_log(failure: _Failure) -> QueryFailed | None:
    """The log of another table, which the failed one reads, is damaged or begins too late."""
    damaged = re.search(r"\[KEYFOLD_LOG_DAMAGED\] (\S+) ([^\n]+)", failure.text)
    pruned = re.search(r"\[KEYFOLD_LOG_PRUNED\] (\S+) begins after batch (\d+), needed (\d+)", failure.text)
    if damaged is None and pruned is None:
        return None
    reset = f"`keyfold reset {failure.app}.{failure.table}`, after which it starts from the rows that"
    if pruned is not None:
        upstream = _table_of(_local_path(pruned[1]))
        return failure.explained(
            f"changes of {upstream} that {failure.app}.{failure.table} has not read are gone",
            given=f"the log of {upstream} begins after batch {pruned[2]}, and batch {pruned[3]} is needed",
            hint=f"{reset} {upstream} has now",
        )
    assert damaged is not None
    file = _local_path(damaged[1])
    upstream, shown = _table_of(file), file.removeprefix(f"{failure.home.shown}/")
    return failure.explained(
        f"the log of {failure.app}.{upstream} is damaged: {shown} {damaged[2]}",
        given=file,
        hint=f"restore it from a backup of the home; or {reset} {upstream} has now",
    )


def _table_of(path: str) -> str:
    """The table of a file in a log, or in a snapshot of a table's rows."""
    found = re.search(r".*/(?:(?:tables|streams)/([^/]+)/log|inputs/\d+-([^/]+))(?:/|$)", path)
    return (found[1] or found[2]) if found else path


def _damaged_state(failure: _Failure) -> QueryFailed | None:
    from pyspark import SparkContext

    app, table = failure.app, failure.table
    home = failure.own_home
    trace = getattr(getattr(failure.error, "_cause", None), "_stackTrace", None)
    text = f"{failure.text}\n{failure.error}"
    found = damage.found_in(home, text, str(trace), SparkContext._jvm, stateful=not failure.stream)
    if found is None:
        return None
    return failure.explained(
        f"the state of {app}.{table} is damaged: "
        f"{home.path.parent.name}/{table}/checkpoint/{found.file.path} {found.how}",
        given=found.file,
        hint=damage.remedy(app, table, home, found),
    )


def _input_file(failure: _Failure) -> QueryFailed | None:
    about = _about_file(failure.text, messages(failure.error)[-1])
    if about is None:
        return None
    what, given, hint = about
    if given.startswith(f"{failure.home.shown}/"):
        table = f"{failure.app}.{failure.table}"
        hint = f"restore it from a backup of the home; or `keyfold reset {table}`"
    return failure.explained(what, given=given, hint=hint)


def _about_file(text: str, innermost: str) -> tuple[str, str, str] | None:
    """The input file that stopped a query, its problem, and a remedy."""
    missing = re.search(r"\[KEYFOLD_MISSING_FILES\] (.*)", text, re.DOTALL)
    unread = re.search(r"\[FAILED_READ_FILE\.(\w+)\] .*? reading file (\S.*?)\.(?:\s|$)", text)
    kind = unread[1] if unread else ""
    if missing or (kind == "FILE_NOT_EXIST" and "Permission denied" not in innermost):
        # Spark appends its plan to the message of an error.
        names = missing[1].split("\n===")[0].strip().splitlines() if missing else []
        names = names or ([unread[2]] if unread else [])
        return (
            "input files of this batch are missing",
            "\n".join(_local_path(name) for name in names),
            "restore the files and start again: the batch then reads them. To continue without them, use "
            "keyfold run APP.py --set missing_files=skip, which lists them with the rejected rows",
        )
    if unread and kind in ("FILE_NOT_EXIST", "NO_HINT", "CANNOT_READ_FILE_FOOTER"):
        return (
            f"an input file can't be read: {plain(innermost)}",
            _local_path(unread[2]),
            "replace it with a readable file of the same name and start again: the batch then reads that "
            "file, and nothing is lost or counted twice. To continue without it, remove it and use --set "
            "missing_files=skip",
        )
    return None


def _local_path(url: str) -> str:
    """The path of a `file:` URL; other URLs unchanged."""
    parts = urlsplit(url.strip())
    return unquote(parts.path) if parts.scheme == "file" else url.strip()


def _cause(error: Any, text: str) -> str:
    """The innermost sentence with one of Spark's error classes, or the first line."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    if isinstance(error, KeyfoldError):
        return str(error)
    if not isinstance(error, PySparkException | Py4JJavaError):
        return f"{type(error).__name__}: {error}"
    worker = re.findall(r"Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)+(\S[^\n]*)", text)
    if worker:
        return f"a Python function of the app raised {worker[-1]}"
    # To Spark the kernel is a StatefulProcessor. Rows that cause an error are rejected, and never get here.
    own = re.search(r"\[TRANSFORM_WITH_STATE_USER_FUNCTION_ERROR\].*? Reason: ([^\n]+)", text)
    if own:
        return f"keyfold's kernel or its state store failed, not because of a row: {own[1].rstrip('.')}"
    found = re.findall(r"\[([A-Z][A-Z_.0-9]+)\] ([^\n]+)", text)
    inner = [sentence for name, sentence in found if f"[{name}]" not in _WRAPPERS]
    return plain(inner[-1]) if inner else plain(text)


def _fragment(text: str) -> str | None:
    """The user's expression, if Spark quotes it."""
    found = re.search(r"== (?:SQL|DataFrame)[^\n]*==\n(.+)\n", text)
    return found[1].strip() if found else None
