"""Writes the files of a home, or of a savepoint of it, without a key, beside those that have it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keyfold.engine.log import row_text
from keyfold.engine.log.key_history import as_text
from keyfold.engine.log.log_erasure import LogErasure
from keyfold.engine.log.readers import Use, read_upto
from keyfold.engine.log.row_text import StreamText, Texts
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.recovery import state_digest, table_removal
from keyfold.engine.recovery.state_digest import FamilyDigest
from keyfold.engine.savepoint import rewriting
from keyfold.engine.savepoint.checkpoint_copy import copied_checkpoint
from keyfold.engine.savepoint.forgetting import FILES
from keyfold.engine.savepoint.join_keys import JoinedKey
from keyfold.engine.savepoint.join_rows import are_by_time
from keyfold.engine.savepoint.key_changes import KeyChanges
from keyfold.engine.savepoint.key_erasure import KeyErasure, TableKey
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
    keys: set[tuple[str, ...]] = field(default_factory=set)
    """The keys that state, view and log had, as text."""
    table: str | None = None
    """The table's name there, if that is another one."""

    @property
    def anything(self) -> bool:
        """Whether there was a trace of the key."""
        return bool(self.state or self.view or self.log or self.streams or self.replayed)

    def document(self) -> dict[str, Any]:
        """For the receipt."""
        side = {"log": self.log, "streams": self.streams, "replayed_rows": self.replayed}
        side["found_by_word"] = self.by_word
        rows = {"keys": len(self.keys), "state_rows": self.state, "view_rows": self.view, **side}
        named = {} if self.table is None else {"table": self.table}
        return {**named, **rows, "not_searched": self.not_searched}


@dataclass(frozen=True)
class ErasureStaging:
    """An erasure in the making: everything is written beside the old files, in the staging directory."""

    spark: SparkSession
    place: AppHome
    table: str
    key: TableKey
    source: Mapping[str, str] | None
    """The key's values by the columns of its streams; None if the key is computed from them."""
    joined: JoinedKey | None
    """The key in the rows of a join of two streams that feeds the table."""
    deleted: list[str]

    @property
    def _in_text(self) -> Mapping[str, str]:
        """What to look for in rows that are kept as text."""
        return self.source or self.key.columns

    def is_followed(self, home: AppHome) -> bool:
        """Whether tables or sinks follow the table, who must learn of the deletion."""
        sinks = home.storage.list(f"tables/{self.table}/sinks")
        return bool(sinks or table_removal.readers(home, self.table))

    def erase(self, home: AppHome, prefix: str, views: Path) -> Erased:
        """Stages the files of a home, or of a savepoint below `prefix`, without the key."""
        found = self._erased(home, prefix, views)
        if self.key.is_whole:
            found.keys = {self.key.values} if found.anything else set()
        return found

    def _erased(self, home: AppHome, prefix: str, views: Path) -> Erased:
        found = Erased()
        batch = home.table(self.table).committed()
        if batch is not None:
            rewriting.require_stopped_between_batches(home, self.table)
            self._require_read(home)
        plan = home.read_plan()
        streams = ((plan or {}).get("tables", {}).get(self.table) or {}).get("streams") or [None]
        texts = Texts(row_text.of_plan(plan), streams[0] if len(streams) == 1 else None)
        name = f"{prefix}tables/{self.table}/log"
        self._log(home.table(self.table).log_files, name, texts, found.log, found)
        self._streams(home, prefix, found)
        self._replayed(home, prefix, found)
        if batch is None:
            return found
        changes = KeyChanges(home, self.table, batch, self.key, views)
        found.view, found.batch = len(changes.rows), batch + 1
        self._state(prefix, batch, found)
        target = self.place.storage.below(f"{FILES}/{prefix}tables/{self.table}/log")
        changes.publish(target, (), told=self.is_followed(home))
        found.keys |= {tuple(as_text(row[name]) for name in self.key.declared) for row in changes.rows}
        return found

    def _require_read(self, home: AppHome) -> None:
        """Refuses to change a log that others have not read to its end: they would miss what is erased."""
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

    def _log(self, files: Any, name: str, texts: Texts, erased: dict[str, int], found: Erased) -> None:
        def put(file: str, content: bytes) -> None:
            self.place.storage.put(f"{FILES}/{name}/{file}", content)

        run = LogErasure(TableLog(files), self.key.columns, self._in_text, put, texts, self.key.declared)
        run.run()
        erased.update(run.erased)
        found.by_word += run.by_word
        found.keys |= run.keys

    def _streams(self, home: AppHome, prefix: str, found: Erased) -> None:
        plan = (home.read_plan() or {}).get("tables", {}).get(self.table, {})
        logs = [name for name in plan.get("shared", ()) if home.storage.list(f"streams/{name}/log")]
        for name in logs:
            if self.source is None:
                found.not_searched.append(f"the log of stream {name}: the key is computed from its columns")
                continue
            mine = replace(self, key=TableKey(tuple(self.source), tuple(self.source.values())))
            erased: dict[str, int] = {}
            texts = Texts(row_text.of_plan(home.read_plan()), name)
            mine._log(home.stream_home(name).log_files, f"{prefix}streams/{name}/log", texts, erased, found)
            if erased:
                found.streams[name] = erased

    def _replayed(self, home: AppHome, prefix: str, found: Erased) -> None:
        """Stages the files of late rows that were sent to be folded, which a start may not have done yet."""
        directory = f"tables/{self.table}/side"
        for file in home.storage.files(directory):
            lines = home.storage.read(f"{directory}/{file.name}").decode().split("\n")[:-1]
            # Late rows are kept as JSON, whatever the stream's format is.
            matches = [StreamText().match(json.loads(line)["raw"], self._in_text) for line in lines]
            stays = [line for line, match in zip(lines, matches, strict=True) if match is None]
            if len(stays) < len(lines):
                found.replayed += len(lines) - len(stays)
                found.by_word += matches.count("word")
                text = "".join(f"{line}\n" for line in stays)
                self.place.storage.put(f"{FILES}/{prefix}{directory}/{file.name}", text.encode())

    def _state(self, prefix: str, batch: int, found: Erased) -> None:
        """Stages a checkpoint with a state, without the key; older versions, which have it, are left out."""
        storage, source = self.place.storage, f"{prefix}tables/{self.table}/checkpoint"
        target = f"{FILES}/{source}"
        files = [file.name for file in storage.files(source)]
        copy = copied_checkpoint(storage, source, target, files)
        uri, joined = copy.storage.uri(), self.joined if are_by_time(copy) else None
        erasure = KeyErasure(self.spark, uri, batch, self.key, upstream=True, joined=joined)
        if not self.key.is_whole:
            found.keys |= erasure.keys()
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
