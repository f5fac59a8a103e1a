"""Captures the files of an app in a savepoint: first all their names, then their checksums.

Files of checkpoints and logs never change, so a second name for each is enough, and takes no time on a local
disk. Their content is read when the app may already continue.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from keyfold.engine.log.manifest import LAYOUT
from keyfold.engine.operations.files import flush_directories, in_parallel
from keyfold.engine.operations.kinds import SAVE
from keyfold.engine.savepoint import deletion
from keyfold.engine.savepoint.manifest import SavedFile, SavedTable, Savepoint
from keyfold.engine.savepoint.savepoints import FILES, VIEW, Savepoints
from keyfold.engine.storage import audit, contents
from keyfold.engine.storage.contract import FileFacts, Storage
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.storage.state_digest import FamilyDigest
from keyfold.errors import NameTaken, QueryError, choice, did_you_mean
from keyfold.fault_points import FaultPoint, reached
from keyfold.kernel.build import spark_version
from keyfold.views.contract import ViewStore

Progress = Callable[[str, int, int], None]
"""Receives what is being done, how many items are finished, and of how many."""

ReadBack = Callable[[str, Mapping[str, SavedTable]], Mapping[str, tuple[FamilyDigest, ...]]]
"""Reads the state of the tables of a captured savepoint, by its name."""


def silent(what: str, done: int, of: int) -> None:
    """Ignores progress."""


class Capture:
    """A savepoint in progress; without `complete` it does not exist."""

    def __init__(self, home: AppHome, name: str, *, live: bool, why: str | None, progress: Progress) -> None:
        self._home, self._savepoints = home, Savepoints(home)
        self._target = self._savepoints.storage(name)
        self._name, self._live, self._why, self._progress = name, live, why, progress
        self._files: list[FileFacts] = []
        self._tables: dict[str, SavedTable] = {}
        self._view: SavedFile | None = None
        if name in self._savepoints.names():
            raise name_taken(home.path.name, name)
        deletion.require_none(home, name)
        # Left by an interrupted command; others may be in progress, since savepoints are also imported.
        self.abandon()

    def take_view(self, store: ViewStore) -> None:
        """Copies the views, which may be older than the tables but not newer: the log has the difference."""
        with tempfile.TemporaryDirectory(prefix="keyfold-savepoint-") as directory:
            copy = Path(directory) / VIEW
            if store.copy_to(copy):
                self._target.send(copy, VIEW)
                self._view = SavedFile(VIEW, copy.stat().st_size, self._target.sha256(VIEW))

    def take_table(self, name: str) -> None:
        """Captures one table while none of its batches is running."""
        home = self._home.table(name)
        self._take(f"tables/{name}")
        batch = home.committed_batch()
        offsets: tuple[Any, ...] = ()
        with suppress(OSError, ValueError):  # of a damaged checkpoint, which is captured unchanged
            offsets = () if batch is None else tuple(home.spark.offset_documents(batch))
        moment = None if batch is None else home.spark.watermark(batch)
        watermark = None if moment is None else moment.isoformat()
        self._tables[name] = SavedTable(batch, watermark, offsets, home.spark.partitions())
        reached(FaultPoint.SAVEPOINT_TABLE_TAKEN, table=name)

    def take_streams(self) -> None:
        """Captures the files of streams, after the tables that read them."""
        for name in self._home.storage.list("streams"):
            self._take(f"streams/{name}")

    def take_plan(self) -> None:
        """Captures the definitions."""
        self._copy([FileFacts("app.json", len(self._home.storage.read("app.json")))])

    def _take(self, directory: str) -> None:
        """Captures the files of a query of which no batch is running, though Spark may plan the next one.

        Spark records which files a batch reads, then the batch. So batches are listed first: the input of a
        listed batch is among the files that are listed afterwards, and a batch planned since is left out.
        """
        storage, offsets = self._home.storage, "checkpoint/offsets"
        planned = {f"{offsets}/{batch}" for batch in storage.list(f"{directory}/{offsets}")}
        found = [
            file
            for file in storage.files(directory)
            if file.name in planned or not file.name.startswith(f"{offsets}/")
        ]
        self._copy([FileFacts(f"{directory}/{file.name}", file.bytes) for file in found])

    def _copy(self, files: list[FileFacts]) -> None:
        storage = self._home.storage
        target = f"savepoints/{self._name}/{FILES}"
        in_parallel(files, lambda file: storage.copy(file.name, f"{target}/{file.name}"))
        self._files += files

    def complete(self, whole: bool, states: ReadBack | None = None) -> Savepoint:
        """Reads all files for their checksums, and the state back, then creates the manifest."""
        if states is not None:
            for table, state in states(self._name, self._tables).items():
                self._tables[table] = replace(self._tables[table], state=state)
        found = Savepoint(
            name=self._name,
            app=self._home.path.name,
            at=datetime.now(UTC),
            user=audit.user(),
            why=self._why,
            live=self._live,
            spark=spark_version(),
            home_layout=LAYOUT,
            tables=self._tables,
            files=tuple(self._digests()),
            view=self._view,
            whole=whole,
        )
        flush_directories(self._target.below(FILES), (file.path for file in found.files))
        reached(FaultPoint.SAVEPOINT_READ, name=self._name)
        batches = {name: table.batch for name, table in self._tables.items()}
        entry = audit.entry(
            "savepoint", self._why, savepoint=self._name, tables=list(batches), batches=batches
        )
        SAVE.commit(self._home, entry)
        added = self._savepoints.add(found)
        reached(FaultPoint.SAVEPOINT_ADDED, name=self._name)
        if not added:
            self._home.storage.delete(SAVE.record)
            raise name_taken(found.app, self._name)
        SAVE.finish(self._home)
        return found

    def _digests(self) -> Iterator[SavedFile]:
        storage = self._target.below(FILES)
        total = len(self._files)
        done = in_parallel(self._files, lambda file: digest(storage, file))
        for number, file in enumerate(done, 1):
            self._progress("read", number, total)
            yield file

    def abandon(self) -> None:
        """Removes captured files, unless another process has completed a savepoint of that name."""
        if self._name not in self._savepoints.names():
            self._home.storage.delete(f"savepoints/{self._name}")


def carry_out(home: AppHome, entry: dict[str, Any]) -> dict[str, Any] | None:
    """Writes the audit log line of an announced savepoint, if that exists."""
    return entry if entry["savepoint"] in Savepoints(home).names() else None


def forget_sinks(home: AppHome, table: str) -> None:
    """Makes the sinks of a restored or cloned table new to their destinations.

    A destination's record of earlier batches is about other batches with the same numbers, and a clone must
    not take over a transaction of the app from which it was cloned.
    """
    for file in home.storage.files(f"tables/{table}/sinks"):
        name = f"tables/{table}/sinks/{file.name}"
        known = json.loads(home.storage.read(name))
        if known.pop("id", None) is not None:
            home.storage.put(name, json.dumps(known).encode())


def digest(storage: Storage, file: FileFacts) -> SavedFile:
    """A file with its checksum."""
    return SavedFile(file.name, file.bytes, storage.sha256(file.name))


def name_taken(app: str, name: str) -> NameTaken:
    """The error for a name that another savepoint has."""
    return NameTaken(
        f"app {app} has a savepoint {name}",
        given=name,
        hint="another name; or delete that one: keyfold savepoint delete NAME",
    )


def capture(
    home: AppHome,
    name: str,
    tables: Sequence[str],
    why: str | None,
    progress: Progress,
    states: ReadBack | None = None,
) -> Savepoint:
    """Makes a savepoint of an app that no process runs; the caller holds the home."""
    Savepoints(home).sweep()
    known = contents.tables(home)
    wanted = choose_tables(home.path.name, known, tables)
    capture = Capture(home, name, live=False, why=why, progress=progress)
    try:
        views = home.views
        if views.exists():
            with views.open(read_only=True) as store:
                capture.take_view(store)
        for table in wanted:
            capture.take_table(table)
        capture.take_streams()
        capture.take_plan()
        return capture.complete(wanted == known, states)
    except BaseException:
        capture.abandon()
        raise


def name_before(what: str) -> str:
    """A name, with the time, for the savepoint made before a command replaces something."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S.%f}-before-{what.replace(' ', '-')}"


def choose_tables(app: str, known: list[str], wanted: Sequence[str]) -> list[str]:
    """The requested tables; all of them if none were named."""
    for name in wanted:
        if name not in known:
            hint = did_you_mean(name, known, choice(known))
            raise QueryError(f"no table {name} in app {app}", reason="not_found", given=name, hint=hint)
    return [name for name in known if name in wanted] if wanted else known
