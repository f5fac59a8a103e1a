"""Files of streams by their names: `<stream>:/<path below the declared directory>`, wherever that is now.

A source's log names the files it has taken. A project that was moved or copied goes on with them: what is
written down of a directory says whether a stream reads from another one, and the files in it whether they are
the same.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from keyfold.engine.session import kernel
from keyfold.engine.storage.layout import TableHome
from keyfold.errors import StateMismatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from keyfold.engine.compile.table import Compiled

# How the entry of a file begins that the home itself has for its table.
OF_HOME: Final = b'"path":":/'
_SHOWN: Final = 5
_LOG: Final = logging.getLogger("keyfold")


class Taken(NamedTuple):
    """A file that a source has taken: in which step of its log, and what it was then."""

    name: str
    size: int
    time: int
    step: int

    @property
    def stream(self) -> str:
        """The stream it is of; nothing for files of the home."""
        return self.name.partition(":")[0]

    @property
    def below(self) -> str:
        """Its path below the stream's directory."""
        return self.name.partition(":")[2]


def named(
    frame: DataFrame, *, stream: str = "", within: Path | None = None, recursive: str | None = None
) -> DataFrame:
    """The frame, with its files known by their names, of a stream or below a directory of the home.

    `recursive`: whether all directories below are read, if that is another than the frame was loaded with.
    """
    from pyspark.sql import DataFrame

    spark = frame.sparkSession
    base = None if within is None else str(within)
    return DataFrame(kernel(spark).watchFiles(frame._jdf, stream, base, recursive), spark)


def directories(compiled: Compiled) -> dict[str, str]:
    """The directory of each stream of files that a table reads."""
    found: dict[str, str] = json.loads(_kernel(compiled).sourceDirectories(compiled.changes._jdf))
    return found


def numbers(compiled: Compiled) -> list[int]:
    """The number of the source behind each position of Spark's log of offsets: some have several."""
    return list(_kernel(compiled).sourceNumbers(compiled.changes._jdf))


def taken(home: TableHome) -> list[tuple[int, Taken]]:
    """The files that each source of a table has taken, with the source's number."""
    return [
        (int(log.name), file)
        for log in sorted(home.checkpoint.glob("sources/[0-9]*"))
        for file in _of_log(home, log)
    ]


def _of_log(home: TableHome, log: Path) -> Iterator[Taken]:
    entries = home.log_entries(log)
    # A compacted entry holds all before it as well.
    first = max((step for step, entry in entries.items() if entry.suffix), default=0)
    for step, entry in sorted(entries.items()):
        if step >= first:
            for line in entry.read_text("utf-8").split("\n")[1:]:
                found = json.loads(line)
                yield Taken(found["path"], found["size"], found["timestamp"], found["batchId"])


def check(app: str, stored: dict[str, str], compiled: Compiled, home: TableHome) -> None:
    """Refuses streams that read another directory now, in which files that were read aren't the same."""
    for stream, directory in directories(compiled).items():
        before = stored.get(stream)
        if before is not None and before != directory:
            _same(f"{app}.{compiled.spec.name}", stream, (before, directory), compiled, home)


def _same(table: str, stream: str, moved: tuple[str, str], compiled: Compiled, home: TableHome) -> None:
    """If most of the files that have the name of one read before are like it, the directory was moved."""
    seen = {file.below: file for _, file in taken(home) if file.stream == stream}
    there = [Taken(name, size, time, 0) for name, size, time in json.loads(_listed(compiled, stream))]
    known = [file for file in there if file.below in seen]
    other = [file.below for file in known if not _alike(file, seen[file.below])]
    was = f"{stream} read {moved[0]} before, and reads {moved[1]} now"
    if known and 2 * len(other) > len(known):
        raise StateMismatch(
            f"{table}: the directory has different files under names that were already read; "
            "nothing was changed",
            where=compiled.spec.site,
            given=f"{was}: {_some(other)}",
            hint=f"point {stream} back; or give the new files names of their own; or read them by another "
            "table, or in another home (keyfold run APP.py --home DIR)",
        )
    if other:
        _LOG.warning("%s: files with names that were already read stay unread: %s", table, _some(other))
    gone = seen.keys() - {file.below for file in there}
    sizes = {(Path(below).name, seen[below].size) for below in gone}
    new = (file for file in there if file.below not in seen)
    again = [file.below for file in new if (Path(file.below).name, file.size) in sizes]
    if again:
        raise StateMismatch(
            f"files that {table} has read would be read again; nothing was changed",
            where=compiled.spec.site,
            given=f"{was}: {_some(again)}",
            hint="files are known by their path below the stream's directory: point the stream to where they "
            "have the paths they had; or give the table a new name, which starts from the first row",
        )


def _alike(one: Taken, other: Taken) -> bool:
    """Copies may have another time, and a file that was replaced has another size or time."""
    return one.size == other.size or one.time == other.time


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(name.lstrip("./") for name in names[:_SHOWN]) + more


def _listed(compiled: Compiled, stream: str) -> str:
    return str(_kernel(compiled).listFiles(compiled.changes._jdf, stream))


def _kernel(compiled: Compiled) -> Any:
    return kernel(compiled.changes.sparkSession)
