"""Writes the files of a home, and of its savepoints, without a key, beside those that have it."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keyfold.engine.log import key_history
from keyfold.engine.log.log_erasure import LogErasure, match
from keyfold.engine.log.readers import Use, read_upto
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.recovery import state_digest, table_removal
from keyfold.engine.recovery.state_digest import FamilyDigest
from keyfold.engine.savepoint import rewriting
from keyfold.engine.savepoint.checkpoint_copy import copied_checkpoint
from keyfold.engine.savepoint.forgetting import FILES, erase_from_view
from keyfold.engine.savepoint.key_changes import KeyChanges
from keyfold.engine.savepoint.key_erasure import KeyErasure, TableKey
from keyfold.engine.savepoint.manifest import FILE, SavedFile, Savepoint
from keyfold.engine.savepoint.savepoints import FILES as SAVED
from keyfold.engine.savepoint.savepoints import VIEW, Savepoints
from keyfold.engine.storage.layout import AppHome
from keyfold.errors import BadOption

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass
class Erased:
    """What an erasure takes out of a home, or out of a savepoint of it."""

    batch: int | None = None
    state: int = 0
    view: int = 0
    log: dict[str, int] = field(default_factory=dict)
    streams: dict[str, dict[str, int]] = field(default_factory=dict)
    replayed: int = 0
    by_word: int = 0
    """How many rows of text went because they have the key as a word."""
    not_searched: list[str] = field(default_factory=list)
    left: tuple[FamilyDigest, ...] = ()
    """What the state has afterwards."""

    @property
    def anything(self) -> bool:
        """Whether there was a trace of the key."""
        return bool(self.state or self.view or self.log or self.streams or self.replayed)

    def document(self) -> dict[str, Any]:
        """For the receipt."""
        side = {"log": self.log, "streams": self.streams, "replayed_rows": self.replayed}
        side["found_by_word"] = self.by_word
        rows = {"state_rows": self.state, "view_rows": self.view, **side}
        return {**rows, "not_searched": self.not_searched}


@dataclass(frozen=True)
class ErasureStaging:
    """An erasure in the making: everything is written beside the old files, in the staging directory."""

    spark: SparkSession
    place: AppHome
    table: str
    key: TableKey
    source: Mapping[str, str] | None
    """The key's values by the columns of its streams; None if the key is computed from them."""
    told: bool
    """Whether tables or sinks follow the table, who must learn of the deletion."""
    deleted: list[str]

    @property
    def _columns(self) -> dict[str, str]:
        return dict(zip(self.key.names, self.key.values, strict=True))

    @property
    def _in_text(self) -> Mapping[str, str]:
        """What to look for in rows that are kept as text."""
        return self.source or self._columns

    def erase(self, home: AppHome, prefix: str, views: Path) -> Erased:
        """Stages the files of a home, or of a savepoint below `prefix`, without the key."""
        found = Erased()
        batch = home.table(self.table).committed()
        if batch is not None:
            rewriting.require_stopped_between_batches(home, self.table)
            self._require_read(home)
        self._log(home.table(self.table).log_files, f"{prefix}tables/{self.table}/log", found.log, found)
        self._streams(home, prefix, found)
        self._replayed(home, prefix, found)
        if batch is None:
            return found
        changes = KeyChanges(home, self.table, batch, self.key, views)
        found.view, found.batch = len(changes.rows), batch + 1
        self._state(prefix, batch, found)
        target = self.place.storage.below(f"{FILES}/{prefix}tables/{self.table}/log")
        changes.publish(target, (), told=self.told)
        return found

    def _require_read(self, home: AppHome) -> None:
        """Refuses to change a log that others have not read to its end: they would miss what is erased."""
        # A rescale is a batch of the state, and none of the log.
        newest = TableLog(home.table(self.table).log_files).newest()
        for reader in table_removal.readers(home, self.table):
            for name in home.table(reader).storage.list("inputs"):
                number, _, table = name.partition("-")
                use = Use(reader, int(number), table)
                if table == self.table and newest is not None and (at := read_upto(home, use)) < newest:
                    raise BadOption(
                        f"{reader} has read {self.table} up to batch {at}, and that is at batch {newest}",
                        given=reader,
                        hint="start the app, let it read the rest, and stop it (keyfold run APP.py --drain)",
                    )

    def _log(self, files: Any, name: str, erased: dict[str, int], found: Erased) -> None:
        def put(file: str, content: bytes) -> None:
            self.place.storage.put(f"{FILES}/{name}/{file}", content)

        columns = self._columns
        run = LogErasure(TableLog(files), columns, self._in_text, put)
        run.run()
        erased.update(run.erased)
        found.by_word += run.by_word

    def _streams(self, home: AppHome, prefix: str, found: Erased) -> None:
        plan = (home.read_plan() or {}).get("tables", {}).get(self.table, {})
        logs = [name for name in plan.get("shared", ()) if home.storage.list(f"streams/{name}/log")]
        for name in logs:
            if self.source is None:
                found.not_searched.append(f"the log of stream {name}: the key is computed from its columns")
                continue
            mine = replace(self, key=TableKey(tuple(self.source), tuple(self.source.values())))
            erased: dict[str, int] = {}
            mine._log(home.stream_home(name).log_files, f"{prefix}streams/{name}/log", erased, found)
            if erased:
                found.streams[name] = erased

    def _replayed(self, home: AppHome, prefix: str, found: Erased) -> None:
        """Stages the files of late rows that were sent to be folded, which a start may not have done yet."""
        directory = f"tables/{self.table}/side"
        for file in home.storage.files(directory):
            lines = home.storage.read(f"{directory}/{file.name}").decode().split("\n")[:-1]
            stays = [line for line in lines if match(json.loads(line)["raw"], self._in_text) is None]
            if len(stays) < len(lines):
                found.replayed += len(lines) - len(stays)
                text = "".join(f"{line}\n" for line in stays)
                self.place.storage.put(f"{FILES}/{prefix}{directory}/{file.name}", text.encode())

    def _state(self, prefix: str, batch: int, found: Erased) -> None:
        """Stages a checkpoint with a state, without the key; older versions, which have it, are left out."""
        storage, source = self.place.storage, f"{prefix}tables/{self.table}/checkpoint"
        target = f"{FILES}/{source}"
        files = [file.name for file in storage.files(source)]
        copy = copied_checkpoint(storage, source, target, files)
        erasure = KeyErasure(self.spark, copy.storage.uri(), batch, self.key, upstream=True)
        before = state_digest.digest(self.spark, copy.storage, batch)
        written = rewriting.rewrite(self.spark, copy, batch, erasure)
        for name in files:
            if name.startswith("state/") and "/_metadata/" not in name and "/_stateSchema/" not in name:
                storage.delete(f"{target}/{name}", durable=False)
        after = state_digest.digest(self.spark, copy.storage, written)
        rows = sum(one.rows for one in before) - sum(one.rows for one in after)
        # In a list, the key is an entry among others: the row stays, and is another one.
        found.state = rows or int(before != after)
        found.not_searched += erasure.unreached
        found.left = tuple(after)
        copy.relocate(self.place.table(self.table).checkpoint_url)
        self.deleted.append(source)

    def erase_savepoint(self, name: str) -> Erased:
        """Stages a savepoint without the key: its files, its view, and the manifest that lists them."""
        savepoints, storage = Savepoints(self.place), self.place.storage
        savepoint, prefix = savepoints.find(name), f"savepoints/{name}/{SAVED}/"
        with _home_in(self.place, name) as (home, views):
            if self._is_told(home):
                return Erased(
                    not_searched=["the deletion, with the key, for readers that a restore brings back"]
                )
            if savepoint.view is not None:
                with savepoints.storage(name).fetched(VIEW) as copy:
                    shutil.copyfile(copy, views)
            try:
                found = self.erase(home, prefix, views)
            except BadOption as error:
                raise BadOption(
                    f"the key can't be erased from savepoint {name}: {error.what}",
                    given=name,
                    hint=f"keyfold savepoint delete {name}",
                ) from None
            if savepoint.view is not None and found.batch is not None:
                erase_from_view(views, self.table, list(self.key.values), found.batch)
                storage.send(views, f"{FILES}/savepoints/{name}/{VIEW}")
        self.deleted.append(f"savepoints/{name}/reading")
        manifest = self._manifest(savepoint, prefix, found)
        storage.put(f"{FILES}/savepoints/{name}/{FILE}", manifest.encode())
        return found

    def _is_told(self, home: AppHome) -> bool:
        """Whether all that a home still has of the key is its deletion, in the last batch of the log."""
        log = TableLog(home.table(self.table).log_files)
        found = list(key_history.history(log, self.key.values))
        last = [change for change in found if change["batch"] == log.newest()]
        return bool(found) and found == last and all(change["op"] == "delete" for change in found)

    def _manifest(self, savepoint: Savepoint, prefix: str, found: Erased) -> Savepoint:
        storage, staged = self.place.storage, f"{FILES}/{prefix}"
        gone = [name.removeprefix(prefix) for name in self.deleted if name.startswith(prefix)]
        files = {
            file.path: file
            for file in savepoint.files
            if not any(file.path.startswith(f"{directory}/") for directory in gone)
        }
        for file in storage.files(staged.rstrip("/")):
            files[file.name] = SavedFile(file.name, file.bytes, storage.sha256(f"{staged}{file.name}"))
        view = savepoint.view
        if view is not None and found.batch is not None:
            name = f"{FILES}/savepoints/{savepoint.name}/{VIEW}"
            view = SavedFile(VIEW, storage.size(name), storage.sha256(name))
        tables = dict(savepoint.tables)
        if found.batch is not None:
            saved = tables[self.table]
            left = None if saved.state is None else found.left
            tables[self.table] = replace(saved, batch=found.batch, state=left)
        return replace(
            savepoint, files=tuple(files[name] for name in sorted(files)), view=view, tables=tables
        )


@contextmanager
def _home_in(place: AppHome, savepoint: str) -> Iterator[tuple[AppHome, Path]]:
    """A savepoint's files as the home that they were, and a place for a copy of its view."""
    files = f"savepoints/{savepoint}/{SAVED}"
    with tempfile.TemporaryDirectory(prefix="keyfold-forget-") as directory:
        remote = None if place.remote is None else place.remote.below(files)
        yield AppHome(place.path if remote else place.path / files, remote), Path(directory) / VIEW
