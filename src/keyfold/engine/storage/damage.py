"""Which file of a table's checkpoint is damaged or missing; Spark often says only that one is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from keyfold.engine.recovery import table_removal
from keyfold.engine.storage.layout import AppHome, TableHome
from keyfold.errors import HomeUnusable

# What Spark says of state that it can't load, and of a checkpoint that lacks a part.
_STATE: Final = re.compile(
    r"CANNOT_LOAD_STATE_STORE|STATE_STORE_|_STATE_DIRECTORY|STREAMING_CHECKPOINT_"
    r"|error occurred during loading state"
)

# What keeps state from being loaded and passes by itself, or with other limits.
_PASSING: Final = re.compile(
    r"UNRELEASED_THREAD_ERROR|Too many open files|Permission denied|Cannot allocate memory"
)


@dataclass(frozen=True)
class Damage:
    """A file of a checkpoint, and what is wrong with it."""

    file: Path
    how: str


def check(app: str, table: str, home: TableHome) -> None:
    """Refuses a checkpoint of which a start needs a file that is damaged or missing."""
    found = in_logs(home) or _in_state_metadata(home)
    if found is not None:
        raise HomeUnusable(
            f"the checkpoint of {app}.{table} is damaged: {found.file.relative_to(home.path)} {found.how}; "
            "nothing was changed",
            given=found.file,
            hint=way_out(app, table, home, found),
        )


def way_out(app: str, table: str, home: TableHome, found: Damage) -> str:
    """What to do about a damaged checkpoint."""
    readers = table_removal.with_readers(AppHome(home.path.parents[1]), table)[1:]
    anew = f"it and {', '.join(readers)}, which read it, then start" if readers else "it then starts"
    reset = (
        f"or `keyfold reset {app}.{table}{' --with-readers' if readers else ''}`: {anew} from the first row "
        "of the sources, and other tables stay as they are"
    )
    if found.file == home.checkpoint / "commits" / str(home.committed()) and found.how != _MISSING:
        return f"remove the file: its batch then runs again, and counts once; {reset}"
    return f"bring the file back from a backup of the home; {reset}"


_MISSING: Final = "is missing"
_CUT: Final = "is cut short or overwritten"


def in_logs(home: TableHome) -> Damage | None:
    """What is wrong with Spark's own account of a table's batches."""
    checkpoint, begun, committed = home.checkpoint, home.begun(), home.committed()
    if begun is None and committed is None:
        return None
    if committed is not None and (begun is None or begun < committed):
        return Damage(checkpoint / "offsets" / str(committed), _MISSING)
    logs = [("commits", committed), ("offsets", begun), ("offsets", committed)]
    files = [checkpoint / log / str(batch) for log, batch in logs if batch is not None]
    for file in (checkpoint / "metadata", *files):
        if not file.exists():
            return Damage(file, _MISSING)
        if not _readable(file):
            return Damage(file, _CUT)
    if committed is not None and not any((checkpoint / "state").glob("*/*")):
        return Damage(checkpoint / "state", _MISSING)
    return None


def _readable(file: Path) -> bool:
    """Whether a file of Spark's is whole: a line with its version, if it is of a log, and lines of JSON."""
    try:
        lines = file.read_text("utf-8").splitlines()
        if file.name != "metadata":
            version, *lines = lines
            if not re.fullmatch(r"v\d+", version):
                return False
        for line in lines:
            if line != "-":
                json.loads(line)
    except (OSError, ValueError):
        return False
    return bool(lines)


def found_in(home: TableHome, text: str, trace: str, jvm: Any) -> Damage | None:
    """The file that made a query fail with these words, if it is one of the table's checkpoint."""
    if _PASSING.search(text):
        return None
    in_state = bool(_STATE.search(text))
    named = re.search(rf"({re.escape(str(home.checkpoint))}/[^\s,;]*[^\s,;.])", text)
    if named and (in_state or not Path(named[1]).exists()):
        file = Path(named[1])
        return Damage(file, _CUT if file.exists() else _MISSING)
    found = in_logs(home) or _in_state_metadata(home) or _in_state_schema(home, trace)
    if found is None and in_state:
        # Spark names the file that is missing, and not the one that it can't read.
        found = next(_broken(home, jvm), Damage(home.checkpoint / "state", "can't be loaded"))
    return found


def _in_state_metadata(home: TableHome) -> Damage | None:
    files = home.checkpoint.glob("state/*/_metadata/v2/[0-9]*")
    return next((Damage(file, _CUT) for file in files if not _readable(file)), None)


def _in_state_schema(home: TableHome, trace: str) -> Damage | None:
    for file in home.checkpoint.glob("state/*/_stateSchema/*/*"):
        if "StateSchema" in trace and not file.name.startswith("."):
            return Damage(file, _CUT)
    return None


def _broken(home: TableHome, jvm: Any) -> Iterator[Damage]:
    """Files of state that can't be unpacked, the newest first: Java is asked, who wrote them."""
    if home.state_codec() != "lz4":
        return
    files = [file for file in home.checkpoint.glob("state/**/*.changelog") if not file.name.startswith(".")]
    for file in sorted(files, key=lambda file: -file.stat().st_mtime):
        if file.stat().st_size == 0:
            yield Damage(file, _CUT)
            continue
        with suppress(Exception):  # no Java: then the directory is named
            stream = jvm.net.jpountz.lz4.LZ4BlockInputStream(jvm.java.io.FileInputStream(str(file)))
            if not _unpacks(stream, jvm):
                yield Damage(file, _CUT)


def _unpacks(stream: Any, jvm: Any) -> bool:
    from py4j.protocol import Py4JJavaError

    try:
        stream.transferTo(jvm.java.io.OutputStream.nullOutputStream())
    except Py4JJavaError:
        return False
    finally:
        stream.close()
    return True
