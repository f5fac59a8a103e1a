"""An app as Spark compiled it at its last start, for commands that would have the same app compiled again.

The record is found by a hash of everything that the compilation depends on: the declaration, keyfold's own
code, Spark's version and settings. If it also depends on something that no hash covers, such as a function or
the schema of another system, nothing is recorded.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from keyfold.engine import session
from keyfold.engine.compile.compiled import Compiled
from keyfold.engine.compile.stream import CompiledStream
from keyfold.engine.jvm.command import is_configured_outside
from keyfold.engine.log import shared_streams
from keyfold.engine.log.shared_streams import SharedStreams
from keyfold.engine.recovery.definition import meaning_of
from keyfold.engine.sources.file_names import QueryFiles
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.stored_app import StoredApp
from keyfold.kernel.build import spark_version
from keyfold.masking import mask_value
from keyfold.plan.as_data import NotData, as_data
from keyfold.plan.nodes import AppSpec, Source, TableSpec
from keyfold.settings import Settings
from keyfold.views.contract import ViewSchema

FILE: Final = "compiled.json"
UNCHANGED: Final = "the app is unchanged since its last start: nothing has to be compiled"
# Settings with which Spark reads functions, catalogs or rules from elsewhere.
_ELSEWHERE: Final = ("spark.jars", "spark.sql.catalog", "spark.sql.extensions", "spark.hadoop.hive")
# Variables from which Java and Spark take settings in addition to those of keyfold.
_VARIABLES: Final = ("SPARK_ANSI_SQL_MODE", "SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
_CODE: Final = Path(__file__).parents[2]
_NO_FRAME: Final[Any] = None


@dataclass(frozen=True)
class _Files(QueryFiles):
    """The file sources of a recorded plan."""

    entry: Mapping[str, Any] = field(default_factory=dict)

    def directories(self) -> dict[str, str]:
        return dict(self.entry["directories"])

    def numbers(self) -> list[int]:
        return list(self.entry["sources"])


@dataclass(frozen=True)
class _Table(Compiled):
    """The recorded form of a table; it has no plan that could run."""

    entry: Mapping[str, Any] = field(default_factory=dict)

    @property
    def files(self) -> QueryFiles:
        return _Files(_NO_FRAME, self.entry)


@dataclass(frozen=True)
class _Stream(CompiledStream):
    """The recorded form of a stream that has a log."""

    entry: Mapping[str, Any] = field(default_factory=dict)

    @property
    def files(self) -> QueryFiles:
        return _Files(_NO_FRAME, self.entry)

    @property
    def columns(self) -> dict[str, str]:
        return dict(self.entry["columns"])


@dataclass(frozen=True)
class RecordedApp:
    """A compiled app as a start recorded it, to be compared with its home, not to be run."""

    shared: SharedStreams
    tables: list[Compiled]
    streams: dict[str, CompiledStream]


def record(
    home: AppHome,
    settings: Settings,
    shared: SharedStreams,
    tables: Iterable[Compiled],
    streams: Mapping[str, CompiledStream],
) -> None:
    """Records an app, at a start in a session of keyfold's own that reads streams from their sources."""
    found = _hash_of(shared, settings)
    if found is None:
        home.storage.delete(FILE)
        return
    document = {
        "hash": found,
        "tables": {
            one.spec.name: {**_files(one.files), "meaning": one.meaning, "view": one.view.to_json()}
            for one in tables
        },
        "streams": {name: {**_files(one.files), "columns": one.columns} for name, one in streams.items()},
    }
    home.storage.put(FILE, json.dumps(document).encode())


def _files(files: QueryFiles) -> dict[str, Any]:
    return {"directories": files.directories(), "sources": files.numbers()}


def read_compiled(spec: AppSpec, settings: Settings, home: AppHome) -> RecordedApp | None:
    """The app as Spark compiled it and would compile it now; None if Spark must compile it.

    That is also necessary if the state has another definition: only a plan tells what can be migrated.
    """
    document, stored = _document(home), home.read_plan()
    # A user's session may have functions and settings of its own.
    if document is None or session.is_running() or not all(map(_is_there, spec.streams)):
        return None
    shared = shared_streams.decide(spec, stored, home)
    if document["hash"] != _hash_of(shared, settings):
        return None
    entries, logs = document["tables"], document["streams"]
    found = RecordedApp(
        shared,
        [_table(table, entries[table.name]) for table in spec.tables],
        {one.name: _Stream(spec.name, one, _NO_FRAME, logs[one.name]) for one in shared},
    )
    return found if _is_of_the_state(found, stored, home) else None


def _document(home: AppHome) -> dict[str, Any] | None:
    """The record, unless it is missing or damaged."""
    try:
        found = json.loads(home.storage.read(FILE))
    except (FileNotFoundError, ValueError):
        return None
    whole = isinstance(found, dict) and {"hash", "tables", "streams"} <= found.keys()
    return found if whole else None


def _table(spec: TableSpec, entry: Mapping[str, Any]) -> Compiled:
    view = ViewSchema.from_json(spec.name, entry["view"])
    return _Table(spec, _NO_FRAME, entry["meaning"], "", view, False, None, entry=entry)


def _is_of_the_state(found: RecordedApp, stored: StoredApp, home: AppHome) -> bool:
    """Whether the state on disk has this definition, or there is none."""
    begun = [one for one in found.tables if home.table(one.spec.name).planned_batch() is not None]
    fresh = [one for one in found.tables if one not in begun]
    return (
        all(one.spec.was not in stored.tables for one in fresh)
        and all(stored.table(one.spec.name).meaning == meaning_of(one) for one in begun)
        and all(_reads_the_same(stored.table(one.spec.name).directories, one.files) for one in begun)
        and all(
            _reads_the_same(stored.log(name).directories, one.files) for name, one in found.streams.items()
        )
    )


def _reads_the_same(before: Mapping[str, str], files: QueryFiles) -> bool:
    return all(before.get(stream, now) == now for stream, now in files.directories().items())


def _hash_of(shared: SharedStreams, settings: Settings) -> str | None:
    """The hash of everything that a compilation depends on; None if it depends on more than that."""
    outside = is_configured_outside() or any(name.startswith(_ELSEWHERE) for name in settings.spark)
    if outside or not all(map(_is_declared, shared.spec.streams)):
        return None
    try:
        declared = as_data(shared.spec)
    except NotData:
        return None
    given = sorted((name, mask_value(name, value)) for name, value in settings.spark.items())
    logs = sorted((name, sorted(tables)) for name, tables in shared.readers.items())
    # Relative paths start at the working directory.
    variables = [os.environ.get(name) for name in _VARIABLES]
    chosen = sorted(shared.chosen)
    parts = [_code(), spark_version(), str(Path.cwd()), given, variables, declared, logs, chosen]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _is_declared(stream: Source) -> bool:
    """Whether the columns of a stream follow from its declaration."""
    kind, kafka = stream.connector.kind, stream.connector.kafka
    if kind == "kafka":
        return kafka is not None and not (kafka.registry or kafka.descriptor)
    return kind in ("rows", "rate") or (kind == "files" and "://" not in (stream.connector.path or "://"))


def _is_there(stream: Source) -> bool:
    """Whether the directory of a stream exists; Spark refuses a missing one."""
    path = stream.connector.path
    return stream.connector.kind != "files" or any(True for _ in glob.iglob(path or ""))


def _code() -> str:
    """The hash of keyfold's own code."""
    digest = hashlib.sha256()
    for file in sorted((*_CODE.rglob("*.py"), *_CODE.rglob("*.scala"))):
        digest.update(f"{file.relative_to(_CODE)}\0".encode() + file.read_bytes())
    return digest.hexdigest()
