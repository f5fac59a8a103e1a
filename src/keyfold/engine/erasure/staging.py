"""Writes the files of a home, or of a savepoint, without a key, beside those that have it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from keyfold.engine.erasure import unread
from keyfold.engine.erasure.erased import Erased
from keyfold.engine.erasure.unfinished_batch import UnfinishedBatch, unfinished_batch
from keyfold.engine.erasure.unread import UnreadBatches
from keyfold.engine.log import row_text
from keyfold.engine.log.key_text import as_text
from keyfold.engine.log.log_erasure import LogErasure
from keyfold.engine.log.row_text import StreamText, Texts
from keyfold.engine.log.table_log import TableLog
from keyfold.engine.operations.checkpoint_copy import copy_checkpoint
from keyfold.engine.operations.kinds import FORGET
from keyfold.engine.recovery.followed import require_read
from keyfold.engine.state import digest as state_digest
from keyfold.engine.state.join_keys import JoinedKey
from keyfold.engine.state.join_rows import are_by_time
from keyfold.engine.storage import contents
from keyfold.engine.storage.contract import Storage
from keyfold.engine.storage.layout import AppHome
from keyfold.engine.surgery import rewriting
from keyfold.engine.surgery.key_changes import KeyChanges
from keyfold.engine.surgery.key_erasure import KeyErasure, TableKey
from keyfold.read import positions
from keyfold.views.contract import Views

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class ErasureStaging:
    """An erasure in progress: everything is written beside the old files, in the staging directory."""

    spark: SparkSession
    home: AppHome
    table: str
    key: TableKey
    source: Mapping[str, str] | None
    """The key's values by the columns of its streams; None if the key is computed from them."""
    joined: JoinedKey | None
    """The key in the rows of a join of two streams that feeds the table."""
    deleted: list[str]

    @property
    def _in_text(self) -> Mapping[str, str]:
        """The values to look for in rows that are kept as text."""
        return self.source or self.key.columns

    def is_followed(self, home: AppHome) -> bool:
        """Whether the table has tables or sinks that must be notified of the deletion."""
        sinks = any(True for _ in positions.sinks(home, self.table))
        return sinks or bool(contents.readers(home, self.table))

    def erase(self, home: AppHome, prefix: str, views: Views) -> Erased:
        """Stages the files of a home, or of a savepoint below `prefix`, without the key."""
        found = self._erase(home, prefix, views)
        if self.key.is_whole:
            found.keys = {self.key.values} if found.anything else set()
        return found

    def _erase(self, home: AppHome, prefix: str, views: Views) -> Erased:
        found = Erased()
        batch, left = home.table(self.table).committed_batch(), unfinished_batch(home.table(self.table))
        stays = unread.of_table(home, self.table, left) if prefix else unread.NONE
        if left is not None:
            if not prefix:
                rewriting.require_stopped_between_batches(home, self.table)
            unread.require_unseen(home, left)
        if batch is not None and not prefix:
            require_read(home, self.table)
        plan = home.read_plan()
        streams = plan.table(self.table).streams
        texts = Texts(row_text.of_plan(plan), streams[0] if len(streams) == 1 else None)
        name = f"{prefix}tables/{self.table}/log"
        files = home.table(self.table).log_files
        kept = self._log(files, name, texts, found.log, found, stays, left)
        found.not_searched += stays.told("changes of the key", kept)
        self._streams(home, prefix, found)
        self._stage_replayed(home, prefix, found)
        if left is not None:
            self.deleted.extend(f"{name}/{file}" for file in left.log_files())
        if batch is None:
            # The first batch, if there is one, starts over.
            source = f"{prefix}tables/{self.table}/checkpoint"
            self.deleted.extend(f"{source}/{name}" for name in _state_files(self.home.storage, source))
            return found
        changes = KeyChanges(home, self.table, batch, self.key, views)
        found.view, found.batch = len(changes.rows), batch + 1
        self._state(prefix, batch, found, left)
        target = self.home.storage.below(f"{FORGET.prepared}/{prefix}tables/{self.table}/log")
        changes.publish(target, (), told=self.is_followed(home))
        found.keys |= {tuple(as_text(row[name]) for name in self.key.declared) for row in changes.rows}
        return found

    def _log(
        self,
        files: Any,
        name: str,
        texts: Texts,
        erased: dict[str, int],
        found: Erased,
        stays: UnreadBatches,
        left: UnfinishedBatch | None = None,
    ) -> set[int]:
        """Returns the batches in which rows of the key stay."""

        def put(file: str, content: bytes) -> None:
            if left is None or not left.has(file):
                self.home.storage.put(f"{FORGET.prepared}/{name}/{file}", content)

        key, log = self.key, TableLog(files)
        run = LogErasure(log, key.columns, self._in_text, put, texts, key.declared, stays=stays)
        run.run()
        erased.update(run.erased)
        found.by_word += run.by_word
        found.keys |= run.keys
        return run.left

    def _streams(self, home: AppHome, prefix: str, found: Erased) -> None:
        shared = home.read_plan().table(self.table).shared
        logs = [name for name in shared if home.storage.list(f"streams/{name}/log")]
        for name in logs:
            if self.source is None:
                found.not_searched.append(f"the log of stream {name}: the key is computed from its columns")
                continue
            if not prefix:
                self._require_finished(home, name)
            again = unread.of_stream(home, name, self.table) if prefix else unread.NONE
            mine = replace(self, key=TableKey(tuple(self.source), tuple(self.source.values())))
            erased: dict[str, int] = {}
            texts = Texts(row_text.of_plan(home.read_plan()), name)
            files = home.stream_home(name).log_files
            kept = mine._log(files, f"{prefix}streams/{name}/log", texts, erased, found, again)
            found.not_searched += again.told(f"rows of the key that stream {name} has", kept)
            if erased:
                found.streams[name] = erased

    def _require_finished(self, home: AppHome, stream: str) -> None:
        """Refuses to change the input of an unfinished batch whose changes others have seen."""
        for table in contents.readers(home, stream):
            left = unfinished_batch(home.table(table))
            if table != self.table and left is not None and left.published:
                rewriting.require_stopped_between_batches(home, table)

    def _stage_replayed(self, home: AppHome, prefix: str, found: Erased) -> None:
        """Stages the files of late rows that were sent to be folded but may not have been read yet."""
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
                self.home.storage.put(f"{FORGET.prepared}/{prefix}{directory}/{file.name}", text.encode())

    def _state(self, prefix: str, batch: int, found: Erased, left: UnfinishedBatch | None) -> None:
        """Stages a checkpoint with a state, without the key; older versions, which have it, are left out."""
        storage, source = self.home.storage, f"{prefix}tables/{self.table}/checkpoint"
        target = f"{FORGET.prepared}/{source}"
        gone = [] if left is None else left.checkpoint_files()
        files = [file.name for file in storage.files(source) if file.name not in gone]
        copy = copy_checkpoint(storage, source, target, files)
        uri, joined = copy.storage.uri(), self.joined if are_by_time(copy) else None
        erasure = KeyErasure(self.spark, uri, batch, self.key, upstream=True, joined=joined)
        if not self.key.is_whole:
            found.keys |= erasure.keys()
        before = state_digest.digest(self.spark, copy.storage, batch)
        written = rewriting.rewrite(self.spark, copy, batch, erasure)
        for name in _state_files(storage, source):
            storage.delete(f"{target}/{name}", durable=False)
        after = state_digest.digest(self.spark, copy.storage, written)
        rows = sum(one.rows for one in before) - sum(one.rows for one in after)
        # In a list, the key is one of several entries: the row stays, with another content.
        found.state = rows or int(before != after)
        found.not_searched += erasure.unreached
        found.left = tuple(after)
        if left is not None:
            left.plan_next(copy)
        copy.relocate(self.home.table(self.table).checkpoint_url)
        self.deleted.append(source)


def _state_files(storage: Storage, checkpoint: str) -> list[str]:
    """The files of a checkpoint that contain rows of its state."""
    names = [file.name for file in storage.files(checkpoint) if file.name.startswith("state/")]
    return [name for name in names if "/_metadata/" not in name and "/_stateSchema/" not in name]
