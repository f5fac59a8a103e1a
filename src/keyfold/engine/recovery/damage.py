"""Finds the damaged or missing file of a table's checkpoint; Spark often reports only that there is one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from keyfold.engine import spark_messages
from keyfold.engine.storage import contents
from keyfold.engine.storage.layout import TableHome
from keyfold.engine.storage.spark_checkpoint import SparkCheckpoint, is_whole
from keyfold.engine.storage.stored_file import StoredFile
from keyfold.errors import HomeUnusable

_MISSING: Final = "is missing"
_CUT: Final = "is cut short or overwritten"


@dataclass(frozen=True)
class Damage:
    """A file of a checkpoint, and its defect."""

    file: StoredFile
    how: str


def check(app: str, table: str, home: TableHome, *, stateful: bool = True) -> None:
    """Refuses a checkpoint if a file that a start needs is damaged or missing.

    `stateful`: whether the query has state; that of a stream has none.
    """
    found = in_logs(home.spark, stateful=stateful) or _in_state_metadata(home.spark)
    if found is not None:
        raise HomeUnusable(
            f"the checkpoint of {app}.{table} is damaged: checkpoint/{found.file.path} {found.how}; "
            "nothing was changed",
            given=found.file,
            hint=remedy(app, table, home, found),
        )


def remedy(app: str, table: str, home: TableHome, found: Damage) -> str:
    """The remedy for a damaged checkpoint."""
    readers = contents.with_readers(home.app, table)[1:]
    restarted = f"it and {', '.join(readers)}, which read it, then start" if readers else "it then starts"
    reset = (
        f"or `keyfold reset {app}.{table}{' --with-readers' if readers else ''}`: {restarted} from the "
        "first row of the sources, and other tables stay as they are"
    )
    committed = home.committed_batch()
    newest = None if committed is None else home.spark.commit_file(committed)
    if found.file == newest and found.how != _MISSING:
        return f"remove the file: its batch then runs again, and is counted once; {reset}"
    return f"restore the file from a backup of the home; {reset}"


def in_logs(checkpoint: SparkCheckpoint, *, stateful: bool = True) -> Damage | None:
    """The damage in Spark's offset and commit logs."""
    begun, committed = checkpoint.planned_batch(), checkpoint.committed_batch()
    if begun is None and committed is None:
        return None
    if committed is not None and (begun is None or begun < committed):
        return Damage(checkpoint.offset_file(committed), _MISSING)
    for file in _needed_files(checkpoint, begun, committed):
        if not file.exists():
            return Damage(file, _MISSING)
        if not is_whole(file):
            return Damage(file, _CUT)
    if stateful and committed is not None and not checkpoint.state.exist():
        return Damage(checkpoint.state.directory, _MISSING)
    return None


def _needed_files(checkpoint: SparkCheckpoint, begun: int | None, committed: int | None) -> list[StoredFile]:
    """The files of the logs that Spark reads when it starts."""
    commits = [] if committed is None else [checkpoint.commit_file(committed)]
    offsets = [checkpoint.offset_file(batch) for batch in (begun, committed) if batch is not None]
    return [checkpoint.metadata, *commits, *offsets]


def find_in(home: TableHome, text: str, trace: str, jvm: Any, *, stateful: bool = True) -> Damage | None:
    """The file of the table's checkpoint that made a query fail with this message; None for other causes."""
    if spark_messages.PASSING.search(text):
        return None
    checkpoint, in_state = home.spark, bool(spark_messages.BROKEN_STATE.search(text))
    app_home = re.escape(checkpoint.storage.uri().removeprefix("file://"))
    named = re.search(rf"{app_home}/([^\s,;]*[^\s,;.])", text)
    file = None if named is None else StoredFile(checkpoint.storage, named[1])
    if file is not None and (in_state or not file.exists()):
        return Damage(file, _CUT if file.exists() else _MISSING)
    logs = in_logs(checkpoint, stateful=stateful)
    found = logs or _in_state_metadata(checkpoint) or _in_state_schema(checkpoint, trace)
    if found is None and in_state:
        # Spark names a missing file, but not one that it can't decompress.
        found = next(_broken_states(checkpoint, jvm), Damage(checkpoint.state.directory, "can't be loaded"))
    return found


def _in_state_metadata(checkpoint: SparkCheckpoint) -> Damage | None:
    broken = (file for file in checkpoint.state.metadata() if not is_whole(file))
    return next((Damage(file, _CUT) for file in broken), None)


def _in_state_schema(checkpoint: SparkCheckpoint, trace: str) -> Damage | None:
    schemas = checkpoint.state.schemas() if "StateSchema" in trace else []
    return next((Damage(file, _CUT) for file in schemas), None)


def _broken_states(checkpoint: SparkCheckpoint, jvm: Any) -> Iterator[Damage]:
    """State files that can't be decompressed, newest first; checked by the JVM, which wrote them."""
    if checkpoint.state_codec() != "lz4":
        return
    for file in checkpoint.state.changelogs():
        with suppress(Exception), file.storage.fetch(file.path) as path:
            if path.stat().st_size == 0:
                yield Damage(file, _CUT)
                continue
            # Without a JVM the directory is named instead.
            stream = jvm.net.jpountz.lz4.LZ4BlockInputStream(jvm.java.io.FileInputStream(str(path)))
            if not _decompresses(stream, jvm):
                yield Damage(file, _CUT)


def _decompresses(stream: Any, jvm: Any) -> bool:
    from py4j.protocol import Py4JJavaError

    try:
        stream.transferTo(jvm.java.io.OutputStream.nullOutputStream())
    except Py4JJavaError:
        return False
    finally:
        stream.close()
    return True
