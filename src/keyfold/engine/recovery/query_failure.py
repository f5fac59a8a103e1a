"""Explains why a query failed, without Java's stack trace."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import unquote, urlsplit

from keyfold.engine import spark_messages
from keyfold.engine.recovery import damage, lost_messages
from keyfold.engine.spark_errors import KernelError, kernel_error, messages
from keyfold.engine.spark_messages import plain
from keyfold.engine.storage.layout import AppHome, TableHome
from keyfold.errors import KeyfoldError, LeaseLost, QueryFailed, RunError
from keyfold.kernel.api import ErrorCode
from keyfold.masking import mask
from keyfold.views.stores import damage_advice


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

    def payload(self, code: ErrorCode) -> Mapping[str, str] | None:
        """What the kernel says, if this is an error of its own with that code."""
        return None if self.own is None or self.own.code != code else self.own.payload

    @cached_property
    def own(self) -> KernelError | None:
        """The kernel's own error."""
        return kernel_error(self.error)

    @property
    def text(self) -> str:
        """The message of the innermost cause that has an error class, or of the innermost cause."""
        return spark_messages.innermost_message(messages(self.error))

    @property
    def texts(self) -> str:
        """That message, and all that the error says."""
        return f"{self.text}\n{self.error}"

    def explain(self, what: str, given: object = None, hint: str | None = None) -> QueryFailed:
        return QueryFailed(what, app=self.app, table=self.table, batch=self.batch, given=given, hint=hint)


def explain_failure(
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
    return failure.explain(
        f"the {follower} of {'stream' if stream else 'table'} {table} stopped: {_cause(error, failure.text)}",
        given=spark_messages.quoted_expression(failure.text),
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
        raise explain_failure(app, table, home.planned_batch(), error, home.app) from None


def _bad_row(failure: _Failure) -> QueryFailed | None:
    rejected = failure.payload(ErrorCode.REJECTED_ROW)
    if rejected is None:
        return None
    return failure.explain(
        f"a row can't be processed, and on_error is 'fail': {rejected['reason']}",
        given=rejected["row"],
        hint="correct the row, or declare on_error='reject' to send such rows to the rejected rows",
    )


def _kafka(failure: _Failure) -> QueryFailed | None:
    """Missing messages, or a Schema Registry that does not answer."""
    lost = spark_messages.lost_messages(failure.texts)
    if lost is not None:
        return lost_messages.failure(failure.app, failure.table, failure.batch, None, lost)
    if spark_messages.MISSING_TOPIC.search(failure.texts):
        return failure.explain(
            f"a topic that {failure.app}.{failure.table} reads is no longer there",
            given=plain(failure.text),
            hint="was it deleted? If it is made again, `keyfold reset "
            f"{failure.app}.{failure.table}` starts from its first message",
        )
    registry = failure.payload(ErrorCode.REGISTRY)
    if registry is not None:
        return failure.explain(
            mask(registry["problem"].splitlines()[0]),
            hint="start the registry, or correct registry= of kf.avro, and start the app again: the batch is "
            "retried",
        )
    return None


def _slots(failure: _Failure) -> QueryFailed | None:
    """A real-time batch that repeatedly found fewer task slots than it needs."""
    found = spark_messages.missing_slots(failure.texts)
    if found is None:
        return None
    return failure.explain(
        "the task slots that this table needs at the same time are not there",
        given=found,
        hint="end the other jobs of this Spark session; if the topic has more partitions now, the next start "
        "of the app says how many slots are needed",
    )


def _disk_full(failure: _Failure) -> QueryFailed | None:
    if not spark_messages.DISK_FULL.search(failure.texts):
        return None
    return failure.explain(
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
    return failure.explain(
        f"the views of {failure.app} are damaged: {plain(failure.text)}",
        given=failure.home.views,
        hint=advice,
    )


def _upstream_log(failure: _Failure) -> QueryFailed | None:
    """The log of another table, which the failed one reads, is damaged or begins too late."""
    damaged, pruned = failure.payload(ErrorCode.LOG_DAMAGED), failure.payload(ErrorCode.LOG_PRUNED)
    if damaged is None and pruned is None:
        return None
    reset = f"`keyfold reset {failure.app}.{failure.table}`, after which it starts from the rows that"
    if pruned is not None:
        upstream = _table_of(_local_path(pruned["log"]))
        return failure.explain(
            f"changes of {upstream} that {failure.app}.{failure.table} has not read are gone",
            given=f"the log of {upstream} begins after batch {pruned['upto']}, and batch {pruned['needed']} "
            "is needed",
            hint=f"{reset} {upstream} has now",
        )
    assert damaged is not None
    file, problem = _local_path(damaged["file"]), damaged["problem"].splitlines()[0]
    upstream, shown = _table_of(file), file.removeprefix(f"{failure.home.shown}/")
    return failure.explain(
        f"the log of {failure.app}.{upstream} is damaged: {shown} {problem}",
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
    found = damage.find_in(home, failure.texts, str(trace), SparkContext._jvm, stateful=not failure.stream)
    if found is None:
        return None
    return failure.explain(
        f"the state of {app}.{table} is damaged: "
        f"{home.path.parent.name}/{table}/checkpoint/{found.file.path} {found.how}",
        given=found.file,
        hint=damage.remedy(app, table, home, found),
    )


def _input_file(failure: _Failure) -> QueryFailed | None:
    missing = failure.payload(ErrorCode.MISSING_FILES)
    names = [] if missing is None else json.loads(missing["files"])
    about = _about_file(names, failure.text, messages(failure.error)[-1])
    if about is None:
        return None
    what, given, hint = about
    if given.startswith(f"{failure.home.shown}/"):
        table = f"{failure.app}.{failure.table}"
        hint = f"restore it from a backup of the home; or `keyfold reset {table}`"
    return failure.explain(what, given=given, hint=hint)


def _about_file(missing: list[str], text: str, innermost: str) -> tuple[str, str, str] | None:
    """The input file that stopped a query, its problem, and a remedy.

    `missing`: the files that the kernel has not found.
    """
    unread = spark_messages.unread_file(text)
    kind = "" if unread is None else unread.kind
    if missing or (kind == "FILE_NOT_EXIST" and "Permission denied" not in innermost):
        names = missing or ([unread.name] if unread else [])
        return (
            "input files of this batch are missing",
            "\n".join(_local_path(name) for name in names),
            "restore the files and start again: the batch then reads them. To continue without them, use "
            "keyfold run APP.py --set missing_files=skip, which lists them with the rejected rows",
        )
    if unread and kind in ("FILE_NOT_EXIST", "NO_HINT", "CANNOT_READ_FILE_FOOTER"):
        return (
            f"an input file can't be read: {plain(innermost)}",
            _local_path(unread.name),
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
    raised = spark_messages.python_error(text)
    if raised is not None:
        return f"a Python function of the app raised {raised}"
    # Rows that cause an error are rejected, and never get here.
    own = spark_messages.operator_failure(text)
    if own is not None:
        return f"keyfold's kernel or its state store failed, not because of a row: {own}"
    return spark_messages.reason(text)
